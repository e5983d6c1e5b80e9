"""What people do to nodes: probe, hold, lift, decide on a host key, clear the brake. Each form is one service call.

The permission table, the key and the base version were checked before a view here runs.
"""

from __future__ import annotations

from datetime import timedelta

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from fleet.models import Brake, Hold, KeyChange, Node, NodeProbe
from fleet.rules.refusals import Refused
from fleet.selectors.nodes import nodes_selected
from fleet.services import brake, holds, hosts, probes
from fleet.services.trail import actor_of

HOURS_MAX = 24 * 90


@require_POST
def probe_start(request: HttpRequest) -> HttpResponse:
    """Probe the nodes of the field `nodes`: `all`, or names and ranges like h100-[001-008]."""
    nodes = nodes_selected(",".join(request.POST.getlist("nodes")))
    before = set(probes.probes_open(nodes))
    probes.probe_start(nodes=nodes, actor=actor_of(request), user=request.user)
    if count := len(nodes) - len(before):
        text = ngettext("Probing %(n)d node.", "Probing %(n)d nodes.", count)
        messages.info(request, text % {"n": count})
    if count := len(before):
        text = ngettext(
            "%(n)d node is being probed already; its answer counts for this request too.",
            "%(n)d nodes are being probed already; their answers count for this request too.",
            count,
        )
        messages.info(request, text % {"n": count})
    return _back(request, "fleet-map")


@require_POST
def probe_cancel(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Cancel a probe that has no answer yet; one that has is left as it is."""
    probe = get_object_or_404(NodeProbe, command_id=pk, node=_node(name))
    if not probes.probe_cancel(probe=probe, actor=actor_of(request)):
        messages.info(request, _("This probe is over already; nothing was cancelled."))
    return _back(request, "node", name)


@require_POST
def hold_add(request: HttpRequest, name: str) -> HttpResponse:
    """Add a hold to a node, for some hours or without end."""
    node = _node(name)
    holds.hold_add(
        node=node,
        kind=request.POST.get("kind", ""),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
        # hours that were typed are meant; a form always sends its choice too
        expires_at=_expiry(request.POST.get("hours", "").strip() or request.POST.get("lasts", "")),
    )
    return _back(request, "node", name)


@require_POST
def hold_lift(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Lift a hold of a node; another owner's as an override."""
    hold = get_object_or_404(Hold, pk=pk, node=_node(name))
    holds.hold_lift(
        hold=hold,
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
        override=request.POST.get("override") == "1",
    )
    return _back(request, "node", name)


@require_POST
def host_key(request: HttpRequest, name: str) -> HttpResponse:
    """Accept a first key, ask for a changed one, or keep the pinned one that a node shows again.

    The posted fingerprints say what the person compared.
    """
    words = {
        "node": _node(name),
        "fingerprint": request.POST.get("fingerprint", ""),
        "reason": request.POST.get("reason", ""),
        "actor": actor_of(request),
        "user": request.user,
    }
    if request.POST.get("decision") == "keep":
        hosts.host_key_keep(**words)
    else:
        hosts.host_key_accept(**words, old_fingerprint=request.POST.get("old_fingerprint", ""))
    return _back(request, "node", name)


@require_POST
def host_key_sign(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Sign another person's wish to pin a changed key, or withdraw it."""
    change = get_object_or_404(KeyChange, pk=pk, host=_node(name).host)
    if request.POST.get("decision") == "withdraw":
        hosts.host_key_withdraw(
            change=change, reason=request.POST.get("reason", ""), actor=actor_of(request)
        )
    else:
        hosts.host_key_sign(change=change, actor=actor_of(request), user=request.user)
    return _back(request, "node", name)


@require_POST
def brake_clear(request: HttpRequest, pk: int) -> HttpResponse:
    """Let automatic actions go on, with the reason of the person who looked."""
    brake.brake_clear(
        brake=get_object_or_404(Brake, pk=pk),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
    )
    return _back(request, "fleet-map")


def _node(name: str) -> Node:
    return get_object_or_404(Node, host__name=name)


def _expiry(hours: str):
    if not hours.strip():
        return None
    try:
        value = float(hours)
    except ValueError:
        value = 0.0
    if not 0 < value <= HOURS_MAX:
        raise Refused(
            _("A hold may last up to %(max)s hours, found %(found)s. Leave it empty for no end.")
            % {"max": HOURS_MAX, "found": hours[:20]}
        )
    return timezone.now() + timedelta(hours=value)


def _back(request: HttpRequest, name: str, *args: str) -> HttpResponseRedirect:
    """Return to the page the form was on, which must be one of ours."""
    wanted = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()}):
        return HttpResponseRedirect(wanted)
    return redirect(name, *args)
