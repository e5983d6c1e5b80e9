"""The first page: what waits for whom, what is open, what each pool runs, what happened."""

import pytest

from fleet.rules.message import say
from fleet.services.trail import trail_add
from releases.models import Launch
from runbooks.models import Run
from runbooks.services.incidents import incident_open
from runbooks.services.library import book_for
from runbooks.services.runs import run_propose
from tests.factories import NOON, make_actor, make_node, make_pool
from tests.traffic import make_ready, make_release

pytestmark = pytest.mark.django_db


def page_of(client) -> str:
    answer = client.get("/")
    assert answer.status_code == 200
    return answer.content.decode()


def part(page: str, part_id: str) -> str:
    return page.partition(f'id="{part_id}"')[2].partition("</section>")[0]


@pytest.fixture
def launch() -> Launch:
    return make_ready(1, make_release())


@pytest.fixture
def run(launch) -> Run:
    unit = launch.replica
    incident, _ = incident_open(
        signature="hang", pool=unit.pool, replica=unit, launch=launch,
        title=say("%(unit)s hangs", unit=unit.name), symptoms=[], began_at=NOON,
        actor=make_actor("rule:detector-hang"),
    )  # fmt: skip
    return run_propose(
        incident=incident, shelved=book_for("hang"), params={"unit": unit.name}, actor=make_actor()
    )


def test_an_empty_house_says_so(ana):
    page = page_of(ana)
    for words in ("Nothing waits for you.", "No pools yet.", "None."):
        assert words in page


def test_a_run_waits_for_who_may_act_and_for_nobody_else(signed_in, run):
    mine = part(page_of(signed_in("ana")), "waiting")
    assert f'class="btn primary" href="/runs/{run}/"' in mine
    assert "Case C" in mine
    assert "Nothing waits for you." in part(page_of(signed_in("chen")), "waiting")
    assert "案例 C" in part(page_of(signed_in("ana", "zh-hans")), "waiting")


@pytest.mark.parametrize(("state", "where"), [("waiting_human", "waiting"), ("running", "runs")])
def test_a_run_stands_where_its_state_puts_it(ana, run, state, where):
    Run.objects.update(state=state)
    page = page_of(ana)
    assert [name for name in ("waiting", "runs") if run.public_id in part(page, name)] == [where]


def test_an_incident_is_listed_until_it_is_resolved(ana, run):
    assert "glm52-r1 hangs" in part(page_of(ana), "inbox-incidents")
    run.incident.__class__.objects.update(state="resolved")
    assert "glm52-r1" not in part(page_of(ana), "inbox-incidents")


def test_a_pool_is_one_line_with_what_it_serves(ana, launch):
    make_pool("spare", name="Spare", tone="psp", is_spare=True, spare_floor=3, unit_nodes=1)
    make_node("h100-040")
    launch.replica.__class__.objects.update(state="serving")
    pools = part(page_of(ana), "pools")
    assert "<b>1</b> of 1" in pools
    assert launch.release.public_id in pools
    assert "<b>1</b> of 1 free" in pools
    assert "floor 3" in pools


def test_it_tells_what_happened_lately(ana):
    trail_add(
        actor=make_actor("bo"), verb="hold.add", object_kind="node", object_id="h100-007",
        reason=say("%(unit)s hangs", unit="glm52-r9"),
    )  # fmt: skip
    lately = part(page_of(ana), "lately")
    assert "h100-007" in lately
    assert "held</span>: glm52-r9 hangs" in lately


def test_who_has_no_role_reads_nothing(signed_in):
    assert signed_in("nobody").get("/").status_code == 403
