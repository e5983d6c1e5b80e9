"""Pages of golden profiles: drift folded over the fleet, one version, its edit form, a comparison of two."""

import re
import uuid

import pytest

from fleet.execution.output import Section, sections_pack
from fleet.models import Fact, GoldenProfile, TrailEntry
from fleet.rules.golden_edit import KeyEdit
from fleet.services.golden import profile_edit, profile_make_current
from tests.factories import make_actor, make_command, make_node, make_nodes, make_person
from tests.golden_profiles import NVLINK, make_facts, make_golden

pytestmark = pytest.mark.django_db
KEYS = {
    "driver_version": ("570", "equal"),
    "gpu_count": (8, "equal"),
    "nvlink_matrix": (NVLINK, "equal"),
    "allreduce_busbw_gbs": (471.0, "ratio", {"ratio": 0.9}),
    "shm_used": (1, "ignore"),
}
GOOD = {
    "driver_version": "570",
    "gpu_count": 8,
    "nvlink_matrix": NVLINK,
    "allreduce_busbw_gbs": 470,
}


def text_of(answer) -> str:
    """The words of a page, one blank between them."""
    plain = re.sub(r"<[^>]+>", " ", answer.content.decode())
    return re.sub(r"\s+", " ", plain).replace("&quot;", '"').replace("&#x27;", "'")


@pytest.fixture
def fleet():
    nodes = make_nodes(5)
    for node in nodes:
        make_facts(node, **GOOD)
    return nodes


def post(client, address, **fields):
    return client.post(address, {"idempotency_key": str(uuid.uuid4()), **fields})


def test_without_profiles_the_list_names_the_nodes_that_nothing_judges(ana):
    make_nodes(3)
    page = text_of(ana.get("/golden/"))
    assert "No profile was taken yet." in page
    assert "h100-[001-003]" in page
    assert "Nothing judges them" in page


def test_the_drift_is_folded_over_the_nodes(ana, fleet):
    make_golden(KEYS)
    for node in fleet[1:3]:
        make_facts(node, driver_version="565")
    make_facts(fleet[4], is_expired=True, gpu_count=8)
    page = text_of(ana.get("/golden/"))
    assert "2 of 5 nodes equal, 2 differ, 1 without a reading" in page
    assert "2 nodes agree h100-[001,004]" in page
    assert "h100-[002-003]" in page
    assert "unknown now, was 8" in page


def test_a_difference_leads_to_its_raw_output(ana, fleet):
    make_golden(KEYS)
    command = make_command(fleet[1].host, state="succeeded")
    sections_pack(command.pk, [Section("gpu-query", body=b"x")]).save()
    make_facts(fleet[1], driver_version="565")
    Fact.objects.filter(node=fleet[1], key="driver_version").update(
        source=command, section="gpu-query"
    )
    for address in ("/golden/", f"/golden/{GoldenProfile.objects.get().public_id}/"):
        page = ana.get(address).content.decode()
        assert f"/nodes/h100-002/probes/{command.pk}/raw/gpu-query/" in page


def test_the_page_of_a_version_shows_its_keys_and_how_they_are_compared(ana, fleet):
    page = text_of(ana.get(f"/golden/{make_golden(KEYS).public_id}/"))
    for words in (
        "Version 1 in force",
        "5 of 5 nodes equal",
        "at least 0.9 of it",
        "2 × 2",
        "ignored",
    ):
        assert words in page


def test_cells_of_a_matrix_are_named_by_their_cards(ana, fleet):
    profile = make_golden(KEYS)
    torn = {"devices": ["GPU0", "GPU1"], "cells": [["X", "SYS"], ["NV18", "X"]]}
    make_facts(fleet[3], nvlink_matrix=torn)
    page = text_of(ana.get(f"/golden/{profile.public_id}/"))
    assert "GPU0 GPU1 NV18 SYS" in page  # where, expected, found
    assert "h100-004 · NVLink, PCIe, NUMA · Other cards, paths or ports" in (
        ana.get(f"/golden/{profile.public_id}/").content.decode()
    )


def test_a_version_that_is_not_in_force_says_who_would_differ(ana, fleet):
    make_golden(KEYS)
    draft = make_golden(KEYS | {"driver_version": ("575", "equal")}, version=2, is_current=False)
    page = text_of(ana.get(f"/golden/{draft.public_id}/"))
    assert "Would differ now" in page
    assert "h100-[001-005]" in page


def test_two_versions_are_compared(ana, fleet):
    old = make_golden(KEYS)
    new = make_golden(KEYS | {"driver_version": ("575", "equal")}, version=2, is_current=False)
    page = text_of(ana.get(f"/golden/{new.public_id}/?with={old.public_id}"))
    assert "Changes against version 1 1 key" in page
    assert "570 equal 575 equal" in page
    assert "Changes against" not in text_of(ana.get(f"/golden/{new.public_id}/?with=GP-9999"))


def test_a_name_of_no_profile_is_not_found(ana):
    for name in ("GP-9", "gold", "GP-x", "GP-"):
        assert ana.get(f"/golden/{name}/").status_code == 404


def test_the_form_makes_the_next_version(ana, fleet):
    profile = make_golden(KEYS)
    address = f"/golden/{profile.public_id}/edit/"
    form = ana.get(address).content.decode()
    assert 'name="value:driver_version" value="570"' in form
    assert 'name="value:nvlink_matrix"' not in form
    fields = dict(re.findall(r'<input class="inp[^"]*" name="([^"]+:[^"]+)" value="([^"]*)"', form))
    fields |= {f"tolerance:{key}": row[1] for key, row in KEYS.items()}
    fields |= {"value:driver_version": "575", "reason": "new driver", "base_version": "1"}
    answer = post(ana, address, **fields)
    newest = GoldenProfile.objects.get(version=2)
    assert answer["Location"] == f"/golden/{newest.public_id}/"
    values = {key.key: (key.value, key.tolerance, key.ratio) for key in newest.keys.all()}
    old = {key.key: (key.value, key.tolerance, key.ratio) for key in profile.keys.all()}
    assert values == old | {"driver_version": ("575", "equal", None)}


def test_a_refused_form_keeps_what_was_typed(ana):
    profile = make_golden(KEYS)
    fields = {"tolerance:gpu_count": "ratio", "ratio:gpu_count": "7", "base_version": "1"}
    answer = post(ana, f"/golden/{profile.public_id}/edit/", reason="so it is", **fields)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert "gpu_count: expected a ratio above 0 and up to 1." in page
    assert 'name="ratio:gpu_count" value="7"' in page
    assert 'value="so it is"' in page
    assert GoldenProfile.objects.count() == 1


def test_an_edit_based_on_an_older_newest_version_is_a_conflict(ana):
    profile = make_golden(KEYS)
    profile_edit(
        profile=profile,
        edits={"gpu_count": KeyEdit("ignore")},
        reason="bo was faster",
        actor=make_actor("bo"),
    )
    answer = post(
        ana,
        f"/golden/{profile.public_id}/edit/",
        reason="mine",
        base_version="1",
        **{"tolerance:gpu_count": "equal"},
    )
    assert answer.status_code == 409
    assert "bo was faster" in answer.content.decode()


def test_taking_a_profile_by_form_leads_to_it(ana):
    node = make_node()
    make_facts(node, gpu_count=8, gpu_name="H100", driver_version="570", vbios=None)
    refused = post(ana, "/golden/take/", node=node.name, reason="good")
    assert refused.status_code == 422
    assert "vbios: no reading" in refused.content.decode()
    answer = post(ana, "/golden/take/", node=node.name, reason="good", left_out="vbios, gids")
    profile = GoldenProfile.objects.get()
    assert answer["Location"] == f"/golden/{profile.public_id}/"
    assert TrailEntry.objects.get(verb="golden.take").after["left_out"] == ["vbios"]


def test_who_made_a_version_sees_why_another_must_put_it_in_force(signed_in, fleet):
    bo = make_person("bo")
    profile = make_golden(KEYS, is_current=False, created_by=bo)
    address = f"/golden/{profile.public_id}/"
    assert "another approver makes it current" in text_of(signed_in("bo").get(address))
    assert "Needs role approver" in text_of(signed_in("ana").get(address))
    make_person("dee", role="approver")
    dee = signed_in("dee")
    assert post(dee, f"{address}current/", reason="read", base_version="1").status_code == 302
    assert "Version 1 in force" in text_of(dee.get(address))


def test_a_viewer_can_press_nothing(signed_in, fleet):
    chen, profile = signed_in("chen"), make_golden(KEYS)
    assert "Needs role operator" in text_of(chen.get("/golden/"))
    assert "edit/" not in chen.get(f"/golden/{profile.public_id}/").content.decode()


def test_the_pages_take_no_more_queries_for_more_nodes(ana, django_assert_max_num_queries):
    nodes = make_nodes(12)
    for node in nodes:
        make_facts(node, **GOOD | {"driver_version": f"56{node.pk}"})
    profile = make_golden(KEYS)
    address = f"/golden/{profile.public_id}/"
    ana.get(address)
    for page in ("/golden/", address):
        with django_assert_max_num_queries(22):
            assert ana.get(page).status_code == 200


def test_a_profile_is_found_by_its_id(ana):
    profile = make_golden(KEYS)
    assert ana.get(f"/jump/?q={profile.public_id}")["Location"] == f"/golden/{profile.public_id}/"


def test_putting_one_in_force_is_told_in_its_history(ana):
    profile = make_golden(KEYS, is_current=False)
    profile_make_current(profile=profile, reason="accepted", actor=make_actor("bo"))
    assert "golden profile made current" in text_of(ana.get(f"/golden/{profile.public_id}/"))


def test_a_node_that_was_never_read_is_one_row(ana, fleet):
    make_golden(KEYS | {"kernel": ("6.8", "equal")})
    make_node("h100-009")
    page = text_of(ana.get("/golden/"))
    assert "h100-009 5 facts without a reading: all_reduce bus bandwidth, GPU driver," in page
