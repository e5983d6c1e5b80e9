"""Golden pairs among the golden profiles: one version with its bar, another beside it, and the form of another bar."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from fleet.marks import IDLE, OK, Mark
from fleet.rules.golden_changes import changes_between
from fleet.rules.message import said
from fleet.rules.netgold import key_words, unit_of
from fleet.rules.policy import may
from fleet.selectors.golden_pairs import (
    PairLine,
    PairVersion,
    history_of,
    keys_wanted,
    pair_line_of,
    pair_lines,
)
from fleet.services import net_matrix
from fleet.services.trail import actor_of
from fleet.views.golden_drawn import bar_words, change_rows
from fleet.views.network_drawn import percent, topology_word
from fleet.views.parts import render_page


def lines_drawn() -> list[dict[str, Any]]:
    """Return every class and way with its versions, for the list of golden profiles."""
    return [
        {
            "line": line,
            "way": topology_word(line.topology),
            "versions": [_version(version) for version in line.versions],
        }
        for line in pair_lines()
    ]


def _version(version: PairVersion) -> dict[str, Any]:
    gold = version.gold
    return {
        "number": version.number,
        "gold": gold,
        "mark": _mark(version),
        "bar": percent(gold.bar),
    }


def _mark(version: PairVersion) -> Mark:
    if version.gold.is_current:
        return Mark(OK, "ok", _("In force"), "current")
    return Mark(IDLE, "idle", _("Not in force"), "kept")


@require_safe
def golden_pair(request: HttpRequest, pk: int) -> HttpResponse:
    """One version: what it wants of others, and another version beside it when `with` names one."""
    line, version = _found(pk)
    keys = keys_wanted(version.gold)
    context = {
        "section": "golden",
        "topics": ["golden", net_matrix.TOPIC],
        "line": line,
        "way": topology_word(line.topology),
        "gold": version.gold,
        "number": version.number,
        "mark": _mark(version),
        "bar": percent(version.gold.bar),
        "chip": _chip(version),
        "versions": [_version(one) for one in line.versions],
        "keys": [
            {
                "word": said(key_words(want.key), _),
                "value": want.value,
                "unit": unit_of(want.key),
                "bar": bar_words(want),
            }
            for want in keys
        ],
        "history": history_of(line),
        "may_bar": may(request.user, "golden-pair-bar"),
        **_compared(request, line, version),
    }
    return render_page(
        request,
        "fleet/golden_pair.html",
        context,
        parts={"golden-pair-live": "fleet/_golden_pair_live.html"},
    )


def _chip(version: PairVersion) -> str:
    words = {"version": version.number}
    if version.gold.is_current:
        return _("Version %(version)d in force") % words
    return _("Version %(version)d, not in force") % words


def _compared(request: HttpRequest, line: PairLine, version: PairVersion) -> dict[str, Any]:
    named = request.GET.get("with", "")
    other = line.of(int(named)) if named.isascii() and named.isdigit() and len(named) < 10 else None
    if other is None or other is version:
        return {"other": None}
    before, after = keys_wanted(other.gold), keys_wanted(version.gold)
    bars = (
        []
        if other.gold.bar == version.gold.bar
        else [percent(other.gold.bar), percent(version.gold.bar)]
    )
    # One bar holds for every key: it is told once, and the keys only where they were measured otherwise.
    before = [replace(want, ratio=version.gold.bar) for want in before]
    order = {want.key: at for at, want in enumerate([*before, *after])}
    rows = change_rows(changes_between(before, after), {key: unit_of(key) for key in order})
    for row in rows:
        row["word"] = said(key_words(row["key"]), _)
    return {
        "other": other,
        "bars": bars,
        "changes": sorted(rows, key=lambda row: order[row["key"]]),
    }


@require_POST
def golden_pair_bar(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the next version with another bar."""
    _line, version = _found(pk)
    gold = net_matrix.golden_bar(
        gold=version.gold,
        bar=request.POST.get("bar", ""),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("golden-pair", gold.pk)


def _found(pk: int) -> tuple[PairLine, PairVersion]:
    found = pair_line_of(pk)
    if found is None:
        raise Http404(_("There is no such golden pair."))
    return found
