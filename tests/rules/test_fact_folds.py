"""47 agree, one differs: equal facts are folded, and what is unknown agrees with nobody."""

from datetime import UTC, datetime, timedelta

from fleet.rules.fact_folds import Told, fold_facts, majority

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def told(number: int, value, **fields) -> Told:
    return Told(f"h100-{number:03d}", value, at=NOON - timedelta(seconds=number), **fields)


def test_the_many_come_first_and_the_one_that_differs_is_named():
    rows = [told(n, "575.1" if n == 33 else "570.1") for n in range(1, 49)]
    most, other = fold_facts(rows)
    assert (len(most.rows), most.names) == (47, "h100-[001-032,034-048]")
    assert (other.names, other.value) == ("h100-033", "575.1")
    assert majority([most, other]) is most
    assert (most.oldest_at, most.newest_at) == (NOON - timedelta(seconds=48), NOON - timedelta(seconds=1))  # fmt: skip


def test_lists_and_objects_are_compared_by_what_they_hold():
    folds = fold_facts([told(1, {"a": 1, "b": 2}), told(2, {"b": 2, "a": 1}), told(3, [1])])
    assert [fold.names for fold in folds] == ["h100-[001-002]", "h100-003"]


def test_false_zero_and_a_text_of_it_are_not_the_same():
    assert len(fold_facts([told(1, False), told(2, 0), told(3, "0")])) == 3


def test_what_is_unknown_agrees_with_nobody():
    rows = [
        told(1, "570.1"),
        told(2, "570.1", is_expired=True),
        told(3, None, problem="no answer"),
        Told("h100-004"),
    ]
    folds = fold_facts(rows)
    assert [(fold.names, fold.is_known) for fold in folds] == [
        ("h100-001", True),
        ("h100-002", False),
        ("h100-003", False),
        ("h100-004", False),
    ]
    assert folds[3].oldest_at is None
    assert majority(folds) is folds[0]


def test_without_a_majority_nobody_is_called_different():
    assert majority(fold_facts([told(1, "a"), told(2, "b")])) is None
    assert majority(fold_facts([told(n, "ab"[n % 2]) for n in range(4)])) is None
    assert majority([]) is None
