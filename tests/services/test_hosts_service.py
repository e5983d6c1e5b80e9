import pytest

from fleet.execution.models import Host
from fleet.models import Hold, KeyChange, TrailEntry
from fleet.rules.hostkeys import fingerprint
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed
from fleet.services.hosts import host_key_accept, host_key_sign, host_key_withdraw
from fleet.services.inventory import inventory_import
from fleet.services.reach import reach_settle
from tests.factories import host_key, make_actor, make_node, make_person

pytestmark = pytest.mark.django_db

OLD, NEW = host_key(1), host_key(2)


def changed_node():
    node = make_node(host={"key_state": Host.Key.CHANGED, "host_key": OLD, "offered_key": NEW})
    reach_settle()
    return node


def ask(node, who="dana", **fields):
    return host_key_accept(
        node=node,
        fingerprint=fields.get("new", fingerprint(NEW)),
        old_fingerprint=fields.get("old", fingerprint(OLD)),
        reason=fields.get("reason", "board was replaced"),
        actor=make_actor(who),
        user=make_person(who),
    )


def test_one_admin_pins_a_first_key():
    node = make_node(host={"key_state": Host.Key.UNSET, "host_key": "", "offered_key": NEW})
    assert ask(node, old="", reason="") is None
    host = Host.objects.get()
    assert (host.host_key, host.key_state, host.offered_key) == (NEW, Host.Key.PINNED, "")
    assert fingerprint(NEW) in TrailEntry.objects.get().after["fingerprint"]


def test_a_first_key_is_not_pinned_by_an_operator():
    node = make_node(host={"key_state": Host.Key.UNSET, "host_key": "", "offered_key": NEW})
    with pytest.raises(NotAllowed):
        ask(node, "ana")


def test_what_was_compared_must_be_what_the_node_shows():
    node = make_node(host={"key_state": Host.Key.UNSET, "host_key": "", "offered_key": NEW})
    with pytest.raises(Conflict, match="you compared"):
        ask(node, new=fingerprint(OLD))


def test_a_changed_key_is_pinned_by_two_people_and_its_hold_ends():
    node = changed_node()
    change = ask(node)
    assert Host.objects.get().key_state == Host.Key.CHANGED
    host_key_sign(change=change, actor=make_actor("bo"), user=make_person("bo"))
    host = Host.objects.get()
    assert (host.host_key, host.key_state) == (NEW, Host.Key.PINNED)
    assert not Hold.objects.filter(lifted_at=None).exists()
    signed = TrailEntry.objects.get(verb="host_key.sign")
    assert fingerprint(OLD) in signed.before["fingerprint"]
    assert fingerprint(NEW) in signed.after["fingerprint"]
    assert signed.reason == "board was replaced"


def test_the_person_who_asked_cannot_sign():
    change = ask(changed_node())
    with pytest.raises(NotAllowed, match="second person"):
        host_key_sign(change=change, actor=make_actor("dana"), user=make_person("dana"))


def test_an_operator_cannot_sign():
    change = ask(changed_node())
    with pytest.raises(NotAllowed):
        host_key_sign(change=change, actor=make_actor("ana"), user=make_person("ana"))


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ({"reason": ""}, NeedsReason),
        ({"old": fingerprint(NEW)}, Conflict),
        ({"new": fingerprint(OLD)}, Conflict),
    ],
)
def test_a_changed_key_needs_both_fingerprints_and_a_reason(fields, refusal):
    with pytest.raises(refusal):
        ask(changed_node(), **fields)
    assert not KeyChange.objects.exists()


def test_a_signature_is_void_when_the_node_shows_yet_another_key():
    change = ask(changed_node())
    Host.objects.update(offered_key=host_key(3))
    with pytest.raises(Conflict, match="another key"):
        host_key_sign(change=change, actor=make_actor("bo"), user=make_person("bo"))


def test_one_request_waits_at_a_time_and_can_be_withdrawn():
    node = changed_node()
    change = ask(node)
    with pytest.raises(Conflict, match="already waits"):
        ask(node)
    host_key_withdraw(change=change, reason="wrong node", actor=make_actor("dana"))
    assert ask(node).pk != change.pk


ROW = {
    "name": "h100-001",
    "address": "127.0.64.1",
    "ssh_port": 2222,
    "user": "fleet",
    "leaf": 1,
    "rack": "R01",
    "model_root": "/models",
    "node_class": "hgx-h100-roce",
    "host_key": OLD,
}


def test_an_import_pins_new_nodes_and_repeats_without_change():
    done = inventory_import([ROW], origin="real", actor=make_actor("dana"))
    assert (done.added, done.refused) == (["h100-001"], [])
    assert Host.objects.get().key_state == Host.Key.PINNED
    again = inventory_import([ROW], origin="real", actor=make_actor("dana"))
    assert (again.added, again.equal) == ([], ["h100-001"])
    assert TrailEntry.objects.count() == 1


def test_an_import_never_replaces_a_pinned_key():
    inventory_import([ROW], origin="real", actor=make_actor("dana"))
    inventory_import([{**ROW, "host_key": NEW, "user": "ops"}], origin="real", actor=make_actor())
    host = Host.objects.get()
    assert (host.host_key, host.user) == (OLD, "ops")


def test_a_bad_row_does_not_block_the_others():
    rows = [{**ROW, "name": "h100-002; rm -rf /"}, ROW, {**ROW, "name": "x", "address": "8.8.8.8"}]
    done = inventory_import(rows, origin="real", actor=make_actor("dana"))
    assert done.added == ["h100-001"]
    assert [why.split(":")[0] for _, why in done.refused] == ["name", "address"]


def test_only_an_admin_imports():
    with pytest.raises(NotAllowed):
        inventory_import([ROW], origin="real", actor=make_actor("ana"), user=make_person("ana"))
