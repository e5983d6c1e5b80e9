"""No launch waits for ever behind slow ones."""

from releases.services.launch_tick import next_in_turn


def test_the_one_behind_the_last_comes_first():
    assert next_in_turn([2, 5, 9], 5) == [9, 2, 5]


def test_a_last_one_that_has_ended_still_gives_the_place():
    assert next_in_turn([2, 5, 9], 4) == [5, 9, 2]


def test_behind_the_end_it_begins_anew():
    assert next_in_turn([2, 5, 9], 9) == [2, 5, 9]
    assert next_in_turn([], 9) == []
