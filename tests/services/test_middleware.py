import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from fleet.models import Answered, Hold, Node, ProbeRun, TrailEntry
from fleet.services import limits
from tests.factories import make_hold, make_node, make_person


@pytest.fixture
def node(db) -> Node:
    return make_node()


@pytest.fixture
def ana(client, db) -> Client:
    client.force_login(make_person("ana"))
    return client


def form(node: Node | None = None, **fields: str) -> dict[str, str]:
    posted = {"idempotency_key": str(uuid.uuid4()), "reason": "fans", "kind": "cordon", **fields}
    return posted | ({"base_version": str(node.version)} if node else {})


def hold(client: Client, posted: dict[str, str], **headers: str):
    return client.post("/nodes/h100-001/holds/", posted, headers=headers)


@pytest.mark.django_db
class TestIdempotency:
    def test_the_same_form_sent_twice_has_one_effect_and_one_answer(self, ana, node):
        posted = form(node)
        first, second = hold(ana, posted), hold(ana, posted)
        assert (first.status_code, first["Location"]) == (302, "/nodes/h100-001/")
        assert (second.status_code, second["Location"]) == (302, "/nodes/h100-001/")
        assert second["Idempotency-Replayed"] == "true"
        assert Hold.objects.count() == 1

    @pytest.mark.parametrize("key", ["", "not-a-uuid", "1"])
    def test_a_write_without_a_key_is_refused(self, ana, node, key):
        assert hold(ana, form(node, idempotency_key=key)).status_code == 400
        assert not Hold.objects.exists()

    def test_a_script_sends_key_and_version_as_headers(self, ana, node):
        key = str(uuid.uuid4())
        headers = {"Idempotency-Key": key, "If-Match": f'"{node.version}"'}
        posted = {"kind": "cordon", "reason": "fans"}
        assert hold(ana, posted, **headers).status_code == 302
        assert TrailEntry.objects.get().source == "api"

    def test_a_key_of_another_person_is_another_key(self, ana, node):
        posted = form(node)
        hold(ana, posted)
        other = Client()
        other.force_login(make_person("bo"))
        assert hold(other, posted).status_code == 409  # an older version, not ana's answer
        assert Hold.objects.count() == 1

    def test_a_key_used_for_another_address_is_refused(self, ana, node):
        posted = form(node)
        hold(ana, posted)
        answer = ana.post("/brake/1/clear/", posted)
        assert answer.status_code == 409
        assert "another address" in answer.content.decode()

    def test_a_refusal_changes_nothing_keeps_the_words_and_is_answered_again(self, ana, node):
        posted = form(node, kind="banish", reason="because of the <b>fans</b>")
        first, second = hold(ana, posted), hold(ana, posted)
        assert first.status_code == second.status_code == 422
        assert "because of the &lt;b&gt;fans&lt;/b&gt;" in first.content.decode()
        assert not TrailEntry.objects.exists()

    def test_a_server_error_keeps_no_answer(self, ana, node, monkeypatch):
        def fail(**_):
            raise ZeroDivisionError

        monkeypatch.setattr("fleet.services.holds.hold_add", fail)
        ana.raise_request_exception = False
        assert hold(ana, form(node)).status_code == 500
        assert not Answered.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_ten_clicks_at_once_start_one_probe_and_get_one_answer():
    make_node()
    user = make_person("ana")
    clients = [Client() for _ in range(10)]
    for client in clients:
        client.force_login(user)
    posted, gate = {"idempotency_key": str(uuid.uuid4()), "nodes": "all"}, threading.Barrier(10)

    def click(client: Client) -> tuple[int, str]:
        gate.wait()
        try:
            answer = client.post("/probes/", posted)
            return answer.status_code, answer["Location"]
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=10) as pool:
        assert set(pool.map(click, clients)) == {(302, "/fleet/")}
    assert ProbeRun.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_people_on_one_version_one_wins_and_the_other_sees_both():
    node = make_node()
    gate = threading.Barrier(2)

    def save(name: str):
        client = Client()
        client.force_login(make_person(name))
        gate.wait()
        try:
            return hold(client, form(node, reason=f"{name} looks at the fans"))
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=2) as pool:
        answers = sorted(pool.map(save, ("ana", "bo")), key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [302, 409]
    page = answers[1].content.decode()
    assert "ana looks at the fans" in page
    assert "bo looks at the fans" in page
    assert Hold.objects.count() == 1


@pytest.mark.django_db
class TestVersion:
    def test_a_stale_form_comes_back_with_both_values_and_a_new_version(self, ana, node):
        make_hold(node)
        Node.objects.update(version=7)
        answer = hold(ana, form(node, reason="my words"))
        page = answer.content.decode()
        assert answer.status_code == 409
        assert "my words" in page
        assert 'name="base_version" value="7"' in page
        assert hold(ana, form(reason="my words", base_version="7")).status_code == 302

    @pytest.mark.parametrize("base", ["", "x", "-1", "1" * 12])
    def test_a_form_without_a_version_is_refused(self, ana, node, base):
        assert hold(ana, form(node) | {"base_version": base}).status_code == 400

    def test_an_unknown_object_is_not_found(self, ana, node):
        answer = ana.post("/nodes/h100-404/holds/", form(base_version="1"))
        assert answer.status_code == 404


@pytest.mark.django_db
class TestLimits:
    def test_the_thirty_first_start_within_a_minute_is_refused_and_the_rest_lives(self, ana, node):
        user = make_person("ana")
        Answered.objects.bulk_create(
            Answered(user=user, key=uuid.uuid4(), path="/probes/")
            for _ in range(limits.STARTS_A_MINUTE)
        )
        answer = ana.post("/probes/", {"idempotency_key": str(uuid.uuid4()), "nodes": "all"})
        assert (answer.status_code, answer["Retry-After"]) == (429, "20")
        assert not ProbeRun.objects.exists()
        assert hold(ana, form(node)).status_code == 302

    def test_the_thirtieth_start_sent_twice_gets_its_one_answer(self, ana, node):
        user = make_person("ana")
        Answered.objects.bulk_create(
            Answered(user=user, key=uuid.uuid4(), path="/probes/")
            for _ in range(limits.STARTS_A_MINUTE - 1)
        )
        posted = {"idempotency_key": str(uuid.uuid4()), "nodes": "all"}
        first, second = ana.post("/probes/", posted), ana.post("/probes/", posted)
        assert (first.status_code, second.status_code) == (302, 302)
        assert second["Idempotency-Replayed"] == "true"
        assert ProbeRun.objects.count() == 1

    def test_a_meter_forgets_after_its_window(self):
        meter = limits.Meter(2, window_s=60)
        assert [meter.allows("ana", now) for now in (0, 1, 2, 60.5)] == [True, True, False, True]
        assert meter.allows("bo", 2)


@pytest.mark.django_db
class TestSession:
    def age(self, client: Client, **changed: float) -> None:
        session = client.session
        for name, seconds in changed.items():
            session[name] = timezone.now().timestamp() - seconds
        session.save()

    @pytest.mark.parametrize(
        ("clock", "seconds", "status"),
        [("seen_at", 1700, 200), ("seen_at", 1900, 302), ("started_at", 28000, 200),
         ("started_at", 29000, 302)],
    )  # fmt: skip
    def test_an_idle_or_old_session_ends(self, ana, node, clock, seconds, status):
        ana.get("/fleet/")
        self.age(ana, **{clock: seconds})
        assert ana.get("/fleet/").status_code == status

    def test_parts_that_refetch_themselves_keep_no_session_alive(self, ana, node):
        ana.get("/fleet/")
        self.age(ana, seen_at=1700)
        before = ana.session["seen_at"]
        ana.get("/fleet/", headers={"HX-Request": "true"})
        assert ana.session["seen_at"] == before
        ana.get("/fleet/")
        assert ana.session["seen_at"] > before

    def test_a_part_that_refetches_after_the_end_is_sent_to_the_sign_in(self, client, node):
        answer = client.get("/fleet/", headers={"HX-Request": "true"})
        assert (answer.status_code, answer["HX-Redirect"]) == (401, "/login/")


@pytest.mark.django_db
class TestRequest:
    def test_every_answer_carries_an_id_and_a_sent_one_is_not_believed(self, client):
        answer = client.get("/healthz", headers={"X-Request-ID": "forged"})
        assert answer["X-Request-ID"] not in {"", "forged"}

    @pytest.mark.parametrize(
        ("cookie", "hour"), [("", "20"), ("America/New_York", "07"), ("../etc/passwd", "20"),
                             ("No/Such", "20"), ("\0", "20")]
    )  # fmt: skip
    def test_times_are_in_the_persons_zone(self, cookie, hour):
        from datetime import UTC, datetime

        from console.middleware import _zone

        noon = datetime(2026, 11, 29, 12, tzinfo=UTC)
        assert f"{noon.astimezone(_zone(cookie)):%H}" == hour


@pytest.mark.django_db
class TestLabAccounts:
    def sign_in(self, name: str = "ana", password: str = "flotilla") -> bool:
        from django.contrib.auth import authenticate
        from django.test import RequestFactory

        request = RequestFactory().post("/login/")
        return authenticate(request, username=name, password=password) is not None

    @pytest.mark.parametrize(
        ("lab", "loopback", "may"),
        [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
    )
    def test_they_sign_in_only_on_a_loopback_lab(self, settings, lab, loopback, may):
        from fleet.services.seed import people_seed
        from tests.factories import make_actor

        settings.IS_REHEARSAL, settings.IS_LOOPBACK = lab, loopback
        people_seed(actor=make_actor())
        assert self.sign_in() is may

    def test_an_open_session_ends_when_the_console_leaves_loopback(self, settings, client, node):
        from fleet.services.seed import people_seed
        from tests.factories import make_actor

        settings.IS_REHEARSAL = settings.IS_LOOPBACK = True
        people_seed(actor=make_actor())
        client.force_login(make_person("ana"))
        assert client.get("/fleet/").status_code == 200
        settings.IS_LOOPBACK = False
        assert client.get("/fleet/").status_code == 302
