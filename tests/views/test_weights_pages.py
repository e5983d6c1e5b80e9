"""The pages of weights: what is held where, why something waits or failed, and who may act."""

import pytest

from fleet.models import Distribution, Holding, WeightsArtefact
from fleet.rules import shards
from fleet.rules.message import say
from fleet.services.weights import artefact_complete
from tests.factories import make_node

pytestmark = pytest.mark.django_db
REVISION = "c" * 40
SUMS = "".join(f"{c * 64}  model-{c}.safetensors\n10 model-{c}.safetensors\n" for c in "abcd")


def make_artefact(**fields) -> WeightsArtefact:
    row = WeightsArtefact(model="glm", revision=REVISION, origin="x", **fields)
    artefact_complete(row, shards.read_checksums(SUMS))
    row.save()
    return row


@pytest.fixture
def scene():
    nodes = [make_node(f"h100-{n:03d}") for n in range(1, 5)]
    artefact = make_artefact()
    run = Distribution.objects.create(artefact=artefact, limits={"at_once": 3})
    words = [
        ("ready", {"needs": []}),
        ("copying", {"needs": ["model-a.safetensors"] * 1, "bytes_done": 35, "bytes_per_s": 2e6}),
        ("failed", {"needs": ["model-b.safetensors"]}),
        ("wanted", {}),
    ]
    for node, (state, fields) in zip(nodes, words, strict=True):
        Holding.objects.create(
            node=node, artefact=artefact, distribution=run, state=state, **fields
        )
    Holding.objects.filter(state="copying").update(parent=nodes[0])
    Holding.objects.filter(state="failed").update(
        explanation=say("%(name)s is missing.", name="model-b.safetensors"),
        findings=[{"name": "model-b.safetensors", "kind": "missing", "text": "<b>hostile</b>"}],
    )
    return artefact, run


def test_the_list_says_how_many_nodes_are_ready_and_how_many_failed(ana, scene):
    text = ana.get("/weights/").content.decode()
    assert "glm" in text
    assert "2 under way" in text
    assert "1 failed" in text
    assert scene[1].public_id in text


def test_a_distribution_shows_each_node_its_parent_its_rate_and_why(ana, scene):
    text = ana.get(f"/distributions/{scene[1].public_id}/").content.decode()
    assert "1 of 4 nodes verified" in text
    assert "2.0 MB/s" in text
    assert "0.0 MB/s" not in text
    assert "model-b.safetensors is missing." in text
    assert "3 of 4 files verified" in text
    assert "<b>hostile</b>" not in text
    assert "Heal h100-003" in text
    assert "Heal h100-001" not in text


def test_the_bar_counts_verified_bytes_and_names_the_file_that_is_copied(ana, scene):
    artefact, run = scene
    manifest = [
        dict(one, size=97 if one["name"] == "model-a.safetensors" else 1)
        for one in artefact.manifest
    ]
    WeightsArtefact.objects.update(manifest=manifest, total_bytes=100)
    Holding.objects.filter(state="copying").update(file_now="model-a.safetensors", bytes_done=3)
    text = ana.get(f"/distributions/{run.public_id}/").content.decode()
    assert "3 B of 100 B verified, 3 %" in text, "three small files of four are verified"
    assert "100 B of 100 B verified, 100 %" in text
    assert '<span class="mono" id="tf-h100-002">model-a.safetensors</span>' in text
    Holding.objects.filter(state="copying").update(state="verifying")
    assert "tf-h100-002" not in ana.get(f"/distributions/{run.public_id}/").content.decode()


def test_a_viewer_sees_the_buttons_with_the_reason_why_not(signed_in, scene):
    text = signed_in("chen").get(f"/distributions/{scene[1].public_id}/").content.decode()
    assert "Needs role operator" in text


def test_an_ended_distribution_has_no_stop_and_an_unknown_one_is_not_found(ana, scene):
    Distribution.objects.update(state="done")
    text = ana.get(f"/distributions/{scene[1].public_id}/").content.decode()
    assert "Stop distribution" not in text
    for address in ("/distributions/DIST-9999/", "/weights/WA-9999/", "/weights/x/"):
        assert ana.get(address).status_code == 404


def test_the_live_part_comes_alone(ana, scene):
    answer = ana.get(
        f"/distributions/{scene[1].public_id}/",
        headers={"hx-request": "true", "hx-target": "weights-live"},
    )
    assert answer.content.decode().lstrip().startswith('<div id="weights-live"')


@pytest.mark.parametrize("page", ["distributions", "weights"])
def test_a_page_asks_as_often_for_many_nodes_as_for_few(
    ana, scene, page, django_assert_num_queries
):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    artefact, run = scene
    address = f"/{page}/{run.public_id if page == 'distributions' else artefact.public_id}/"
    with CaptureQueriesContext(connection) as few:
        ana.get(address)
    for number in range(10, 30):
        node = make_node(f"h100-{number:03d}")
        Holding.objects.create(node=node, artefact=artefact, distribution=run)
    with django_assert_num_queries(len(few)):
        ana.get(address)


def test_the_form_that_spreads_is_refused_in_words_while_one_is_open(ana, scene):
    text = ana.get(f"/weights/{scene[0].public_id}/").content.decode()
    assert f"{scene[1].public_id} is still open." in text


def test_a_distribution_says_how_much_is_verified_and_what_waits_without_a_rate(ana, scene):
    text = ana.get(f"/distributions/{scene[1].public_id}/").content.decode()
    progress = text.split('id="dist-progress"')[1].split("</section>")[0]
    # one node whole, one lacks one of four files, one another one, and of the fourth nothing is known
    assert "100 B of 160 B verified" in progress
    assert "<b>62 %</b>" in progress
    assert "1 copy under way, the longest takes about 0 s more at its rate now" in progress
    assert "1 node waits for its turn and has no rate yet." in progress
