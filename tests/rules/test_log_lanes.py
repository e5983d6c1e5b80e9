from fleet.rules.collectives import last_collectives, parse_collective, ranks_behind
from fleet.rules.log_lanes import BINS, Span, lay_out, runs


def test_lines_of_a_chunk_are_spread_over_its_time_and_marks_stand_at_its_end() -> None:
    spans = [Span(3, 0, 59, 60, 1, 0), Span(3, 60, 119, 30, 0, 2), Span(None, 0, 119, 999)]
    silent, lane = lay_out(spans, [2, 3], 0, 120)
    assert (silent.lines, sum(silent.bins)) == (0, 0)
    assert lane.lines == 90
    assert round(sum(lane.bins[:60])) == 60
    assert lane.warned == {59}
    assert lane.failed == {119}
    steps = lane.steps(max(lane.bins))
    assert (steps[0], steps[100]) == (5, 4)
    assert runs(steps) == [(0, 60, 5), (60, 60, 4)]


def test_a_log_of_one_moment_still_has_lanes() -> None:
    (lane,) = lay_out([Span(0, 5, 5, 1)], [0], 5, 5)
    assert lane.bins[0] == 1
    assert runs([0, 0, 1, 1, 0, 2]) == [(2, 2, 1), (5, 1, 2)]
    assert lane.steps(0) == [0] * BINS


def test_it_reads_both_ways_of_numbering_a_collective() -> None:
    coll = "n:1:2 [3] NCCL INFO AllReduce: opCount 1c3394 sendbuff 0x1 count 7 op 0 comm 0x5 [nranks=8]"
    found = parse_collective(coll)
    assert found is not None
    assert (found.op, found.number) == ("ALLREDUCE", 0x1C3394)
    seq = (
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1848213, OpType=ALLREDUCE, N"
    )
    found = parse_collective(seq)
    assert found is not None
    assert found.number == 1848213
    assert parse_collective("opCount nothing") is None


def _said(rank: int, number: int, at_ms: int) -> tuple[int, int, str]:
    return rank, at_ms, f"WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, x"


def test_the_rank_that_stopped_one_before_is_behind() -> None:
    lines = [_said(rank, 1848212, 0) for rank in range(8, 16)]
    lines += [_said(rank, 1848213, 30_000) for rank in range(8, 16) if rank != 11]
    last = last_collectives(lines)
    assert ranks_behind(last) == {11}
    assert last[11].number == 1848212


def test_ranks_that_are_one_apart_for_a_moment_are_not_behind() -> None:
    lines = [_said(rank, 7, 0) for rank in range(4)] + [_said(rank, 8, 900) for rank in range(3)]
    assert ranks_behind(last_collectives(lines)) == set()


def test_numbers_of_different_communicators_are_not_compared() -> None:
    lines: list[tuple[int | None, int, str]] = [
        (r, 0, f"AllReduce: opCount {50 + r} x nranks 8") for r in (0, 1, 2)
    ]
    lines += [
        (3, 0, "AllReduce: opCount 1 x nranks 2"),
        (None, 0, "AllReduce: opCount 1 x nranks 8"),
    ]
    assert set(last_collectives(lines)) == {0, 1, 2}
    assert ranks_behind({}) == set()
