"""The jobs of a node and what its disk holds: what lasts, what was done last, how long it took and why it failed."""

from datetime import timedelta

import pytest

from fleet.execution.models import Subject
from fleet.models import Holding, Image, ImageHolding
from fleet.rules.message import say
from tests.factories import NOON, make_command, make_node
from tests.views.test_weights_pages import make_artefact

pytestmark = pytest.mark.django_db


@pytest.fixture
def node():
    return make_node("h100-001")


def section(client, name: str) -> str:
    text = client.get("/nodes/h100-001/").content.decode()
    return text.split(f'id="{name}"')[1].split("</section>")[0]


def test_a_node_without_jobs_says_so(ana, node):
    assert "Nothing was done on this node yet." in section(ana, "jobs")
    assert "No weights and no image are known on its disk." in section(ana, "held")


def test_a_job_tells_its_state_its_span_why_it_failed_and_leads_to_its_page(ana, node):
    done = {"state": "succeeded", "sent_at": NOON, "settled_at": NOON + timedelta(seconds=2.5)}
    make_command(node.host, "network:NET-0007/3/before/a", **done)
    make_command(
        node.host, "acceptance:12/h100-001/look", state="failed", explanation=say("No answer.")
    )
    make_command(make_node("h100-002").host, "probe:9/h100-002")
    text = section(ana, "jobs")
    assert "2.5 s" in text
    assert "/jump/?q=NET-0007" in text
    assert "/jump/?q=AC-12" in text
    assert "No answer." in text
    assert "h100-002" not in text
    assert text.index("acceptance:12") < text.index("network:NET-0007"), "newest first"


def test_what_lasts_on_the_node_stands_apart_until_it_ends(ana, node):
    Subject.objects.create(host=node.host, name="launch-LN-0003-0", state="live", started_at=NOON)
    Subject.objects.create(host=node.host, name="copy-old", state="done")
    Subject.objects.create(host=node.host, name="copy-lost", state="unknown")
    text = section(ana, "jobs")
    assert "Lasts on the node" in text
    assert "launch-LN-0003-0" in text
    assert "Unconfirmed" in text
    assert "copy-old" not in text


def test_weights_and_images_are_told_with_state_and_reason(ana, node):
    artefact = make_artefact()
    why = say("%(name)s is missing.", name="model-b.safetensors")
    Holding.objects.create(node=node, artefact=artefact, state="failed", explanation=why)
    image = Image.objects.create(name="registry.internal/vllm", digest=f"sha256:{'d' * 64}")
    ImageHolding.objects.create(image=image, node=node, state="ready", verified_at=NOON)
    text = section(ana, "held")
    assert f"/weights/{artefact.public_id}/" in text
    assert "model-b.safetensors is missing." in text
    assert f"/images/{image.public_id}/" in text
    assert "verified" in text
