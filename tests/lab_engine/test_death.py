"""How a unit dies: who speaks, who stays silent, which codes, and that nothing is left."""

import contextlib
import http.client
import signal
import threading

from tests.lab_engine.units import (
    DSV4,
    FASTER,
    HEAD,
    Reply,
    Units,
    dsv4_flags,
    free_port,
    in_order,
    living,
)
from tests.waiting import wait_until

DEAD = "EngineDeadError: EngineCore encountered an issue. See stack trace (above)"
# A watch scale at which the silence lasts long enough to be looked at.
WATCHED = {"launch": 4000, "watch": 120, "serve": 20}
HURRIED = {"launch": 4000, "watch": 400, "serve": 20}


def ask_in_background(container, text: str) -> list[Reply]:
    replies: list[Reply] = []

    def ask() -> None:
        # A test may end its container before the answer.
        with contextlib.suppress(OSError, http.client.HTTPException):
            replies.append(container.chat(text, stream=True))

    threading.Thread(target=ask, daemon=True).start()
    wait_until(lambda: container.metric("vllm:num_requests_running") == 1, what="the request")
    return replies


def test_a_dead_rank_on_the_head_ends_the_unit_with_zero(units: Units) -> None:
    # The dead server is there for 2.5 s.
    head, follower = units.serving_pair(scales={**WATCHED, "watch": 20})
    workers = head.workers + follower.workers
    head.kill(head.rank_on_gpu(3)["pid"])
    wait_until(lambda: head.ask("/health").status == 503, what="503")
    assert head.chat("What is 1 + 1?").status == 500
    assert head.ask("/metrics").status == 200
    assert head.wait_for_exit() == 0
    in_order(
        head.log, "Worker proc VllmWorker-3 died unexpectedly, shutting down executor.",
        "EngineCore encountered a fatal error.", "RuntimeError: Executor failed.",
        "AsyncLLM output_handler failed.", DEAD, "503 Service Unavailable", "Shutting down",
    )  # fmt: skip
    assert follower.wait_for_exit() == 1
    assert "Broken pipe" in follower.log
    assert living(workers) == []


def test_a_dead_rank_on_the_follower_leaves_the_head_silent_until_the_rpc_time_out(
    units: Units,
) -> None:
    head, follower = units.serving_pair(scales=WATCHED)
    said = head.log
    follower.kill(follower.rank_on_gpu(3)["pid"])
    assert follower.wait_for_exit() == 0
    assert "Worker proc VllmWorker-11 died unexpectedly" in follower.log
    assert head.log == said
    replies = ask_in_background(head, "Tell me about rack 7.")
    made = head.metric("vllm:generation_tokens_total")
    assert head.ask("/health").status == head.ask("/v1/models").status == 200
    head.wait_for_line("No available shared memory broadcast block found in 1 seconds.")
    assert head.metric("vllm:generation_tokens_total") == made
    assert head.metric("vllm:num_requests_running") == 1
    assert head.wait_for_exit() == 0
    in_order(
        head.log, "Dumping input data for V1 LLM engine (v0.23.0)",
        "TimeoutError: RPC call to sample_tokens timed out.", DEAD, "Shutting down",
    )  # fmt: skip
    assert b"EngineCore encountered an issue" in replies[0].body


def test_a_killed_engine_core_is_noticed_by_the_api_server(units: Units) -> None:
    head, follower = units.serving_pair(scales=WATCHED)
    core = next(w for w in head.workers if w["argv0"] == "VLLM::EngineCore")
    head.kill(core["pid"])
    wait_until(lambda: head.ask("/health").status == 503, what="503")
    assert head.wait_for_exit() == 0
    in_order(
        head.log, "Parent process exited, terminating worker queues",
        "MPClient: engine core exited unexpectedly; starting cleanup", DEAD,
    )  # fmt: skip
    assert follower.wait_for_exit() == 1


def test_one_dead_engine_of_eight_ends_all(units: Units) -> None:
    port = free_port(HEAD)
    node = units.start("h100-005", HEAD, dsv4_flags(port), port=port, slug=DSV4, scales=FASTER)
    node.wait_for_phase("serving")
    workers = node.workers
    node.kill(node.rank_on_gpu(5)["pid"])
    assert node.wait_for_exit() == 0
    assert "(EngineCore_DP5 pid=" in node.log.split("Worker proc VllmWorker-0 died")[0][-120:]
    assert living(workers) == []


def test_a_killed_engine_takes_its_workers_along_and_counts_137(units: Units) -> None:
    head, follower = units.serving_pair(scales=FASTER)
    workers = head.workers
    # A stopped process does not see its pipe end: the monitor must kill it.
    head.kill(head.rank_on_gpu(2)["pid"], signal.SIGSTOP)
    head.kill(head.state["pid"])
    assert head.wait_for_exit() == 137
    assert head.state["status"] == "exited"
    assert head.state["finished_at"]
    assert living(workers) == []
    assert not list((head.node / "pids").iterdir())
    assert follower.wait_for_exit() == 1


def test_a_killed_monitor_takes_the_engine_along(units: Units) -> None:
    head = units.serving_small()
    workers = head.workers
    head.kill(head.monitor.pid)
    wait_until(lambda: living(workers) == [], what="the end of the workers")


def test_a_rank_that_dies_while_starting_fails_the_start_of_both(units: Units) -> None:
    head, follower = units.glm_pair()
    head.wait_for_phase("load")
    head.kill(head.rank_on_gpu(6)["pid"])
    assert head.wait_for_exit() == 1
    in_order(head.log, "Worker proc VllmWorker-6 died", "EngineCore failed to start.")
    assert follower.wait_for_exit() == 1


def test_keep_alive_on_engine_death_keeps_the_server(units: Units) -> None:
    env = {"VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1"}
    head = units.serving_small(env=env)
    head.kill(head.rank_on_gpu(0)["pid"])
    wait_until(lambda: head.ask("/health").status == 503, what="503")
    assert head.terminate() == 0
