"""The network matrix: all versions, the form that writes the next one, and the signature of a second person."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from fleet.marks import mark_of
from fleet.models import Leaf, NetMatrix, Node
from fleet.rules.netscripts import environment_of
from fleet.rules.policy import may
from fleet.selectors.network import matrix_rows, wiring_of
from fleet.services import net_matrix
from fleet.services.trail import actor_of
from fleet.views.parts import render_page

FIELDS = ("node_class", "leaf", "hcas", "interface", "mtu", "gid_index", "traffic_class", "note")


@require_safe
def network_matrix(request: HttpRequest) -> HttpResponse:
    """The matrix: what holds for launches now, what waits for a signature, what was replaced."""
    rows = matrix_rows()
    signed: set[tuple[str, int | None]] = set()
    newest: set[tuple[str, int | None]] = set()
    drawn = []
    for row in rows:
        place = (row.node_class, row.leaf_id)
        holds = row.signed_by_id is not None and place not in signed
        drawn.append(_row(row, request, holds=holds, is_newest=place not in newest))
        newest.add(place)
        if holds:
            signed.add(place)
    classes = Node.objects.order_by("node_class").values_list("node_class", flat=True).distinct()
    context = {
        "section": "network",
        "topics": [net_matrix.TOPIC],
        "rows": drawn,
        "classes": list(classes),
        "leaves": list(Leaf.objects.values_list("number", flat=True)),
        "may_write": may(request.user, "network-matrix-write"),
    }
    return render_page(
        request,
        "fleet/network_matrix.html",
        context,
        parts={"matrix-live": "fleet/_network_matrix_rows.html"},
    )


def _row(row: NetMatrix, request: HttpRequest, *, holds: bool, is_newest: bool) -> dict[str, Any]:
    waits = is_newest and row.signed_by_id is None
    is_own = row.written_by_id == request.user.pk
    may_sign = may(request.user, "network-matrix-sign")
    if holds:
        mark, word = mark_of("verdict", "pass"), _("holds for launches")
    elif waits:
        mark, word = mark_of("node", "acceptance"), _("waits for a signature")
    else:
        mark, word = mark_of("node", "retired"), _("replaced")
    return {
        "row": row,
        "mark": mark,
        "word": word,
        "waits": waits,
        "may_sign": waits and may_sign and not is_own,
        "why_not": _("You wrote it; another person signs.") if is_own else _("Needs role approver"),
        "env": sorted(environment_of(wiring_of(row)).items()),
    }


@require_POST
def matrix_write(request: HttpRequest) -> HttpResponse:
    """Write the next version of a row."""
    fields = {name: request.POST.get(name, "") for name in FIELDS}
    net_matrix.matrix_write(fields=fields, actor=actor_of(request), user=request.user)
    return redirect("network-matrix")


@require_POST
def matrix_sign(request: HttpRequest, pk: int) -> HttpResponse:
    """Sign one version; its address names the one that was read."""
    row = get_object_or_404(NetMatrix, pk=pk)
    net_matrix.matrix_sign(matrix=row, actor=actor_of(request), user=request.user)
    return redirect("network-matrix")
