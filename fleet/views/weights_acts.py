"""What people do to weights: make them known, spread, pause, stop, verify, heal. Each form is one service call."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from fleet.models import Holding, WeightsArtefact
from fleet.rules.fanout import Limits
from fleet.rules.refusals import Refused
from fleet.selectors.nodes import node_chosen, nodes_selected
from fleet.selectors.weights import artefact_named, distribution_named, holding_of
from fleet.services import weights as service
from fleet.services.trail import actor_of

WHOLE = {"at_once", "per_leaf", "per_parent", "seeds_per_leaf", "store_per_leaf"}


@require_POST
def artefact_add(request: HttpRequest) -> HttpResponse:
    """Make a revision known, from a checksum list or by reading a node that holds it."""
    node = request.POST.get("seed_node", "").strip()
    found = service.artefact_add(
        model=request.POST.get("model", "").strip(),
        revision=request.POST.get("revision", "").strip(),
        checksums=request.POST.get("checksums", ""),
        index=request.POST.get("index", ""),
        store=request.POST.get("store", ""),
        seed_node=node_chosen(node) if node else None,
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("artefact", found.public_id)


@require_POST
def artefact_read(request: HttpRequest, name: str) -> HttpResponse:
    """Read the seed node again after it could not be read."""
    service.artefact_read_again(
        artefact=_artefact(name), actor=actor_of(request), user=request.user
    )
    return redirect("artefact", name)


@require_POST
def distribution_start(request: HttpRequest, name: str) -> HttpResponse:
    """Spread a revision over the nodes of the field `nodes`, within the limits of the form."""
    found = service.distribution_start(
        artefact=_artefact(name),
        nodes=nodes_selected(request.POST.get("nodes", "")),
        limits=_limits(request),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("distribution", found.public_id)


@require_POST
def distribution_act(request: HttpRequest, name: str) -> HttpResponse:
    """Pause, resume or cancel a distribution."""
    found = distribution_named(name)
    if found is None:
        raise Http404(_("No distribution is called %(name)s.") % {"name": name})
    service.distribution_act(
        distribution=found,
        act=request.POST.get("act", ""),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("distribution", name)


@require_POST
def holding_act(request: HttpRequest, name: str, node: str) -> HttpResponse:
    """Verify or heal what one node holds."""
    found = holding_of(_artefact(name), node)
    if found is None:
        raise Http404(_("%(node)s holds nothing of %(name)s.") % {"node": node, "name": name})
    _act_on(found, request)
    shown = distribution_named(request.POST.get("distribution", ""))
    return redirect("distribution", shown.public_id) if shown else redirect("artefact", name)


def _act_on(found: Holding, request: HttpRequest) -> None:
    words = {"holding": found, "actor": actor_of(request), "user": request.user}
    act = request.POST.get("act", "")
    if act == "verify":
        service.holding_verify(**words)
        messages.info(request, _("Every byte on %(node)s is read again.") % {"node": found.node})
    elif act == "heal":
        service.holding_heal(**words)
        messages.info(request, _("What is bad on %(node)s is copied again.") % {"node": found.node})
    else:
        raise Refused(_("Expected verify or heal, found %(act)s.") % {"act": act[:20] or "-"})


def _artefact(name: str) -> WeightsArtefact:
    found = artefact_named(name)
    if found is None:
        raise Http404(_("No weights are called %(name)s.") % {"name": name})
    return found


def _limits(request: HttpRequest) -> Limits:
    """Read the limits of a form; an empty field leaves the usual value."""
    values: dict[str, Any] = {}
    for one in fields(Limits):
        text = request.POST.get(one.name, "").strip()
        if not text:
            continue
        try:
            values[one.name] = int(text) if one.name in WHOLE else float(text)
        except ValueError:
            raise Refused(
                _("%(name)s: expected a number, found %(found)s.")
                % {"name": one.name, "found": text[:20]}
            ) from None
    return Limits(**values)
