"""Which copies start next: no limit is ever exceeded, every node ends served, nothing is copied twice."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.rules.fanout import REGISTRY, STORE, Copy, Limits, Spread, plan_copies
from fleet.rules.message import said

LEAVES = {f"n{number:02d}": number % 3 for number in range(15)}
NAMES = st.sampled_from(sorted(LEAVES))
LIMITS = st.builds(
    Limits,
    at_once=st.integers(1, 6),
    per_leaf=st.integers(1, 4),
    per_parent=st.integers(1, 3),
    seeds_per_leaf=st.integers(1, 2),
    link_mbps=st.floats(1, 5000),
    leaf_mbps=st.floats(1, 5000),
)


def seen(holders=(), wanting=(), running=(), **fields) -> Spread:
    return Spread(LEAVES, holders, wanting, running, **fields)


def check_limits(running: list[Copy], limits: Limits) -> None:
    assert len(running) <= limits.at_once
    assert max(Counter(copy.parent for copy in running).values(), default=0) <= limits.per_parent
    into = Counter(LEAVES[copy.child] for copy in running)
    assert max(into.values(), default=0) <= limits.per_leaf
    assert max(Counter(c.child for c in running).values(), default=0) <= 1
    crossing = Counter(LEAVES[c.child] for c in running if LEAVES.get(c.parent) != LEAVES[c.child])
    assert max(crossing.values(), default=0) <= limits.seeds_per_leaf
    rate = limits.copy_kibps * 1024 / 1e6
    for count in Counter(copy.parent for copy in running).values():
        assert count * rate <= max(limits.link_mbps, limits.per_parent * 1024 / 1e6)
    for count in into.values():
        assert count * rate <= max(limits.leaf_mbps, limits.per_leaf * 1024 / 1e6)


@settings(max_examples=200, deadline=None)
@given(LIMITS, st.sets(NAMES, min_size=1), st.sets(NAMES), st.booleans(), st.data())
def test_every_wanting_node_ends_served_within_the_limits_whatever_dies(
    limits, wanting, holders, has_store, data
):
    held, running, dead, verifying = set(holders), [], set(), set()
    served = Counter()
    for _turn in range(300):
        wanted = wanting - held - verifying
        now = seen(held, wanted, running, dead=dead, has_store=has_store, verifying=verifying)
        plan = plan_copies(now, limits)
        running = [copy for copy in running if copy not in plan.stop]
        for copy in plan.start:
            leaf = LEAVES[copy.child]
            own = {name for name in held - dead if LEAVES[name] == leaf}
            assert copy.child not in held | dead
            assert copy.parent == STORE or copy.parent in held - dead
            assert not own or copy.parent in own, "never across leaves when the leaf has a parent"
        running += plan.start
        check_limits(running, limits)
        held |= verifying
        is_verifying, verifying = bool(verifying), set()
        if is_verifying and not running:
            continue
        if not running and not plan.stop:
            break
        if not running:
            continue
        done = data.draw(st.sampled_from(running))
        if done.parent not in dead:
            running.remove(done)
            verifying.add(done.child)
            served[done.child] += 1
        if len(dead) < 2 and data.draw(st.booleans()):
            dead.add(data.draw(NAMES))
            running = [copy for copy in running if copy.child not in dead]
    assert max(served.values(), default=0) <= 1
    if has_store or held - dead:
        assert wanting - dead <= held


def test_one_seed_a_leaf_comes_from_the_source_and_the_others_wait_for_it():
    plan = plan_copies(seen({"n00"}, {"n01", "n04", "n02"}), Limits(per_parent=4))
    assert set(plan.start) == {Copy("n00", "n01"), Copy("n00", "n02")}
    assert said(plan.waiting["n04"]) == "Waits for the seed of leaf 1."


def test_a_seed_that_is_being_verified_is_waited_for():
    plan = plan_copies(seen({"n00"}, {"n04"}, verifying={"n01"}), Limits())
    assert plan.start == ()
    assert said(plan.waiting["n04"]) == "Waits for the seed of leaf 1."


def test_a_leaf_that_has_the_files_never_asks_another_leaf_even_when_its_parents_are_busy():
    busy = [Copy("n01", "n04")]
    plan = plan_copies(seen({"n00", "n01"}, {"n07"}, busy), Limits(per_parent=1))
    assert plan.start == ()
    assert said(plan.waiting["n07"]) == "Every parent serves 1 already."


def test_children_of_a_dead_parent_are_ended_and_find_another_one():
    running = [Copy("n01", "n04"), Copy("n01", "n07")]
    now = seen({"n01", "n10"}, set(), running, dead={"n01"})
    plan = plan_copies(now, Limits())
    assert plan.stop == tuple(running)
    after = plan_copies(replace(now, running=(), wanting={"n04", "n07"}), Limits())
    assert set(after.start) == {Copy("n10", "n04"), Copy("n10", "n07")}


def test_nothing_starts_in_a_paused_leaf_and_it_says_why():
    plan = plan_copies(seen({"n00"}, {"n01", "n03"}, paused={1: "p99 is over its limit"}), Limits())
    assert plan.start == (Copy("n00", "n03"),)
    assert plan.waiting["n01"] == "p99 is over its limit"


def test_a_copy_that_runs_into_a_paused_leaf_is_ended_for_now():
    running = [Copy("n00", "n01"), Copy("n00", "n03")]
    plan = plan_copies(seen({"n00"}, set(), running, paused={1: "p99"}), Limits())
    assert plan.stop == (Copy("n00", "n01"),)


def test_copies_of_another_model_use_the_same_links():
    others = [Copy("n00", "n03"), Copy("n00", "n06")]
    plan = plan_copies(seen({"n00"}, {"n09"}, others=others), Limits(per_parent=2))
    assert plan.start == ()


def test_without_a_source_nobody_is_served_and_it_is_said():
    plan = plan_copies(seen(set(), {"n01"}), Limits())
    assert plan.start == ()
    assert said(plan.waiting["n01"]).startswith("No source")


def test_a_limit_that_cannot_be_kept_is_named():
    assert Limits().problems() == []
    assert [said(text) for text in Limits(at_once=0).problems()] == [
        "at_once is 0: expected 1 to 64."
    ]


def test_downloads_of_other_models_from_the_store_count_against_the_leaf():
    other = [Copy(STORE, "n03")]
    now = seen(wanting={"n00", "n01"}, has_store=True, others=other)
    plan = plan_copies(now, Limits(store_per_leaf=1))
    assert plan.start == (Copy(STORE, "n01"),)
    assert "downloads run into leaf 0" in said(plan.waiting["n00"])
    assert Copy(STORE, "n00") in plan_copies(now, Limits(store_per_leaf=2, per_parent=3)).start


def test_pulls_of_images_count_against_every_limit_of_the_leaf():
    pulls = [Copy(REGISTRY, "n03"), Copy(REGISTRY, "n06")]
    now = seen({"n09"}, {"n00"}, others=pulls)
    assert "2 copies run into leaf 0" in said(plan_copies(now, Limits(per_leaf=2)).waiting["n00"])
    assert "2 copies run, as many" in said(plan_copies(now, Limits(at_once=2)).waiting["n00"])
    assert plan_copies(now, Limits()).start == (Copy("n09", "n00"),)
    from_store = seen(wanting={"n00"}, has_store=True, others=pulls)
    assert plan_copies(from_store, Limits(store_per_leaf=2)).start == ()
    assert plan_copies(from_store, Limits(store_per_leaf=3)).start == (Copy(STORE, "n00"),)


def test_the_strictest_of_several_limits_keeps_all_of_them():
    found = Limits.strictest([Limits(at_once=3, per_leaf=9), Limits(at_once=5, per_leaf=2)])
    assert (found.at_once, found.per_leaf, found.per_parent) == (3, 2, Limits().per_parent)
    assert Limits.strictest([]) == Limits()
