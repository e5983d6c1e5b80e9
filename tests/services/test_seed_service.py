import json

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from fleet.execution.models import Host
from fleet.lab import gateway
from fleet.lab.fabric import fleet_places, place_record
from fleet.lab.node import Lab
from fleet.models import Member, Node, Pool, Replica, RoleGrant, TrailEntry
from fleet.rules.message import said
from fleet.rules.refusals import Conflict
from fleet.services.seed import LAB_PEOPLE, fleet_seed, people_seed
from releases.models import Gateway
from releases.services.gateway_seed import gateway_seed
from tests.factories import host_key, make_actor, make_node

pytestmark = pytest.mark.django_db


def rows(size: int) -> list[dict]:
    return [
        {
            **place_record(place),
            "ssh_port": 2222,
            "user": "fleet",
            "model_root": f"/lab/nodes/{place.name}/root/models",
            "host_key": host_key(place.number),
            "origin": "lab",
        }
        for place in fleet_places(size, "127.0.64")
    ]


def seed(size: int):
    return fleet_seed(rows(size), actor=make_actor("command:seed"))


def test_the_reference_fleet_has_its_pools_units_and_spares():
    assert len(seed(48).added) == 48
    units = {pool.slug: pool.replicas.count() for pool in Pool.objects.all()}
    assert units == {"glm51": 7, "glm52": 7, "dsv4": 14, "spare": 0}
    spares = Node.objects.exclude(memberships__released_at=None, memberships__isnull=False)
    assert sorted(node.name[-3:] for node in spares) == ["007", "008", "023", "024", "039", "040"]
    assert Pool.objects.get(slug="spare").spare_floor == 3
    r4 = Replica.objects.get(name="glm52-r4")
    assert [m.node.name for m in r4.members.order_by("position")] == ["h100-027", "h100-028"]
    assert Node.objects.get(host__name="h100-028").rack.leaf.number == 4


def test_nodes_are_born_registered_with_pinned_keys():
    seed(2)
    assert {(n.state, n.host.key_state, n.origin) for n in Node.objects.all()} == {
        ("registered", "pinned", "lab")
    }


def test_seeding_again_changes_nothing():
    seed(8)
    before = TrailEntry.objects.count(), Member.objects.count()
    assert len(seed(8).equal) == 8
    assert (TrailEntry.objects.count(), Member.objects.count()) == before


def test_a_smaller_lab_retires_nodes_and_a_larger_one_brings_them_back():
    seed(8)
    seed(2)
    assert Node.objects.exclude(state="retired").count() == 2
    assert set(Replica.objects.values_list("name", flat=True)) == {"glm52-r1"}
    seed(8)
    assert Node.objects.exclude(state="retired").count() == 8
    assert Replica.objects.count() == 4
    assert Member.objects.filter(released_at=None).count() == 6


def test_a_reserved_unit_is_left_alone():
    seed(2)
    Member.objects.update(is_reserved=True)
    seed(8)
    unit = Replica.objects.get(name="glm52-r1")
    live = unit.members.filter(released_at=None).order_by("position")
    assert [member.node.name for member in live] == ["h100-001", "h100-002"]


def test_a_key_that_was_flagged_as_changed_is_not_pinned_by_seeding():
    seed(2)
    Host.objects.filter(name="h100-001").update(key_state="changed", host_key=host_key(9))
    seed(2)
    assert Host.objects.get(name="h100-001").key_state == "changed"


def test_the_accounts_have_their_roles_and_are_made_once():
    assert people_seed(actor=make_actor()) == list(LAB_PEOPLE)
    assert people_seed(actor=make_actor()) == []
    grants = {grant.user.username: grant.role for grant in RoleGrant.objects.filter(pool=None)}
    assert grants == {
        "ana": "operator",
        "bo": "approver",
        "chen": "viewer",
        "dana": "admin",
        "eli": "approver",
    }


GATEWAY = {
    "name": "gateway",
    "address": "127.0.64.253",
    "ssh_port": 2222,
    "user": "fleet",
    "host_key": host_key(7),
    "proxy": "/usr/sbin/haproxy",
    "port": 8000,
    "admin_port": 19064,
}


class TestGateway:
    def seed(self, **changes):
        return gateway_seed({**GATEWAY, **changes}, actor=make_actor("command:seed"))

    def test_it_has_a_pinned_host_that_is_no_node(self):
        seed(2)
        gateway = self.seed()
        assert (gateway.name, gateway.port, gateway.admin_port) == ("edge", 8000, 19064)
        assert (gateway.host.key_state, gateway.host.host_key) == ("pinned", host_key(7))
        assert Node.objects.count() == 2

    def test_again_it_changes_nothing(self):
        self.seed()
        before = TrailEntry.objects.count()
        assert self.seed().version == 1
        assert TrailEntry.objects.count() == before

    def test_another_block_and_key_are_followed(self):
        gateway = self.seed()
        again = self.seed(address="127.0.65.253", admin_port=19065, host_key=host_key(8))
        assert again.pk == gateway.pk
        assert (again.admin_port, again.version) == (19065, 2)
        assert (again.host.address, again.host.host_key) == ("127.0.65.253", host_key(8))
        assert TrailEntry.objects.filter(verb__in=["host.change", "gateway.change"]).count() == 2

    def test_a_key_that_was_flagged_as_changed_stays_blocked(self):
        host = self.seed().host
        Host.objects.filter(pk=host.pk).update(key_state="changed")
        assert self.seed(host_key=host_key(8)).host.key_state == "changed"
        assert Host.objects.get(pk=host.pk).host_key == host_key(7)

    def test_without_a_proxy_there_is_a_host_and_no_gateway(self):
        assert self.seed(proxy="") is None
        assert Host.objects.get().name == "gateway"
        assert not Gateway.objects.exists()

    def test_a_node_of_that_name_stays_what_it_is(self):
        make_node("gateway")
        with pytest.raises(Conflict, match="is a node already"):
            self.seed()
        assert not Gateway.objects.exists()

    def test_no_inventory_makes_a_node_of_it(self):
        self.seed()
        done = fleet_seed([*rows(1), {**rows(2)[1], "name": "gateway"}], actor=make_actor())
        assert done.added == ["h100-001"]
        assert [(name, why.split(":")[0]) for name, why in done.refused] == [("gateway", "name")]


class TestCommand:
    def run(self, capsys, inventory: str | None = None, **settings_now):
        with override_settings(**settings_now):
            call_command("seed", inventory=inventory)
        return capsys.readouterr()

    def test_without_a_lab_it_does_nothing(self, capsys):
        assert "nothing to seed" in self.run(capsys, IS_REHEARSAL=False).out
        assert not Node.objects.exists()

    def test_beyond_loopback_it_makes_no_accounts(self, capsys, tmp_path):
        path = tmp_path / "inventory.json"
        path.write_text(json.dumps(rows(2)))
        lab = {"IS_REHEARSAL": True, "inventory": str(path)}
        said = self.run(capsys, **lab, IS_LOOPBACK=False, HOST="0.0.0.0")
        assert "accounts not seeded" in said.err
        assert not RoleGrant.objects.exists()
        said = self.run(capsys, **lab, IS_LOOPBACK=True)
        assert "accounts: ana, bo, chen, dana, eli" in said.out

    @pytest.mark.parametrize(
        ("proxy", "words"),
        [("", "HAProxy is not installed"), ("/usr/sbin/haproxy", "gateway: edge")],
    )
    def test_it_says_whether_there_is_a_gateway(
        self, capsys, settings, tmp_path, monkeypatch, proxy, words
    ):
        monkeypatch.setattr(gateway, "find_proxy", lambda: proxy)
        monkeypatch.setenv("FLOTILLA_LAB_DIR", str(tmp_path / "lab"))
        Lab(tmp_path / "lab").lay_out(1, weights="none")
        said = self.run(capsys, IS_REHEARSAL=True, NODE_CIDRS=["127.0.0.0/8"])
        assert words in said.out + said.err
        assert Gateway.objects.exists() is bool(proxy)


@pytest.mark.parametrize(
    "text", ["{nope", '{"a": 1}', '["x"]', "[" * 100_000, "\x00", "[{}"], ids=lambda text: text[:8]
)
def test_a_file_that_is_no_inventory_is_refused_in_words(tmp_path, text):
    file = tmp_path / "inventory.json"
    file.write_text(text)
    with override_settings(IS_REHEARSAL=True), pytest.raises(CommandError, match="inventory"):
        call_command("seed", inventory=str(file))
    with pytest.raises(CommandError, match=r"inventory\.json"):
        call_command("inventory_import", str(file))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"pool": None}, "pool: expected one of"),
        ({"pool": "nope"}, "pool: expected one of"),
        ({"unit": "a;b$(id)"}, "unit: expected"),
        ({"unit": "x" * 100}, "unit: expected"),
        ({"name": None}, "name: expected"),
        ({"name": "x\0y"}, "name: expected"),
    ],
)
def test_a_row_that_cannot_be_is_refused_and_the_others_come(change, expected):
    good = rows(8)
    foreign = {**good[0], "address": "127.0.64.200", "name": "foreign-1", "unit": "fx-r1", **change}
    done = fleet_seed([*good, foreign], actor=make_actor("command:seed"))
    assert [why for _name, why in done.refused if expected in said(why)]
    assert len(done.added) >= 8
    assert not Replica.objects.filter(name__in=["fx-r1", "a;b$(id)"]).exists()
    assert not Node.objects.filter(state="retired").exists()
