from __future__ import annotations

import pytest

from fleet.readings.nccl_log import NcclReader
from fleet.readings.nccl_log.events import spell_version
from fleet.readings.verdicts.nccl_log import report_nccl_log

VERDICTS = {
    "001": "unknown", "005": "fail", "006": "fail", "008": "unknown", "009": "unknown",
    "011": "unknown", "012": "unknown", "013": "unknown", "015": "unknown", "016": "fail",
    "018": "fail", "019": "fail", "021": "unknown", "022": "unknown", "023": "fail",
    "025": "pass", "026": "fail", "028": "fail", "030": "fail", "031": "fail", "034": "fail",
    "036": "fail", "039": "fail", "040": "fail", "041": "fail",
}  # fmt: skip
SPOKEN = {"verdict", "must_not"}
# Said in the sample's own words, or asked for by a test of its own below.
IN_WORDS = {
    "001": {"network"},
    "008": {"hosts"},
    "011": {"transports"},
    "015": {"transports"},
    "016": {"host"},
    "039": {"missing"},
    "040": {"missing"},
}


def report(text):
    return report_nccl_log([[line.encode() for line in text.split("\n")]])


def read(*lines):
    reader = NcclReader()
    reader.feed([line.encode() for line in lines])
    reader.finish()
    return reader


@pytest.mark.parametrize("number", VERDICTS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("nccl-log", number)
    found = report(sample.text)
    for key, want in sample.expected.items():
        if key not in SPOKEN | IN_WORDS.get(number, set()):
            assert found.values.get(key) == want, key
    assert found.verdict == VERDICTS[number]


def test_a_plugin_is_a_network_too(corpus):
    found = report(corpus("nccl-log", "001").text)
    assert found.values["network"] == "IBext_v8"
    assert found.summary == "Set-up finished on 4 of 64 ranks of 1 communicators."


def test_hosts_are_counted_by_name(corpus):
    assert len(report(corpus("nccl-log", "008").text).values["hosts"]) == 6


def test_a_harmless_warning_is_not_an_alarm(corpus):
    found = report(corpus("nccl-log", "011").text)
    assert found.values["transports"]["intra"] == "P2P/direct pointer/read"
    assert found.values["transports"]["inter"] == "NET/IB/0/GDRDMA"
    assert all(f.severity != "error" for f in found.findings)


def test_the_launchers_bracket_is_not_a_card():
    reader = read("[5] node-a:227602:227667 [2] NCCL INFO NVLS Head  0:  0  8 16")
    assert [(s.host, s.gpu) for s in reader.table.seats.values()] == [("node-a", 2)]


def test_a_torn_line_is_counted_and_not_used(corpus):
    found = report(corpus("nccl-log", "015").text)
    assert found.values["transports"] == {"intra": "P2P/CUMEM", "inter": None}
    assert found.unread == (4,)


def test_a_container_id_is_a_host(corpus):
    assert report(corpus("nccl-log", "016").text).values["host"] == "3d3e22c3066f"


@pytest.mark.parametrize("number", ["039", "040"])
def test_the_flight_recorder_names_missing_ranks(corpus, number):
    sample = corpus("nccl-log", number)
    found = report(sample.text).values["missing"]
    for want, got in zip(sample.expected["missing"], found, strict=True):
        assert {k: got[k] for k in want} == want


def test_a_number_in_front_is_neither_pid_nor_rank(corpus):
    values = report(corpus("nccl-log", "031").text).values
    assert 80746 not in values["ranks"]
    assert values["ranks_behind"] == {}


INIT = (
    "n{h}:1:{r} [{g}] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 16 cudaDev {g} busId 1 "
    "commId 0x5 - Init {end}"
)


def init(rank, end):
    return INIT.format(h=rank // 8, r=rank, g=rank % 8, end=end)


def test_ranks_that_never_finish_are_found_by_difference():
    lines = [init(r, "START") for r in range(15)] + [init(r, "COMPLETE") for r in range(14)]
    comm = read(*lines).setup.comms["0x5"]
    assert sorted(comm.missing) == [14, 15]
    assert sorted(comm.started - comm.completed) == [14]


def test_a_card_is_set_up_when_each_of_its_own_communicators_is():
    other = init(0, "START").replace("comm 0x1", "comm 0x2")
    seats = read(init(0, "START"), init(0, "COMPLETE"), init(1, "START"), other).table.seats
    assert not seats["n0", 0].is_complete, "its second communicator is open"
    assert not seats["n0", 1].is_complete
    done = read(init(0, "START"), other, init(0, "COMPLETE"), other.replace("START", "COMPLETE"))
    assert done.table.seats["n0", 0].is_complete


def test_a_set_up_that_all_ranks_finish_is_a_pass():
    lines = [init(r, end) for end in ("START", "COMPLETE") for r in range(16)]
    found = report("\n".join(lines))
    assert (found.verdict, found.complete) == ("pass", True)
    assert report("\n".join(lines[:-1])).verdict == "unknown"


@pytest.mark.parametrize(
    ("line", "network"),
    [
        ("n:1:1 [0] NCCL INFO Using network IB", "IB"),
        ("n:1:1 [0] NCCL INFO Using network IBext_v8", "IBext_v8"),
        ("n:1:1 [0] NCCL INFO Using network AWS Libfabric", "AWS Libfabric"),
        ("n:1:1 [0] NCCL INFO Assigned NET plugin IB to comm", "IB"),
        ("n:1:1 [0] NCCL INFO Using network Socket\r", "Socket"),
        ("(RayWorkerWrapper pid=1, ip=1.2.3.4) n:1:1 [0] NCCL INFO Using network IB", "IB"),
    ],
)
def test_the_network_is_read_from_every_wording(line, network):
    assert list(read(line).setup.networks) == [network]


def test_transports_are_counted_by_host_and_card():
    line = "{h}:1:1 [{g}] NCCL INFO Channel 0{c}/0 : 3[3] -> 4[4] [send] via NET/IB/3/GDRDMA"
    lines = [line.format(h=h, g=g, c=c) for h in "ab" for g in (0, 3) for c in range(4)]
    reader = read(*lines)
    assert {k: s.transports for k, s in reader.table.seats.items()} == {
        (h, g): {"NET/IB/3/GDRDMA": 4} for h in "ab" for g in (0, 3)
    }


def test_a_host_that_only_repeats_others_is_still_a_host():
    reader = read(*[f"{h}:1:1 [0] NCCL INFO Using network IB" for h in "abc"])
    assert reader.table.hosts() == ["a", "b", "c"]


def test_a_list_of_a_ring_is_no_transport():
    reader = read("n:1:1 [0] NCCL INFO Channel 00/24 :    0   1   2   3")
    assert (reader.rings, reader.table.transport_counts()) == (1, {})


def test_collectives_are_counted_and_not_kept():
    line = "n:1:1 [0] NCCL INFO AllReduce: opCount 1c3394 sendbuff 0x1 recvbuff 0x2 count 7340032"
    reader = read(*[line] * 5)
    assert reader.table.seats["n", 0].collectives == 5


def test_status_five_is_a_consequence_of_status_twelve():
    warn = (
        "n:1:1 [6] a.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.3.5<5> with status={s} "
        "vendor err 129 (Recv)"
    )
    found = report(warn.format(s=5) + "\n" + warn.format(s=12))
    assert found.values["status"] == 12
    assert found.values["root_line"] == 2


def test_lines_glued_into_one_are_read_apart():
    one = "a:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"
    two = "b:1:1 [3] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via NET/IB/3"
    reader = read(one + two)
    assert reader.table.transport_counts() == {"P2P/CUMEM": 1, "NET/IB/3": 1}
    assert set(reader.table.seats) >= {("a", 0), ("b", 3)}


def test_a_second_tag_in_one_message_is_not_a_second_line():
    reader = read("node-a:1:2 [0] a.cc:1 NCCL WARN ignoring NCCL_ALGO, see NCCL INFO lines")
    assert reader.table.hosts() == ["node-a"]


def test_a_message_wrapped_inside_is_put_together():
    reader = read(
        "n:1:1 [6] a.cc:1 NCCL WARN NET/IB: Got completion from peer 10.0.3.5<53908> with",
        "status=12 opcode=129 len=1 vendor err 129 (Recv) hca mlx5_10",
        "n:1:1 [6] NCCL INFO proxy.cc:726 -> 6",
    )
    assert reader.events[0].fields["status"] == 12
    assert reader.events[0].fields["hca"] == "mlx5_10"


TIMEOUT = (
    "[rank{r}]:[E1129 18:31:07.113 ProcessGroupNCCL.cpp:632] [Rank {g}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={s}, OpType={op}, NumelIn=8, NumelOut=8, "
    "Timeout(ms)=30000) ran for 30011 milliseconds before timing out."
)
STATUS = (
    "[rank{r}]:[E1129 18:31:07.2 ProcessGroupNCCL.cpp:700] [PG ID 2 PG GUID 3 Rank {g}] failure "
    "detected by watchdog at work sequence id: 9 PG status: last enqueued work: {e}, "
    "last completed work: {c}"
)


def test_the_global_rank_wins_over_the_rank_in_the_group():
    reader = read(TIMEOUT.format(r=12, g=4, s=9, op="ALLREDUCE"))
    timeout = next(iter(reader.watchdog.timeouts.values()))
    assert (timeout.rank, timeout.group_rank) == (12, 4)


def test_the_rank_that_entered_less_is_behind():
    lines = [STATUS.format(r=r, g=r, e=1579 if r == 5 else 1582, c=1578) for r in (0, 3, 4, 5)]
    assert read(*lines).watchdog.behind() == {2: [5]}


@pytest.mark.parametrize("unset", ["-1", "18446744073709551615"])
def test_a_counter_that_was_never_set_is_unknown(unset):
    reader = read(STATUS.format(r=0, g=0, e=5, c=unset))
    assert next(iter(reader.watchdog.progress.values())).completed is None


def test_different_operations_at_one_number_diverge():
    found = report(
        TIMEOUT.format(r=0, g=0, s=9, op="ALLREDUCE")
        + "\n"
        + TIMEOUT.format(r=1, g=1, s=9, op="ALLGATHER")
    )
    assert "divergence" in [f.id for f in found.findings]


def test_a_mismatch_by_ras_is_no_alarm():
    found = report("    0         1         4       7-8        32        32   RUNNING  MISMATCH")
    assert [(f.id, f.severity) for f in found.findings] == [("ras_mismatch", "warn")]


@pytest.mark.parametrize(
    ("number", "text"), [(22705, "2.27.5"), (22809, "2.28.9"), (2708, "2.7.8")]
)
def test_version_integers_are_spelled(number, text):
    assert spell_version(number) == text


def test_memory_stays_bounded_under_a_flood():
    reader = NcclReader()
    reader.feed(
        f"h{i}:{i}:{i} [0] NCCL INFO Channel 00/0 : {i}[0] -> {i}[1] via NET/IB/{i}".encode()
        for i in range(30_000)
    )
    reader.feed(f"h{i}:1:1 [0] NCCL WARN thing {i}".encode() for i in range(3_000))
    reader.feed(f"NCCL junk {i}".encode() for i in range(3_000))
    reader.finish()
    assert len(reader.table.seats) <= 4096
    assert len(reader.edges) <= 16_384
    assert len(reader.events) <= 64
    assert len(reader.unread) <= 200
    assert reader.lines == 36_000


def test_a_time_out_whose_message_is_cut_is_still_a_time_out():
    found = report(
        "[rank3]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective "
        "operation timeout:\nn:1:1 [0] NCCL INFO Using network IB"
    )
    assert (found.verdict, found.form) == ("fail", "watchdog")
    assert [f.id for f in found.findings] == ["watchdog_timeout_cut"]
    assert (found.values["rank"], found.values.get("seq")) == (3, None)


def test_a_channel_line_without_its_transport_is_torn():
    reader = read("n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via ")
    assert (reader.torn_count, reader.table.transport_counts()) == (1, {})


def test_older_releases_print_the_status_as_an_error():
    line = (
        "n:1:1 [6] transport/net_ib.cc:78 NCCL WARN NET/IB : Got completion with error 12, opcode 1, "
        "len 0, vendor err 129"
    )
    values = report(line).values
    assert (values["status"], values["vendor_err"]) == (12, 129)


def test_one_rank_alone_does_not_speak_for_all():
    found = report(TIMEOUT.format(r=3, g=3, s=9, op="ALLREDUCE"))
    assert found.summary == "rank 3 waited 30000 ms for ALLREDUCE 9"


@pytest.mark.parametrize(
    ("text", "event", "fields"),
    [
        (
            "torch.distributed.DistBackendError: NCCL error in: a.cpp:1970, unhandled system error "
            "(run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\n"
            "ncclSystemError: System call or external library call failed\nLast error:\n"
            "Error while creating shared memory segment /dev/shm/nccl-dl2fQB (size 9637888), "
            "error: No space left on device (28)",
            "shm_full",
            {"segment": "/dev/shm/nccl-dl2fQB", "size": 9637888, "errno": 28, "nccl": "2.21.5"},
        ),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", "no_space", {"errno": 28}),
        (
            "ncclRemoteError: A call failed possibly due to a network error\nLast error:\n"
            "NET/IB: Got completion from peer 10.0.0.1<4444> with status=5 vendor err 249 (Recv)",
            "ib_completion_error",
            {"status": 5, "peer": "10.0.0.1"},
        ),
        ("RuntimeError: ncclInternalError: Internal check failed.", "unhandled_error", {}),
    ],
)
def test_an_exception_may_be_the_only_hint(text, event, fields):
    found = report(text)
    assert (found.verdict, found.values["event"]) == ("fail", event)
    assert {k: found.values[k] for k in fields} == fields
