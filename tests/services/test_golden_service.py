"""A profile is taken from a good node, edited into versions, and made current by a second person."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from fleet.models import GoldenProfile, Node, TrailEntry
from fleet.rules.golden_edit import KeyEdit
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.golden import profile_for
from fleet.services.golden import profile_edit, profile_make_current, profile_take
from tests.factories import make_actor, make_node, make_person
from tests.golden_profiles import NVLINK, make_facts

GOOD = {"gpu_count": 8, "gpu_name": "NVIDIA H100 80GB HBM3", "driver_version": "570.172.08"}
WHY = "accepted yesterday"


def take(node=None, **fields):
    node = node or make_node()
    if not node.facts.exists():
        make_facts(node, **GOOD, nvlink_matrix=NVLINK)
    return profile_take(node=node, reason=WHY, actor=make_actor(), **fields)


def edit(profile, **edits):
    changes = {key: KeyEdit(**change) for key, change in edits.items()}
    return profile_edit(profile=profile, edits=changes, reason=WHY, actor=make_actor())


def keys(profile):
    return {key.key: (key.value, key.tolerance, key.ratio) for key in profile.keys.all()}


@pytest.mark.django_db
class TestTake:
    def test_it_holds_the_readings_of_the_node_and_says_who_and_why(self):
        ana = make_person("ana")
        profile = take(user=ana, name="class A")
        assert (profile.name, profile.node_class, profile.version) == (
            "class A",
            "hgx-h100-roce",
            1,
        )
        assert (profile.taken_from.name, profile.created_by, profile.note) == ("h100-001", ana, WHY)
        assert not profile.is_current
        assert keys(profile)["driver_version"] == ("570.172.08", "equal", None)
        assert keys(profile)["nvlink_matrix"] == (NVLINK, "equal", None)
        entry = TrailEntry.objects.get(verb="golden.take")
        assert (entry.object_id, entry.reason, entry.after["node"]) == (
            profile.public_id,
            WHY,
            "h100-001",
        )

    def test_a_second_one_of_the_class_is_the_next_version(self):
        assert take().version == 1
        assert take(make_node("h100-002")).version == 2
        assert take(make_node("h100-003", node_class="hgx-h200")).version == 1

    def test_readings_that_are_unknown_or_expired_are_refused_by_name(self):
        node = make_node()
        make_facts(node, gpu_count=8, gpu_name="H100", vbios=None)
        make_facts(node, is_expired=True, nvlink_matrix=NVLINK)
        with pytest.raises(Refused) as refusal:
            take(node)
        for told in (
            "driver_version: no reading",
            "vbios: no reading",
            "nvlink_matrix: the reading has expired",
            "Probe it again",
        ):
            assert told in str(refusal.value)
        assert not GoldenProfile.objects.exists()

    def test_a_key_can_be_left_out_and_the_trail_says_so(self):
        node = make_node()
        make_facts(node, **GOOD, vbios=None)
        profile = take(node, left_out=["vbios"])
        assert set(keys(profile)) == set(GOOD)
        assert TrailEntry.objects.get().after["left_out"] == ["vbios"]

    @pytest.mark.parametrize("state", [Node.State.QUARANTINED, Node.State.RETIRED])
    def test_a_node_that_was_sent_away_is_no_gold(self, state):
        with pytest.raises(Conflict, match="a node in good state"):
            take(make_node(state=state))

    def test_it_needs_a_reason_and_the_role(self):
        node = make_node()
        make_facts(node, **GOOD)
        with pytest.raises(NeedsReason):
            profile_take(node=node, reason=" ", actor=make_actor())
        with pytest.raises(NotAllowed):
            take(node, user=make_person("chen"))

    def test_a_profile_of_the_lab_stays_in_the_lab(self):
        lab_node, real_node = make_node("h100-001", origin="lab"), make_node("h100-002")
        profile = take(lab_node)
        assert profile.origin == "lab"
        profile_make_current(profile=profile, reason=WHY, actor=make_actor("bo"))
        assert profile_for(lab_node) == profile
        assert profile_for(real_node) is None
        real = take(real_node)
        assert (real.origin, real.version) == ("real", 1)
        profile_make_current(profile=real, reason=WHY, actor=make_actor("bo"))
        assert (profile_for(lab_node), profile_for(real_node)) == (profile, real)


@pytest.mark.django_db
class TestEdit:
    def test_it_makes_the_next_version_and_leaves_the_old_one(self):
        first = take()
        second = edit(first, driver_version={"tolerance": "equal", "value": "575.1"})
        assert second.version == 2
        assert keys(first)["driver_version"] == ("570.172.08", "equal", None)
        assert keys(second) == {**keys(first), "driver_version": ("575.1", "equal", None)}
        assert (second.taken_from, second.origin) == (first.taken_from, first.origin)
        entry = TrailEntry.objects.get(verb="golden.edit")
        assert entry.before["driver_version"]["value"] == "570.172.08"
        assert entry.after["driver_version"]["value"] == "575.1"

    def test_the_current_one_stays_current(self):
        first = take()
        profile_make_current(profile=first, reason=WHY, actor=make_actor("bo"))
        edit(first, gpu_count={"tolerance": "ignore"})
        assert profile_for(Node.objects.get()) == first

    @pytest.mark.parametrize(
        ("edits", "told"),
        [
            ({}, "Nothing would change"),
            ({"gpu_count": {"tolerance": "equal"}}, "Nothing would change"),
            ({"vbios": {"tolerance": "equal"}}, "has no key vbios"),
            ({"gpu_name": {"tolerance": "ratio", "ratio": "0.9"}}, "is no number"),
        ],
    )
    def test_what_cannot_be_changed_is_refused(self, edits, told):
        profile = take()
        with pytest.raises(Refused, match=told):
            edit(profile, **edits)
        assert GoldenProfile.objects.count() == 1

    def test_every_wrong_key_is_said_at_once(self):
        with pytest.raises(Refused, match=r"gpu_name: .*gpu_count: "):
            edit(take(), gpu_name={"tolerance": "ratio"}, gpu_count={"tolerance": "range"})

    def test_a_new_name_alone_is_a_change(self):
        renamed = profile_edit(
            profile=take(), edits={}, name="class B", reason=WHY, actor=make_actor()
        )
        assert (renamed.version, renamed.name) == (2, "class B")


@pytest.mark.django_db
class TestCurrent:
    def test_it_takes_the_place_of_the_one_before_and_the_trail_says_both(self):
        first = take()
        profile_make_current(profile=first, reason=WHY, actor=make_actor("bo"))
        second = edit(first, gpu_count={"tolerance": "ignore"})
        profile_make_current(profile=second, reason=WHY, actor=make_actor("bo"))
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.is_current, second.is_current) == (False, True)
        entry = TrailEntry.objects.filter(verb="golden.current").latest("id")
        assert (entry.before, entry.after) == ({"version": 1}, {"version": 2})

    def test_an_older_version_may_come_back(self):
        first = take()
        second = edit(first, gpu_count={"tolerance": "ignore"})
        profile_make_current(profile=second, reason=WHY, actor=make_actor("bo"))
        profile_make_current(profile=first, reason=WHY, actor=make_actor("bo"))
        assert profile_for(Node.objects.get()) == first

    def test_twice_changes_nothing(self):
        profile = profile_make_current(profile=take(), reason=WHY, actor=make_actor("bo"))
        with pytest.raises(Conflict, match="current already"):
            profile_make_current(profile=profile, reason=WHY, actor=make_actor("bo"))

    def test_who_made_it_does_not_make_it_current(self):
        bo = make_person("bo")
        make_person("dee", role="approver")
        profile = take(user=bo)
        with pytest.raises(NotAllowed, match="another approver"):
            profile_make_current(profile=profile, reason=WHY, actor=make_actor("bo"), user=bo)
        with pytest.raises(NotAllowed, match="approver"):
            profile_make_current(
                profile=profile, reason=WHY, actor=make_actor(), user=make_person("ana")
            )
        dee = make_person("dee", role="approver")
        profile_make_current(profile=profile, reason=WHY, actor=make_actor("dee"), user=dee)
        assert GoldenProfile.objects.get().is_current

    def test_it_needs_a_reason(self):
        with pytest.raises(NeedsReason):
            profile_make_current(profile=take(), reason="", actor=make_actor("bo"))


@pytest.mark.django_db(transaction=True)
def test_two_takes_at_once_make_two_versions():
    node = make_node()
    make_facts(node, **GOOD)

    def one(number: int) -> int:
        try:
            return profile_take(node=node, reason=WHY, actor=make_actor()).version
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(one, range(4))) == [1, 2, 3, 4]
