"""A card keeps its record where it goes; what could not be read moves nothing."""

import pytest

from fleet.rules.history import SeatSeen, facts_changed, is_uuid, seat_moves, watched_fact

A, B = (SeatSeen(1, 0, "GPU-a"), SeatSeen(2, 0, "GPU-b"))


def test_a_card_that_was_never_seen_takes_its_seat():
    moves = seat_moves([A, B], {})
    assert (moves.ended, set(moves.begun)) == (frozenset(), {A, B})


def test_a_card_at_its_place_goes_on():
    moves = seat_moves([A], {7: A, 8: B})
    assert (moves.ended, moves.begun) == (frozenset(), ())


def test_two_cards_that_change_places_end_both_seats():
    one, other = SeatSeen(2, 0, "GPU-a"), SeatSeen(1, 0, "GPU-b")
    moves = seat_moves([one, other], {7: A, 8: B})
    assert (moves.ended, set(moves.begun)) == ({7, 8}, {one, other})


def test_a_card_found_on_another_node_leaves_its_old_seat_though_nobody_asked_that_node():
    there = SeatSeen(2, 5, "GPU-a")
    moves = seat_moves([there], {7: A})
    assert (moves.ended, moves.begun) == ({7}, (there,))


def test_a_new_card_at_a_place_ends_the_seat_of_the_old():
    new = SeatSeen(1, 0, "GPU-c")
    moves = seat_moves([new], {7: A})
    assert (moves.ended, moves.begun) == ({7}, (new,))


def test_a_card_that_does_not_answer_keeps_its_seat():
    moves = seat_moves([SeatSeen(1, 1, "GPU-d")], {7: A})
    assert moves.ended == frozenset()


def test_a_card_that_is_in_two_places_at_once_is_believed_nowhere():
    moves = seat_moves([A, SeatSeen(2, 3, "GPU-a")], {8: B})
    assert (moves.ended, moves.begun) == (frozenset(), ())


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("GPU-41d6a8b0-9a53-5f0c-8c0e-5d2b6f7e19b0", True),
        ("GPU-41d6a8b0-9a53-5f0c-8c0e-5d2b6f7e19b", False),
        ("GPU-41d6a8b0", False),
        ("[N/A]", False),
        ("", False),
    ],
)
def test_a_torn_uuid_is_nobody(text, is_one):
    assert is_uuid(text) is is_one


@pytest.mark.parametrize(
    ("key", "value", "watched"),
    [
        ("kernel", "5.15", ("kernel", "5.15")),
        ("kernel", None, None),
        ("shm_used", 5, None),
        ("rdma_ports", [{"device": "a", "firmware": "28"}, {"device": "b"}], ("nic_firmware", {"a": "28"})),
        ("rdma_ports", "torn", None),
        ("rdma_ports", [], None),
    ],
)  # fmt: skip
def test_only_what_was_read_and_should_stay_is_watched(key, value, watched):
    assert watched_fact(key, value) == watched


def test_a_first_value_is_no_change_and_another_one_is():
    seen = {(1, "kernel"): "6.1", (1, "os"): "24.04", (2, "kernel"): "5.15"}
    assert facts_changed(seen, {(1, "kernel"): "5.15", (2, "kernel"): "5.15"}) == [(1, "kernel")]
