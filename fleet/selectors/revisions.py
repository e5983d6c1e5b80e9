"""Reads which revisions of weights nodes hold, for placement and for the guards of launch and rollout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from django.db.models import Q
from django.db.models.functions import Now

from fleet.models import Fact, Holding, Node, WeightsArtefact
from fleet.rules.revisions import RevisionsSeen
from fleet.rules.spares import revisions_of


def revisions_seen(
    nodes: Iterable[Node], only: tuple[str, str] | None = None
) -> dict[int, RevisionsSeen]:
    """Return by node key what is known of the revisions on it. Three queries at most, however many nodes there are.

    `only`: (model, revision) of the one that is asked about; without it, all that the console knows.
    """
    by_key = {node.pk: node for node in nodes}
    wanted = Q() if only is None else Q(model=only[0], revision=only[1])
    artefacts = {
        row.pk: (f"{row.model}/{row.revision}", row.public_id)
        for row in WeightsArtefact.objects.filter(wanted).only("model", "revision")
    }
    states: dict[int, dict] = defaultdict(dict)
    if artefacts:
        held = Holding.objects.filter(node__in=by_key, artefact__in=artefacts)
        for node, artefact, state, at in held.values_list(
            "node_id", "artefact_id", "state", "verified_at"
        ):
            states[node][artefacts[artefact][0]] = (state, at)
    facts = Fact.objects.filter(node__in=by_key, key="models", expires_at__gt=Now(), problem="")
    found = {
        node: (revisions_of(value, by_key[node].model_root), at)
        for node, value, at in facts.values_list("node_id", "value", "observed_at")
    }
    names = dict(artefacts.values())
    return {
        pk: RevisionsSeen(*found.get(pk, (None, None)), artefacts=names, states=states[pk])
        for pk in by_key
    }
