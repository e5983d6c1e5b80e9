"""Pages of gate runs: a place for each result from the start, what differs is marked, and no data is no pass."""

import re
import uuid
from typing import Any

import pytest
from django.utils import timezone

from fleet.rules.message import say
from releases.models import GateRow, GateRun, Launch, Release
from releases.services.gates import gate_start
from releases.services.launches import launch_create
from releases.views.gate_rows import texts_compared
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_nodes, make_person, make_pool, make_replica

pytestmark = pytest.mark.django_db


@pytest.fixture
def launch() -> Launch:
    return make_launch(CONTENT)


def make_launch(content: dict[str, Any]) -> Launch:
    pool = make_pool()
    unit = make_replica("glm52-r1", pool=pool, nodes=make_nodes(2))
    release = Release.objects.create(
        pool=pool, title="glm-5.2", state="sealed", content=content, content_sha256="c" * 64
    )
    launch = launch_create(replica=unit, release=release, actor=make_actor())
    Launch.objects.filter(pk=launch.pk).update(state="ready", ready_at=timezone.now())
    return Launch.objects.select_related("replica").get(pk=launch.pk)


@pytest.fixture
def run(launch) -> GateRun:
    return gate_start(launch=launch, purpose="test/1", actor=make_actor(), user=make_person("ana"))


def post(client, address: str, **fields):
    return client.post(address, {"idempotency_key": str(uuid.uuid4()), **fields})


def add(run: GateRun, check: str, subject: str, verdict: str, **fields) -> None:
    GateRow.objects.create(run=run, check_name=check, subject=subject, verdict=verdict, **fields)


def end(run: GateRun, state: str, why: str) -> None:
    GateRun.objects.filter(pk=run.pk).update(state=state, explanation=why, ended_at=timezone.now())


def page_of(client, run: GateRun) -> str:
    return client.get(f"/gates/{run.public_id}/").content.decode()


def states_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'id="rs-([\w-]+)" data-state="(\w+)"', page))


def test_every_wanted_result_has_its_place_before_it_comes(ana, run):
    page = page_of(ana, run)
    assert states_of(page) == {
        **{f"{check}-{n}": "waiting" for check in ("golden", "stream") for n in range(2)},
        **{f"transport-{n}": "waiting" for n in range(16)},
    }
    assert "0 of 20 passed, 0 failed, 0 unproven" in page


def test_a_row_is_filled_in_its_place_and_the_others_stay(ana, run):
    add(run, "golden", "en-echo", "passed", expected="flotilla", found="flotilla", latency_ms=412)
    page = page_of(ana, run)
    states = states_of(page)
    assert states.pop("golden-1") == "passed"
    assert set(states.values()) == {"waiting"}
    assert "412 ms" in page


def test_what_differs_is_marked_on_both_sides(ana, run):
    add(run, "golden", "en-echo", "failed", expected="the fleet is 42", found="the fleet is 43")
    page = page_of(ana, run)
    assert '<span class="was">42</span>' in page
    assert '<span class="is">43</span>' in page


@pytest.mark.parametrize(
    ("expected", "found", "was", "new"),
    [
        ("a b", "a  b", [], ["␠"]),
        ("先看两端", "先看一端", ["两"], ["一"]),
        ("same", "same", [], []),
        ("", "x", [], ["x"]),
        ("a\n", "a", ["⏎"], []),
    ],
)
def test_texts_are_compared_by_words_and_blanks_become_visible(expected, found, was, new):
    left, right = texts_compared(expected, found)
    assert [part.text for part in left if part.is_other] == was
    assert [part.text for part in right if part.is_other] == new


def test_a_hostile_answer_is_only_text(ana, run):
    add(run, "golden", "en-echo", "failed", expected="x", found="<b>\x1b[31mred\u202e</b>")
    page = page_of(ana, run)
    assert "<b>red" not in page
    assert "&lt;b" in page
    assert "\u202e" not in page


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("inconclusive", say("Rows that prove nothing: %(count)s; the first: %(check)s %(subject)s",
                             count=1, check="golden", subject="en-echo")),
        ("expired", say("%(got)s of %(all)s results came before its deadline", got=3, all=20)),
        ("cancelled", say("%(launch)s is not ready any more: nothing was proven", launch="LN-1")),
        ("errored", say("The console could not judge it: %(error)s", error="KeyError")),
    ],
)  # fmt: skip
def test_no_data_is_never_shown_as_a_pass(ana, run, state, why):
    add(run, "golden", "zh-arithmetic", "passed", expected="42", found="42")
    end(run, state, why)
    answer = ana.get(f"/gates/{run.public_id}/")
    assert answer.context["mark"].tone != "ok"
    assert all(check.mark.tone != "ok" for check in answer.context["checks"])
    states = states_of(answer.content.decode())
    assert states["golden-1"] == "none"
    assert list(states.values()).count("passed") == 1


def test_a_run_that_proved_nothing_says_so_in_its_row(ana, run):
    why = say("HTTP %(status)s", status=503)
    add(run, "golden", "en-echo", "inconclusive", expected="x", explanation=why)
    page = page_of(ana, run)
    assert "HTTP 503" in page
    assert states_of(page)["golden-1"] == "inconclusive"


def test_health_is_named_only_as_no_proof(ana, run):
    page = page_of(ana, run)
    assert "Health is no proof" in page
    assert page.count("/health") == 1


def test_an_operator_starts_a_run_on_the_page_of_a_ready_launch(ana, launch):
    for address in ("/replicas/glm52-r1/gen/1/launch/", "/replicas/glm52-r1/"):
        assert "/replicas/glm52-r1/gen/1/gates/" in ana.get(address).content.decode()
    base = launch.replica.version
    answer = post(ana, "/replicas/glm52-r1/gen/1/gates/", base_version=base)
    run = GateRun.objects.get()
    assert answer["Location"] == f"/gates/{run.public_id}/"
    assert (run.state, run.requested_by.username) == ("queued", "ana")
    again = post(ana, "/replicas/glm52-r1/gen/1/gates/", base_version=base)
    assert again.status_code == 409
    assert f"{run.public_id} of this launch is still open" in again.content.decode()


def test_a_launch_that_is_not_ready_offers_no_run_and_says_why(ana, launch):
    Launch.objects.update(state="warming")
    answer = ana.get("/replicas/glm52-r1/gen/1/launch/")
    assert answer.context["gate_refusals"] == [
        f"{launch} is warming: only a ready launch is judged."
    ]
    refused = post(ana, "/replicas/glm52-r1/gen/1/gates/", base_version=launch.replica.version)
    assert refused.status_code == 409
    assert not GateRun.objects.exists()


def test_an_old_page_starts_nothing(ana, launch):
    answer = post(ana, "/replicas/glm52-r1/gen/1/gates/", base_version=launch.replica.version + 1)
    assert answer.status_code == 409
    assert not GateRun.objects.exists()


def test_a_viewer_reads_and_may_not_start_or_cancel(signed_in, launch, run):
    chen = signed_in("chen")
    assert "Needs role operator" in page_of(chen, run)
    for address in ("/replicas/glm52-r1/gen/1/gates/", f"/gates/{run.public_id}/cancel/"):
        assert post(chen, address, reason="because", base_version=1).status_code == 403
    assert GateRun.objects.get().state == "queued"


def test_cancelling_needs_a_reason_and_the_page_as_it_is(ana, run):
    address = f"/gates/{run.public_id}/cancel/"
    assert post(ana, address, reason=" ", base_version=run.version).status_code == 422
    stale = post(ana, address, reason="wrong unit", base_version=run.version + 1)
    assert stale.status_code == 409
    assert "gate run asked for" in stale.content.decode(), "it tells what others did"
    assert GateRun.objects.get().state == "queued"
    assert post(ana, address, reason="wrong unit", base_version=run.version).status_code == 302
    assert GateRun.objects.get().state == "cancelled"
    assert "Cancelled: wrong unit" in page_of(ana, run)


@pytest.mark.parametrize(
    ("kind", "shown"), [("all", 1), ("open", 0), ("failed", 1), ("passed", 0), ("no-such", 1)]
)
def test_the_list_filters_and_counts_its_rows(ana, run, kind, shown):
    add(run, "golden", "en-echo", "failed")
    end(run, "failed", say("Rows passed: %(count)s", count=1))
    page = ana.get(f"/gates/?kind={kind}")
    assert [row["run"].failed for row in page.context["runs"]] == [1] * shown
    assert (f"/gates/{run.public_id}/" in page.content.decode()) == bool(shown)


@pytest.fixture
def long_run() -> GateRun:
    """A run of a release that asks 120 prompts, of which the 90th was answered wrongly."""
    golden = [{**CONTENT["golden"][0], "id": f"p{n:03d}"} for n in range(120)]
    launch = make_launch({**CONTENT, "golden": golden})
    run = gate_start(launch=launch, purpose="test/1", actor=make_actor())
    for n in range(120):
        verdict = "failed" if n == 90 else "passed"
        add(run, "golden", f"p{n:03d}", verdict, expected="42", found="42")
    return run


def prompts_of(page: str) -> list[str]:
    return re.findall(r'id="row-golden-(\d+)"', page)


@pytest.mark.parametrize(
    ("query", "shown", "words"),
    [
        ("", range(50), "Rows 1 to 50 of 120"),
        ("?golden=2", range(50, 100), "Rows 51 to 100 of 120"),
        ("?golden=3", range(100, 120), "Rows 101 to 120 of 120"),
        ("?golden=99", range(100, 120), "Rows 101 to 120 of 120"),
        ("?golden=-1", range(50), "Rows 1 to 50 of 120"),
        ("?show=bad", [90], "1 failed"),
    ],
)
def test_many_rows_come_in_pages_and_all_are_counted(ana, long_run, query, shown, words):
    page = ana.get(f"/gates/{long_run.public_id}/{query}").content.decode()
    assert prompts_of(page) == [str(n) for n in shown]
    assert words in page
    assert "119 of 256 passed, 1 failed" in page


def test_a_page_of_one_check_leaves_the_others_and_the_filter_as_they_are(ana, long_run):
    page = ana.get(f"/gates/{long_run.public_id}/?golden=2&stream=3")
    links = [check.after for check in page.context["checks"]]
    assert links == ["?golden=3&stream=3#golden", "", ""]


def test_a_filter_that_lets_no_row_through_says_so(ana, run):
    page = ana.get(f"/gates/{run.public_id}/?show=bad").content.decode()
    assert page.count("No row of this check failed or is unproven.") == 3
    assert states_of(page) == {}


@pytest.mark.parametrize("name", ["GR-9999", "gr-1", "x", "GR-1234567890"])
def test_a_run_that_does_not_exist_is_not_found(ana, name):
    assert ana.get(f"/gates/{name}/").status_code == 404


def test_its_id_is_found_by_jumping(ana, run):
    assert ana.get(f"/jump/?q={run.public_id.lower()}")["Location"] == f"/gates/{run.public_id}/"


def test_a_live_part_is_the_part_alone(ana, run):
    answer = ana.get(f"/gates/{run.public_id}/",
                     headers={"HX-Request": "true", "HX-Target": "gate-live"})  # fmt: skip
    page = answer.content.decode()
    assert page.startswith('<div id="gate-live"')
    assert f'hx-trigger="gate-{run.public_id} from:body"' in page


@pytest.mark.parametrize(("language", "word"), [("en", "Golden answers"), ("zh-hans", "黄金应答")])
def test_pages_speak_the_language_of_the_person(signed_in, run, language, word):
    client = signed_in("ana", language)
    assert word in page_of(client, run)
    assert ("没有" in client.get("/gates/?kind=failed").content.decode()) == (language != "en")
