"""The page of a container image and what people do to it: pull on nodes, ask docker again, stop."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from fleet.marks import mark_of
from fleet.models import Image, ImageHolding
from fleet.rules import images as rules
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.selectors.images import ImageSeen, image_holdings, image_named, used_by
from fleet.selectors.nodes import nodes_selected
from fleet.selectors.weights import history_of
from fleet.services import images as service
from fleet.services.trail import actor_of
from fleet.views.pager import pager
from fleet.views.parts import render_page
from fleet.views.weights_drawn import size_words


def image_row(seen: ImageSeen) -> dict[str, Any]:
    """Return one line of the list of images, in words and numbers."""
    counts = seen.counts
    return {
        "image": seen.image,
        "name": seen.name,
        "digest": seen.digest,
        "ref": f"{seen.name}@{seen.digest}",
        "used_by": ", ".join(seen.used_by),
        "ready": counts[rules.READY],
        "at_work": counts[rules.WANTED] + counts[rules.PULLING],
        "failed": counts[rules.FAILED],
    }


@require_safe
def image(request: HttpRequest, name: str) -> HttpResponse:
    """One image: where it is verified, where it is being pulled, and why not elsewhere."""
    found = _image(name)
    rows = [_held(row) for row in image_holdings(found)]
    ready = sum(row["is_ready"] for row in rows)
    sizes = [row["holding"].size_bytes for row in rows if row["holding"].size_bytes is not None]
    context = {
        "section": "weights",
        "topics": [found.topic],
        "image": found,
        "pager": pager(Image.objects.only("pk"), found.pk, "image"),
        "rows": rows,
        "ready": ready,
        "count": len(rows),
        "size": size_words(max(sizes)) if sizes else "",
        "used_by": used_by(found),
        "may_pull": may(request.user, "image-pull"),
        "may_act": may(request.user, "image-act"),
        "history": history_of("image", found.public_id),
    }
    parts = {"image-live": "fleet/_image_live.html"}
    return render_page(request, "fleet/image.html", context, parts=parts)


def _held(row: ImageHolding) -> dict[str, Any]:
    is_open = row.state in (rules.WANTED, rules.PULLING)
    return {
        "holding": row,
        "name": row.node.name,
        "leaf": row.node.rack.leaf.number,
        "mark": mark_of("image", row.state),
        "is_ready": row.state == rules.READY,
        "why": said(row.explanation, _),
        "may_stop": is_open and not row.stop_for,
        "may_verify": not is_open,
        "may_pull": row.state == rules.FAILED,
    }


@require_POST
def image_pull(request: HttpRequest) -> HttpResponse:
    """Pull an image, named with its digest, on the nodes of the field `nodes`."""
    found = service.image_pull(
        ref=request.POST.get("ref", ""),
        nodes=nodes_selected(request.POST.get("nodes", "")),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("image", found.public_id)


@require_POST
def image_act(request: HttpRequest, name: str, node: str) -> HttpResponse:
    """Pull again, ask docker again, or stop, on one node."""
    found = ImageHolding.objects.filter(image=_image(name), node__host__name=node).first()
    if found is None:
        raise Http404(_("%(name)s was not asked for on %(node)s.") % {"name": name, "node": node})
    service.image_act(
        holding=found,
        act=request.POST.get("act", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("image", name)


def _image(name: str) -> Image:
    found = image_named(name)
    if found is None:
        raise Http404(_("No image is called %(name)s.") % {"name": name})
    return found
