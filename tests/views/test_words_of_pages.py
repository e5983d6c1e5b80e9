"""Pages name things in words of the reader's language, where a rule or a row has a name of its own."""

import uuid

import pytest

from fleet.models import TrailEntry
from fleet.rules.message import said
from releases.rules.content import PINS
from releases.rules.draft import SIZE_FIELDS
from releases.views.field_words import FIELD_WORDS
from tests.factories import make_node, make_person, make_pool
from tests.rollouts import make_release

pytestmark = pytest.mark.django_db


def html(answer) -> str:
    return answer.content.decode()


def test_every_field_of_a_draft_has_words():
    assert set(FIELD_WORDS) == {where for where, _p, _e in PINS} | {*SIZE_FIELDS, "shape.gpus"}


def test_the_form_of_a_draft_labels_its_fields_in_words(signed_in):
    release = make_release(make_pool(), "next", "draft")
    address = f"/releases/{release.public_id}/edit/"
    label = '<label class="small" for="f-model.revision">'
    assert f"{label}Commit of the weights" in html(signed_in("ana").get(address))
    assert f"{label}权重的提交" in html(signed_in("ana", language="zh-hans").get(address))


def test_what_was_refused_names_the_roles_in_the_readers_language(signed_in):
    make_node("h100-001")
    make_person("eve", role="viewer")
    eve = signed_in("eve")
    refused = eve.post("/nodes/h100-001/holds/", {"idempotency_key": str(uuid.uuid4())})
    assert refused.status_code == 403
    told = TrailEntry.objects.get(outcome="refused").reason
    assert said(told) == "needs one of the roles approver, operator"
    audit = html(signed_in("ana", language="zh-hans").get("/audit/"))
    assert "审批人、操作员" in audit
