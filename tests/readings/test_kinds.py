from __future__ import annotations

import io
import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.readings.kinds import READERS, read_as, readable_kinds, recognise
from fleet.readings.text import Rewound, iter_line_batches, strip_ansi

KEYS = {"kind", "form", "complete", "verdict", "summary", "findings", "values", "unread"}
FINDING = {"id", "severity", "text", "lines"}


def read(kind, raw):
    return json.loads(json.dumps(read_as(kind, io.BytesIO(raw)).as_object(), allow_nan=False))


def check(found):
    assert set(found) == KEYS
    assert found["verdict"] in ("pass", "fail", "unknown")
    assert isinstance(found["complete"], bool)
    assert found["summary"]
    for finding in found["findings"]:
        assert set(finding) == FINDING
        assert finding["severity"] in ("error", "warn", "info")
        assert all(isinstance(n, int) and n > 0 for n in finding["lines"])
    if found["verdict"] == "pass":
        assert found["complete"]
        assert not [f for f in found["findings"] if f["severity"] == "error"]


HOSTILE = [
    b"",
    b"\n",
    b"\0" * 1000,
    b"\xff\xfe" + bytes(range(256)) * 20,
    b"\x1b]8;;http://x\x07" + b"\x1b[31m" * 2000,
    b"\r" * 10_000,
    b"GPU0 " * 10_000,
    b"\tGPU0\tGPU1\n" * 2000,
    b"," * 100_000,
    b"index, name\n" + b"0," * 50_000,
    b"GPU 0: " + b"(UUID: GPU-" * 5_000,
    b" NCCL INFO " * 20_000,
    b"a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via " * 2_000,
    b"n:1:1 [0] NCCL INFO NET/Socket : Using " + b"a:::::" * 5_000,
    b"Watchdog caught collective operation timeout\n" * 3_000,
    b"last enqueued work: 1\n" * 3_000,
    b"(" * 50_000,
    b"Loading safetensors checkpoint shards: 12% Completed | 1/8 [" * 500,
    b"9" * 100_000,
    b"NAME SIZE TYPE MOUNTPOINT\n" + b"a " * 50_000,
    b"NAME SIZE TYPE\n" + b"sda 1G " * 8_000 + b"disk\n" * 8_000,
    b"Filesystem Size Used Avail Use% Mounted on\n" + b"/dev/" * 3_000 + b"\n" + b" 1" * 9_000,
    b'{"blockdevices": [' * 20_000,
    b'[{"ifname": ' * 20_000,
    b"1: eth0: <UP> mtu 1500 " + b"state " * 20_000,
    b"0000:1a:00.0 mlx5_0 (" + b" port 1 (" * 10_000,
    b"CA 'mlx5_0'\n" + b"\tPort 1:\n\t\tState: Active\n" * 5_000,
    b"GPU 00000000:1A:00.0\n" + b"    ECC Errors\n        Volatile : \n" * 5_000,
    b"| NVIDIA-SMI\n" + b"+" + b"-" * 40 + b"+\n| Processes:\n" + b"+" * 50_000,
    b"Legend:\n" + b"  SYS  = " * 10_000 + b"NVRM: Xid (PCI:" * 5_000,
    b"Model loading took " + b"9" * 50_000 + b" GiB and 1 seconds",
    "٣,٤ MiB\n".encode() * 10,
    b"============ Serving Benchmark Result ============\n" * 3_000,
    b"=" * 100_000 + b"\n" + b"=== A " * 10_000,
    b"Mean TTFT (ms):" + b" " * 50_000 + b"1\n",
    b'{"request_throughput": 1, "a": ' + b"[" * 100_000,
    b'{"num_prompts": 1, "completed": "' + b'\\"' * 50_000,
    b"| Benchmark |\n|---|\n" + b"|" * 50_000,
    "┃ Metric ┃ avg ┃\n".encode() * 2_000 + "│".encode() * 10_000,
    b"# nThread 1 nGpus 1 minBytes 1 maxBytes 99999999999999999999 step: 1(bytes) validation: 1\n"
    * 99,
    b"8 2 float sum -1 " * 5_000 + b"\n" + b"8 2 float\n" * 5_000,
    b"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.123\n" * 2_000,
    b"Rank  0 Pid 1 on h device 0 [0x00] A\n" * 20_000,
    b" #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"
    + b"1 inf nan 1e999 0x1\n" * 99,
    b" RDMA_Write BW Test\n" * 2_000 + b"-" * 50_000,
    b"Failed status " + b"9" * 5_000 + b": wr_id 0 syndrom 0x" + b"f" * 5_000,
    b'vllm:num_requests_running{model_name="m"} +Inf\nvllm:num_requests_waiting{model_name="m"} 1e308\n',
    b'vllm:kv_cache_usage_perc{engine="0"} NaN\nvllm:request_success_total{finished_reason="stop"} NaN\n',
    b'a_bucket{le="1"} 1\n' * 3_000 + b"DCGM_FI_DEV_GPU_TEMP{" * 2_000,
]


@pytest.mark.parametrize("kind", readable_kinds())
@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_bytes_give_a_report(kind, number):
    found = read(kind, HOSTILE[number])
    check(found)
    assert found["verdict"] != "pass"


@pytest.mark.parametrize("kind", readable_kinds())
@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=2000))
def test_random_bytes_give_a_report(kind, raw):
    check(read(kind, raw))


@pytest.mark.parametrize("kind", readable_kinds())
def test_a_line_of_fifty_megabytes_gives_a_report(kind):
    class Endless:
        left = 50 * 1024 * 1024

        def read(self, size=-1):
            take = min(size, self.left)
            self.left -= take
            return b"x" * take

    check(json.loads(json.dumps(read_as(kind, Endless()).as_object())))


@pytest.mark.parametrize("kind", READERS)
def test_the_corpus_may_be_cut_or_damaged_anywhere(shared_dir, kind):
    chance = random.Random(kind)
    for place in sorted((shared_dir / "corpus" / kind).glob("*.txt")):
        raw = place.read_bytes()
        check(read(kind, raw))
        for _ in range(12):
            check(read(kind, raw[: chance.randrange(len(raw) + 1)]))
            check(read(kind, raw[chance.randrange(len(raw) + 1) :]))
            damaged = bytearray(raw)
            for _ in range(5):
                damaged[chance.randrange(len(raw))] = chance.randrange(256)
            check(read(kind, bytes(damaged)))


@pytest.mark.parametrize("kind", READERS)
def test_every_kind_is_recognised_by_its_content(shared_dir, kind):
    for place in sorted((shared_dir / "corpus" / kind).glob("*.txt")):
        text = place.read_bytes().decode("utf-8", "replace")
        assert recognise(text) == kind, place.name


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("topo", b"GPU0\t X \tNV18\t0-47\t0\t\tN/A\n"),
        ("nvidia-smi", b"0, NVIDIA H200, 143771 MiB, 700.00 W\n"),
        ("nvidia-smi", b"GPU 00000000:1A:00.0\n    ECC Errors\n        Volatile\n"),
        ("fabric", b"sda 8:0 0 447.1G 0 disk /\n"),
        ("fabric", b"mlx5_0 port 1 ==> ens1np0 (Up)\n"),
        ("fabric", b"7: ens1: <UP> mtu 9000 qdisc mq state UP group default\n"),
    ],
)
def test_many_lines_take_time_in_proportion(kind, line):
    started = time.process_time()
    check(read(kind, line * 20_000))
    assert time.process_time() - started < 30


def test_a_text_of_no_tool_is_not_recognised():
    found = read("auto", b"hello\nworld\n")
    assert (found["form"], found["verdict"]) == ("unrecognised", "unknown")


def test_what_was_looked_at_is_read_again():
    stream = Rewound(b"abc", io.BytesIO(b"def"))
    assert [stream.read(2), stream.read(2), stream.read(2), stream.read(2)] == [
        b"ab", b"c", b"de", b"f",
    ]  # fmt: skip
    assert Rewound(b"abc", io.BytesIO(b"def")).read() == b"abcdef"


def test_batches_hold_whole_lines_in_order():
    lines = [b"%d" % n * 3 for n in range(300_000)]
    got = [x for batch in iter_line_batches(io.BytesIO(b"\n".join(lines))) for x in batch]
    assert got == lines


def test_a_text_longer_than_the_cap_is_incomplete():
    row = b"index, name\n0, A\n"
    found = read("nvidia-smi", row + b"\n" * (9 * 1024 * 1024))
    assert (found["complete"], found["verdict"]) == (False, "unknown")


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[4mGPU0\x1b[0m", "GPU0"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x07", "link"),
        ("\x1b]0;title\x1b\\x", "x"),
        ("a\x1b[2Kb", "ab"),
        ("plain", "plain"),
    ],
)
def test_escape_sequences_are_dropped(text, plain):
    assert strip_ansi(text) == plain
