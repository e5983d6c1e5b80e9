"""The page of an image and its row beside the weights: which releases pin it, where it is, and why not elsewhere."""

import pytest

from fleet.models import Image, ImageHolding
from fleet.rules.message import say
from releases.models import Release
from tests.factories import make_node, make_pool

pytestmark = pytest.mark.django_db
DIGEST = f"sha256:{'d' * 64}"
OTHER = f"sha256:{'e' * 64}"


@pytest.fixture
def image() -> Image:
    nodes = [make_node(f"h100-{n:03d}") for n in range(1, 4)]
    found = Image.objects.create(name="registry.internal/vllm", digest=DIGEST)
    why = say("docker: %(text)s", text="<b>connection refused</b>")
    for node, (state, text) in zip(
        nodes, (("ready", ""), ("pulling", ""), ("failed", why)), strict=True
    ):
        ImageHolding.objects.create(image=found, node=node, state=state, explanation=text)
    pool = make_pool()
    for number, digest in enumerate((DIGEST, OTHER)):
        Release.objects.create(
            pool=pool, title=digest[-1], state="sealed", content_sha256=f"{number}" * 64,
            content={"image": {"name": "registry.internal/vllm", "digest": digest}},
        )  # fmt: skip
    return found


def test_the_list_shows_what_releases_pin_and_where_it_is_beside_the_weights(ana, image):
    text = ana.get("/weights/").content.decode()
    assert image.public_id in text
    assert "1 under way" in text
    assert "1 failed" in text
    assert "not asked for" in text
    assert f"registry.internal/vllm@{OTHER}" in text
    assert all(release.public_id in text for release in Release.objects.all())


def test_an_image_tells_each_node_in_dockers_words_and_hostile_text_stays_text(ana, image):
    text = ana.get(f"/images/{image.public_id}/").content.decode()
    assert "1 of 3 nodes hold it verified" in text
    assert "docker: &lt;b&gt;connection refused" in text
    assert "<b>connection" not in text
    assert text.count('value="stop"') == 1
    assert text.count('value="pull"') == 1


def test_a_viewer_may_look_and_is_told_why_not_more(signed_in, image):
    text = signed_in("chen").get(f"/images/{image.public_id}/").content.decode()
    assert "Needs role operator" in text


def test_the_live_part_comes_alone_and_an_unknown_image_is_not_found(ana, image):
    heads = {"hx-request": "true", "hx-target": "image-live"}
    answer = ana.get(f"/images/{image.public_id}/", headers=heads).content.decode()
    assert 'id="image-live"' in answer
    assert "<html" not in answer
    for address in ("/images/IMG-9999/", "/images/x/"):
        assert ana.get(address).status_code == 404


@pytest.mark.parametrize("page", ["weights/", "images/{}/"])
def test_a_page_asks_as_often_for_many_nodes_as_for_few(
    ana, image, page, django_assert_num_queries
):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    address = "/" + page.format(image.public_id)
    ana.get(address)
    with CaptureQueriesContext(connection) as few:
        ana.get(address)
    for number in range(10, 20):
        ImageHolding.objects.create(image=image, node=make_node(f"h100-{number:03d}"))
    with django_assert_num_queries(len(few)):
        ana.get(address)
