"""An ordinary stop: abort, drain, the follower's, and one during the start."""

import threading

from tests.lab_engine.units import FASTER, Units, in_order, living
from tests.waiting import wait_until


def test_a_stop_without_drain_cuts_streams_and_ends_with_zero(units: Units) -> None:
    head, follower = units.serving_pair(scales={"launch": 4000, "watch": 60})
    workers = head.workers + follower.workers
    stream = head.connect()
    body = b'{"model":"glm-5.2-fp8","stream":true,"messages":[{"role":"user","content":"go"}]}'
    stream.request("POST", "/v1/chat/completions", body)
    answer = stream.getresponse()
    wait_until(lambda: head.metric("vllm:num_requests_running") == 1, what="the request")
    assert head.terminate() == 0
    assert b"error" in answer.read()
    stream.close()
    in_order(
        head.log, "[shutdown] API server: shutdown triggered",
        "stopping engine client mode=abort timeout=0s",
        "[shutdown] EngineCore: trigger received signal=SIGTERM",
        "Parent process exited, terminating worker queues", "MPClient: complete",
        "Application shutdown complete.",
    )  # fmt: skip
    assert follower.wait_for_exit() == 0
    assert living(workers) == []


def test_a_drain_finishes_what_runs_and_refuses_what_is_new(units: Units) -> None:
    head = units.serving_small("--shutdown-timeout", "30", scales=FASTER | {"serve": 2})
    replies: list = []
    asked = threading.Thread(
        target=lambda: replies.append(head.chat("Tell me about rack 7.")), daemon=True
    )
    asked.start()
    wait_until(lambda: head.metric("vllm:num_requests_running") == 1, what="the request")
    head.kill(head.state["pid"], 15)
    head.wait_for_line("draining in-flight requests count=1 timeout=30s")
    assert head.ask("/health").status == head.ask("/v1/models").status == 200
    refused = head.chat("What is 1 + 1?")
    assert refused.status == 500
    assert "cannot schedule new futures after shutdown" in refused.json["error"]["message"]
    asked.join(20)
    assert replies[0].status == 200
    assert replies[0].json["choices"][0]["finish_reason"] == "stop"
    assert head.wait_for_exit() == 0
    assert "mode=drain timeout=30s" in head.log


def test_a_follower_stops_quietly(units: Units) -> None:
    head, follower = units.serving_pair(scales=FASTER)
    assert follower.terminate() == 0
    assert "Worker proc" not in follower.log
    assert head.ask("/health").status == 200


def test_a_stop_during_the_start_leaves_nothing(units: Units) -> None:
    head, follower = units.glm_pair()
    head.wait_for_phase("load")
    workers = head.workers
    assert head.terminate() == 0
    assert living(workers) == []
    assert follower.wait_for_exit() == 1


def test_a_signal_to_the_monitor_reaches_the_engine(units: Units) -> None:
    head = units.serving_small()
    head.kill(head.monitor.pid, 15)
    assert head.wait_for_exit() == 0
    assert "[shutdown] API server: shutdown triggered" in head.log
