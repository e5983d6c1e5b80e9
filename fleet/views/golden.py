"""Golden profiles: the list with the drift of the fleet, one version, its edit form, and what people do to them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from fleet.marks import IDLE, OK, Mark
from fleet.models import GoldenKey, GoldenProfile, Node
from fleet.rules.golden_changes import changes_between
from fleet.rules.golden_edit import TEXT_MAX, KeyEdit, is_scalar
from fleet.rules.nodeset import fold_nodeset
from fleet.rules.policy import may
from fleet.rules.refusals import Refused
from fleet.selectors import golden_page
from fleet.selectors.golden import GoldenLine, line_named, versions_of
from fleet.selectors.nodes import node_chosen
from fleet.services import golden as services
from fleet.services.trail import actor_of
from fleet.views import golden_drawn
from fleet.views.golden_baselines import baselines_drawn
from fleet.views.golden_drawn import bar_words, drift_drawn, drift_words, key_rows
from fleet.views.golden_pairs import lines_drawn
from fleet.views.pager import pager
from fleet.views.parts import render_page

FIELDS = ("tolerance", "ratio", "low", "high", "value")


@require_safe
def golden_list(request: HttpRequest) -> HttpResponse:
    """Profiles by class, and where the fleet differs from those in force."""
    lines = golden_page.lines_listed()
    classes, unjudged = golden_page.fleet_drift()
    drawn = []
    for line in lines:
        if line.current is not None and line.kind == GoldenProfile.Kind.NODE:
            seen = classes.get((line.node_class, line.origin), golden_page.FleetDrift())
            drawn.append((line.current, drift_drawn(seen, line.current)))
    context = {
        "section": "golden",
        "topics": ["golden", "fleet"],
        "lines": lines,
        "pairs": lines_drawn(),
        "classes": [(profile, drift, drift_words(drift)) for profile, drift in drawn],
        "equal": golden_drawn.AGREES,
        "differ": sum(drift.differ for _profile, drift in drawn),
        "unjudged": _unjudged(unjudged),
        "unjudged_count": len(unjudged),
        "node": request.GET.get("node", ""),
        "may_take": may(request.user, "golden-take"),
    }
    return render_page(
        request,
        "fleet/golden_list.html",
        context,
        parts={"golden-list-live": "fleet/_golden_list_live.html"},
    )


@require_safe
def golden(request: HttpRequest, name: str) -> HttpResponse:
    """One version: its keys, how the fleet differs from it, and another version beside it when `with` names one."""
    line = _line_or_404(name)
    profile = line.profile
    keys = list(profile.keys.order_by("key"))
    seen = golden_page.profile_drift(profile)
    drift = drift_drawn(seen, profile)
    context = {
        "section": "golden",
        "topics": [profile.topic, "golden", "fleet"],
        "profile": profile,
        "line": line,
        "pager": pager(GoldenProfile.objects.only("pk"), profile.pk, "golden"),
        "mark": profile_mark(profile),
        "chip": _chip(profile),
        "versions": [(row, profile_mark(row)) for row in versions_of(profile)],
        "keys": key_rows(keys),
        "drift": drift,
        "drift_words": drift_words(drift),
        "equal": golden_drawn.AGREES,
        "matrix": golden_drawn.matrix_drawn(seen, keys),
        "baselines": baselines_drawn(
            keys, golden_page.numbers_of(seen.nodes, keys), len(seen.nodes)
        ),
        "legend": (
            golden_drawn.AGREES,
            golden_drawn.DIFFERS,
            golden_drawn.GRAVE,
            golden_drawn.NO_READING,
        ),
        "history": golden_page.history_of(profile),
        "may_take": may(request.user, "golden-take"),
        "may_edit": may(request.user, "golden-edit", is_write=True),
        "current_refusal": _current_refusal(request, profile),
        **_compared(request, profile, keys),
    }
    return render_page(
        request, "fleet/golden.html", context, parts={"golden-live": "fleet/_golden_live.html"}
    )


@require_http_methods(["GET", "HEAD", "POST"])
def golden_edit(request: HttpRequest, name: str) -> HttpResponse:
    """The form of the next version; what was typed stays in it when it is refused."""
    line = _line_or_404(name)
    if request.method != "POST":
        return _edit_page(request, line)
    try:
        version = services.profile_edit(
            profile=line.profile,
            edits=_edits(request, line.profile),
            name=request.POST.get("name", ""),
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
            user=request.user,
        )
    except Refused as refusal:
        return _edit_page(request, line, error=str(refusal), status=refusal.status)
    return redirect("golden", version.public_id)


@require_POST
def golden_take(request: HttpRequest) -> HttpResponse:
    """Take a profile from the node of the field `node`; `left_out` names keys that are knowingly left out."""
    node = node_chosen(request.POST.get("node", ""))
    profile = services.profile_take(
        node=node,
        name=request.POST.get("name", ""),
        left_out=request.POST.get("left_out", "").replace(",", " ").split(),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    messages.info(request, _("Taken. It judges nobody until another person makes it current."))
    return redirect("golden", profile.public_id)


@require_POST
def golden_current(request: HttpRequest, name: str) -> HttpResponse:
    """Let this version judge the nodes of its class."""
    profile = services.profile_make_current(
        profile=_line_or_404(name).profile,
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("golden", profile.public_id)


def profile_mark(profile: GoldenProfile) -> Mark:
    """Return how a version is drawn: in force or not."""
    if profile.is_current:
        return Mark(OK, "ok", _("In force"), "current")
    return Mark(IDLE, "idle", _("Not in force"), "kept")


def _chip(profile: GoldenProfile) -> str:
    words = {"version": profile.version}
    if profile.is_current:
        return _("Version %(version)d in force") % words
    return _("Version %(version)d, not in force") % words


def _line_or_404(name: str) -> GoldenLine:
    line = line_named(name)
    if line is None:
        raise Http404(_("No golden profile is called %(name)s.") % {"name": name})
    return line


def _unjudged(nodes: list[Node]) -> list[tuple[str, str]]:
    """Node class and folded names of the nodes that no profile judges."""
    by_class: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        by_class.setdefault((node.node_class, node.origin), []).append(node.name)
    return [(line[0], fold_nodeset(names)) for line, names in sorted(by_class.items())]


def _current_refusal(request: HttpRequest, profile: GoldenProfile) -> str:
    """Why the button that makes it current cannot be pressed; empty when it can."""
    if not may(request.user, "golden-current"):
        return _("Needs role approver")
    if profile.created_by_id == request.user.pk:
        return _("You made this version: another approver makes it current")
    return ""


def _compared(
    request: HttpRequest, profile: GoldenProfile, keys: list[GoldenKey]
) -> dict[str, Any]:
    other = golden_page.other_version(profile, request.GET.get("with", ""))
    if other is None:
        return {"other": None}
    before = list(other.keys.all())
    units = {key.key: key.unit for key in [*before, *keys]}
    changes = changes_between([key.wanted() for key in before], [key.wanted() for key in keys])
    return {"other": other, "changes": golden_drawn.change_rows(changes, units)}


def _edits(request: HttpRequest, profile: GoldenProfile) -> dict[str, KeyEdit]:
    """Read the posted keys; a key whose tolerance was not posted is not touched."""
    edits = {}
    for name in request.POST:
        kind, colon, key = name.partition(":")
        if kind == "tolerance" and colon:
            typed = {part: request.POST.get(f"{part}:{key}") for part in FIELDS}
            edits[key] = KeyEdit(
                tolerance=typed["tolerance"] or "",
                ratio=typed["ratio"] or "",
                low=typed["low"] or "",
                high=typed["high"] or "",
                value=typed["value"],
            )
    return edits


def _edit_page(
    request: HttpRequest, line: GoldenLine, *, error: str = "", status: int = 200
) -> HttpResponse:
    profile, posted = line.profile, request.POST if request.method == "POST" else None
    context = {
        "section": "golden",
        "topics": [],
        "profile": profile,
        "line": line,
        "next_version": line.version + 1,
        "error": error,
        "name": posted.get("name", "") if posted else profile.name,
        "reason": posted.get("reason", "") if posted else "",
        "tolerances": GoldenKey.Tolerance.choices,
        "keys": [_field(row.key, row.group, posted) for row in key_rows(profile.keys.all())],
        "may_edit": may(request.user, "golden-edit", is_write=True),
    }
    return render_page(request, "fleet/golden_edit.html", context, status=status)


def _field(key: GoldenKey, group: str, posted: Any) -> dict[str, Any]:
    stored = {
        "tolerance": key.tolerance,
        "ratio": _typed(key.ratio),
        "low": _typed(key.low),
        "high": _typed(key.high),
        "value": _typed(key.value),
    }
    if posted is not None:
        stored = {part: posted.get(f"{part}:{key.key}", stored[part]) for part in FIELDS}
    return {
        "key": key,
        "group": golden_drawn.GROUP_WORDS[group],
        "is_typed": is_scalar(key.value) and len(_typed(key.value)) <= TEXT_MAX,
        "bar": bar_words(key.wanted()),
        **stored,
    }


def _typed(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
