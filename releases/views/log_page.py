"""What the log page's template gets: rows, lanes, filters as links, and what the script starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from fleet.execution.models import LogStream
from fleet.execution.states import SUBJECT_ENDED
from fleet.readings.log_subsystem import SUBSYSTEMS
from fleet.rules.log_filter import NO_RANK, LogFilter
from fleet.selectors import logs
from fleet.selectors.log_lanes import lane_chart
from fleet.selectors.logs import LogPage, LogSource
from releases.marks import launch_mark
from releases.models import Launch
from releases.rules import launch as rules
from releases.views import log_drawn, log_side

if TYPE_CHECKING:
    from releases.views.logs import Asked

WATCH_SUBSYSTEM = "WATCH"


def head_context(launch: Launch, sources: list[LogSource]) -> dict[str, Any]:
    """Return the context of the head alone, which refetches itself when the launch moves."""
    return {
        "section": "replicas",
        "topics": [launch.topic, f"replica-{launch.replica.name}"],
        "launch": launch,
        "replica": launch.replica,
        "mark": launch_mark(launch),
        "chip": _chip_words(launch),
        "nodes": _node_words(sources),
        "sources": sources,
    }


def page_context(asked: Asked, page: LogPage, problem: str, *, is_folding: bool) -> dict[str, Any]:
    """Return the context of the whole page."""
    launch, wanted = asked.launch, asked.wanted
    rows = log_drawn.draw_rows(
        page.lines, is_folding=is_folding, marked=asked.marked, now=timezone.now()
    )
    base = reverse("log", args=[launch.replica.name, launch.generation])
    streams = _streams(asked.sources)
    reached = log_side.reached_of(asked.sources)
    return {
        **head_context(launch, asked.sources),
        "rows": rows,
        "page": page,
        "problem": problem,
        "wanted": wanted,
        "filters": _filters(base, wanted, asked.sources, streams, is_folding),
        "lanes": _lanes(base, asked, reached),
        "side": _side(asked, page, base),
        "collectives": log_side.collective_table(reached),
        "links": _links(base, page, wanted, is_folding),
        "start": _start(asked, page, streams, base, rows),
        "totals": _totals(streams),
        "is_live": any(row.subject.state not in SUBJECT_ENDED for row in streams),
    }


def _streams(sources: list[LogSource]) -> list[LogStream]:
    wanted = [source.stream_id for source in sources]
    rows = LogStream.objects.filter(pk__in=wanted).select_related("subject")
    return sorted(rows, key=lambda row: wanted.index(row.pk))


def _totals(streams: list[LogStream]) -> dict[str, int]:
    return {
        "lines": sum(row.line_count for row in streams),
        "bytes": sum(row.end_offset for row in streams),
        "warnings": sum(row.warn_count for row in streams),
        "errors": sum(row.error_count for row in streams),
    }


def _chip_words(launch: Launch) -> str:
    if launch.state not in rules.ENDED or launch.ended_at is None:
        return ""
    return _("%(state)s %(at)s") % {
        "state": launch.get_state_display(),
        "at": f"{timezone.localtime(launch.ended_at):%H:%M:%S}",
    }


def _node_words(sources: list[LogSource]) -> str:
    ranks = sum(len(source.ranks) for source in sources)
    names = " + ".join(source.node for source in sources)
    return _("%(nodes)s, %(n)d ranks") % {"nodes": names, "n": ranks} if ranks else names


def _filters(
    base: str,
    wanted: LogFilter,
    sources: list[LogSource],
    streams: list[LogStream],
    is_folding: bool,
) -> dict[str, Any]:
    fold = "" if is_folding else "0"

    def link(changed: LogFilter) -> str:
        return log_drawn.with_query(base, changed.query(), fold=fold)

    level_free = wanted.without("level")
    return {
        "action": base,
        "levels": [
            {
                "name": name,
                "url": link(LogFilter(name, *_rest(level_free))),
                "is_on": wanted.level == name,
            }
            for name in ("", "warn", "error")
        ],
        "ranks": [rank for source in sources for rank in source.ranks],
        "rank_options": _rank_options(sources, wanted),
        "part_options": _part_options(wanted),
        "is_empty": wanted.is_empty,
        "clear": log_drawn.with_query(base, "", fold=fold),
        "raw": log_drawn.with_query(base, wanted.query(), fold="" if fold else "0"),
        "is_folding": is_folding,
        "words": _filter_words(wanted),
        "first_error": _first_error(base, sources, streams),
    }


@dataclass(frozen=True)
class Option:
    """One choice of a drop-down."""

    value: str
    word: str
    is_on: bool


def _rank_options(sources: list[LogSource], wanted: LogFilter) -> list[Option]:
    chosen = LogFilter(ranks=wanted.ranks).rank_text
    options = [
        Option(str(rank), f"r{rank:02d} {log_drawn.short_name(source.node)}", chosen == str(rank))
        for source in sources
        for rank in source.ranks
    ]
    options.append(Option(NO_RANK, _("lines without a rank"), chosen == NO_RANK))
    if chosen and not any(option.is_on for option in options):
        options.insert(0, Option(chosen, _("ranks %(ranks)s") % {"ranks": chosen}, True))
    return options


def _part_options(wanted: LogFilter) -> list[Option]:
    chosen = ",".join(sorted(wanted.subsystems))
    options = [Option(name, name, chosen == name) for name in (*SUBSYSTEMS, WATCH_SUBSYSTEM)]
    if chosen and not any(option.is_on for option in options):
        options.insert(0, Option(chosen, chosen, True))
    return options


def _rest(wanted: LogFilter) -> tuple[Any, ...]:
    return wanted.ranks, wanted.subsystems, wanted.text


def _filter_words(wanted: LogFilter) -> str:
    ranks = [
        _("no rank") if rank is None else _("rank %(n)d") % {"n": rank}
        for rank in sorted(wanted.ranks, key=lambda one: -1 if one is None else one)
    ]
    levels = {"warn": _("warnings"), "error": _("errors")}
    parts = [*ranks, *sorted(wanted.subsystems), levels.get(wanted.level, ""), wanted.text]
    return ", ".join(part for part in parts if part)


def _first_error(
    base: str, sources: list[LogSource], streams: list[LogStream]
) -> dict[str, str] | None:
    first = logs.first_error(sources, streams)
    if first is None:
        return None
    return {"key": first.key, "url": f"{base}?at={first.key}#L{first.key}"}


def _lanes(base: str, asked: Asked, reached: log_side.Reached) -> dict[str, Any]:
    chart = lane_chart(asked.sources)
    last = {rank: one for _source, found in reached for rank, one in found.items()}
    links = {
        rank: log_drawn.with_query(base, _with_rank(asked.wanted, rank).query())
        for source in asked.sources
        for rank in source.ranks
    }
    drawn = log_drawn.draw_lanes(chart, asked.sources, last, links, asked.wanted.ranks)
    for mark in drawn["marks"]:
        mark["url"] = log_drawn.with_query(base, asked.wanted.query(), t=str(mark["at_ms"]))
    return {
        **drawn,
        "tone": asked.launch.replica.pool.tone,
        "start_ms": chart.start_ms,
        "end_ms": chart.end_ms,
    }


def _with_rank(wanted: LogFilter, rank: int) -> LogFilter:
    """A lane filters to its rank; the lane of the only wanted rank lifts the filter."""
    ranks = frozenset() if wanted.ranks == {rank} else frozenset({rank})
    return LogFilter(wanted.level, ranks, wanted.subsystems, wanted.text)


def _side(asked: Asked, page: LogPage, base: str) -> log_side.Side | None:
    if asked.at is None:
        return None
    key = f"{asked.at[0]}.{asked.at[1]}"
    seen = next((one for one in page.lines if one.key == key), None)
    return log_side.side_of(seen, base) if seen else None


def _links(base: str, page: LogPage, wanted: LogFilter, is_folding: bool) -> dict[str, str]:
    query, fold = wanted.query(), "" if is_folding else "0"
    older = log_drawn.cursor_word(page.before)
    newer = log_drawn.cursor_word(page.after)
    return {
        "older": log_drawn.with_query(base, query, before=older, fold=fold)
        if page.has_older
        else "",
        "newer": log_drawn.with_query(base, query, after=newer, fold=fold)
        if page.has_newer
        else "",
        "newest": log_drawn.with_query(base, query, fold=fold),
    }


def _start(
    asked: Asked, page: LogPage, streams: list[LogStream], base: str, rows: list[log_drawn.DrawnRow]
) -> dict[str, Any]:
    """What the script begins with; it goes into attributes, never into inline script."""
    local = timezone.localtime(timezone.now())
    offset = local.utcoffset()
    launch = asked.launch
    is_live = any(row.subject.state not in SUBJECT_ENDED or not row.is_complete for row in streams)
    return {
        "socket": f"/ws/log/{launch.public_id}/",
        "lines_url": reverse("log-lines", args=[launch.replica.name, launch.generation]),
        "base": base,
        "query": asked.wanted.query(),
        "before": log_drawn.cursor_word(page.before),
        "after": log_drawn.cursor_word(page.after),
        "positions": ",".join(f"{s.stream_id}:{s.position}" for s in asked.sources),
        "nodes": ",".join(f"{s.stream_id}:{s.node}" for s in asked.sources),
        "offset_s": int(offset.total_seconds()) if offset else 0,
        "follows": "1" if asked.is_newest and is_live else "",
        "live": "1" if is_live else "",
        "has_older": "1" if page.has_older else "",
        "has_newer": "1" if page.has_newer else "",
        "at": next((row.line.key for row in rows if row.line and row.line.is_marked), ""),
    }
