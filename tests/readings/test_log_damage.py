"""Logs as they arrive: cut anywhere, with other line ends, other encodings, other outputs between."""

from __future__ import annotations

import io
import re
from itertools import zip_longest
from pathlib import Path

import pytest

from fleet.readings.kinds import READERS, read_as
from fleet.readings.open_end import LineBatches, without_half_word

KINDS = ("kernel-log", "nccl-log", "vllm-log")
# Counted or worked out, not printed.
COUNTS = {
    "lines", "unread_count", "torn_lines", "count", "host_count", "interfaces", "gpus",
    "event_counts", "transport_counts", "consequences", "root_line", "nvlink_discovery_failures",
    "events", "edac_errors", "warnings", "channels", "c10d_warnings", "phases", "transports",
    "world_from_numel", "kv_tokens", "trouble", "seconds_per_shard", "ranks_missing",
}  # fmt: skip


def read(kind, raw):
    return read_as(kind, io.BytesIO(raw))


def samples(shared_dir, kind):
    places = sorted((shared_dir / "corpus" / kind).glob("*.txt"))
    assert places
    return [(place.stem, place.read_bytes()) for place in places]


def numbers(values, path=()):
    """Every number that a reading gives, but those that it counted."""
    if isinstance(values, dict):
        for key, value in values.items():
            if key not in COUNTS:
                yield from numbers(value, (*path, key))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from numbers(value, path)
    elif isinstance(values, int | float) and not isinstance(values, bool):
        yield ".".join(map(str, path)), values


def printed(raw):
    return {float(word) for word in re.findall(r"\d+(?:\.\d+)?", raw.decode("utf-8", "replace"))}


def known(values):
    """Values without what only counts lines."""
    return {k: v for k, v in values.items() if k not in ("lines", "unread_count")}


def assert_nothing_invented(report, raw, whole):
    told = printed(raw) | {abs(float(value)) for _, value in numbers(whole.values)}
    for path, value in numbers(report.values):
        assert abs(float(value)) in told | {0.0}, path


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_cut_at_each_tenth_is_no_pass_and_invents_nothing(shared_dir, kind):
    for name, raw in samples(shared_dir, kind):
        whole = read(kind, raw)
        for tenth in range(10):
            part = raw[: len(raw) * tenth // 10]
            report = read(kind, part)
            if not part.endswith(b"\n"):
                assert report.verdict != "pass", (name, tenth)
            assert_nothing_invented(report, raw, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_last_line_cut_anywhere_invents_nothing(shared_dir, kind):
    for _, raw in samples(shared_dir, kind):
        whole = read(kind, raw)
        for line in raw.rstrip(b"\n").split(b"\n")[:8]:
            for cut in range(1, min(len(line), 300), 5):
                assert_nothing_invented(read(kind, line[:cut]), raw, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_without_its_first_lines_invents_nothing(shared_dir, kind):
    for _, raw in samples(shared_dir, kind):
        for tenth in range(1, 10):
            part = raw[len(raw) * tenth // 10 :]
            assert_nothing_invented(read(kind, part), raw, read(kind, part.partition(b"\n")[2]))


@pytest.mark.parametrize("kind", KINDS)
def test_line_ends_of_windows_change_nothing(shared_dir, kind):
    for name, raw in samples(shared_dir, kind):
        plain = raw.replace(b"\r\n", b"\n")
        if not plain.endswith(b"\n"):
            plain += b"\n"
        one, other = read(kind, plain), read(kind, plain.replace(b"\n", b"\r\n"))
        assert other.verdict == one.verdict, name
        assert [f.id for f in other.findings] == [f.id for f in one.findings], name
        assert other.values == one.values, name


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_of_another_encoding_changes_no_value(shared_dir, kind):
    latin = "Gerät läuft, façade à 100 °C\n".encode("latin-1")
    for name, raw in samples(shared_dir, kind):
        one, other = read(kind, raw), read(kind, raw.rstrip(b"\n") + b"\n" + latin)
        if not any(f.id == "open_end" for f in one.findings):
            assert known(other.values) == known(one.values), name
        assert {f.id for f in one.findings} - {"open_end"} <= {f.id for f in other.findings}, name
        assert other.unread, name


def test_a_host_in_another_encoding_is_a_host():
    line = "Knöten-7:1:1 [0] NCCL INFO Using network IB\n".encode("latin-1")
    assert read("nccl-log", line).values["host_count"] == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", ["topo", "nvidia-smi", "fabric"])
def test_another_output_between_the_lines_is_not_read(shared_dir, kind, other):
    foreign = samples(shared_dir, other)
    for number, (name, raw) in enumerate(samples(shared_dir, kind)):
        second = foreign[number % len(foreign)][1]
        mixed = b"\n".join(
            line
            for pair in zip_longest(raw.splitlines(), second.splitlines())
            for line in pair
            if line is not None
        )
        report = read(kind, mixed + b"\n")
        assert_nothing_invented(report, raw, read(kind, raw))
        if kind == "kernel-log":
            assert report.verdict != "pass", name


@pytest.mark.parametrize("kind", KINDS)
def test_a_failure_is_told_through_a_healthy_log_between_its_lines(shared_dir, kind):
    every = samples(shared_dir, kind)
    reports = {name: read(kind, raw) for name, raw in every}
    healthy = [raw for name, raw in every if reports[name].verdict == "pass"]
    for name, raw in every:
        if reports[name].verdict != "fail":
            continue
        for good in healthy:
            pairs = zip_longest(raw.splitlines(), good.splitlines())
            mixed = b"\n".join(line for pair in pairs for line in pair if line is not None)
            assert read(kind, mixed + b"\n").verdict == "fail", name


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("raw", [b"", b"\n", b"\r\n\r\n", b" ", b"\0\0\n"])
def test_an_empty_log_is_unknown(kind, raw):
    report = read(kind, raw)
    assert (report.verdict, report.complete) == ("unknown", False)
    assert not [f for f in report.findings if f.severity != "info"]


@pytest.mark.parametrize("kind", KINDS)
def test_very_long_lines_are_read_in_their_head(shared_dir, kind):
    for name, raw in samples(shared_dir, kind)[:4]:
        long = raw.rstrip(b"\n") + b"\n" + b"a=1 " * 400_000 + b"\n"
        assert read(kind, long).verdict in ("fail", "unknown", "pass"), name


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        (b"NVRM: Xid (PCI:0000:01:00): 7", b"NVRM: Xid (PCI:0000:01:00): "),
        (b"comm 0x5 rank 36 nranks 6", b"comm 0x5 rank 36 nranks "),
        (b"WorkNCCL(SeqNum=15", b"WorkNCCL(SeqNum="),
        (b"Channel 00/0 : 0[0] -> 1[1] via NET/I", b"Channel 00/0 : 0[0] -> 1[1] via "),
        (b"vendor err 129 (Recv)", b"vendor err 129 (Recv)"),
        (b"CUDA error: out of memory", b"CUDA error: out of memory"),
        (b"", b""),
    ],
)
def test_half_a_number_is_cut_from_a_torn_line(line, kept):
    assert without_half_word(line) == kept


@pytest.mark.parametrize(
    ("raw", "torn"),
    [
        (b"", None),
        (b"one\n", None),
        (b"one\ntwo", 2),
        (b"link 1 is up\nlink 2 is up", None),
        (b"link 1 is up\nlink 2 is u", 2),
        (b"limit 1000\nlimit 10", 2),
        (b"one\r\ntwo\r", None),
        (b"x\nrank 3 - Init COMPLETE", None),
    ],
)
def test_a_last_line_without_its_line_feed_is_judged(raw, torn):
    batches = LineBatches(io.BytesIO(raw), (b"Init COMPLETE",))
    for _ in batches:
        pass
    assert batches.torn_line == torn


def test_a_torn_end_is_said_and_takes_the_pass_away():
    clean = b"[    1.000000] usb 1-1: new device\n" * 3
    assert read("kernel-log", clean).verdict == "pass"
    torn = read("kernel-log", clean + b"[    2.000000] usb 1-1: new dev")
    assert (torn.verdict, torn.complete, torn.unread) == ("unknown", False, (4,))
    assert [f.id for f in torn.findings] == ["open_end"]


def test_every_streamed_kind_is_tested_here():
    streamed = {kind for kind in READERS if kind.endswith("-log")}
    assert streamed == set(KINDS), Path(__file__).name
