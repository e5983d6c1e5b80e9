"""One fact over the fleet: which nodes agree, which differ, which cannot say; folded into node sets."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.rules.fact_folds import Fold, Told, fold_facts, majority
from fleet.rules.message import said
from fleet.rules.nodeset import NodesetError, fold_nodeset, parse_nodeset
from fleet.selectors.facts import fact_keys, fact_told
from fleet.views.node_facts import FACT_WORDS, value_text
from fleet.views.parts import render_page

FIRST = "driver_version"
FOLDS_SHOWN = 60
DETAIL_CHARS = 4000


@require_safe
def fact_list(request: HttpRequest) -> HttpResponse:
    """The nodes by their value of the chosen fact, `key`; `nodes` narrows them to a node set."""
    keys = fact_keys()
    wanted = request.GET.get("key", FIRST)
    key = wanted if wanted in keys else (FIRST if FIRST in keys else next(iter(keys), ""))
    text = request.GET.get("nodes", "").strip()[:400]
    names, problem = _names(text)
    rows = fact_told(key, names)
    folds = fold_facts(rows)
    most = majority(folds)
    context = {
        "section": "fleet",
        "topics": ["fleet"],
        "keys": [(one, FACT_WORDS.get(one, one)) for one in keys],
        "key": key,
        "word": FACT_WORDS.get(key, key),
        "nodes": text,
        "problem": problem,
        "headline": _headline(folds, most),
        "folds": [_drawn(key, fold, most) for fold in folds[:FOLDS_SHOWN]],
        "folds_left": max(0, len(folds) - FOLDS_SHOWN),
    }
    return render_page(
        request, "fleet/facts.html", context, parts={"facts-live": "fleet/_facts_live.html"}
    )


def _names(text: str) -> tuple[set[str] | None, str]:
    """Return the nodes that a set names, None for all, and why it cannot be read."""
    if not text:
        return None, ""
    try:
        taken, left = parse_nodeset(text)
    except NodesetError as error:
        return None, said(error.sentence, _)
    return (None if taken == ["all"] and not left else set(taken) - set(left)), ""


def _headline(folds: list[Fold], most: Fold | None) -> str:
    """Say it in one sentence: 47 agree, h100-033 differs."""
    known = [fold for fold in folds if fold.is_known]
    unknown = fold_nodeset(row.node for fold in folds if not fold.is_known for row in fold.rows)
    if not known:
        return _("No node can say it now.")
    if most is None:
        told = ngettext(
            "%(n)d value; no one has the most nodes.",
            "%(n)d different values; no one has the most nodes.",
            len(known),
        ) % {"n": len(known)}
    else:
        agree = len(most.rows)
        other = [row.node for fold in known if fold is not most for row in fold.rows]
        words = {"n": agree, "names": fold_nodeset(other)}
        if other:  # two agree at least, or there were no most
            told = ngettext(
                "%(n)d agree, %(names)s differs.", "%(n)d agree, %(names)s differ.", len(other)
            )
        else:
            told = ngettext("%(n)d agrees.", "%(n)d agree.", agree)
        told %= words
    return f"{told} {_('Unknown: %(names)s.') % {'names': unknown}}" if unknown else told


def _drawn(key: str, fold: Fold, most: Fold | None) -> dict[str, Any]:
    first = fold.rows[0]
    look = "unknown" if not fold.is_known else ("ok" if fold is most else "attention")
    detail = ""
    if fold.is_known and isinstance(fold.value, dict | list):
        detail = json.dumps(fold.value, ensure_ascii=False, indent=1)[:DETAIL_CHARS]
    return {
        "mark": mark_of("agreement", look),
        "count": len(fold.rows),
        "names": fold.names,
        "one": first.node if len(fold.rows) == 1 else "",
        "text": value_text(key, first.value, first.unit) if fold.is_known else _why(key, first),
        "is_known": fold.is_known,
        "detail": detail,
        "first": first,
        "oldest_at": None if _is_one_time(fold) else fold.oldest_at,
        "newest_at": fold.newest_at,
    }


def _is_one_time(fold: Fold) -> bool:
    """Tell whether all were read within a minute, so that one age says it."""
    oldest, newest = fold.oldest_at, fold.newest_at
    return oldest is not None and newest is not None and newest - oldest < timedelta(minutes=1)


def _why(key: str, row: Told) -> str:
    if row.at is None:
        return _("never asked")
    if row.value is None:
        return said(row.problem, _) or _("no value")
    return _("unknown now, was %(was)s") % {"was": value_text(key, row.value, row.unit)}
