"""A dry run is kept and applied as it was seen, or not at all; what a file leaves out goes only after two of them."""

import threading

import pytest
from django.db import connection, transaction
from django.utils import timezone

from fleet.models import InventoryImport, Node, NodeMiss, Pool, Replica, TrailEntry
from fleet.rules.inventory_export import write_csv, write_yaml
from fleet.rules.inventory_file import read_inventory
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.inventory import fleet_digest, inventory_now, nodes_kept
from fleet.services.holds import hold_add
from fleet.services.imports import (
    import_again,
    import_apply,
    import_discard,
    import_read,
    node_add,
)
from fleet.services.placement import inventory_claim
from releases.models import Launch, LaunchPosition, Release
from runbooks.models import Incident
from tests.factories import make_actor, make_hold, make_node, make_person, make_replica

pytestmark = pytest.mark.django_db
FOUR = "\n".join(
    f"- {{name: gpu0{n}, address: 127.0.9.{n}, user: fleet, leaf: 1, rack: R01}}"
    for n in (1, 2, 3, 4)
)
THREE = FOUR.rpartition("\n")[0]


def read(text: str = FOUR, *, is_whole: bool = True, who: str = "dana") -> InventoryImport:
    return import_read(
        text=text, file_name="fleet.yaml", is_whole=is_whole, actor=make_actor(who),
        user=make_person(who),
    )  # fmt: skip


def apply(found: InventoryImport, *removals: str, **fields) -> InventoryImport:
    words = {"digest": found.digest, "removals": removals, "reason": "new rack", **fields}
    return import_apply(found=found, actor=make_actor("dana"), user=make_person("dana"), **words)


def outcomes(found: InventoryImport) -> dict[str, str]:
    return {change["name"]: change["outcome"] for change in found.changes}


def missing(found: InventoryImport) -> dict[str, str]:
    return {one["name"]: one["outcome"] for one in found.missing}


def test_a_dry_run_says_what_would_be_and_writes_no_node():
    found = read()
    assert outcomes(found) == dict.fromkeys(("gpu01", "gpu02", "gpu03", "gpu04"), "added")
    assert not Node.objects.exists()
    assert list(TrailEntry.objects.values_list("verb", flat=True)) == ["import.read"]


def test_apply_writes_what_was_shown_and_tells_who_and_why():
    done = apply(read())
    assert Node.objects.count() == 4
    assert (done.state, done.reason, str(done.ended_by)) == ("applied", "new rack", "dana")
    told = TrailEntry.objects.get(verb="import.apply")
    assert (told.reason, told.object_id, told.after["added"]) == ("new rack", done.public_id, 4)
    with pytest.raises(Conflict, match="is over: Applied"):
        apply(done)


def test_changes_come_field_by_field_and_refusals_with_their_line():
    apply(read())
    text = FOUR.replace("127.0.9.2,", "127.0.9.22,").replace("R01", "R02", 1) + "\n- {name: gpu05}"
    found = read(text)
    told = {change["name"]: change for change in found.changes}
    assert told["gpu01"]["before"] == {"rack": "R01"}
    assert told["gpu01"]["after"] == {"rack": "R02"}
    assert told["gpu02"]["after"] == {"address": "127.0.9.22"}
    assert told["gpu03"]["outcome"] == "equal"
    assert told["gpu05"]["line"] == 5
    assert told["gpu05"]["why"].startswith("address: expected an IP address")


def test_a_rack_that_moves_to_another_leaf_is_a_change_of_its_nodes():
    apply(read())
    found = read(FOUR.replace("leaf: 1", "leaf: 2"))
    assert set(outcomes(found).values()) == {"changed"}
    assert found.changes[0]["before"] == {"leaf": "1"}
    apply(found)
    assert {node.rack.leaf.number for node in Node.objects.all()} == {2}


def test_a_fleet_that_changed_since_the_dry_run_refuses_it():
    found = read()
    make_node("gpu09")
    with pytest.raises(Conflict, match="The fleet changed after this dry run"):
        apply(found)
    assert not Node.objects.filter(host__name="gpu01").exists()
    assert apply(import_again(found=found, actor=make_actor("dana"), user=make_person("dana")))


def test_a_page_that_is_older_than_the_dry_run_is_refused():
    with pytest.raises(Conflict, match="older than the dry run"):
        apply(read(), digest="0" * 64)


def test_what_a_probe_or_a_hold_of_a_rule_changes_refuses_nothing():
    apply(read())
    found = read(FOUR.replace("R01", "R02"))
    Node.objects.update(version=7, explanation="probed")
    make_hold(Node.objects.first(), owner="acceptance")
    assert apply(found).state == "applied"


def test_of_two_dry_runs_of_one_fleet_one_wins_and_the_other_is_told():
    first, second = read(), read(THREE)
    apply(first)
    with pytest.raises(Conflict, match="dry-run the file again"):
        apply(second)
    assert InventoryImport.objects.get(pk=second.pk).state == "dry"


@pytest.mark.django_db(transaction=True)
def test_an_import_that_is_being_applied_lets_no_other_begin():
    found, told = read(), []

    def other() -> None:
        try:
            apply(InventoryImport.objects.get(pk=found.pk))
        except Conflict as error:
            told.append(str(error))
        finally:
            connection.close()

    make_person("dana")
    with transaction.atomic():
        assert inventory_claim()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(30)
    assert told == [
        "Another import is being applied now. Nothing was written; send again in a moment."
    ]
    assert not Node.objects.exists()


def test_an_import_needs_words_and_an_admin():
    with pytest.raises(NeedsReason):
        apply(read(), reason=" ")
    with pytest.raises(NotAllowed):
        read(who="ana")


@pytest.mark.parametrize(
    ("text", "told"),
    [("x", "The file is no inventory: expected a list"), ("- a\0b", "NUL"), ("name,address\n", "line 1")],
)  # fmt: skip
def test_a_text_that_is_no_inventory_is_told_and_not_kept(text, told):
    with pytest.raises(Refused, match=told):
        read(text)
    assert not InventoryImport.objects.exists()


def test_a_discarded_dry_run_writes_nothing():
    found = read()
    import_discard(found=found, actor=make_actor("dana"), user=make_person("dana"))
    with pytest.raises(Conflict, match="Discarded"):
        apply(found)


class TestMissing:
    @pytest.fixture(autouse=True)
    def fleet(self) -> None:
        apply(read())

    def test_the_first_import_without_a_node_keeps_it_and_counts(self):
        found = read(THREE)
        assert missing(found) == {"gpu04": "kept"}
        assert "first time" in said(found.missing[0]["why"])
        with pytest.raises(Refused, match="gpu04 is not offered"):
            apply(found, "gpu04")
        apply(found)
        miss = NodeMiss.objects.get()
        assert (miss.node.name, miss.count, miss.first_import) == ("gpu04", 1, found)
        told = TrailEntry.objects.get(verb="node.miss")
        assert (told.actor, told.object_id, told.after) == ("dana", "gpu04", {"misses": 1})

    def test_the_second_offers_it_and_a_person_retires_it(self):
        apply(read(THREE))
        second = read(THREE)
        assert missing(second) == {"gpu04": "proposed"}
        apply(second)
        assert NodeMiss.objects.get().count == 2
        third = read(THREE)
        apply(third, "gpu04")
        node = Node.objects.get(host__name="gpu04")
        assert node.state == "retired"
        assert third.public_id in said(node.explanation)
        assert not NodeMiss.objects.exists()
        told = TrailEntry.objects.get(verb="node.move", object_id="gpu04")
        assert (told.before["state"], told.after["state"]) == ("registered", "retired")
        assert TrailEntry.objects.filter(verb="node.add", object_id="gpu04").exists()
        assert missing(read(THREE)) == {}

    def test_a_retired_name_does_not_come_back_by_a_file(self):
        for removals in ((), ("gpu04",)):
            apply(read(THREE), *removals)
        found = read()
        assert outcomes(found)["gpu04"] == "refused"
        assert "was retired" in found.changes[-1]["why"]

    def test_a_node_that_is_named_again_begins_anew(self):
        apply(read(THREE))
        apply(read())
        assert not NodeMiss.objects.exists()
        assert missing(read(THREE)) == {"gpu04": "kept"}

    def test_a_part_of_the_fleet_leaves_nobody_out(self):
        found = read(THREE, is_whole=False)
        assert missing(found) == {}
        apply(found)
        assert not NodeMiss.objects.exists()

    def test_a_file_of_pools_alone_leaves_no_node_out(self):
        assert missing(read("pools: [{slug: glm52}]")) == {}

    def test_a_lab_node_is_never_missing(self):
        make_node("h100-001", origin="lab")
        assert missing(read()) == {}

    def test_a_unit_or_a_person_keeps_it(self):
        apply(read(THREE))
        node = Node.objects.get(host__name="gpu04")
        make_replica(nodes=[node])
        found = read(THREE)
        assert missing(found) == {"gpu04": "blocked"}
        assert "glm52-r1 has it" in said(found.missing[0]["why"])
        with pytest.raises(Refused, match="not offered"):
            apply(found, "gpu04")
        Replica.objects.get().members.all().delete()
        hold_add(node=node, kind="cordon", reason="fans", actor=make_actor("ana"))
        assert missing(read(THREE)) == {"gpu04": "blocked"}

    def test_an_open_incident_keeps_it_and_a_hold_of_a_rule_is_told(self):
        apply(read(THREE))
        node = Node.objects.get(host__name="gpu04")
        make_hold(node, "unreachable")
        incident = about(node)
        found = read(THREE)
        assert missing(found) == {"gpu04": "blocked"}
        assert f"held by {incident.public_id}" in said(found.missing[0]["why"])
        with pytest.raises(Refused, match="not offered"):
            apply(found, "gpu04")
        Incident.objects.update(state="resolved")
        found = read(THREE)
        assert missing(found) == {"gpu04": "proposed"}
        assert "held by unreachable; may be removed" in said(found.missing[0]["why"])
        apply(found, "gpu04")
        assert Node.objects.get(host__name="gpu04").state == "retired"

    def test_an_incident_that_came_after_the_dry_run_refuses_it(self):
        apply(read(THREE))
        found = read(THREE)
        about(Node.objects.get(host__name="gpu04"))
        with pytest.raises(Conflict, match="changed after this dry run"):
            apply(found, "gpu04")

    def test_a_hold_that_came_after_the_dry_run_refuses_it(self):
        apply(read(THREE))
        found = read(THREE)
        make_hold(Node.objects.get(host__name="gpu04"))
        with pytest.raises(Conflict, match="changed after this dry run"):
            apply(found, "gpu04")
        assert Node.objects.get(host__name="gpu04").state == "registered"


def about(node: Node) -> Incident:
    """An open incident of a launch that ran on this node; the unit has other nodes since."""
    unit = make_replica("glm52-r7", nodes=[node])
    release = Release.objects.create(
        pool=unit.pool, title="r", state="sealed", content={}, content_sha256="c" * 64
    )
    launch = Launch.objects.create(
        replica=unit, release=release, generation=1, plan={}, plan_sha256="p" * 64, state="stopped"
    )
    LaunchPosition.objects.create(launch=launch, position=0, node=node)
    unit.members.update(released_at=timezone.now())
    return Incident.objects.create(
        signature="nccl-hang", pool=unit.pool, replica=unit, launch=launch, title="hang",
        began_at=timezone.now(),
    )  # fmt: skip


class TestHeldByAnIncident:
    MOVED = FOUR.replace("R01", "R02", 2)  # two nodes hang in another rack

    @pytest.fixture(autouse=True)
    def fleet(self) -> None:
        apply(read())

    def test_its_row_stays_and_blocks_no_other(self):
        incident = about(Node.objects.get(host__name="gpu01"))
        found = read(self.MOVED)
        assert outcomes(found) == {
            "gpu01": "held", "gpu02": "changed", "gpu03": "equal", "gpu04": "equal",
        }  # fmt: skip
        (held, *_rest) = found.changes
        assert (held["before"], held["after"]) == ({"rack": "R01"}, {"rack": "R02"})
        assert said(held["why"]) == f"held by {incident.public_id}, left as it is"
        apply(found)
        racks = dict(Node.objects.values_list("host__name", "rack__name"))
        assert (racks["gpu01"], racks["gpu02"]) == ("R01", "R02")
        assert not TrailEntry.objects.filter(verb="node.change", object_id="gpu01").exists()
        Incident.objects.update(state="closed")
        assert outcomes(read(self.MOVED))["gpu01"] == "changed"

    def test_a_row_that_says_what_is_known_is_equal(self):
        about(Node.objects.get(host__name="gpu01"))
        assert set(outcomes(read()).values()) == {"equal"}

    def test_its_node_goes_to_no_unit(self):
        incident = about(Node.objects.get(host__name="gpu01"))
        units = "units: [{name: glm52-r1, pool: glm52, nodes: 'gpu[01-02]'}]"
        found = read(f"nodes:\n{FOUR}\n{units}")
        told = next(change for change in found.changes if change["name"] == "glm52-r1")
        assert told["outcome"] == "refused"
        assert said(told["why"]) == (
            f"nodes: gpu01 is held by {incident.public_id}; it moves once that is resolved"
        )


def test_who_is_kept_is_asked_with_two_queries(django_assert_num_queries):
    nodes = [make_node(f"gpu{n:02d}", host={"address": f"127.0.9.{n}"}) for n in range(1, 9)]
    about(nodes[0])
    for some in (nodes[:1], nodes):
        with django_assert_num_queries(2):
            assert list(nodes_kept([node.pk for node in some])) == [nodes[0].pk]


class TestExport:
    @pytest.fixture(autouse=True)
    def fleet(self) -> None:
        apply(
            read(
                f"nodes:\n{FOUR}\npools: [{{slug: glm52, unit_nodes: 2, unit_gpus: 16}}, {{slug: rest, spare: true}}]"
                "\nunits: [{name: glm52-r1, pool: glm52, nodes: 'gpu[01-02]'}]"
            )
        )

    def test_yaml_comes_back_without_a_difference_and_as_the_same_text(self):
        text = write_yaml(inventory_now())
        assert set(outcomes(read(text)).values()) == {"equal"}
        assert len(read(text).changes) == 7
        Pool.objects.all().update(version=9)
        assert write_yaml(inventory_now()) == text

    def test_csv_of_nodes_comes_back_too(self):
        found = read(write_csv(inventory_now().nodes))
        assert outcomes(found) == dict.fromkeys(("gpu01", "gpu02", "gpu03", "gpu04"), "equal")

    def test_a_lab_fleet_comes_back_where_it_is_and_only_there(self):
        make_node("h100-001", origin="lab")
        text = write_yaml(inventory_now())
        assert set(outcomes(read(text)).values()) == {"equal"}
        assert outcomes(read(text.replace("127.0.64.1", "127.0.64.77")))["h100-001"] == "refused"

    def test_the_digest_is_of_what_an_import_compares(self):
        before = fleet_digest()
        Node.objects.update(version=5)
        assert fleet_digest() == before
        Node.objects.filter(host__name="gpu01").update(gpu_count=4)
        assert fleet_digest() != before
        assert read_inventory(write_yaml(inventory_now())).nodes[0]["gpus"] in {4, "4"}


def test_one_node_is_added_by_its_fields():
    row = {"name": "gpu01", "address": "127.0.9.1", "user": "fleet", "leaf": "1", "rack": "R01"}
    row["gpus"] = ""
    words = {"actor": make_actor("dana"), "user": make_person("dana")}
    assert node_add(row=row, **words).gpu_count == 8
    with pytest.raises(Refused, match="a node is called gpu01 already"):
        node_add(row=row, **words)
    with pytest.raises(Refused, match="leaf: expected a number"):
        node_add(row={**row, "name": "gpu02", "leaf": ""}, **words)
    with pytest.raises(NotAllowed):
        node_add(row={**row, "name": "gpu02"}, actor=make_actor(), user=make_person())
