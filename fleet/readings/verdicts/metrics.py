"""What a pasted metrics text says about an engine or about cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fleet.readings.kernel_log.classes import xid_class
from fleet.readings.metrics.cards import CardMetrics, read_cards
from fleet.readings.metrics.engine import EngineMetrics, read_engines
from fleet.readings.metrics.exposition import Exposition, parse_exposition, read_value
from fleet.readings.metrics.wholeness import (
    announced_twice,
    broken_histograms,
    without_conflicts,
    woven_families,
)
from fleet.readings.report import Finding, Report, lead, verdict_of
from fleet.readings.told import tell


def report_metrics(text: str) -> Report:
    """Judge one scrape; a line that is cut makes it incomplete."""
    exposition, conflicts = without_conflicts(parse_exposition(text.encode("utf-8", "replace")))
    engines, cards = read_engines(exposition), read_cards(exposition)
    torn = (*_torn_findings(exposition, conflicts, engines), *_mixed_findings(text, conflicts))
    findings = (*torn, *_findings(exposition, engines, cards))
    complete = exposition.complete and not torn
    known = complete and bool(engines or cards)
    suspect = any(f.severity == "warn" for f in findings)
    return Report(
        kind="metrics",
        form="engine" if engines else "cards" if cards else "prometheus",
        complete=complete,
        verdict=verdict_of(findings, known_good=known and not suspect),
        summary=lead(findings, _summary(exposition, engines, cards)),
        findings=findings,
        values=_values(exposition, engines, cards),
        unread=exposition.bad_lines,
    )


def _torn_findings(
    exposition: Exposition, conflicts: tuple[str, ...], engines: tuple[EngineMetrics, ...]
) -> Iterator[Finding]:
    if exposition.bad_lines or (exposition.samples and not exposition.ends):
        text = tell("lines that are no samples, or an end in the middle of the text")
        yield Finding("incomplete", "warn", text, exposition.bad_lines)
    if conflicts:
        text = tell(
            "series stand twice with different values, as in two scrapes: %(names)s",
            names=_list(conflicts),
        )
        yield Finding("two_scrapes", "warn", text)
    if broken := broken_histograms(exposition):
        text = tell("histograms without their end: %(names)s", names=_list(broken))
        yield Finding("torn_histogram", "warn", text)
    for engine in engines:
        if engine.partial:
            text = tell(
                "not every engine has these series, no sum is taken: %(names)s",
                names=_list(engine.partial),
            )
            yield Finding("engines_missing", "warn", text)


def _mixed_findings(text: str, conflicts: tuple[str, ...]) -> Iterator[Finding]:
    if conflicts:
        return
    if twice := announced_twice(text):
        told = tell(
            "families are announced twice, as in two scrapes: %(names)s", names=_list(twice)
        )
        yield Finding("two_scrapes", "warn", told)
    elif woven := woven_families(text):
        told = tell(
            "families go on behind others, as in two scrapes line by line: %(names)s",
            names=_list(woven),
        )
        yield Finding("two_scrapes", "warn", told)


def _list(names: tuple[str, ...]) -> str:
    shown = ", ".join(name[:80] for name in names[:6])
    if len(names) <= 6:
        return shown
    return tell("%(names)s and %(count)s more", names=shown, count=len(names) - 6)


def _findings(
    exposition: Exposition, engines: tuple[EngineMetrics, ...], cards: tuple[CardMetrics, ...]
) -> Iterator[Finding]:
    for engine in engines:
        absent = [name for name in ("running", "waiting") if name not in engine.numbers]
        if absent:
            text = tell(
                "no number of requests %(names)s: unknown, not zero",
                names=absent[0] if len(absent) == 1 else tell("running or waiting"),
            )
            yield Finding("requests_unknown", "warn", text)
        running, waiting = engine.numbers.get("running"), engine.numbers.get("waiting")
        if running == 0 and waiting:
            text = tell(
                "%(count)s requests wait and none runs: the engine may be stuck",
                count=f"{waiting:g}",
            )
            yield Finding("stuck_suspect", "warn", text)
    if len(engines) > 1:
        names = ", ".join(e.model for e in engines[:8])
        text = tell("two subjects on one endpoint: %(names)s", names=names)
        yield Finding("several_models", "info", text)
    for sample in exposition.named("nvidia_smi_command_exit_code"):
        if code := read_value(sample.value):
            text = tell(
                "the exporter's nvidia-smi ended with exit code %(code)s: values may be stale",
                code=f"{code:g}",
            )
            yield Finding("exporter_failed", "error", text)
    for sample in exposition.named("nvidia_smi_last_collect_success"):
        if sample.value == 0:
            text = tell("the exporter's last collection failed: values may be stale")
            yield Finding("exporter_stale", "warn", text)
    yield from _counted_xids(exposition)
    split = {card.uuid for card in cards if card.instance is not None or card.numbers.get("mig")}
    for card in cards:
        yield from _card_findings(card)
        if card.uuid not in split:
            yield from _absent_findings(card)


def _counted_xids(exposition: Exposition) -> Iterator[Finding]:
    """Tell the Xids that DCGM's exporter counted in its window; the code stands in a label."""
    for sample in exposition.named("DCGM_EXP_XID_ERRORS_COUNT"):
        labels, word = sample.series.labels, sample.series.labels.get("xid", "")
        code = int(word) if word.isascii() and word.isdigit() and len(word) < 6 else 0
        if code and read_value(sample.value):
            who = f"GPU {labels.get('gpu', labels.get('UUID', '?'))}"
            yield _xid_finding(who, code)


def _xid_finding(who: str, code: int) -> Finding:
    is_broken = xid_class(code) in ("hardware", "reset")
    text = tell("%(who)s: the last Xid was %(code)s", who=who, code=code)
    return Finding("xid", "error" if is_broken else "warn", text)


def _card_findings(card: CardMetrics) -> Iterator[Finding]:
    who = f"GPU {card.words.get('index', card.uuid)}"
    if card.numbers.get("ecc_uncorrected_volatile"):
        count = f"{card.numbers['ecc_uncorrected_volatile']:g}"
        text = tell("%(who)s: %(count)s uncorrected ECC errors since boot", who=who, count=count)
        yield Finding("ecc", "error", text)
    if card.numbers.get("row_remap_failure"):
        yield Finding("remap", "error", tell("%(who)s: row remapping failed", who=who))
    if card.numbers.get("xid"):
        yield _xid_finding(who, int(card.numbers["xid"] or 0))
    if card.numbers.get("row_remap_pending"):
        text = tell("%(who)s: a row remap waits for the next reset", who=who)
        yield Finding("remap_pending", "warn", text)


def _absent_findings(card: CardMetrics) -> Iterator[Finding]:
    """A whole card always has these; a card split by MIG has no utilization of its own."""
    wanted = (("temperature_c",), ("power_w",), ("utilization", "utilization_percent"))
    # A card that does not answer prints a sentinel, which is no number either.
    absent = [names[0] for names in wanted if all(card.numbers.get(n) is None for n in names)]
    if absent:
        who = f"GPU {card.words.get('index', card.uuid)}"
        text = tell("%(who)s: no %(names)s in this text", who=who, names=", ".join(absent))
        yield Finding("card_incomplete", "warn", text)


def _summary(
    exposition: Exposition, engines: tuple[EngineMetrics, ...], cards: tuple[CardMetrics, ...]
) -> str:
    if not exposition.samples:
        return tell("No sample in this text.")
    return tell(
        "%(samples)s samples: %(models)s models, %(cards)s cards.",
        samples=len(exposition.samples), models=len(engines), cards=len(cards),
    )  # fmt: skip


def _values(
    exposition: Exposition, engines: tuple[EngineMetrics, ...], cards: tuple[CardMetrics, ...]
) -> dict[str, Any]:
    values: dict[str, Any] = {"samples": len(exposition.samples)}
    if engines:
        values |= _engine_values(engines)
    if cards:
        values |= _card_values(cards)
    return values


def _engine_values(engines: tuple[EngineMetrics, ...]) -> dict[str, Any]:
    """Give each number, by model when there are several."""

    def told(read: Callable[[EngineMetrics], Any]) -> Any:
        if len(engines) == 1:
            return read(engines[0])
        return {engine.model: read(engine) for engine in engines}

    names = dict.fromkeys(["running", "waiting", *(n for e in engines for n in e.numbers)])
    values: dict[str, Any] = {name: told(_number(name)) for name in names}
    values["models"] = [e.model for e in engines]
    values["success"] = told(lambda e: dict(e.success))
    values["waiting_by_reason"] = told(lambda e: dict(e.waiting_by_reason))
    values["kv_cache_usage"] = told(lambda e: e.kv_usage)
    if any(e.kv_usage_name == "gpu_cache_usage_perc" for e in engines):
        values["gpu_cache_usage"] = values["kv_cache_usage"]
    values["spec"] = told(_spec)
    values["ttft_mean_s"] = told(lambda e: _mean(e, "ttft"))
    values["itl_mean_s"] = told(lambda e: _mean(e, "itl"))
    return values | (dict(engines[0].config) if len(engines) == 1 else {})


def _number(name: str) -> Callable[[EngineMetrics], float | None]:
    return lambda engine: engine.numbers.get(name)


def _spec(engine: EngineMetrics) -> dict[str, Any] | None:
    if engine.spec is None:
        return None
    return {**engine.spec, "per_pos": list(engine.accepted_per_position)}


def _mean(engine: EngineMetrics, name: str) -> float | None:
    count, sum_s = engine.numbers.get(f"{name}_count"), engine.numbers.get(f"{name}_sum_s")
    return sum_s / count if count and sum_s is not None else None


def _card_values(cards: tuple[CardMetrics, ...]) -> dict[str, Any]:
    whole = [c for c in cards if c.instance is None]
    gpus = len({c.uuid for c in cards})
    values: dict[str, Any] = {
        "gpus": gpus,
        "instances": len(cards) - len(whole),
        "cards": [{"uuid": c.uuid, "instance": c.instance, **c.words, **c.numbers} for c in cards],
    }
    if len(cards) == 1:
        values |= {"ecc_uncorrected_volatile": None, **cards[0].words, **cards[0].numbers}
        if "mig" in cards[0].numbers:
            values["mig"] = bool(cards[0].numbers["mig"])
    return values
