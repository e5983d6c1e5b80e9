"""Outputs of the same tools in other forms: judged right, recognised, alike behind names and in blocks."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.readings.kinds import read_as, recognise
from fleet.readings.report import Report
from fleet.readings.told import Told
from tests.readings.bench_texts import BENCH
from tests.readings.host_texts import HOST
from tests.readings.variant_texts import FABRIC, NVIDIA, TOPO, Variant

ALL = [*NVIDIA, *TOPO, *FABRIC, *HOST, *BENCH]
# Nobody benches by pdsh: results of many nodes in one text are not parted.
OF_NODES = [v for v in ALL if v.kind != "bench" and "\x1b" not in v.text]
PASSING = [v for v in ALL if v.verdict == "pass"]
# One word and nothing else: only who asked knows what it is.
UNNAMED = {"an unlimited lock"}


def read(kind: str, text: str | bytes) -> Report:
    return read_as(kind, io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def named(variants: list[Variant]):
    return pytest.mark.parametrize("variant", variants, ids=[v.name for v in variants])


@named(ALL)
def test_it_is_judged_right_and_gives_its_values(variant):
    found = read(variant.kind, variant.text)
    assert found.verdict == variant.verdict, found
    for name, value in variant.values.items():
        assert found.values[name] == value, name


@named([v for v in ALL if v.name not in UNNAMED])
def test_it_is_recognised(variant):
    assert recognise(variant.text) == variant.kind
    assert read("auto", variant.text).verdict == variant.verdict


@named(ALL)
def test_lines_that_are_told_are_lines_of_the_text(variant):
    found = read(variant.kind, variant.text)
    rows = variant.text.count("\n")
    assert all(1 <= n <= rows for f in found.findings for n in f.lines)
    assert all(1 <= n <= rows for n in found.unread)


@named(ALL)
def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(variant):
    unix, windows = (
        read(variant.kind, variant.text),
        read(variant.kind, b"\xef\xbb\xbf" + variant.text.replace("\n", "\r\n").encode()),
    )
    assert (unix.verdict, dict(unix.values)) == (windows.verdict, dict(windows.values))


@named(ALL)
def test_a_second_output_of_the_same_tool_behind_it_passes_nothing_that_failed(variant):
    for other in (v for v in ALL if v.kind == variant.kind):
        both = read(variant.kind, variant.text + other.text)
        if "fail" in (variant.verdict, other.verdict):
            assert both.verdict != "pass", other.name


@named(PASSING)
def test_woven_line_by_line_with_another_it_is_no_pass(variant):
    rows = variant.text.splitlines(keepends=True)
    if len(rows) < 2:
        return
    assert read(variant.kind, "".join(row + row for row in rows)).verdict != "pass"


@named(OF_NODES)
def test_nodes_by_name_and_by_block_are_judged_one_by_one(variant):
    rows = variant.text.splitlines()
    if variant.name in UNNAMED:
        return
    by_line = "".join(f"{name}: {row}\n" for name in ("gpu01", "gpu02") for row in rows)
    found = read(variant.kind, by_line)
    assert found.verdict == variant.verdict
    assert found.values["nodes"]["gpu02"] == dict(read(variant.kind, variant.text).values)
    rule = "-" * 16 + "\n"
    block = read(
        variant.kind, f"{rule}gpu[01-47]\n{rule}{variant.text}{rule}gpu48\n{rule}{variant.text}"
    )
    assert block.verdict == variant.verdict
    assert block.values["node_count"] == 48
    assert block.values["nodes"]["gpu[01-47]"] == found.values["nodes"]["gpu01"]
    alone = read(variant.kind, variant.text)
    for finding, told in zip(
        sorted(alone.findings, key=lambda f: f.severity != "error"), block.findings, strict=False
    ):
        assert told.lines == tuple(n + 3 for n in finding.lines)


@named(PASSING)
def test_cut_inside_a_line_it_is_no_pass(variant):
    raw = variant.text.rstrip("\n").encode()
    for at in range(1, len(raw) - 1, max(1, len(raw) // 60)):
        part = raw[:at]
        if part.endswith(b"\n") or not part.strip():
            continue
        found = read(variant.kind, part)
        # A last line may look whole; then all of it was there, as far as its end tells.
        assert found.verdict != "pass" or not found.complete or _is_whole(variant, at), at


def _is_whole(variant: Variant, at: int) -> bool:
    """Tell a cut that leaves only blanks, the end of a rule or whole lines out."""
    return variant.text.encode()[at:].lstrip(b" \t=").startswith(b"\n")


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_number_is_made_up(shared_dir, data):
    """Cut, doubled or damaged: every number that is given stands in the text, or is a count or a conversion of ours."""
    variant = data.draw(st.sampled_from([*ALL, *_corpus(shared_dir)]))
    raw = variant.text[:20_000]
    at = data.draw(st.integers(0, len(raw)))
    to = data.draw(st.integers(at, min(len(raw), at + 200)))
    put = data.draw(st.text("0123456789 .,\n:%GMiBx-", max_size=6))
    text = raw[:at] + put + raw[to:]
    found = read(variant.kind, text)
    strange = [(name, n) for name, n in numbers(found.values, "") if not is_told(name, n, text)]
    assert strange == [], (variant.name, text)


@cache
def _corpus(shared_dir: Path) -> tuple[Variant, ...]:
    return tuple(
        Variant(f"{kind}/{path.name}", kind, "", path.read_bytes().decode("utf-8", "replace"))
        for kind in ("topo", "nvidia-smi", "fabric", "bench")
        for path in sorted((shared_dir / "corpus" / kind).glob("*.txt"))
    )


# Counts of ours.
COUNTS = {
    "gpu_count", "gpu_count_header", "rows_present", "nic_count", "mig_device_count", "samples", "valid_samples",
    "ca_count", "device_count", "active_ports", "gids", "interfaces", "disks", "nvme_disks", "file_systems",
    "links", "links_up", "node_count", "min_free_gpu", "retired_page_count", "counters", "cpus_of_node", "online",
    "summaries", "unread_count", "line", "error_texts", "needs_reset", "xid_count",
}  # fmt: skip
# What is worked out from several numbers of the text, as its reading says: sums, differences, a division.
WORKED_OUT = {
    "ecc_uncorrected_volatile", "ecc_uncorrected_aggregate", "nvme_capacity_bytes", "clock_error_bound_s", "grew",
}  # fmt: skip
# One number in another unit: bytes of kB and MB (1024), seconds of ms, GB/s of MB/s.
FACTORS = {
    "size_bytes": (1, 2**20), "free_bytes": (1024, 2**20), "total_bytes": (1024,), "available_bytes": (1024,),
    "swap_total_bytes": (1024,), "swap_free_bytes": (1024,), "shared_bytes": (1024,), "huge_page_bytes": (1024,),
    "memlock_bytes": (1, 1024), "seconds": (1, 0.001), "gbs": (1, 0.001, 1e-9, 1e-6, 1e3),
}  # fmt: skip


def numbers(found, name):
    if isinstance(found, dict):
        for key, value in found.items():
            inside = name if name in FACTORS else key
            if key not in COUNTS | WORKED_OUT and not str(key).endswith("_count"):
                yield from numbers(value, inside)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from numbers(value, name)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield name, found


def is_told(name: str, number: float, text: str) -> bool:
    told = told_numbers(text)
    if name == "gbs" and "copied" in text:  # of dd: bytes by seconds
        return any(abs(number - a / b / 1e9) < 1e-9 for a in told for b in told if b)
    return any(
        abs(abs(number) - value * factor) <= 1e-9 * max(1.0, abs(number))
        for factor in FACTORS.get(name, (1,))
        for value in told
    )


def told_numbers(text: str) -> set[float]:
    """Every number that is printed, whole or as a part of a word; `1,234` and masks too."""
    found = set()
    for word in _NUMBERS.findall(text.replace("\r", "")):
        for part in (word, word.replace(",", ""), *word.split(","), *re.split(r"[.,]", word)):
            with suppress(ValueError):
                found.add(float(part))
    found |= {float(int(word, 16)) for word in re.findall(r"0x[0-9a-fA-F]{1,16}", text)}
    return found | {float(w) for w in re.findall(r"[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{1,3}", text)}


_NUMBERS = re.compile(r"[0-9][0-9.,]*", re.ASCII)


@named(ALL)
def test_what_is_said_is_a_sentence_or_a_line_of_the_text(variant):
    """Anything else would stay English on a page in another language."""
    found = read(variant.kind, variant.text)
    for words in (found.summary, *(f.text for f in found.findings)):
        assert isinstance(words, Told) or words.strip() in variant.text, words
