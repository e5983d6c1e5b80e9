import pytest

from fleet.models import Brake, Gpu
from tests.factories import make_hold, make_node, make_replica
from tests.views.large_fleet import grow_fleet

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("count", [10, 100, 1000])
@pytest.mark.parametrize("page", ["/fleet/", "/fleet/table/"])
def test_it_takes_six_queries_whatever_the_number_of_nodes(
    ana, count, page, django_assert_max_num_queries
):
    grow_fleet(count)
    with django_assert_max_num_queries(6):
        answer = ana.get(page)
    assert answer.status_code == 200
    assert len(answer.content) <= 200 * 1024


def test_it_draws_eight_cells_a_node_with_a_link_each(ana):
    grow_fleet(10)
    page = ana.get("/fleet/").content.decode()
    assert page.count('class="g" ') == 80
    assert "/nodes/gpu0003/?gpu=7" in page


def test_it_brackets_the_stages_of_a_unit_and_hatches_a_held_node(ana):
    nodes = [make_node("h100-001"), make_node("h100-002")]
    make_replica("glm52-r1", nodes=nodes, state="serving")
    make_hold(nodes[1])
    page = ana.get("/fleet/").content.decode()
    assert page.count(" pair") == 2
    assert 'class="nrow p52 cordon pair"' in page


def test_it_says_unknown_and_never_zero_for_a_node_without_a_reading(ana):
    make_node("h100-001", host={"reach": "unknown"}, state="registered")
    page = ana.get("/fleet/").content.decode()
    assert 'class="g none"' in page
    assert "h100-001 GPU 0 · no reading" in page


def test_it_filters_by_nodeset_rack_and_word(ana):
    grow_fleet(10)
    shown = ana.get("/fleet/table/", {"q": "gpu[0001-0003]"}).content.decode()
    assert "gpu0002" in shown
    assert "gpu0007" not in shown
    shown = ana.get("/fleet/table/", {"q": "rack:R002 state:ready"}).content.decode()
    assert "gpu0004" in shown
    assert "gpu0003" not in shown


def test_it_says_why_a_filter_cannot_be_read(ana):
    grow_fleet(10)
    shown = ana.get("/fleet/table/", {"q": "gpu[9-1]"}).content.decode()
    assert "The filter cannot be read" in shown
    assert "gpu0007" in shown


def test_it_answers_only_the_live_part_at_the_same_address(ana):
    grow_fleet(10)
    part = ana.get("/fleet/", headers={"HX-Request": "true", "HX-Target": "fleet-live"})
    assert part.content.decode().lstrip().startswith('<div id="fleet-live"')
    assert "HX-Target" in part["Vary"]


def test_it_shows_a_viewer_why_probing_is_not_offered(signed_in):
    make_node("h100-001")
    page = signed_in("chen").get("/fleet/").content.decode()
    assert "Needs role operator" in page


def test_it_names_what_needs_attention_worst_first(ana):
    make_node("h100-001", host={"key_state": "changed"})
    make_node("h100-002", host={"reach": "suspect"})
    page = ana.get("/fleet/").content.decode()
    assert page.index("h100-001: host key changed") < page.index("h100-002: answers are missing")


@pytest.fixture
def held(db):
    """Three units of which one is held by the brake and one cannot be seen."""
    Brake.objects.create(cause="too many turned bad")
    nodes = [make_node(f"h100-{number:03d}") for number in range(1, 7)]
    make_replica("glm52-r1", nodes=nodes[:2], state="ready")
    make_replica(
        "glm52-r2", nodes=nodes[2:4], state="ready", doubt="held", explanation="Held: it hangs"
    )
    make_replica("glm52-r3", nodes=nodes[4:], state="ready", doubt="unseen", explanation="away")


def test_a_unit_in_doubt_does_not_count_as_ready(ana, held):
    answer = ana.get("/fleet/")
    card = answer.context["cards"][0]
    assert (card.big, card.total, card.segments) == (1, 3, ["on", "warn", "warn"])
    assert ("in doubt", "2") in card.facts
    page = answer.content.decode()
    assert "glm52-r2: held by the brake" in page
    assert "glm52-r3: unconfirmed" in page
    assert "Held: it hangs" in page
    signs = [row.sign.word if row.sign else "" for group in answer.context["groups"]
             for rack in group.racks for row in rack]  # fmt: skip
    assert [str(word) for word in signs] == [
        "",
        "",
        *["Held by the brake"] * 2,
        *["Unconfirmed"] * 2,
    ]


def test_the_brake_is_said_once(ana, held):
    assert ana.get("/fleet/").content.decode().count("Automatic actions are stopped") == 1


def test_units_that_are_held_are_named_together(ana, held):
    for number in range(4, 9):
        make_replica(f"glm52-r{number}", state="ready", doubt="held", explanation="it hangs")
    page = ana.get("/fleet/").content.decode()
    assert "glm52-r2, glm52-r4, glm52-r5 and 3 more: held by the brake" in page
    assert "/replicas/?kind=doubt" in page


def test_the_list_shows_doubt_where_there_is_one(ana, held):
    page = ana.get("/replicas/").content.decode()
    assert "1 running" in page
    assert "2 in doubt" in page
    assert page.count("Held by the brake") == 1
    doubted = ana.get("/replicas/?kind=doubt").content.decode()
    assert "glm52-r2" in doubted
    assert "/replicas/glm52-r1/" not in doubted


def test_without_a_doubt_nothing_is_said_of_it(ana):
    make_replica("glm52-r1", nodes=[make_node("h100-001")], state="ready")
    assert "doubt" not in ana.get("/replicas/").content.decode()
    assert "doubt" not in ana.get("/fleet/").content.decode()


def test_it_greets_an_empty_fleet_with_one_sentence(ana):
    assert "No nodes yet" in ana.get("/fleet/").content.decode()


def test_the_map_takes_the_filters_of_the_table(ana):
    grow_fleet(10)
    for address in ("/fleet/", "/fleet/table/"):
        shown = ana.get(address, {"q": "gpu[0001-0003]"}).content.decode()
        assert "/nodes/gpu0002/" in shown
        assert "/nodes/gpu0007/" not in shown
        assert "3 of 10 nodes" in shown


def test_the_state_of_the_map_stays_in_its_links(ana):
    grow_fleet(10)
    page = ana.get("/fleet/", {"q": "rack:R001", "color": "hbm", "group": "rack"}).content.decode()
    assert 'href="?q=rack%3AR001&amp;color=clock&amp;group=rack"' in page
    assert 'href="?q=rack%3AR001&amp;color=hbm&amp;group=pool"' in page
    assert 'href="/fleet/table/?q=rack%3AR001"' in page.replace("rack:R001", "rack%3AR001")
    assert '<input type="hidden" name="color" value="hbm"' in page


def test_it_groups_by_rack(ana):
    grow_fleet(10)
    page = ana.get("/fleet/", {"group": "rack"}).content.decode()
    assert page.count('<section class="leaf" id="rack-R') == 3
    assert "Rack R002" in page


def test_it_filters_by_the_health_of_cards_and_by_holds(ana):
    good, bad, dumb = make_node("h100-001"), make_node("h100-002"), make_node("h100-003")
    for node, health in ((good, "ok"), (bad, "failed")):
        Gpu.objects.create(node=node, index=0, health="ok")
        Gpu.objects.create(node=node, index=1, health=health)
    make_hold(dumb)

    def shown(q: str) -> list[str]:
        page = ana.get("/fleet/table/", {"q": q}).content.decode()
        return [node.name for node in (good, bad, dumb) if f'id="r-{node.name}"' in page]

    assert shown("health:failed") == ["h100-002"]
    assert shown("health:ok") == ["h100-001"]
    assert shown("health:unknown") == ["h100-003"]
    assert shown("hold:cordon") == shown("hold:?*") == ["h100-003"]
