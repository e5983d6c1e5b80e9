"""One file brings nodes, pools and units in, and refuses what contradicts."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from fleet.execution.models import Host
from fleet.models import Member, Node, Pool, Replica, TrailEntry
from fleet.rules.inventory_file import Inventory
from fleet.rules.message import said
from fleet.rules.refusals import NotAllowed
from fleet.services.placement import fleet_import
from tests.factories import make_actor, make_node, make_person, make_pool, make_replica

pytestmark = pytest.mark.django_db

POOL = {"slug": "glm52", "name": "GLM-5.2", "shape": "PP2 x TP8", "unit_nodes": 2, "unit_gpus": 16}


def node(number: int, **fields) -> dict:
    named = {"name": f"gpu0{number}", "address": f"127.0.9.{number}", "user": "fleet"}
    return {**named, "leaf": 1, "rack": "R01", **fields}


def unit(number: int, *nodes: int, **fields) -> dict:
    return {
        "name": f"glm52-r{number}",
        "pool": "glm52",
        "nodes": [f"gpu0{n}" for n in nodes],
        **fields,
    }


NODES = [node(number) for number in range(1, 5)]
WHOLE = Inventory(NODES, [POOL, {"slug": "spare", "spare": True}], [unit(1, 1, 2), unit(2, 3, 4)])


def bring(inventory: Inventory = WHOLE, **fields):
    return fleet_import(inventory, actor=make_actor("command:inventory_import"), **fields)


def members(name: str) -> list[str]:
    live = Member.objects.filter(replica__name=name, released_at=None).order_by("position")
    return [member.node.name for member in live]


def why(done) -> dict[str, str]:
    return {name: said(words) for name, words in done.refused}


def test_a_file_makes_the_whole_fleet_and_the_trail_tells_each_piece():
    assert why(bring()) == {}
    assert members("glm52-r1") == ["gpu01", "gpu02"]
    pool = Pool.objects.get(slug="glm52")
    assert (pool.tone, pool.promised_units, pool.shape) == ("p51", 2, "PP2 × TP8")
    assert Pool.objects.get(slug="spare").tone == "psp"
    assert Replica.objects.get(name="glm52-r2").state == "planned"
    verbs = list(TrailEntry.objects.values_list("verb", flat=True))
    assert {verb: verbs.count(verb) for verb in verbs} == {
        "node.add": 4,
        "pool.add": 2,
        "replica.add": 2,
    }


def test_the_same_file_again_changes_nothing():
    bring()
    before = TrailEntry.objects.count(), Member.objects.count()
    assert len(bring().equal) == 8
    assert (TrailEntry.objects.count(), Member.objects.count()) == before


def test_a_dry_run_says_the_same_and_writes_nothing():
    tried = bring(is_dry=True)
    assert [m.objects.count() for m in (Node, Pool, Replica, TrailEntry)] == [0, 0, 0, 0]
    assert tried.changes == bring().changes


def test_what_contradicts_is_refused_by_name_and_blocks_no_other():
    done = bring(
        Inventory(
            [*NODES, node(5, gpus=4), node(6), node(7, address="8.8.8.8")],
            [POOL],
            [
                unit(1, 1, 2),
                unit(2, 2, 3),
                unit(3, 4, 5),
                unit(4, 7, 6),
                unit(5, 9, 6),
                unit(5, 4, 6),
            ],
        )
    )
    told = why(done)
    assert "named by 2 units" in told["glm52-r1"]
    assert "named by 2 units" in told["glm52-r2"]
    assert "expected 16 GPU together, as pool glm52 says, found 12" in told["glm52-r3"]
    assert "no node is called gpu07" in told["glm52-r4"]
    assert "glm52-r5" in told
    assert [Node.objects.count(), Replica.objects.count()] == [6, 0]


def test_nodes_go_round_between_units_that_rest():
    bring()
    done = bring(Inventory(units=[unit(1, 1, 3), unit(2, 2, 4)]))
    assert done.changed == ["glm52-r1", "glm52-r2"]
    assert (members("glm52-r1"), members("glm52-r2")) == (["gpu01", "gpu03"], ["gpu02", "gpu04"])
    entry = TrailEntry.objects.filter(verb="replica.change").last()
    assert (entry.before, entry.after) == (
        {"nodes": ["gpu01", "gpu02"]},
        {"nodes": ["gpu01", "gpu03"]},
    )


@pytest.mark.parametrize(("state", "is_reserved"), [("ready", False), ("planned", True)])
def test_a_unit_that_runs_keeps_its_nodes_and_its_way_to_them(state, is_reserved):
    bring()
    Replica.objects.filter(name="glm52-r1").update(state=state)
    Member.objects.filter(replica__name="glm52-r1").update(is_reserved=is_reserved)
    done = bring(Inventory(units=[unit(1, 1, 3), unit(2, 2, 4)]))
    assert "stop it before its nodes change" in why(done)["glm52-r1"]
    assert "gpu02 belongs to glm52-r1" in why(done)["glm52-r2"]
    assert members("glm52-r1") == ["gpu01", "gpu02"]
    done = bring(Inventory([node(1, address="127.0.9.99")]))
    assert bool(done.refused) is is_reserved
    assert "gpus" in why(bring(Inventory([node(2, gpus=4)])))["gpu02"]


def test_a_pool_with_units_keeps_their_size():
    bring()
    smaller = {**POOL, "unit_nodes": 1, "unit_gpus": 8, "shape": "TP8"}
    assert "make another pool" in why(bring(Inventory(pools=[smaller])))["glm52"]
    renamed = bring(Inventory(pools=[{**POOL, "name": "GLM"}]))
    assert renamed.changed == ["glm52"]
    assert Pool.objects.get(slug="glm52").version == 2


def test_there_is_one_spare_pool():
    bring()
    assert (
        "one spare pool" in why(bring(Inventory(pools=[{"slug": "rest", "spare": True}])))["rest"]
    )


def test_a_machine_is_one_node_and_a_rack_hangs_on_one_leaf():
    bring()
    rows = [
        node(5, address="127.0.9.1"), node(6), node(6, user="ops"), node(7, address="127.0.9.6"), node(8, leaf=2),
    ]  # fmt: skip
    told = why(bring(Inventory(rows)))
    assert "127.0.9.1:22 is gpu01" in told["gpu05"]
    assert told["gpu06"].startswith("name: expected once")
    assert "127.0.9.6:22 is gpu06" in told["gpu07"]
    assert "rack R01 hangs on leaf 1" in told["gpu08"]


def test_a_real_node_takes_no_name_of_the_rehearsal():
    make_node("gpu01", origin="lab")
    assert "lab node" in why(bring(Inventory([node(1)])))["gpu01"]
    assert Host.objects.get().address != "127.0.9.1"


def test_a_unit_that_exists_in_another_pool_is_another_unit():
    make_replica("glm52-r1", pool=make_pool("other"))
    assert "it is a unit of other" in why(bring())["glm52-r1"]


def test_only_an_admin_brings_a_fleet_in():
    with pytest.raises(NotAllowed):
        bring(user=make_person("ana"))
    bring(user=make_person("dana"))


class TestCommand:
    def run(self, tmp_path, content, *flags: str) -> tuple[int, str, str]:
        file, out, err = tmp_path / "fleet.yaml", io.StringIO(), io.StringIO()
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        try:
            call_command("inventory_import", str(file), *flags, stdout=out, stderr=err)
        except CommandError as error:
            return error.returncode, out.getvalue(), f"{err.getvalue()}{error}"
        return 0, out.getvalue(), err.getvalue()

    def whole(self, **changed) -> dict:
        return {"nodes": NODES, "pools": [POOL], "units": [unit(1, 1, 2)], **changed}

    def test_it_prints_what_changes_a_line_each(self, tmp_path):
        code, out, _err = self.run(tmp_path, self.whole(), "--dry-run")
        assert code == 0
        assert "+ node gpu01: address 127.0.9.1, origin real, rack R01\n" in out
        assert "+ unit glm52-r1: pool glm52, nodes gpu01 + gpu02\n" in out
        assert out.endswith("dry run: nothing was written\n")
        self.run(tmp_path, self.whole())
        moved = self.whole(nodes=[node(3, user="ops")], units=[unit(1, 1, 4)])
        _code, out, _err = self.run(tmp_path, moved)
        assert "~ node gpu03: user fleet -> ops\n" in out
        assert "~ unit glm52-r1: nodes gpu01 + gpu02 -> gpu01 + gpu04\n" in out
        assert "nodes: 0 added, 1 changed, 0 equal, 0 refused" in out

    def test_a_refusal_goes_to_stderr_and_is_answer_one(self, tmp_path):
        code, out, err = self.run(tmp_path, self.whole(units=[unit(1, 1, 9)]), "--json")
        assert code == 1
        assert (
            "! unit glm52-r1: nodes: no node is called gpu09; add it to the nodes of the file"
            in err
        )
        told = json.loads(out)
        assert told["is_dry"] is False
        assert [one["name"] for one in told["changes"] if one["outcome"] == "refused"] == [
            "glm52-r1"
        ]
        refused = next(one for one in told["changes"] if one["outcome"] == "refused")
        assert refused["why"].startswith("nodes: no node is called gpu09; add it")

    @pytest.mark.parametrize("text", ["", "{}", "[1]", "\0", "nodes: *x", "hosts: []"])
    def test_a_file_that_is_no_inventory_is_wrong_use(self, tmp_path, text):
        code, _out, err = self.run(tmp_path, text)
        assert code == 2
        assert "expected YAML or JSON" in err

    def test_a_missing_file_is_wrong_use(self):
        with pytest.raises(CommandError) as caught:
            call_command("inventory_import", "/nowhere/fleet.yaml")
        assert caught.value.returncode == 2
