"""The jobs of a node as its page shows them, and the weights and images on its disk: finished words, no queries."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from fleet.execution.models import Command, Subject
from fleet.execution.states import SUBJECT_LIVE, SUBJECT_NEW
from fleet.marks import IDLE, RUN, WARN, Mark, mark_of
from fleet.models import Node
from fleet.rules.message import said
from fleet.selectors.node_jobs import jobs_of
from fleet.templatetags.figures import span_words

_LASTING = {
    SUBJECT_NEW: Mark(IDLE, "idle", _lazy("Not started"), SUBJECT_NEW),
    SUBJECT_LIVE: Mark(RUN, "run", _lazy("Running"), SUBJECT_LIVE),
}
_IN_DOUBT = Mark(WARN, "unk", _lazy("Unconfirmed"), "unknown")
_NAMED = re.compile(r"\b[A-Z]{2,4}-\d+\b")
_ACCEPTANCE = re.compile(r"acceptance:(\d+)/")


def node_jobs(node: Node) -> dict[str, Any]:
    """Return what lasts on a node, what was done on it last, and what it holds."""
    seen = jobs_of(node)
    return {
        "lasting": [_lasting(subject) for subject in seen.lasting],
        "commands": [_command(command) for command in seen.commands],
        "holdings": [
            (row, mark_of("holding", row.state), said(row.explanation, _)) for row in seen.holdings
        ],
        "images": [
            (row, mark_of("image", row.state), said(row.explanation, _)) for row in seen.images
        ],
    }


def _lasting(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.name,
        "mark": _LASTING.get(subject.state, _IN_DOUBT),
        "since": subject.started_at,
        "why": said(subject.explanation, _),
        "url": _page_of(subject.name),
    }


def _command(command: Command) -> dict[str, Any]:
    """One command; `took` from when it was sent to the node, empty while it is under way or was never sent."""
    span = command.settled_at and command.sent_at and command.settled_at - command.sent_at
    return {
        "name": command.purpose,
        "mark": mark_of("command", command.state),
        "asked": command.created_at,
        "took": _took(span.total_seconds()) if span else "",
        "why": said(command.explanation, _),
        "url": _page_of(command.purpose),
    }


def _took(seconds: float) -> str:
    """Say a span as long as a command takes: ms below 1 s, then s, then larger units."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else span_words(seconds)


def _page_of(name: str) -> str:
    """Return what leads to the page a job was done for, empty when its name tells none."""
    if name.startswith("probe:"):
        return "#probe"
    wanted = _NAMED.search(name)
    if found := _ACCEPTANCE.match(name):
        return f"{reverse('jump')}?{urlencode({'q': f'AC-{found[1]}'})}"
    return f"{reverse('jump')}?{urlencode({'q': wanted[0]})}" if wanted else ""
