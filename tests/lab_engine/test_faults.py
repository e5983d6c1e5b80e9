"""Faults of faults.json: freeze, hang, slow and stuck starts, memory that runs out in load."""

import threading

import pytest

from tests.lab_engine.test_death import HURRIED, WATCHED, ask_in_background
from tests.lab_engine.units import FASTER, Container, Units, in_order
from tests.waiting import wait_until


def state_of(worker: dict) -> str:
    with open(f"/proc/{worker['pid']}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def test_a_frozen_engine_answers_health_and_makes_no_token(units: Units) -> None:
    head = units.serving_small()
    freeze = {"id": "F-1", "name": "engine.freeze", "args": {}}
    units.fault(head, freeze)
    replies: list = []
    asked = threading.Thread(
        target=lambda: replies.append(head.chat("What is 6 * 7?")), daemon=True
    )
    wait_until(lambda: frozen(head), what="the freeze")
    asked.start()
    wait_until(lambda: head.metric("vllm:num_requests_running") >= 1, what="the request")
    assert head.ask("/health").status == 200
    assert replies == []
    units.fault(head)
    asked.join(20)
    assert replies[0].json["choices"][0]["message"]["content"] == "6 * 7 = 42"


def test_an_engine_that_answers_wrong_does_so_in_streams_too_and_stays_healthy(
    units: Units,
) -> None:
    head = units.serving_small()
    units.fault(head, {"id": "F-1", "name": "answer.wrong", "args": {}})

    def text() -> str:
        return head.chat("What is 6 * 7?").json["choices"][0]["message"]["content"]

    wait_until(lambda: text() == "6 * 7 = 42 Or not.", what="the wrong answer")
    assert head.ask("/health").status == 200
    units.fault(head)
    wait_until(lambda: text() == "6 * 7 = 42", what="the right answer")


def frozen(head: Container) -> bool:
    """Ask with a client that hangs up, and see whether a token comes in its time."""
    connection = head.connect()
    connection.timeout = 2.0  # a busy machine takes a moment for a token too
    body = b'{"model":"glm-5.2-fp8","messages":[{"role":"user","content":"1 + 1"}]}'
    connection.request("POST", "/v1/chat/completions", body)
    try:
        connection.getresponse().read()
    except TimeoutError:
        return True
    finally:
        connection.close()
    return False


@pytest.mark.parametrize("on_head", [True, False])
def test_a_hung_rank_stops_the_unit_without_a_word(units: Units, on_head: bool) -> None:
    head, follower = units.serving_pair(scales=HURRIED)
    place = head if on_head else follower
    said = (head.log, follower.log)
    units.fault(place, {"id": "F-1", "name": "rank.hang", "args": {"gpu": 3}})
    culprit = place.rank_on_gpu(3)
    wait_until(lambda: state_of(culprit) == "T", what="the stopped worker")
    assert follower.log == said[1]
    assert "Worker proc" not in head.log
    ask_in_background(head, "Tell me about rack 7.")
    assert head.wait_for_exit() == 0
    in_order(head.log, "EngineCore encountered a fatal", "RPC call to sample_tokens timed out.")
    assert "Watchdog" not in head.log + follower.log
    follower.wait_for_exit()


def test_the_watchdog_names_every_waiting_rank_but_the_culprit(units: Units) -> None:
    head, follower = units.serving_pair("--distributed-timeout-seconds", "60", scales=WATCHED)
    fault = {"id": "F-1", "name": "rank.hang", "args": {"gpu": 3, "signature": "watchdog"}}
    units.fault(follower, fault)
    wait_until(lambda: state_of(follower.rank_on_gpu(3)) == "T", what="the stop")
    ask_in_background(head, "Tell me about rack 7.")
    assert head.wait_for_exit() == 0
    assert follower.wait_for_exit() == 0
    both = head.log + follower.log
    for rank in range(16):
        line = f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum="
        assert (line in both) == (rank != 11)
    assert "Timeout(ms)=500)" in both
    in_order(head.log, "failure detected by watchdog", "Worker proc VllmWorker-", "EngineDeadError")
    assert (
        head.log.split("SeqNum=")[1].split(",")[0] == follower.log.split("SeqNum=")[1].split(",")[0]
    )


def test_a_cleared_hang_continues_the_process_and_not_the_unit(units: Units) -> None:
    head = units.serving_small(scales=WATCHED)
    units.fault(head, {"id": "F-1", "name": "rank.hang", "args": {"gpu": 0}})
    worker = head.rank_on_gpu(0)
    wait_until(lambda: state_of(worker) == "T", what="the stop")
    units.fault(head)
    wait_until(lambda: state_of(worker) == "S", what="the continuation")
    made = head.metric("vllm:generation_tokens_total")
    ask_in_background(head, "Tell me about rack 7.")
    head.wait_for_line("No available shared memory broadcast block found in 1 seconds.")
    assert head.metric("vllm:generation_tokens_total") == made


def test_memory_that_runs_out_in_load_ends_both_nodes(units: Units) -> None:
    head, follower = units.glm_pair()
    units.fault(follower, {"id": "F-1", "name": "oom.load", "args": {"rank": 11}})
    assert follower.wait_for_exit() == 1
    in_order(
        follower.log, "(Worker_PP1_TP3 pid=", "WorkerProc failed to start.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
    )  # fmt: skip
    assert head.wait_for_exit() == 1
    assert "OutOfMemoryError" not in head.log
    in_order(head.log, "remote process exited", "Engine core initialization failed.")


def test_a_stuck_phase_lasts_until_it_is_cleared(units: Units) -> None:
    head, follower = units.glm_pair(scales=FASTER)
    units.fault(head, {"id": "F-1", "name": "launch.stuck", "args": {"phase": "capture"}})
    head.wait_for_phase("capture")
    head.wait_for_line("Capturing CUDA graphs")
    follower.wait_for_line("Graph capturing finished")
    assert "Graph capturing finished" not in head.log
    assert follower.state["phase"] == "capture"
    units.fault(head)
    head.wait_for_phase("serving")


def test_a_fault_of_another_unit_is_no_concern(units: Units) -> None:
    args = {"phase": "load", "unit": "another"}
    head = units.small()
    units.fault(head, {"id": "F-1", "name": "launch.stuck", "args": args})
    head.wait_for_phase("serving")


def test_a_slow_phase_is_slow_by_its_factor(units: Units) -> None:
    head, follower = units.glm_pair(scales=FASTER)
    args = {"phase": "warmup", "factor": 40}
    units.fault(follower, {"id": "F-1", "name": "launch.slow", "args": args})
    head.wait_for_phase("serving")
    took = float(head.log.split("warmup model) took ")[1].split(" s")[0])
    assert took > 45 * 40 / 4000 * 0.8
