"""Facts of a request that are no longer as they were when people were asked: which ones, then and now, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from fleet.marks import mark_of
from fleet.rules.message import said
from releases.models import Approval
from releases.rules.triggers import WORDS
from releases.services.approvals import facts_moved

_FACT_WORDS = {
    "unit": gettext_lazy("the unit"),
    "units": gettext_lazy("the units"),
    "old_release": gettext_lazy("the earlier release"),
    "fired": gettext_lazy("what fired"),
    "gpus": gettext_lazy("its GPUs"),
    "nodes": gettext_lazy("its nodes"),
    "plan_sha256": gettext_lazy("the launch plan"),
    "capacity_after": gettext_lazy("serving units"),
    "capacity_promised": gettext_lazy("promised units"),
    "spares_after": gettext_lazy("spares"),
    "spare_floor": gettext_lazy("the spare floor"),
    "open_incidents": gettext_lazy("open incidents"),
    "fired_triggers": gettext_lazy("fired triggers"),
    "silent_triggers": gettext_lazy("triggers without data"),
    "unknown_units": gettext_lazy("unknown units"),
    "other_rollout": gettext_lazy("another rollout"),
    "is_braked": gettext_lazy("the brake"),
    "commands": gettext_lazy("the commands"),
    "release_sha256": gettext_lazy("the release"),
    "gates": gettext_lazy("gate runs of the release"),
}
_DIGESTS = frozenset({"plan_sha256", "release_sha256"})
_DIGEST_SHOWN = 12  # characters, as in the list of what was signed


@dataclass(frozen=True)
class MovedFact:
    """One fact in words. `then` and `now` are empty where its lines are shown instead (the commands)."""

    name: str
    word: str
    then: str
    now: str


def facts_compared(approval: Approval, now: dict[str, Any]) -> list[MovedFact]:
    """Return the facts that differ from those of the request."""
    return [
        MovedFact(
            name,
            str(_FACT_WORDS.get(name, name)),
            _words(name, approval.facts.get(name)),
            _words(name, now.get(name)),
        )
        for name in facts_moved(approval, now)
    ]


def trigger_names(names: list[str]) -> list[str]:
    """Return the names of triggers in words."""
    return [said(WORDS.get(name, name), _) for name in names]


def _words(name: str, value: Any) -> str:
    if name == "commands":
        return ""
    if name == "is_braked":
        return _("on") if value else _("off")
    if name in _DIGESTS and value:
        return f"{value[:_DIGEST_SHOWN]}…"
    if isinstance(value, list):
        return ", ".join(_listed(name, value)) or _("none")
    return said(str(value), _) if value not in (None, "") else _("none")


def _listed(name: str, rows: list[Any]) -> list[str]:
    if name in ("fired_triggers", "silent_triggers"):
        return trigger_names(rows)
    if name == "gates":
        return [f"{run} {unit}: {mark_of('gate', state).word}" for unit, run, state in rows]
    if name == "units":
        return [unit for unit, _old in rows]
    return [str(row) for row in rows]
