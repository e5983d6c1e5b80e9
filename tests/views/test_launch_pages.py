import uuid

import pytest
from django.utils import timezone

from fleet.models import AcceptanceRun, Evidence, NodeAcceptance, Replica, TrailEntry
from fleet.rules.message import say
from releases.models import Launch, LaunchPhase, LaunchPosition, Release
from releases.services.launches import launch_create
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_hold, make_node, make_pool, make_replica
from tests.views.conftest import WORD

pytestmark = pytest.mark.django_db


@pytest.fixture
def release():
    pool = make_pool()
    return Release.objects.create(
        pool=pool, title="glm-5.2", state="sealed", content=CONTENT, content_sha256="c" * 64
    )


@pytest.fixture
def unit(release):
    return make_replica(
        "glm52-r1", pool=release.pool, nodes=[make_node("h100-001"), make_node("h100-002")]
    )


@pytest.fixture
def launch(unit, release) -> Launch:
    return launch_create(replica=unit, release=release, actor=make_actor())


def post(client, address: str, **fields):
    return client.post(address, {"idempotency_key": str(uuid.uuid4()), **fields})


def test_the_plan_shows_the_exact_command_of_each_node_and_its_hash(ana, unit):
    answer = ana.get("/replicas/glm52-r1/launch/")
    page = answer.content.decode()
    assert "--node-rank 0" in page
    assert "--node-rank 1" in page
    assert answer.context["drawn"].sha256 in page
    assert "Launch glm52-r1, generation 1" in page


def test_the_plan_says_which_nodes_are_not_accepted_and_who_answers_for_one(ana, unit):
    node = unit.members.get(position=1).node
    run = AcceptanceRun.objects.create(scope="all", deadline_at=timezone.now())
    NodeAcceptance.objects.create(
        run=run, node=node, is_standing=True, verdict="marginal", summary="0.87 of gold",
        settled_at=timezone.now(),
    )  # fmt: skip
    make_hold(
        node, "acceptance", lifted_at=timezone.now(), lifted_by="bo", lift_reason="for the night"
    )
    answer = ana.get("/replicas/glm52-r1/launch/")
    assert answer.context["refusals"] == []
    page = answer.content.decode().split('id="launch-remarks"')[1]
    assert "h100-001 is not accepted (never accepted); its pool does not ask for it." in page
    assert f"h100-002 is marginal by {run.public_id} (0.87 of gold); bo let it in" in page


def test_launching_posts_the_hash_that_was_read(ana, unit, release):
    sha = ana.get("/replicas/glm52-r1/launch/").context["drawn"].sha256
    answer = post(
        ana,
        "/replicas/glm52-r1/launch/",
        release=release.public_id,
        plan_sha=sha,
        base_version=unit.version,
    )
    assert answer["Location"] == "/replicas/glm52-r1/gen/1/launch/"
    assert Launch.objects.get().plan_sha256 == sha


@pytest.mark.parametrize("seen", [{"plan_sha": ""}, {}])
def test_a_plan_that_nobody_read_is_not_launched(ana, unit, release, seen):
    posted = {"release": release.public_id, "base_version": unit.version, **seen}
    assert post(ana, "/replicas/glm52-r1/launch/", **posted).status_code == 422
    assert not Launch.objects.exists()


def test_a_plan_that_changed_since_is_refused_and_nothing_is_made(ana, unit, release):
    answer = post(
        ana,
        "/replicas/glm52-r1/launch/",
        release=release.public_id,
        plan_sha="0" * 64,
        base_version=unit.version,
    )
    assert answer.status_code == 409
    assert "The plan changed since it was shown" in answer.content.decode()
    assert not Launch.objects.exists()


def test_the_button_says_why_it_is_not_offered(ana, unit):
    make_hold(unit.members.get(position=1).node, reason="new fans")
    page = ana.get("/replicas/glm52-r1/launch/").content.decode()
    assert "h100-002 is held by ana: new fans" in page
    assert "The reasons are listed above" in page


def test_a_viewer_reads_the_plan_and_may_not_launch_it(signed_in, unit, release):
    chen = signed_in("chen")
    page = chen.get("/replicas/glm52-r1/launch/")
    assert "Needs role operator" in page.content.decode()
    answer = post(
        chen, "/replicas/glm52-r1/launch/", release=release.public_id, plan_sha=page.context["drawn"].sha256,
        base_version=unit.version,
    )  # fmt: skip
    assert answer.status_code == 403
    assert not Launch.objects.exists()


def test_the_grid_has_its_final_size_from_the_start(ana, launch):
    answer = ana.get("/replicas/glm52-r1/gen/1/launch/")
    grid = answer.context["grid"]
    assert [len(group) for group in grid["ranks"]] == [8, 8]
    assert len(grid["rows"]) == 7
    assert {cell.look for row in grid["rows"][1:] for group in row.groups for cell in group} == {""}


def test_the_grid_fills_by_phase_and_percent(ana, launch):
    place = LaunchPosition.objects.get(launch=launch, position=1)
    _start(launch)
    LaunchPhase.objects.create(position=place, name="load", started_at=timezone.now())
    LaunchPosition.objects.filter(pk=place.pk).update(
        phase="load", reader_state={"shards": [71, 142]}
    )
    Launch.objects.filter(pk=launch.pk).update(state="loading")
    rows = {
        row.key: row for row in ana.get("/replicas/glm52-r1/gen/1/launch/").context["grid"]["rows"]
    }
    assert (rows["load"].groups[1][0].look, rows["load"].groups[1][0].percent) == ("run", 50)
    assert rows["rendezvous"].groups[1][0].look == "ok"
    assert rows["capture"].groups[1][0].look == ""


def test_a_launch_that_failed_says_where_why_and_what_was_kept(ana, launch):
    _start(launch)
    LaunchPosition.objects.filter(launch=launch, position=1).update(
        phase="load", reader_state={"fatal": {"kind": "worker_died", "text": "lost"}}
    )
    Launch.objects.filter(pk=launch.pk).update(
        state="failed", cause="rank 11 is gone", ended_at=timezone.now()
    )
    Evidence.objects.create(
        object_kind="launch", object_id=launch.public_id, title="h100-002 log", origin="x", body=b"x",
        size_bytes=1, sha256="0" * 64,
    )  # fmt: skip
    answer = ana.get("/replicas/glm52-r1/gen/1/launch/")
    page = answer.content.decode()
    load = next(row for row in answer.context["grid"]["rows"] if row.key == "load")
    assert load.groups[1][0].look == "crit"
    assert "rank 11 is gone" in page
    assert "h100-002 log" in page
    assert "End all 16 ranks" not in page


def test_ready_is_shown_only_by_its_proofs(ana, launch):
    assert ana.get("/replicas/glm52-r1/gen/1/launch/").context["proof_count"] == {
        "met": 0,
        "all": 6,
    }


@pytest.mark.parametrize(
    "address",
    ["/replicas/glm52-r1/", "/replicas/glm52-r1/gen/1/launch/", "/replicas/glm52-r1/gen/1/log/"],
)
def test_no_page_calls_a_unit_ready_that_the_brake_holds(ana, launch, address):
    Launch.objects.filter(pk=launch.pk).update(state="ready", ready_at=timezone.now())
    Replica.objects.filter(pk=launch.replica_id).update(state="ready")
    assert ana.get(address).context["mark"].state == "ready"
    Replica.objects.filter(pk=launch.replica_id).update(doubt="held")
    answer = ana.get(address)
    assert (answer.context["mark"].state, answer.context["mark"].tone) == ("held", "warn")
    assert 'data-state="ready"' not in answer.content.decode()


def test_ending_needs_the_typed_name_and_a_reason(ana, launch):
    address = "/replicas/glm52-r1/gen/1/stop/"
    assert post(ana, address, confirm="glm52-r2", reason="enough").status_code == 422
    assert post(ana, address, confirm="glm52-r1", reason=" ").status_code == 422
    launch.refresh_from_db()
    assert launch.state == "created"
    assert post(ana, address, confirm="glm52-r1", reason="enough").status_code == 302
    launch.refresh_from_db()
    assert launch.state == "stopped"
    again = ana.get(post(ana, address, confirm="glm52-r1", reason="once more")["Location"])
    told = [str(message) for message in again.context["messages"]]
    assert "Generation 1 of glm52-r1 was over already; nothing was ended." in told
    assert TrailEntry.objects.filter(verb="launch.stopped").count() == 1


def test_ending_after_six_minutes_needs_the_password_too(old_sign_in, launch):
    stale, address = old_sign_in("ana", 360), "/replicas/glm52-r1/gen/1/stop/"
    for where in ("/replicas/glm52-r1/", "/replicas/glm52-r1/gen/1/launch/"):
        assert 'id="password-end"' in stale.get(where).content.decode()
    typed = {"confirm": "glm52-r1", "reason": "it is too warm"}
    refused = post(stale, address, **typed)
    page = refused.content.decode()
    assert refused.status_code == 403
    assert "it is too warm</textarea>" in page, "what was typed comes back"
    assert 'value="glm52-r1"' in page
    assert 'hx-get="/replicas/glm52-r1/gen/1/launch/"' in page, "it goes on hearing"
    launch.refresh_from_db()
    assert launch.state == "created"
    assert post(stale, address, password=WORD, **typed).status_code == 302
    launch.refresh_from_db()
    assert launch.state == "stopped"
    assert 'id="password-end"' not in stale.get("/replicas/glm52-r1/").content.decode()


def test_the_unit_page_offers_one_action_that_fits_its_state(ana, unit, release):
    page = ana.get("/replicas/glm52-r1/").content.decode()
    assert "Launch glm52-r1…" in page
    launch_create(replica=unit, release=release, actor=make_actor())
    page = ana.get("/replicas/glm52-r1/").content.decode()
    assert "Launch glm52-r1…" not in page
    assert "End unit…" in page
    assert "Launch of generation 1" in page


def test_the_unit_list_filters_and_explains(ana, unit):
    make_replica("glm52-r2", pool=unit.pool, state="failed", explanation="rank 3 is gone")
    page = ana.get("/replicas/?kind=failed").content.decode()
    assert "rank 3 is gone" in page
    assert "/replicas/glm52-r1/" not in page
    assert "/replicas/glm52-r1/" in ana.get("/replicas/?q=h100-002").content.decode()


@pytest.mark.parametrize(
    "address", ["/replicas/none/", "/replicas/none/launch/", "/replicas/glm52-r1/gen/9/launch/"]
)
def test_unknown_units_and_generations_are_not_found(ana, unit, address):
    assert ana.get(address).status_code == 404


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_pages_speak_the_language_of_the_person(signed_in, launch, language):
    page = signed_in("ana", language).get("/replicas/glm52-r1/gen/1/launch/").content.decode()
    word = {"en": "Ready is evidence", "zh-hans": "就绪即证据"}
    assert word[language] in page
    assert all(text not in page for other, text in word.items() if other != language)


def _start(launch: Launch) -> None:
    from tests.factories import make_command

    for place in launch.positions.select_related("node__host"):
        start = make_command(
            place.node.host,
            f"launch:{launch.public_id}/start/{place.position}",
            verb="start",
            queue="start",
        )
        LaunchPosition.objects.filter(pk=place.pk).update(start=start)


def test_what_was_kept_is_named_in_the_readers_language(signed_in):
    kept = Evidence.objects.create(
        object_kind="launch", object_id="LN-0001", origin="x", body=b"x", size_bytes=1, sha256="0" * 64,
        title=say("%(node)s log of the last 10 min", node="h100-002"),
    )  # fmt: skip
    assert "h100-002 log of the last" in signed_in().get(f"/evidence/{kept.pk}/").content.decode()
    page = signed_in(language="zh-hans").get(f"/evidence/{kept.pk}/").content.decode()
    assert "h100-002 最近 10 分钟的日志" in page
