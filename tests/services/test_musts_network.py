"""Network acceptance and the gate of a launch fail closed, through the services and the real readers."""

import pytest
from test_gates_service import fresh, ready_launch, running

from fleet.execution.models import LogStream
from fleet.rules import netverdict
from fleet.rules.message import said
from fleet.services.net_matrix import golden_choose
from fleet.services.network import net_run_start
from releases.models import GateRun, Launch
from releases.services.gates import gates_advance
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_nodes, make_person
from tests.live.log_scene import hold_lease, say
from tests.network import HCAS, Answers, curve_text, make_matrix, marked, rails_text, run_to_end

pytestmark = pytest.mark.django_db
LAYERS = (netverdict.REACH, netverdict.RAILS, netverdict.COLLECTIVE)


def printed(kind: str, text: str):
    """Nodes of which one test prints this text and everything else is good."""
    answers = Answers()
    good = answers._printed
    answers._printed = lambda command: (
        text if f"/{kind}/" in command.purpose and "/a/" in command.purpose else good(command)
    )
    return answers


@pytest.fixture
def nodes():
    make_matrix()
    nodes = make_nodes(2)
    first = run_to_end(start(nodes), Answers())
    golden_choose(pair=first.pairs.get(), actor=make_actor("bo"), user=make_person("bo"))
    return nodes


def start(nodes):
    return net_run_start(nodes=nodes, layers=LAYERS, actor=make_actor(), user=make_person())


def part(text: str, rc: int = 0) -> str:
    return marked("loop", "0", "run", rc, text)


GOOD = curve_text("h100-001", "h100-002")
ROWLESS = "\n".join(line for line in GOOD.splitlines() if not line.strip().startswith(str(8 << 30)))
CURVES = [
    *((f"cut at {n} tenths", part(GOOD)[: len(part(GOOD)) * n // 10]) for n in range(10)),
    *((f"table cut at {n} tenths", part(GOOD[: len(GOOD) * n // 10])) for n in range(1, 10)),
    ("in MB/s", part(GOOD.replace("(GB/s)", "(MB/s)"))),
    ("without rows", part(ROWLESS)),
    ("good numbers, exit code 1", part(GOOD, 1)),
    ("good numbers, killed", part(GOOD, 137)),
]
RAILS = rails_text()
RAIL_TEXTS = [
    *((f"cut at {n} tenths", RAILS[: len(RAILS) * n // 10]) for n in range(10)),
    ("in an unknown unit", RAILS.replace("Gb/sec", "GB/hour")),
    ("without rows", "\n".join(line for line in RAILS.splitlines() if not line.startswith(" 65536"))),
    ("good numbers, exit code 1", RAILS.replace(" rc 0 ", " rc 1 ")),
]  # fmt: skip


def test_good_outputs_pass(nodes):
    run = run_to_end(start(nodes), Answers())
    assert (run.verdict, run.pairs.get().verdict) == ("pass", "pass")


@pytest.mark.parametrize("text", [row[1] for row in CURVES], ids=[row[0] for row in CURVES])
def test_a_bad_output_of_nccl_tests_is_never_a_pass(nodes, text):
    run = run_to_end(start(nodes), printed("curve", text))
    pair = run.pairs.get()
    assert run.verdict in ("fail", "unknown")
    assert pair.layers["collective"]["verdict"] in ("fail", "unknown")
    assert pair.layers["rails"]["verdict"] == "pass", "only this layer is bad"


@pytest.mark.parametrize("text", [row[1] for row in RAIL_TEXTS], ids=[row[0] for row in RAIL_TEXTS])
def test_a_bad_output_of_ib_write_bw_is_never_a_pass(nodes, text):
    run = run_to_end(start(nodes), printed("rails", text))
    pair = run.pairs.get()
    assert run.verdict in ("fail", "unknown")
    assert pair.layers["rails"]["verdict"] in ("fail", "unknown")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("NET/IB/0/GDRDMA", "NET/Socket/0"), "via NET/Socket/0"),
        ((" [1]mlx5_1:1/RoCE", ""), "mlx5_0 instead of cards mlx5_0, mlx5_1"),
        (("Using bond0", "Using docker0"), "docker0 instead of interface bond0"),
        (("/GDRDMA", ""), "via NET/IB/0"),
    ],
)
def test_one_rank_off_the_matrix_fails_the_pair_and_is_named(nodes, change, words):
    text = curve_text("h100-001", "h100-002", odd={11: change})
    run = run_to_end(start(nodes), printed("curve", part(text)))
    assert run.verdict == "fail"
    told = [said(one["text"]) for one in run.pairs.get().layers["collective"]["said"]]
    assert any("rank 11 (h100-002, GPU 3)" in one and words in one for one in told), told


# -- the gate of a launch


def launched() -> Launch:
    """A ready launch over two nodes, planned while a matrix is signed."""
    make_matrix(signed_by=make_person("bo"))
    return ready_launch(CONTENT)


def tell(launch: Launch, position: int, odd: dict[int, tuple[str, str]]) -> None:
    """What NCCL says on one node: its network, and a communicator to the other node."""
    stream = LogStream.objects.get(
        subject__launch_position__launch=launch, subject__launch_position__position=position
    )
    cards = " ".join(f"[{at}]{name}:1/RoCE" for at, name in enumerate(HCAS))
    lines = []
    for gpu in range(8):
        seat, comm = f"h100:40{gpu}:60{gpu} [{gpu}] NCCL INFO", f"comm 0x5{gpu}a rank {position}"
        mine = [
            f"{seat} Bootstrap: Using bond0:10.0.0.1<0>",
            f"{seat} NET/IB : Using {cards} [RO]; OOB bond0:10.0.0.1<0>",
            f"{seat} NCCL_IB_GID_INDEX set by environment to 3.",
            f"{seat} ncclCommInitRank {comm} nranks 2 cudaDev {gpu} busId 1b000 commId 0x1 - Init START",
            f"{seat} Channel 00/0 : 0[{gpu}] -> 1[{gpu}] [send] via NET/IB/{gpu}/GDRDMA",
            f"{seat} ncclCommInitRank {comm} nranks 2 cudaDev {gpu} busId 1b000 commId 0x1 - Init COMPLETE",
        ]
        if change := odd.get(position * 8 + gpu):
            mine = [line.replace(*change) for line in mine]
        lines += mine
    say(stream, [(n, position * 8, "I", "NET", text) for n, text in enumerate(lines)], hold_lease())


def judged(odd: dict[int, tuple[str, str]]) -> GateRun:
    launch = launched()
    for position in (0, 1):
        tell(launch, position, odd)
    run = running(launch, checks=("transport",))
    gates_advance()
    gates_advance()
    return fresh(run)


def test_a_launch_whose_ranks_are_all_as_the_signed_matrix_says_passes():
    assert judged({}).state == "passed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("NET/IB/3/GDRDMA", "NET/Socket/0"), "via NET/Socket/0"),
        ((" [1]mlx5_1:1/RoCE", ""), "mlx5_0 instead of cards mlx5_0, mlx5_1 of the network matrix"),
        (("Using bond0", "Using docker0"), "docker0 instead of interface bond0"),
        (("/GDRDMA", ""), "via NET/IB/3"),
        (("to 3.", "to 5."), "5 instead of GID index 3"),
    ],
    ids=["socket", "hca", "interface", "gdr", "gid"],
)
def test_one_rank_off_the_signed_matrix_fails_the_gate_and_is_named_with_its_line(change, words):
    run = judged({11: change})
    assert run.state == "failed"
    (row,) = run.rows.filter(verdict="failed")
    assert row.subject == "r11"
    assert words in said(row.explanation)
    assert "; line " in said(row.explanation)
    assert run.rows.filter(verdict="passed").count() == 15


def test_a_rank_that_names_no_cards_is_not_proven():
    run = judged({2: ("NET/IB : Using", "NET/IB : none")})
    assert run.state == "inconclusive"
    (row,) = run.rows.filter(verdict="inconclusive")
    assert (row.subject, "not proven" in said(row.explanation)) == ("r2", True)
