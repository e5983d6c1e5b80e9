import pytest

from fleet.execution.models import Host
from fleet.execution.remote_errors import HostKeyChanged
from fleet.execution.results import host_key_seen
from fleet.models import Hold, KeyChange, TrailEntry
from fleet.rules.hostkeys import fingerprint
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed
from fleet.selectors.nodes import placeable
from fleet.services.hosts import host_key_accept, host_key_keep, host_key_sign, host_key_withdraw
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


def sign(change, who="bo"):
    host_key_sign(change=change, actor=make_actor(who), user=make_person(who))


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
    sign(change)
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
        sign(change, "dana")


def test_an_operator_cannot_sign():
    change = ask(changed_node())
    with pytest.raises(NotAllowed):
        sign(change, "ana")


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
        sign(change)


def test_one_request_waits_at_a_time_and_can_be_withdrawn():
    node = changed_node()
    change = ask(node)
    with pytest.raises(Conflict, match="already waits"):
        ask(node)
    host_key_withdraw(change=change, reason="wrong node", actor=make_actor("dana"))
    assert ask(node).pk != change.pk


def keep(node, who="dana", **fields):
    wanted = {"fingerprint": fingerprint(OLD), "reason": "its old board is back", **fields}
    host_key_keep(node=node, actor=make_actor(who), user=make_person(who), **wanted)


def test_a_node_that_shows_its_pinned_key_again_needs_one_admin():
    node = changed_node()
    keep(node)
    host = Host.objects.get()
    assert (host.host_key, host.key_state, host.offered_key) == (OLD, Host.Key.PINNED, "")
    assert not Hold.objects.filter(lifted_at=None).exists()
    told = TrailEntry.objects.get(verb="host_key.keep")
    assert (told.actor, told.reason) == ("dana", "its old board is back")
    assert fingerprint(NEW) in told.before["offered"]
    assert fingerprint(OLD) in told.after["fingerprint"]
    with pytest.raises(Conflict, match="any more"):
        keep(node)


@pytest.mark.parametrize("decide", [keep, lambda node: sign(ask(node))], ids=["kept", "signed"])
def test_an_unblocked_node_takes_work_only_after_the_watch_got_in(decide):
    decide(changed_node())
    assert Host.objects.get().reach == Host.Reach.UNKNOWN
    assert not placeable().exists()


def test_keeping_the_pinned_key_closes_the_request_for_the_other_unsigned():
    node = changed_node()
    change = ask(node)
    keep(node)
    change.refresh_from_db()
    assert change.closed_at is not None
    assert change.signed_by is None
    with pytest.raises(Conflict, match="already decided"):
        sign(change)
    assert Host.objects.get().host_key == OLD


def test_another_key_blocks_a_node_again_whose_pinned_key_was_kept():
    node = changed_node()
    keep(node)
    host_key_seen(Host.objects.get(), HostKeyChanged("another key", NEW, node=node.name))
    reach_settle()
    assert Host.objects.get().key_state == Host.Key.CHANGED
    assert Hold.objects.filter(lifted_at=None).count() == 1


@pytest.mark.parametrize(
    ("who", "fields", "refusal"),
    [
        ("bo", {}, NotAllowed),
        ("dana", {"reason": " "}, NeedsReason),
        ("dana", {"fingerprint": fingerprint(NEW)}, Conflict),
    ],
)
def test_keeping_the_pinned_key_takes_an_admin_its_fingerprint_and_a_reason(who, fields, refusal):
    node = changed_node()
    with pytest.raises(refusal):
        keep(node, who, **fields)
    assert Host.objects.get().key_state == Host.Key.CHANGED
    assert Hold.objects.filter(lifted_at=None).count() == 1


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
    assert [said(why).split(":")[0] for _, why in done.refused] == ["name", "address"]


def test_only_an_admin_imports():
    with pytest.raises(NotAllowed):
        inventory_import([ROW], origin="real", actor=make_actor("ana"), user=make_person("ana"))
