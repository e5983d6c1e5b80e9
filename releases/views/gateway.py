"""The gateway: what each unit shall get of the traffic, what was read back, and what a person may want of it.

The permission table, the key and the base version were checked before an action here runs.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from fleet.rules.policy import may
from fleet.rules.refusals import Conflict, Refused
from fleet.services.trail import actor_of
from fleet.views.parts import render_page
from releases.models import Gateway, Launch
from releases.rules import launch as launch_rules
from releases.rules.gateway import READY, WEIGHT_MAX
from releases.selectors.gateway_page import GatewaySeen, PoolSeen, UnitSeen, gateway_seen
from releases.selectors.launch_page import launch_of
from releases.services.drains import drain_ask
from releases.services.endpoints import EndpointMissing, endpoint_set
from releases.services.gateways import gateway_restart
from releases.views.gateway_drawn import (
    differences_drawn,
    drain_drawn,
    gateway_drawn,
    pool_drawn,
    unit_drawn,
    waiting_drawn,
)

REASON_MIN = 3


@require_safe
def gateway(request: HttpRequest) -> HttpResponse:
    """Pools by revision, the units of one with wanted and read-back weight, drains, and what differs."""
    seen = gateway_seen()
    if seen is None:
        return render_page(request, "releases/gateway_none.html", {"section": "gateway"})
    pool = _chosen_pool(seen, request.GET.get("pool", ""))
    unit = _chosen_unit(pool, request.GET.get("unit", ""))
    context = {
        "section": "gateway",
        "topics": [seen.gateway.topic],
        "gateway": seen.gateway,
        "drawn": gateway_drawn(seen),
        "pools": [pool_drawn(row, is_chosen=row is pool) for row in seen.pools],
        "pool": pool_drawn(pool, is_chosen=True) if pool else None,
        "slots": _slots(pool),
        "unit": unit_drawn(unit) if unit else None,
        "drains": [drain_drawn(row) for row in seen.drains],
        "differences": differences_drawn(seen.gateway),
        "waiting": [waiting_drawn(row) for row in seen.waiting],
        "changes": seen.changes,
        "weight_max": WEIGHT_MAX,
        "may_set": bool(pool and may(request.user, "endpoint-set", pool.pool)),
        "may_restart": may(request.user, "gateway-restart"),
    }
    return render_page(
        request,
        "releases/gateway.html",
        context,
        parts={"gateway-live": "releases/_gateway_live.html"},
    )


def _chosen_pool(seen: GatewaySeen, slug: str) -> PoolSeen | None:
    """The named pool, else the first that has units, else the first."""
    named = [row for row in seen.pools if row.pool.slug == slug]
    busy = [row for row in seen.pools if row.units]
    return next(iter(named or busy or seen.pools), None)


def _chosen_unit(pool: PoolSeen | None, name: str) -> UnitSeen | None:
    units = pool.units if pool else []
    return next((unit for unit in units if unit.endpoint.launch.replica.name == name), None)


def _slots(pool: PoolSeen | None) -> list[dict[str, Any]]:
    return [
        {"seen": slot, "percent": round(slot.share), "units": [unit_drawn(u) for u in slot.units]}
        for slot in (pool.slots if pool else [])
    ]


@require_POST
def endpoint_weight(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """Give a unit a weight and put it into traffic with it; zero takes no new session."""
    launch = _live(name, generation)
    try:
        endpoint_set(
            launch=launch,
            actor=actor_of(request),
            weight=_weight(request.POST.get("weight", "")),
            mode=READY,
            reason=_reason(request),
        )
    except EndpointMissing as missing:
        raise _not_behind(name) from missing
    said_now = _("%(name)s is being given the weight; it counts when it is read back.")
    messages.info(request, said_now % {"name": name})
    return _back(launch)


@require_POST
def endpoint_drain(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """Take a unit out of traffic: no new session, and closed when it is empty or its deadline is over."""
    launch = _live(name, generation)
    try:
        drain_ask(launch=launch, actor=actor_of(request), reason=_reason(request))
    except EndpointMissing as missing:
        raise _not_behind(name) from missing
    messages.info(request, _("%(name)s is being drained.") % {"name": name})
    return _back(launch)


@require_POST
def restart(request: HttpRequest, name: str) -> HttpResponse:
    """Start the proxy anew, which cuts every request that runs through it; its name must be typed."""
    found = get_object_or_404(Gateway, name=name)
    if request.POST.get("confirm", "").strip() != name:
        raise Refused(_("Type the gateway's name %(name)s exactly.") % {"name": name})
    if not gateway_restart(gateway=found, reason=_reason(request), actor=actor_of(request)):
        raise Conflict(_("The proxy does not run now; it is started by itself."))
    messages.info(request, _("The proxy is being started anew."))
    return HttpResponseRedirect(reverse("gateway"))


def _live(name: str, generation: int) -> Launch:
    found = launch_of(name, generation)
    if found is None:
        raise Http404(_("%(name)s has no generation %(n)d.") % {"name": name, "n": generation})
    if found.state != launch_rules.READY:
        raise Conflict(
            _("This launch of %(name)s is not ready; it gets no traffic.") % {"name": name}
        )
    return found


def _not_behind(name: str) -> Conflict:
    return Conflict(_("%(name)s is behind no gateway.") % {"name": name})


def _reason(request: HttpRequest) -> str:
    reason = request.POST.get("reason", "").strip()
    if len(reason) < REASON_MIN:
        raise Refused(_("A reason is needed. Write why, then send again."))
    return reason


def _weight(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= WEIGHT_MAX):
        raise Refused(
            _("A weight is a whole number from 0 to %(max)d, found “%(found)s”.")
            % {"max": WEIGHT_MAX, "found": text[:20]}
        )
    return int(text)


def _back(launch: Launch) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"{reverse('gateway')}?pool={launch.replica.pool.slug}")
