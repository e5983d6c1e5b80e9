"""Every state table is closed, agrees with its model's words, and is the only way to move."""

from itertools import pairwise

import pytest

from fleet.execution import states
from fleet.models import Distribution, Holding, NetRun, Node, Replica
from fleet.rules.holdings import DISTRIBUTION_MOVES, HOLDING_MOVES
from fleet.rules.lifecycles import NODE_MOVES, REPLICA_MOVES, node_path
from fleet.rules.netrun import NETRUN_MOVES
from fleet.rules.probe_verdict import state_after
from fleet.rules.refusals import Conflict
from fleet.services.node_moves import NodeMove, nodes_move
from fleet.services.replicas import members_free, members_reserve, replica_move
from releases.models import GateRun, Launch, Release, Rollout, Wave
from releases.rules.gates import GATE_MOVES
from releases.rules.launch import LAUNCH_MOVES
from releases.rules.release import RELEASE_MOVES
from releases.rules.rollout import ROLLOUT_MOVES
from releases.rules.waves import WAVE_MOVES
from runbooks.models import Incident, Run, RunStep
from runbooks.rules.incident import INCIDENT_MOVES
from runbooks.rules.run import RUN_MOVES, STEP_MOVES
from tests.factories import make_actor, make_node, make_nodes, make_pool, make_replica

TABLES = {
    "node": (NODE_MOVES, Node.State.values),
    "replica": (REPLICA_MOVES, Replica.State.values),
    "holding": (HOLDING_MOVES, Holding.State.values),
    "distribution": (DISTRIBUTION_MOVES, Distribution.State.values),
    "launch": (LAUNCH_MOVES, Launch.State.values),
    "release": (RELEASE_MOVES, Release.State.values),
    "gate": (GATE_MOVES, GateRun.State.values),
    "rollout": (ROLLOUT_MOVES, Rollout.State.values),
    "wave": (WAVE_MOVES, Wave.State.values),
    "incident": (INCIDENT_MOVES, Incident.State.values),
    "run": (RUN_MOVES, Run.State.values),
    "step": (STEP_MOVES, RunStep.State.values),
    "network": (NETRUN_MOVES, NetRun.State.values),
    "command": (states.COMMAND_MOVES, list(states.COMMAND_MOVES)),
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_has_exactly_the_states_of_its_model(name):
    moves, words = TABLES[name]
    assert set(moves) == set(words)
    assert set().union(*moves.values()) <= set(words)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_state_can_be_reached_from_the_first(name):
    moves, words = TABLES[name]
    seen, todo = set(), [words[0]]
    while todo:
        state = todo.pop()
        if state not in seen:
            seen.add(state)
            todo.extend(moves[state])
    assert seen == set(words)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_no_state_moves_to_itself(name):
    moves, _ = TABLES[name]
    assert not [state for state, onward in moves.items() if state in onward]


@pytest.mark.parametrize("verdict", ["pass", "fail", "unknown"])
@pytest.mark.parametrize("answered", [True, False])
@pytest.mark.parametrize("state", sorted(NODE_MOVES))
def test_a_probe_moves_a_node_only_along_its_table(state, verdict, answered):
    after = state_after(state, verdict, has_answered=answered)
    steps = (state, *(node_path(state, after) or ())) if after != state else (state,)
    assert steps[-1] == after
    assert all(onward in NODE_MOVES[here] for here, onward in pairwise(steps))


@pytest.mark.parametrize(
    ("state", "to"), [("retired", "ready"), ("quarantined", "registered"), ("ready", "registered")]
)
def test_a_node_has_no_way_that_is_not_in_its_table(state, to):
    assert node_path(state, to) is None


@pytest.mark.django_db
def test_a_node_is_not_moved_where_its_table_has_no_way():
    node = make_node(state="retired")
    with pytest.raises(Conflict, match="is retired and cannot become ready"):
        nodes_move([NodeMove(node, "ready", "because")], actor=make_actor())
    node.refresh_from_db()
    assert (node.state, node.version) == ("retired", 1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("state", "to"), [(state, to) for state in REPLICA_MOVES for to in REPLICA_MOVES]
)
def test_a_unit_moves_along_its_table_and_no_other_way(state, to):
    replica = make_replica(state=state)
    if to == state or to in REPLICA_MOVES[state]:
        replica_move(replica=replica, to=to, explanation="because", actor=make_actor())
        assert Replica.objects.get().state == replica.state == to
        return
    with pytest.raises(Conflict, match=f"is {state}"):
        replica_move(replica=replica, to=to, explanation="because", actor=make_actor())
    assert Replica.objects.get().state == state


@pytest.mark.django_db
class TestUnit:
    def test_a_move_is_told_in_the_trail_once(self):
        from fleet.models import TrailEntry

        replica = make_replica()
        for _ in range(2):
            replica_move(replica=replica, to="reserved", explanation="x", actor=make_actor())
        entry = TrailEntry.objects.get()
        assert (entry.before, entry.after) == ({"state": "planned"}, {"state": "reserved"})

    def test_it_moves_only_from_the_states_that_the_caller_names(self):
        replica = make_replica(state="failed")
        with pytest.raises(Conflict, match="must be stopped"):
            replica_move(
                replica=replica,
                to="reserved",
                explanation="x",
                actor=make_actor(),
                from_states={"stopped"},
            )

    def test_its_nodes_are_reserved_and_freed_together(self):
        replica = make_replica(nodes=make_nodes(2))
        assert members_reserve(replica=replica) == 2
        with pytest.raises(Conflict, match="h100-001, h100-002 already belong"):
            members_reserve(replica=replica)
        assert (members_free(replica=replica), members_free(replica=replica)) == (2, 0)

    def test_a_unit_without_nodes_is_not_reserved(self):
        with pytest.raises(Conflict, match="no nodes"):
            members_reserve(replica=make_replica(pool=make_pool()))
