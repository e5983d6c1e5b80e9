"""What a pasted nvidia-smi output says: which form it is, and what is wrong with which card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.readings.nvidia_smi.dump import Dump, is_dump, parse_dump
from fleet.readings.nvidia_smi.listing import GPU_LINE, Listing, parse_listing
from fleet.readings.nvidia_smi.nvlink import LINK_LINE, NvLinkStatus, parse_nvlink
from fleet.readings.nvidia_smi.query import has_header
from fleet.readings.nvidia_smi.sentences import (
    ASKED_WRONGLY_KINDS,
    Sentence,
    read_sentence,
    read_sentences,
)
from fleet.readings.nvidia_smi.table import SmiTable, is_border, is_table, parse_table
from fleet.readings.open_end import end_of
from fleet.readings.report import (
    Finding,
    Report,
    Severity,
    lead,
    open_end,
    verdict_of,
    with_others,
)
from fleet.readings.text import Line, number_lines
from fleet.readings.told import tell, tell_all
from fleet.readings.verdicts.nvidia_smi_dump import dump_findings, dump_values
from fleet.readings.verdicts.nvidia_smi_query import is_whole_row, report_query

_KIND = "nvidia-smi"
_UNANSWERED = ASKED_WRONGLY_KINDS | {"library_missing", "tool_missing", "nvml"}


def report_nvidia_smi(text: str) -> Report:
    """Judge one capture of nvidia-smi, whatever its form."""
    end = end_of(text, _is_whole_line)
    text, torn, cut = end.text, end.torn, end.cut
    main, *others = _forms(text, number_lines(text), torn, cut)
    return with_others(main, others)


def _forms(text: str, lines: list[Line], torn: int | None, cut: int | None) -> Iterator[Report]:
    """Read the text as each form that it holds, the fullest one first."""
    found = False
    if is_dump(text):
        found = True
        yield _report_dump(parse_dump(text), cut)
    has_links = any(LINK_LINE.match(line.text) for line in lines) or _asks_nvlink(lines)
    if has_links:
        found = True
        yield _report_nvlink(parse_nvlink(text, is_cut=cut is not None), cut)
    if is_table(text):
        found = True
        yield _report_table(parse_table(text), torn)
    listing = parse_listing(text)
    if listing.gpus and not has_links:
        found = True
        yield _report_listing(listing, cut)
    report = report_query(text, cut)
    if report.values.get("samples") and (not found or has_header(text)):
        found = True
        yield report
    if not found:
        yield _report_sentences(read_sentences(lines), report)


def _asks_nvlink(lines: list[Line]) -> bool:
    return any(s.kind in ("nvlink_mig", "nvlink_inactive") for s in read_sentences(lines))


def _is_whole_line(text: str) -> bool:
    """Tell a last line of any form that nothing can be missing from."""
    if read_sentence(Line(1, text)) or GPU_LINE.match(text) or is_border(text):
        return True
    return LINK_LINE.match(text) is not None or ("," in text and is_whole_row(text))


def sentence_findings(sentences: tuple[Sentence, ...]) -> Iterator[Finding]:
    """Turn sentences into findings: a broken card is an error, a wrong question a warning."""
    for sentence in sentences:
        severity: Severity = "warn" if sentence.kind in _UNANSWERED else "error"
        if sentence.kind == "nvlink_mig":
            severity = "info"
        yield Finding(sentence.kind, severity, sentence.text[:300], (sentence.line,))


def lost_gpu(sentences: tuple[Sentence, ...]) -> dict[str, Any]:
    """Name the first lost card, as values of a report."""
    lost = [s for s in sentences if s.kind == "lost_gpu"]
    return {"lost_gpu": {"index": lost[0].index, "pci": lost[0].pci}} if lost else {}


def _report_listing(listing: Listing, cut: int | None) -> Report:
    findings = (
        *open_end(cut),
        *sentence_findings(listing.sentences),
        *_listing_findings(listing),
    )
    whole = listing.complete and cut is None
    migs = [m for g in listing.gpus for m in g.migs]
    count = len(listing.gpus)
    return Report(
        _KIND,
        "list",
        whole and not listing.sentences,
        verdict_of(findings, known_good=whole),
        lead(
            findings, tell("%(gpus)s GPU listed, %(migs)s MIG devices", gpus=count, migs=len(migs))
        ),
        findings,
        {
            "gpu_count": None if listing.is_mixed else count,
            "names": [g.name for g in listing.gpus],
            "uuids": [g.uuid for g in listing.gpus],
            "mig_device_count": None if listing.is_mixed else len(migs),
            "mig_profiles": [m.profile for m in migs],
            **lost_gpu(listing.sentences),
        },
        listing.unread,
    )


def _listing_findings(listing: Listing) -> Iterator[Finding]:
    if listing.is_mixed:
        text = tell("a GPU number stands twice: the lists of more than one node in this text")
        yield Finding("mixed", "warn", text)
    if listing.missing:
        numbers = ", ".join(str(n) for n in listing.missing[:16])
        text = tell(
            "GPU %(numbers)s is not in the list: its beginning is cut, or a card is not there",
            numbers=numbers,
        )
        yield Finding("cards_missing", "warn", text)


def _report_nvlink(status: NvLinkStatus, cut: int | None) -> Report:
    up = [g.up for g in status.gpus]
    rates = sorted({x.gbs for g in status.gpus for x in g.links or () if x.gbs is not None})
    findings = (
        *open_end(cut),
        *sentence_findings(status.sentences),
        *_link_findings(status),
    )
    reasons = [g.reason for g in status.gpus if g.links is None and g.reason]
    whole = status.complete and cut is None
    return Report(
        _KIND,
        "nvlink-status",
        whole,
        verdict_of(findings, known_good=whole and not reasons),
        lead(findings, _link_summary(status)),
        findings,
        {
            "gpu_count": None if status.is_mixed else (len(status.gpus) or None),
            "links": None if reasons or status.is_mixed else up,
            "links_up": up[0] if len(up) == 1 else up,
            "gbps_per_link": rates[0] if len(rates) == 1 else (rates or None),
            "reason": reasons[0] if reasons else None,
        },
        status.unread,
    )


def _link_findings(status: NvLinkStatus) -> Iterator[Finding]:
    most = max((g.up or 0 for g in status.gpus), default=0)
    if status.missing:
        numbers = ", ".join(str(n) for n in status.missing[:16])
        text = tell(
            "no links of GPU %(numbers)s: the beginning is cut, or it was not asked for",
            numbers=numbers,
        )
        yield Finding("cards_missing", "warn", text)
    if status.is_mixed:
        text = tell("a GPU number stands twice: the answers of more than one node in this text")
        yield Finding("mixed", "warn", text)
        return
    for gpu in status.gpus:
        if gpu.links is None:
            why = gpu.reason or tell("its links are not printed to their end")
            text = tell("GPU %(index)s: %(why)s", index=gpu.index, why=why)
            yield Finding("no_links_read", "info", text, (gpu.line,))
        elif gpu.up == 0:
            text = tell("GPU %(index)s has no active NVLink", index=gpu.index)
            yield Finding("nvlink_down", "error" if most else "warn", text, (gpu.line,))
        elif (gpu.up or 0) < most:
            text = tell(
                "GPU %(index)s has %(up)s active NVLinks, others %(most)s",
                index=gpu.index,
                up=gpu.up,
                most=most,
            )
            yield Finding("nvlink_down", "error", text, (gpu.line,))


def _link_summary(status: NvLinkStatus) -> str:
    said = [
        tell(
            "GPU %(index)s: %(why)s",
            index=g.index,
            why=(g.reason or tell("unknown")) if g.up is None else g.up,
        )
        for g in status.gpus[:16]
    ]
    cards = tell_all(said, ", ") or tell("none read")
    return tell("Active NVLinks by card: %(cards)s", cards=cards)


def _report_table(table: SmiTable, torn: int | None) -> Report:
    findings = (
        *open_end(torn),
        *sentence_findings(table.sentences),
        *_table_findings(table),
    )
    gpu = table.gpus[0] if len(table.gpus) == 1 else None
    err = sorted({f for g in table.gpus for f in g.err_fields})
    return Report(
        _KIND,
        "table",
        table.is_whole and not table.missing,
        verdict_of(findings, known_good=table.is_whole and not table.missing),
        lead(findings, _table_summary(table)),
        findings,
        {
            "gpu_count": len(table.gpus) if table.is_whole else None,
            "mig_device_count": len(table.migs) if table.is_whole else None,
            "driver": table.driver,
            "cuda": table.cuda,
            "gpu_util": gpu.util_percent if gpu else [g.util_percent for g in table.gpus],
            "memory_used_mib": gpu.memory_used_mib
            if gpu
            else [g.memory_used_mib for g in table.gpus],
            "memory_total_mib": gpu.memory_total_mib
            if gpu
            else [g.memory_total_mib for g in table.gpus],
            "ecc_uncorrected": [g.ecc_uncorrected for g in table.gpus],
            "err_fields": [f for f in ("fan", "temp", "perf", "power", "ecc") if f in err],
            **lost_gpu(table.sentences),
        },
    )


def _table_summary(table: SmiTable) -> str:
    if not table.is_whole:
        return tell("Only a part of the table is in this text.")
    return tell(
        "%(gpus)s GPU, %(migs)s MIG devices, %(processes)s processes",
        gpus=len(table.gpus),
        migs=len(table.migs),
        processes=len(table.processes),
    )


def _table_findings(table: SmiTable) -> Iterator[Finding]:
    if table.is_mixed:
        yield Finding("mixed", "warn", tell("more than one table in this text"))
    if table.missing and not table.is_mixed:
        numbers = ", ".join(str(n) for n in table.missing[:16])
        text = tell(
            "GPU %(numbers)s is not in the table: a part is cut out, or it was not asked for",
            numbers=numbers,
        )
        yield Finding("cards_missing", "warn", text)
    for gpu in table.gpus:
        who = tell("A card") if gpu.index is None else tell("GPU %(index)s", index=gpu.index)
        if gpu.err_fields:
            cells = ", ".join(gpu.err_fields)
            text = tell("%(who)s: ERR! in %(cells)s; reset or reboot", who=who, cells=cells)
            yield Finding("err_cells", "error", text, (gpu.line,))
        if gpu.ecc_uncorrected:
            text = tell(
                "%(who)s: %(count)s uncorrected ECC errors since boot",
                who=who,
                count=gpu.ecc_uncorrected,
            )
            yield Finding("ecc_uncorrected", "error", text, (gpu.line,))


def _report_dump(dump: Dump, cut: int | None) -> Report:
    findings = (*open_end(cut), *sentence_findings(dump.sentences), *dump_findings(dump))
    whole = dump.complete and cut is None
    return Report(
        _KIND,
        "dump",
        whole,
        verdict_of(findings, known_good=whole),
        lead(
            findings,
            tell(
                "%(printed)s of %(attached)s attached GPUs printed",
                printed=len(dump.gpus),
                attached=dump.attached or tell("unknown"),
            ),
        ),
        findings,
        dump_values(dump) | lost_gpu(dump.sentences),
    )


def _report_sentences(sentences: tuple[Sentence, ...], query: Report) -> Report:
    if not sentences:
        return query
    findings = tuple(sentence_findings(sentences))
    first = sentences[0]
    none = any(s.kind == "no_devices" for s in sentences)
    return Report(
        _KIND,
        "sentence",
        False,
        verdict_of(findings, known_good=False),
        "; ".join(s.text[:200] for s in sentences[:3]),
        findings,
        {
            "gpu_count": 0 if none else None,
            "error": first.kind,
            "field": first.field,
            **lost_gpu(sentences),
        },
        query.unread,
    )
