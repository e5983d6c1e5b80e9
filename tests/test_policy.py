"""Every address, socket and action has an entry, and each role may do exactly what the table says."""

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from console.urls import websocket_urlpatterns
from fleet.models import Brake, Evidence, GoldenProfile, Hold, KeyChange, Node, Pool, TrailEntry
from fleet.rules import policy
from fleet.rules.hostkeys import fingerprint
from releases.models import GateRun, Launch, Release, Rollout
from runbooks.models import Incident, Run, RunStep
from runbooks.services.library import book_for
from tests.factories import host_key, make_hold, make_node, make_person, make_pool, make_replica
from tests.golden_profiles import make_golden

ROLES = ("viewer", "operator", "approver", "admin")
# Written out here a second time on purpose: a change of the table must be meant twice.
MAY_WRITE = {
    "import-list": {"admin"},
    "import-act": {"admin"},
    "node-add": {"admin"},
    "fleet-settings": {"admin"},
    "probe-start": {"operator", "approver"},
    "acceptance-start": {"operator", "approver"},
    "acceptance-cancel": {"operator", "approver"},
    "probe-cancel": {"operator", "approver"},
    "hold-add": {"operator", "approver"},
    "hold-lift": {"operator", "approver"},
    "host-key": {"admin"},
    "host-key-sign": {"approver", "admin"},
    "brake-clear": {"operator", "approver"},
    "artefact-add": {"operator", "approver"},
    "artefact-read": {"operator", "approver"},
    "distribution-start": {"operator", "approver"},
    "distribution-act": {"operator", "approver"},
    "holding-act": {"operator", "approver"},
    "image-act": {"operator", "approver"},
    "image-pull": {"operator", "approver"},
    "golden-take": {"operator", "approver"},
    "golden-edit": {"operator", "approver"},
    "golden-current": {"approver"},
    "network-start": {"operator", "approver"},
    "network-cancel": {"operator", "approver"},
    "network-golden": {"approver"},
    "golden-pair-bar": {"approver"},
    "network-matrix-write": {"operator", "approver"},
    "network-matrix-sign": {"approver"},
    "launch-plan": {"operator", "approver"},
    "launch-create": {"operator", "approver"},
    "launch-stop": {"operator", "approver"},
    "endpoint-set": {"operator", "approver"},
    "endpoint-drain": {"operator", "approver"},
    "gateway-restart": {"operator", "approver"},
    "gate-start": {"operator", "approver"},
    "gate-cancel": {"operator", "approver"},
    "rollout-new": {"operator", "approver"},
    "rollout-act": {"operator", "approver"},
    "rollout-halt": {"operator", "approver"},
    "rollout-sign": {"approver"},
    "wave-ask": {"operator", "approver"},
    "release-new": {"operator", "approver"},
    "release-draft": {"operator", "approver"},
    "release-edit": {"operator", "approver"},
    "release-seal": {"operator", "approver"},
    "release-ask": {"operator", "approver"},
    "release-sign": {"approver"},
    "release-withdraw": {"operator", "approver"},
    "incident-act": {"operator", "approver"},
    "run-propose": {"operator", "approver"},
    "run-start": {"operator", "approver"},
    "run-halt": {"operator", "approver"},
    "step-act": {"operator", "approver"},
    "reader": {"viewer", "operator", "approver", "admin"},
}
SHELL_WRITES = {"login", "logout", "language", "theme"}
ARGUMENTS = {
    "node": "h100-own",
    "pk": 1,
    "section": "topo",
    "uuid": "GPU-1",
    "step": "stop",
    "generation": 1,
    "n": 1,
}


def url_patterns() -> Iterator[URLPattern]:
    todo: list[Any] = list(get_resolver().url_patterns)
    while todo:
        found = todo.pop()
        if isinstance(found, URLResolver):
            todo.extend(found.url_patterns)
        else:
            yield found


def names() -> list[str]:
    return sorted(pattern.name or str(pattern.pattern) for pattern in url_patterns())


def address(name: str, pool: str) -> str:
    pattern = next(found for found in url_patterns() if found.name == name)
    wanted = {key: ARGUMENTS.get(key) for key in pattern.pattern.converters}
    if "name" in wanted:
        wanted["name"] = name_of(policy.entry_of(name).scope, pool)
    return reverse(name, kwargs=wanted)


def name_of(scope: str, pool: str) -> str:
    """The name of the object of a scope that stands in this pool."""
    if scope == "node":
        return f"h100-{pool}"
    if scope == "golden":
        return GoldenProfile.objects.get().public_id
    if scope == "release":
        return Release.objects.get(pool__slug=pool).public_id
    if scope == "gate":
        return GateRun.objects.get(launch__replica__pool__slug=pool).public_id
    if scope == "rollout":
        return Rollout.objects.get(pool__slug=pool).public_id
    if scope == "incident":
        return Incident.objects.get(pool__slug=pool).public_id
    if scope == "run":
        return Run.objects.get(replica__pool__slug=pool).public_id
    return f"{pool}-r1"


@pytest.fixture
def fleet(db) -> None:
    """A node, a unit, its launch, a gate run, a rollout, an incident and its run in each of two pools;
    one golden profile."""
    case = book_for("hang")
    make_golden({}, is_current=False)
    for slug in ("own", "other"):
        node = make_node(f"h100-{slug}", host={"address": "127.0.64.9"})
        unit = make_replica(f"{slug}-r1", pool=make_pool(slug), nodes=[node])
        release = Release.objects.create(
            pool=unit.pool, title=slug, content={"golden": []}, content_sha256=slug
        )
        launch = Launch.objects.create(
            replica=unit, release=release, generation=2, plan={"positions": []}
        )
        GateRun.objects.create(launch=launch, purpose=slug, checks=["golden"])
        Rollout.objects.create(
            pool=unit.pool, new_release=release, strategy={}, author=make_person("cora", role="")
        )
        incident = Incident.objects.create(
            signature="hang", pool=unit.pool, replica=unit, title=slug, began_at=timezone.now()
        )
        run = Run.objects.create(
            incident=incident, replica=unit, book_id="case-c", book_version=1, book_text=case.text
        )
        RunStep.objects.bulk_create(
            RunStep(run=run, position=position, step_id=step.id)
            for position, step in enumerate(case.book.steps)
        )


@pytest.fixture
def fleet_client(client) -> Any:
    client.raise_request_exception = False
    return client


def test_every_address_has_a_name_and_an_entry():
    assert [name for name in names() if name not in policy.PERMISSIONS] == []


def test_every_socket_has_an_entry():
    assert {pattern.name for pattern in websocket_urlpatterns} <= set(policy.PERMISSIONS)


def test_every_write_is_listed_here():
    writes = {name for name in names() if policy.entry_of(name).write}
    assert writes - SHELL_WRITES <= set(MAY_WRITE)


@pytest.mark.parametrize("name", sorted(set(policy.PERMISSIONS) - SHELL_WRITES))
def test_the_table_gives_each_write_to_the_roles_that_are_meant(name):
    if name in MAY_WRITE:
        assert policy.entry_of(name).write == MAY_WRITE[name]
    elif "." not in name:
        assert policy.entry_of(name).write == policy.NOBODY


@pytest.mark.parametrize("name", sorted(policy.PERMISSIONS))
def test_nobody_and_people_without_a_role_may_only_use_the_shell(name):
    entry = policy.entry_of(name)
    for is_write in (False, True):
        allowed = policy.allows([], name, is_write=is_write)
        wanted = entry.write if is_write else entry.read
        assert allowed == bool(wanted & (policy.ANYONE | policy.SIGNED_IN))


def test_what_has_no_entry_is_denied_to_every_role():
    grants = [(role, None) for role in ROLES]
    assert not policy.allows(grants, "no-such-page", is_write=False)
    assert not policy.allows(grants, "no-such-page", is_write=True)


# Every page by every role in every place is minutes: the long set has all of them.
SEATS_ALWAYS = {
    ("viewer", "fleet"),
    ("operator", "own"),
    ("operator", "other"),
    ("approver", "own"),
    ("approver", "other"),
    ("admin", "fleet"),
}
SEATS = [
    pytest.param(
        role,
        where,
        marks=() if (role, where) in SEATS_ALWAYS else pytest.mark.long,
        id=f"{role}-{where}",
    )
    for role in ROLES
    for where in ("own", "other", "fleet")
]


@pytest.mark.parametrize(("role", "where"), SEATS)
def test_each_role_reaches_exactly_what_the_table_allows(fleet, fleet_client, role, where):
    """`where`: the role holds for the object's pool, for another pool, or for the whole fleet."""
    pool = None if where == "fleet" else Pool.objects.get(slug="own")
    user = make_person("eve", role=role, pool=pool)
    wrong = []
    for name, method in itertools.product(names(), ("get", "post")):
        with transaction.atomic():  # each starts from the same fleet, signed in
            fleet_client.force_login(user)
            target = address(name, "other" if where == "other" else "own")
            key = {"idempotency_key": str(uuid.uuid4())}
            status = getattr(fleet_client, method)(target, key).status_code
            transaction.set_rollback(True)
        if not expected(name, method, role, where)(status):
            wrong.append((name, method, status))
    assert wrong == []


def expected(name: str, method: str, role: str, where: str):
    entry = policy.entry_of(name)
    wanted = entry.write if method == "post" else entry.read
    if not wanted:
        return lambda status: status == 405
    if wanted & (policy.ANYONE | policy.SIGNED_IN):
        return lambda status: status not in {403, 405}
    needs_fleet = method == "post" and entry.scope in {"", "golden"}  # gold judges the whole fleet
    out_of_scope = (
        entry.scope in {"node", "replica", "gate", "release", "rollout", "incident", "run"}
        and where == "other"
    )
    if role not in wanted or out_of_scope or (needs_fleet and where != "fleet"):
        return lambda status: status == 403
    return lambda status: status not in {403, 405}


def test_nobody_is_sent_to_the_sign_in(fleet, client):
    for name in set(names()) - {"healthz", "login", "language", "theme"}:
        entry = policy.entry_of(name)
        if entry.read:
            answer = client.get(address(name, "own"))
            assert (answer.status_code, answer.url.split("?")[0]) == (302, "/login/")
        if entry.write:
            assert client.post(address(name, "own")).status_code == 403, name


def test_a_refused_write_is_in_the_trail(fleet, client):
    client.force_login(make_person("chen"))
    client.post("/nodes/h100-own/holds/", {"idempotency_key": str(uuid.uuid4())})
    entry = TrailEntry.objects.get()
    assert (entry.actor, entry.verb, entry.object_id, entry.outcome) == (
        "chen",
        "hold-add",
        "h100-own",
        "refused",
    )
    assert entry.request_id
    assert "operator" in entry.reason


def test_a_refused_read_is_not_in_the_trail(fleet, client):
    client.force_login(make_person("eve", role=""))
    assert client.get("/audit/").status_code == 403
    assert not TrailEntry.objects.exists()


@pytest.mark.parametrize("field", ["reason", "nodes", "next", "release", "confirm", "of-no-form"])
def test_no_write_takes_a_field_without_end(fleet, client, field):
    user = make_person("bo")
    make_person("bo", role="admin")
    client.force_login(user)
    for name in set(names()) - {"login"}:
        if policy.entry_of(name).write:
            posted = {"idempotency_key": str(uuid.uuid4()), field: "x" * 4001}
            answer = client.post(address(name, "own"), posted)
            assert answer.status_code == 422, name
            assert f"{field}: expected at most" in answer.content.decode()
    assert not TrailEntry.objects.exists()


def test_a_superuser_without_a_role_may_nothing(fleet, client):
    user = make_person("root", role="")
    user.is_superuser = user.is_staff = True
    user.save()
    client.force_login(user)
    assert client.get("/fleet/").status_code == 403


def test_reading_every_page_as_admin_changes_no_row(fleet, client):
    from django.apps import apps

    def counts() -> dict[str, int]:
        return {
            model._meta.label: model.objects.count()
            for model in apps.get_models()
            if model._meta.app_label in {"fleet", "execution", "releases", "runbooks"}
        }

    make_hold(make_node("h100-009"))
    Evidence.objects.create(
        object_kind="node", object_id="n", title="t", origin="o", body=b"x", size_bytes=1, sha256=""
    )
    client.force_login(make_person("dana"))
    client.raise_request_exception = False
    before = counts()
    for name in names():
        if policy.entry_of(name).read:
            client.get(address(name, "own"))
    assert counts() == before


@pytest.mark.django_db
class TestEveryWriteIsToldOnce:
    """A write by a person leaves exactly one row of that person, with its request, its reason and its object."""

    KEYS = (host_key(1), host_key(2))

    def send(
        self, client, who: str, name: str, kwargs: dict[str, Any], **fields: str
    ) -> TrailEntry:
        client.force_login(make_person(who))
        node = Node.objects.get()
        posted = {
            "idempotency_key": str(uuid.uuid4()),
            "base_version": str(node.version),
            "reason": "why not",
            **fields,
        }
        answer = client.post(reverse(name, kwargs=kwargs), posted)
        assert answer.status_code == 302, answer.content.decode()[:2000]
        told = TrailEntry.objects.get(request_id=answer["X-Request-ID"], actor=who)
        assert (told.source, told.address, told.outcome) == ("web", "127.0.0.1", "done")
        return told

    @pytest.fixture(autouse=True)
    def node(self, db) -> None:
        old, new = self.KEYS
        make_node("h100-001", host={"host_key": old, "offered_key": new, "key_state": "changed"})

    def test_probe(self, client):
        told = self.send(client, "ana", "probe-start", {}, nodes="h100-001")
        assert (told.verb, told.object_id) == ("probe.start", "h100-001")

    def test_hold_and_lift(self, client):
        where = {"name": "h100-001"}
        assert self.send(client, "ana", "hold-add", where, kind="cordon").reason == "why not"
        hold = where | {"pk": Hold.objects.get().pk}
        assert self.send(client, "ana", "hold-lift", hold).before["owner"] == "user:ana"

    def test_override(self, client):
        make_hold(Node.objects.get(), "user:ana")
        hold = {"name": "h100-001", "pk": Hold.objects.get().pk}
        assert self.send(client, "bo", "hold-lift", hold, override="1").verb == "hold.override"

    def test_host_key(self, client):
        old, new = map(fingerprint, self.KEYS)
        where = {"name": "h100-001"}
        prints = {"fingerprint": new, "old_fingerprint": old}
        asked = self.send(client, "dana", "host-key", where, **prints)
        assert old in asked.before["fingerprint"]
        change = where | {"pk": KeyChange.objects.get().pk}
        assert new in self.send(client, "bo", "host-key-sign", change).after["fingerprint"]

    def test_withdrawn_host_key(self, client):
        old, new = map(fingerprint, self.KEYS)
        where = {"name": "h100-001"}
        self.send(client, "dana", "host-key", where, fingerprint=new, old_fingerprint=old)
        change = where | {"pk": KeyChange.objects.get().pk}
        told = self.send(client, "dana", "host-key-sign", change, decision="withdraw")
        assert told.verb == "host_key.withdraw"

    def test_kept_host_key(self, client):
        kept = {"fingerprint": fingerprint(self.KEYS[0]), "decision": "keep"}
        told = self.send(client, "dana", "host-key", {"name": "h100-001"}, **kept)
        assert told.verb == "host_key.keep"

    def test_brake(self, client):
        where = {"pk": Brake.objects.create(cause="too many").pk}
        assert self.send(client, "ana", "brake-clear", where).before == {"cause": "too many"}
