"""Outputs of topo, nvidia-smi and NIC tools as they arrive: cut, doubled, with foreign line ends and bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.readings.kinds import read_as
from fleet.readings.report import Report

KINDS = ("topo", "nvidia-smi", "fabric")
# What is counted or summed over the lines that are there, and so may be less in a part of them.
COUNTS = {
    "gpu_count", "rows_present", "mig_device_count", "samples", "valid_samples", "active_ports",
    "ca_count", "device_count", "interfaces", "gids", "disks", "nvme_disks", "file_systems",
    "nvme_capacity_bytes", "retired_page_count", "links_up", "min_free_gpu", "xid_count",
    "gpu_count_header", "nic_count", "links",
}  # fmt: skip


def samples(shared_dir) -> Iterator[tuple[str, str, bytes]]:
    for kind in KINDS:
        for place in sorted((shared_dir / "corpus" / kind).glob("*.txt")):
            yield kind, place.stem, place.read_bytes()


def read(kind: str, raw: bytes) -> Report:
    return read_as(kind, io.BytesIO(raw))


def numbers(found: Any, key: str = "") -> Iterator[tuple[str, int | float]]:
    """Every number of the values with the name of the field that it stands in."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield from numbers(value, key or name)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from numbers(value, key)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield key, found


@pytest.mark.parametrize("from_end", [False, True])
def test_a_part_of_an_output_invents_no_number_and_is_no_pass(shared_dir, from_end):
    for kind, name, raw in samples(shared_dir):
        whole = read(kind, raw)
        known: dict[str, set[float]] = {}
        for key, number in numbers(whole.values):
            known.setdefault(key, set()).add(number)
        size = len(raw.rstrip())
        for tenth in range(1, 10):
            at = size * tenth // 10
            part = raw[at:] if from_end else raw[:at]
            report = read(kind, part)
            # A list without its last lines looks whole; only a line that is cut shows the tear.
            if raw[at - 1 : at] != b"\n":
                assert report.verdict != "pass", (kind, name, tenth)
            for key, number in numbers(report.values):
                most = max(known.get(key, {0}))
                fits = key in COUNTS and number <= most
                assert fits or number in known.get(key, set()), (kind, name, tenth, key, number)


def test_an_error_is_not_told_of_a_card_or_port_that_the_whole_text_calls_well(shared_dir):
    for kind, name, raw in samples(shared_dir):
        if read(kind, raw).verdict == "fail":
            continue
        for at in range(1, len(raw), max(1, len(raw) // 60)):
            if raw[at - 1 : at] == b"\n":
                continue
            for part in (raw[:at], raw[at:]):
                report = read(kind, part)
                assert report.verdict != "fail", (kind, name, at, report.findings)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_at_all_is_unknown(kind):
    for raw in (b"", b"\n\n", b" \t\r\n", b"\xef\xbb\xbf"):
        report = read(kind, raw)
        assert (report.verdict, report.complete) == ("unknown", False)


def test_windows_line_ends_change_nothing(shared_dir):
    for kind, name, raw in samples(shared_dir):
        plain, other = read(kind, raw), read(kind, raw.replace(b"\n", b"\r\n"))
        assert other.values == plain.values, (kind, name)
        assert (other.verdict, other.complete) == (plain.verdict, plain.complete)
        assert [f.id for f in other.findings] == [f.id for f in plain.findings]


def test_latin_1_bytes_around_an_output_change_no_number(shared_dir):
    for kind, name, raw in samples(shared_dir):
        if raw.lstrip()[:1] in (b"{", b"["):
            continue
        plain = read(kind, raw)
        odd = read(kind, "Knoten für Prüfung: geöffnet\n".encode("latin-1") + raw)
        assert dict(numbers(odd.values)) == dict(numbers(plain.values)), (kind, name)


def interleaved(one: bytes, other: bytes) -> bytes:
    rows = [one.rstrip().split(b"\n"), other.rstrip().split(b"\n")]
    longest = max(map(len, rows))
    mixed = [r[n] for n in range(longest) for r in rows if n < len(r)]
    return b"\n".join(mixed) + b"\n"


def test_the_same_output_of_two_nodes_in_one_text_is_no_pass(shared_dir):
    for kind, name, raw in samples(shared_dir):
        for text in (raw.rstrip() + b"\n" + raw, interleaved(raw, raw)):
            report = read(kind, text)
            assert report.verdict != "pass", (kind, name)
            counts = {k: v for k, v in numbers(report.values) if k in COUNTS}
            whole = dict(numbers(read(kind, raw).values))
            loops = ("samples", "valid_samples")
            for key in counts.keys() - {*loops}:
                assert counts[key] <= whole.get(key, counts[key]), (kind, name, key)


def test_another_tool_between_the_lines_invents_no_number(shared_dir):
    foreign = b"\n".join(
        b"2026-11-30T12:00:%02d worker said 17 of 23, 99 %% done" % n for n in range(60)
    )
    for kind, name, raw in samples(shared_dir):
        known = {number for _, number in numbers(read(kind, raw).values)}
        report = read(kind, interleaved(raw, foreign))
        found = {number for key, number in numbers(report.values) if key not in COUNTS}
        assert found <= known, (kind, name)


def test_blanks_of_a_line_that_was_cut_are_no_end(shared_dir):
    for name in ("001", "030", "031"):
        raw = (shared_dir / "corpus" / "nvidia-smi" / f"{name}.txt").read_bytes()
        for at, byte in enumerate(raw):
            if byte in b" \t" and raw[at - 1 : at] == b"\n":
                assert read("nvidia-smi", raw[: at + 1]).verdict == "unknown"


@pytest.mark.parametrize("lost", range(1, 5))
def test_titles_that_lost_their_beginning_are_no_pass(shared_dir, lost):
    raw = (shared_dir / "corpus" / "nvidia-smi" / "025.txt").read_bytes()
    assert read("nvidia-smi", raw[lost:]).verdict == "unknown"


def test_the_rest_of_a_block_before_the_first_device_is_no_pass(shared_dir):
    raw = (shared_dir / "corpus" / "fabric" / "008.txt").read_bytes()
    second = raw.index(b"CA 'mlx5_10'")
    for at in range(1, second - 2):
        assert read("fabric", raw[at:]).verdict == "unknown", raw[at : at + 20]
    assert read("fabric", b"=== ibstat ===\n" + raw).verdict == "pass"
