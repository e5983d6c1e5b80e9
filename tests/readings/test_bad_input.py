"""Outputs of load tests, collectives, RDMA tests and endpoints as they arrive: cut, doubled, in foreign bytes, endless.

What test_torn_tools.py does for the tools of a host and test_log_damage.py for logs; and for every kind: damage in any
place, and hundreds of megabytes.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.readings.kinds import READERS, read_as
from fleet.readings.report import Report
from tests.readings.host_texts import HOST

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("nccl-tests", "ib-write-bw", "metrics", "bench")
# Counted or worked out from what stands there, and so other in a part of it; no number of the text.
COUNTED = {
    "rows", "jobs", "ranks_listed", "ranks", "cycles", "zero_size_rows", "unread_count", "wrong", "nccl_lines",
    "line", "lines", "summaries", "distinct_tests", "torn_lines", "engines", "engine_count", "ranks_missing",
    "samples", "series", "gpu_count", "outlier_sizes", "failures", "plateau_gbps", "error_texts", "runs_count",
    "transport_counts", "channels",
}  # fmt: skip
LONG_BYTES = 200 * 1024 * 1024
MOST_MIB = 64


def read(kind: str, raw: bytes) -> Report:
    return read_as(kind, io.BytesIO(raw))


def samples(shared_dir: Path, kind: str) -> list[tuple[str, bytes]]:
    if kind == "host":  # the corpus has none
        return [(variant.name, variant.text.encode()) for variant in HOST]
    places = sorted((shared_dir / "corpus" / kind).glob("*.txt"))
    assert places
    return [(place.stem, place.read_bytes()) for place in places]


def numbers(found: Any) -> Iterator[float]:
    if isinstance(found, dict):
        for name, value in found.items():
            if name not in COUNTED:
                yield from numbers(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from numbers(value)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield float(found)


def known(raw: bytes, whole: Report) -> set[float]:
    """Every number that the text prints or that its whole gives."""
    printed = {0.0, 1.0, *numbers(whole.values)}
    for word in "".join(
        c if c.isdigit() or c in ".e+-" else " " for c in raw.decode("utf-8", "replace")
    ).split():
        try:
            printed.add(abs(float(word)))
        except ValueError:
            printed |= {float(part) for part in word.replace("-", " ").split() if part.isdigit()}
    return printed


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_cut_at_each_tenth_is_no_pass(shared_dir, kind):
    for name, raw in samples(shared_dir, kind):
        size = len(raw.rstrip())
        for tenth in range(1, 10):
            part = raw[: size * tenth // 10]
            if part.endswith(b"\n"):
                continue  # a list without its last lines; nothing in it tells
            assert read(kind, part).verdict != "pass", (name, tenth)


@pytest.mark.parametrize("kind", ["nccl-tests", "ib-write-bw", "bench"])
def test_a_cut_number_is_not_read(shared_dir, kind):
    """Whatever stands in the part stood in the whole: half a number is none."""
    for name, raw in samples(shared_dir, kind):
        told = known(raw, read(kind, raw))
        for at in range(len(raw) // 2, len(raw), max(1, len(raw) // 40)):
            strange = [
                n for n in numbers(read(kind, raw[:at]).values)
                if not any(abs(abs(n) - k) <= 1e-6 * max(1.0, k) for k in told)
            ]  # fmt: skip
            assert strange == [], (name, at)


@pytest.mark.parametrize("kind", KINDS)
def test_line_ends_of_windows_change_nothing(shared_dir, kind):
    for name, raw in samples(shared_dir, kind):
        plain = raw.replace(b"\r\n", b"\n")
        if b"\r" in plain:
            continue  # a progress bar
        unix, windows = read(kind, plain), read(kind, plain.replace(b"\n", b"\r\n"))
        assert (unix.verdict, unix.complete) == (windows.verdict, windows.complete), name
        assert dict(unix.values) == dict(windows.values), name


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_of_another_encoding_around_an_output_pass_nothing_more(shared_dir, kind):
    strange = "journée à Zürich, ½ µs\n".encode("latin-1")
    for name, raw in samples(shared_dir, kind):
        alone, around = read(kind, raw), read(kind, strange + raw)
        if alone.verdict != "pass":
            assert around.verdict != "pass", name
        assert read(kind, raw.decode("utf-8", "replace").encode("latin-1", "replace")).verdict in (
            alone.verdict,
            "unknown",
        ), name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw", [b"", b"\n", b"\r\n\r\n", b" \t\n", b"\0\0\0", b"\xff\xfe"])
def test_nothing_at_all_is_unknown(kind, raw):
    found = read(kind, raw)
    assert (found.verdict, found.complete) == ("unknown", False)


@pytest.mark.parametrize("kind", ["nccl-tests", "ib-write-bw"])
def test_a_second_output_woven_into_the_first_is_no_pass(shared_dir, kind):
    """Two different outputs line by line, as two jobs print into one terminal."""
    good = [(n, raw) for n, raw in samples(shared_dir, kind) if read(kind, raw).verdict == "pass"]
    for (one, a), (other, b) in zip(good, good[1:] + good[:1], strict=True):
        if one == other:
            continue
        rows = a.splitlines(), b.splitlines()
        woven = b"".join(
            row + b"\n"
            for n in range(max(map(len, rows)))
            for text in rows
            for row in text[n : n + 1]
        )
        assert read(kind, woven).verdict != "pass", (one, other)


def test_scrapes_of_two_endpoints_in_one_text_are_no_pass(shared_dir):
    """Behind one another or woven, with the values of other engines: each family is announced twice."""
    for name, raw in samples(shared_dir, "metrics"):
        if b"# TYPE" not in raw:
            continue
        other = raw.replace(b'model_name="', b'model_name="other-').replace(b'gpu="', b'gpu="1')
        woven = b"".join(
            a + b"\n" + b + b"\n" for a, b in zip(raw.split(b"\n"), other.split(b"\n"), strict=True)
        )
        assert read("metrics", raw.rstrip(b"\n") + b"\n" + other).verdict != "pass", name
        assert read("metrics", woven).verdict != "pass", name


@pytest.mark.parametrize("kind", READERS)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damage_in_any_place_gives_a_report_and_no_pass_of_a_failure(shared_dir, kind, data):
    """Bytes put in, taken out and moved: no exception, and what failed does not pass by losing its end."""
    name, raw = data.draw(st.sampled_from(samples(shared_dir, kind)))
    raw = raw[:40_000]
    at = data.draw(st.integers(0, len(raw)))
    to = data.draw(st.integers(at, len(raw)))
    put = data.draw(
        st.binary(max_size=40)
        | st.sampled_from([b"\r", b"\n", b"\x1b[31m", b"1" * 30, b"{", b"\0"])
    )
    found = read(kind, raw[:at] + put + raw[to:]).as_object()
    assert found["verdict"] in {"pass", "fail", "unknown"}
    assert found["verdict"] != "pass" or found["complete"], name


# -- long ones

_READ_LONG = """
import sys
from fleet.readings.kinds import read_as
kind, total, line = sys.argv[1], int(sys.argv[2]), sys.stdin.buffer.read()

class Stream:
    left = total
    block = line * max(1, (1 << 20) // len(line))
    def read(self, size=-1):
        at = (total - self.left) % len(self.block)
        take = min(self.left, len(self.block) - at, size if size >= 0 else self.left)
        self.left -= take
        return self.block[at : at + take]

def most():
    # Not ru_maxrss: that one is inherited from the process that started this one, and hides what is used here.
    with open("/proc/self/status") as status:
        return next(int(row.split()[1]) for row in status if row.startswith("VmHWM:"))

read_as("topo", __import__("io").BytesIO(b""))
before = most()
found = read_as(kind, Stream())
after = most()
print(found.verdict, (after - before) // 1024)
"""


def read_long(kind: str, total: int, block: bytes) -> tuple[str, int]:
    """Read a stream made on the fly in a process of its own; return the verdict and the MiB it took."""
    done = subprocess.run(
        [sys.executable, "-c", _READ_LONG, kind, str(total)],
        input=block, capture_output=True, cwd=ROOT, timeout=1800, check=True,
    )  # fmt: skip
    verdict, mib = done.stdout.split()
    return verdict.decode(), int(mib)


@pytest.mark.long
@pytest.mark.parametrize("kind", READERS)
def test_two_hundred_megabytes_are_read_in_bounded_memory(shared_dir, kind):
    _name, raw = max(samples(shared_dir, kind), key=lambda sample: len(sample[1]))
    verdict, mib = read_long(kind, LONG_BYTES, raw.rstrip(b"\n") + b"\n")
    assert verdict != "pass"
    assert mib < MOST_MIB


@pytest.mark.long
@pytest.mark.parametrize("kind", ["nccl-log", "kernel-log", "vllm-log", "nccl-tests"])
def test_a_gigabyte_of_log_stays_under_64_mib(kind):
    from tests.bench.nccl_lines import nccl_lines

    block = "".join(f"{line}\n" for line in nccl_lines(8000)).encode()
    verdict, mib = read_long(kind, 1024**3, block)
    assert verdict != "pass"
    assert mib < MOST_MIB


@pytest.mark.long
def test_woven_kernel_logs_of_48_nodes_stay_under_64_mib():
    rows = (
        f"h100-{n % 48 + 1:03d}: [{n:8d}.000001] usb 1-{n % 9}: new device number {n % 100}\n"
        for n in range(20_000)
    )
    verdict, mib = read_long("kernel-log", LONG_BYTES, "".join(rows).encode())
    assert verdict != "fail"
    assert mib < MOST_MIB
