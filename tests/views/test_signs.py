"""Every sign that a page may ask for is drawn, and every state has its own shape and word."""

import re

import pytest

import releases.marks  # noqa: F401 - it adds the machines of launches and of what changes them
import runbooks.marks  # noqa: F401 - it adds those of incidents and runs
from fleet import marks
from fleet.execution import states
from fleet.execution.models import Host
from fleet.models import Distribution, Holding, Node, Replica, WeightsArtefact
from fleet.rules.lifecycles import NODE_MOVES, REPLICA_MOVES
from fleet.views import reader_drawn
from releases.models import Drain, Endpoint, GateRun, Launch, Release, Rollout, Wave
from releases.views import log_drawn
from runbooks.models import Incident, Run, RunStep
from tests.views.conftest import ROOT

SPRITE = (ROOT / "templates/components/_icons.svg").read_text(encoding="utf-8")
DRAWN = set(re.findall(r'<symbol id="([\w-]+)"', SPRITE))
STATES = {
    "node": set(NODE_MOVES) | set(Node.State.values),
    "replica": set(REPLICA_MOVES) | set(Replica.State.values),
    "artefact": set(WeightsArtefact.State.values),
    "holding": set(Holding.State.values),
    "distribution": set(Distribution.State.values),
    "launch": set(Launch.State.values),
    "release": set(Release.State.values),
    "gate": set(GateRun.State.values),
    "rollout": set(Rollout.State.values),
    "wave": set(Wave.State.values),
    "trigger": {"quiet", "fired", "no_data"},
    "endpoint": set(Endpoint.Mode.values),
    "drain": set(Drain.State.values),
    "incident": set(Incident.State.values),
    "run": set(Run.State.values),
    "step": set(RunStep.State.values),
    "reach": set(Host.Reach.values),
    "key": set(Host.Key.values),
    "command": set(states.COMMAND_MOVES),
    "gpu": {"ok", "attention", "failed", "unknown"},
    "verdict": {"pass", "fail", "unknown", ""},
}
WARM = {"warn", "crit"}


@pytest.mark.parametrize(
    ("machine", "state"), [(m, s) for m, some in STATES.items() for s in sorted(some)]
)
def test_every_state_has_a_drawn_sign_and_a_word(machine, state):
    mark = marks.mark_of(machine, state)
    assert f"s-{mark.shape}" in DRAWN
    assert str(mark.word)
    assert state == "unknown" or mark.word != state


def test_a_state_that_no_table_knows_is_unknown_and_never_fine():
    assert marks.mark_of("node", "sparkling").shape == "unk"


def test_every_sign_that_a_template_names_is_drawn():
    named = set()
    for path in (ROOT / "templates").rglob("*.html"):
        named |= set(re.findall(r'href="#([si]-\w+)"', path.read_text(encoding="utf-8")))
    assert named <= DRAWN


@pytest.mark.parametrize(
    ("machine", "state"),
    [("node", "ready"), ("replica", "planned"), ("replica", "serving"), ("launch", "stopped")],
)
def test_a_healthy_state_has_no_warm_colour(machine, state):
    assert marks.mark_of(machine, state).tone not in WARM


def test_every_sign_of_the_reader_is_drawn():
    looks = [*reader_drawn._VERDICTS.values(), *reader_drawn._SEVERITIES.values()]
    assert {f"s-{mark.shape}" for mark in looks} <= DRAWN


def test_no_sign_is_drawn_twice_and_no_two_pages_of_the_navigation_share_one():
    ids = re.findall(r'<symbol id="([\w-]+)"', SPRITE)
    nav = (ROOT / "templates/components/_nav.html").read_text(encoding="utf-8")
    icons = re.findall(r'href="#(i-\w+)"', nav)
    assert sorted(ids) == sorted(set(ids))
    assert sorted(icons) == sorted(set(icons))


def test_every_sign_of_a_log_level_is_drawn():
    assert {f"s-{sign}" for _row, sign, _tone in log_drawn._LOOKS.values() if sign} <= DRAWN
