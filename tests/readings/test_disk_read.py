import json

import pytest

from fleet.readings.disk_read import parse_disk_read

DD = "1024+0 records in\n1024+0 records out\n4294967296 bytes (4.3 GB, 4.0 GiB) copied, 0.361 s, 11.9 GB/s\n"


def fio(error: int = 0, **read: object) -> str:
    cells = {"io_bytes": 4294967296, "bw_bytes": 12600000000, "runtime": 341, **read}
    return json.dumps({"fio version": "fio-3.36", "jobs": [{"error": error, "read": cells}]})


def test_dd_is_read_by_its_bytes_and_seconds():
    found = parse_disk_read(DD)
    assert (found.tool, found.size_bytes, found.seconds) == ("dd", 4294967296, 0.361)
    assert round(found.gbs, 2) == 11.9


def test_fio_is_read_also_with_notes_around_it():
    found = parse_disk_read(f"note: both iodepth >= 1\n{fio()}\n")
    assert (found.tool, found.seconds, found.gbs) == ("fio", 0.341, 12.6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dd: failed to open 'x': Permission denied\n",
        DD[: DD.index(" s, ")],
        DD + DD,
        DD.replace("0.361", "0"),
        DD.replace("4294967296", "0"),
        fio(error=5),
        fio(bw_bytes=0),
        fio(bw_bytes="12"),
        fio(runtime=None),
        fio(bw_bytes=float("nan")),
        fio()[:60],
        "[" * 100_000 + "{}",
        '{"jobs": []}',
        '{"jobs": 1}',
    ],
)
def test_a_failed_torn_or_other_text_gives_no_rate(text):
    assert parse_disk_read(text) is None


@pytest.mark.parametrize("tenth", range(1, 10))
@pytest.mark.parametrize("whole", [DD, fio()])
def test_a_cut_text_invents_no_number(whole, tenth):
    assert parse_disk_read(whole[: len(whole) * tenth // 10]) in (None, parse_disk_read(whole))
