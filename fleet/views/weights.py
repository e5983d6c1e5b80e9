"""The pages of weights: what is known, who holds it, and how it is spread. Forms are answered by weights_acts.py."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.models import Distribution, Node, WeightsArtefact
from fleet.rules import holdings
from fleet.rules.fanout import Limits
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.selectors.images import images_seen
from fleet.selectors.weights import (
    ArtefactSeen,
    artefact_named,
    artefacts_seen,
    distribution_named,
    history_of,
    holdings_of,
)
from fleet.services.weights import LIVE, TOPIC
from fleet.services.weights_tick import limits_of
from fleet.views.images import image_row
from fleet.views.pager import pager
from fleet.views.parts import render_page
from fleet.views.weights_drawn import (
    AT_WORK,
    LeafDrawn,
    leaves_drawn,
    progress_drawn,
    size_words,
)


@require_safe
def weights(request: HttpRequest) -> HttpResponse:
    """Every known revision, how many nodes hold it, and the form that makes another one known."""
    context = {
        "section": "weights",
        "topics": [TOPIC],
        "rows": [_row(seen) for seen in artefacts_seen()],
        "node_names": list(
            Node.objects.exclude(state=Node.State.RETIRED).values_list("host__name", flat=True)
        ),
        "may_add": may(request.user, "artefact-add"),
        "images": [image_row(seen) for seen in images_seen()],
        "may_pull": may(request.user, "image-pull"),
    }
    parts = {
        "weights-live": "fleet/_weights_rows.html",
        "images-live": "fleet/_images_rows.html",
    }
    return render_page(request, "fleet/weights.html", context, parts=parts)


def _row(seen: ArtefactSeen) -> dict[str, Any]:
    artefact, counts = seen.artefact, seen.counts
    return {
        "artefact": artefact,
        "mark": mark_of("artefact", artefact.state),
        "size": size_words(artefact.total_bytes) if artefact.total_bytes else "",
        "files": len(artefact.manifest),
        "ready": counts[holdings.READY],
        "at_work": sum(counts[state] for state in (*AT_WORK, holdings.PAUSED)),
        "failed": counts[holdings.FAILED],
        "newest": seen.newest,
        "newest_mark": mark_of("distribution", seen.newest.state) if seen.newest else None,
        "explanation": said(artefact.explanation, _),
    }


@require_safe
def artefact(request: HttpRequest, name: str) -> HttpResponse:
    """One revision: its manifest, who holds it, node by node, and the form that spreads it."""
    found = artefact_named(name)
    if found is None:
        raise Http404(_("No weights are called %(name)s.") % {"name": name})
    leaves = leaves_drawn(found, holdings_of(found))
    live = found.distributions.filter(state__in=LIVE).first()
    context = {
        **_common(request, found, leaves),
        "mark": mark_of("artefact", found.state),
        "pager": pager(WeightsArtefact.objects.only("pk"), found.pk, "artefact"),
        "live": live,
        "newest": live or found.distributions.first(),
        "limits": [(one.name, getattr(Limits(), one.name)) for one in fields(Limits)],
        "limit_words": _limit_words(),
        "refusal": _refusal(found, live),
        "may_start": may(request.user, "distribution-start"),
        "may_add": may(request.user, "artefact-add"),
        "history": history_of("weights", found.public_id),
    }
    parts = {"weights-live": "fleet/_artefact_live.html"}
    return render_page(request, "fleet/artefact.html", context, parts=parts)


@require_safe
def distribution(request: HttpRequest, name: str) -> HttpResponse:
    """One distribution as a live tree: source, leaves, seeds, nodes; rates, what failed and why."""
    found = distribution_named(name)
    if found is None:
        raise Http404(_("No distribution is called %(name)s.") % {"name": name})
    leaves = leaves_drawn(found.artefact, holdings_of(found.artefact, found))
    limits = limits_of(found)
    words = _limit_words()
    context = {
        **_common(request, found.artefact, leaves),
        "distribution": found,
        "pager": pager(Distribution.objects.only("pk"), found.pk, "distribution"),
        "mark": mark_of("distribution", found.state),
        "progress": progress_drawn(
            found.artefact, [node for leaf in leaves for node in leaf.nodes]
        ),
        "why": said(found.explanation, _),
        "limit_rows": [(words[one.name], getattr(limits, one.name)) for one in fields(limits)],
        "copy_rate": limits.copy_kibps * 1024 / 1e6,
        "may_act": may(request.user, "distribution-act"),
        "is_open": found.state in LIVE,
        "is_paused": found.state == Distribution.State.PAUSED,
        "history": history_of("distribution", found.public_id),
    }
    parts = {"weights-live": "fleet/_distribution_live.html"}
    return render_page(request, "fleet/distribution.html", context, parts=parts)


def _common(
    request: HttpRequest, found: WeightsArtefact, leaves: list[LeafDrawn]
) -> dict[str, Any]:
    nodes = [node for leaf in leaves for node in leaf.nodes]
    return {
        "section": "weights",
        "topics": [found.topic],
        "artefact": found,
        "explanation": said(found.explanation, _),
        "origin": said(found.origin, _),
        "size": size_words(found.total_bytes),
        "files": len(found.manifest),
        "leaves": leaves,
        "count": len(nodes),
        "ready": sum(leaf.ready for leaf in leaves),
        "percent": 100 * sum(leaf.ready for leaf in leaves) // len(nodes) if nodes else 0,
        "failed": [node for node in nodes if node.holding.state == holdings.FAILED],
        "rate": sum(leaf.rate or 0 for leaf in leaves),
        "is_copying": any(leaf.rate is not None for leaf in leaves),
        "may_heal": may(request.user, "holding-act"),
    }


def _refusal(found: WeightsArtefact, live: Distribution | None) -> str:
    if found.state != WeightsArtefact.State.READY:
        return _("Its manifest is not known yet.")
    if live is not None:
        return _("%(name)s is still open.") % {"name": live.public_id}
    return ""


def _limit_words() -> dict[str, str]:
    return {
        "at_once": _("Copies at once"),
        "per_leaf": _("Copies into one leaf"),
        "per_parent": _("Children of one parent"),
        "seeds_per_leaf": _("Seeds of one leaf"),
        "store_per_leaf": _("From the store into one leaf"),
        "link_mbps": _("From one parent, MB/s"),
        "leaf_mbps": _("Into one leaf, MB/s"),
    }
