from __future__ import annotations

import pytest

from fleet.readings.log_prefix import Layout
from fleet.readings.verdicts.vllm_log import report_vllm_log
from fleet.readings.vllm_log import PHASES, PhaseReader, phase_rank

VERDICTS = {
    "002": "pass", "003": "pass", "005": "fail", "008": "fail", "009": "fail", "011": "fail",
    "012": "fail", "013": "fail", "015": "fail", "019": "unknown", "021": "fail", "022": "fail",
    "024": "fail", "025": "fail", "026": "fail", "027": "fail", "030": "fail", "031": "fail",
    "032": "unknown", "033": "unknown",
}  # fmt: skip
SPOKEN = {"verdict", "must_not"}
# Told in the sample's own words, or by frames of which the text holds only some.
IN_WORDS = {
    "008": {"stage", "ranks_seen"},
    "027": {"error"},
    "030": {"stage"},
}


def report(text):
    return report_vllm_log([[line.encode() for line in text.split("\n")]])


def read(*lines, layout=None):
    reader = PhaseReader(layout)
    for line in lines:
        reader.feed(line)
    return reader


@pytest.mark.parametrize("number", VERDICTS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("vllm-log", number)
    found = report(sample.text)
    for key, want in sample.expected.items():
        if key not in SPOKEN | IN_WORDS.get(number, set()):
            assert found.values.get(key) == want, key
    assert found.verdict == VERDICTS[number]


def test_a_missing_address_family_is_not_fatal(corpus):
    found = report(corpus("vllm-log", "002").text)
    assert found.findings == ()


def test_a_loopback_address_is_said(corpus):
    found = report(corpus("vllm-log", "003").text)
    assert [f.id for f in found.findings] == ["listens_on_loopback", "stderr_missing"]


def test_a_cancelled_start_is_not_a_crash(corpus):
    found = report(corpus("vllm-log", "005").text)
    assert found.summary == "Ended in load: cancelled by the scheduler, not a crash."


def test_messages_written_over_each_other_are_still_read(corpus):
    found = report(corpus("vllm-log", "008").text)
    assert found.values["phase"] is None
    assert found.values["stage"] == "profile"
    assert {0, 3} <= set(found.values["ranks_seen"])


def test_a_second_error_of_the_same_crash_is_its_echo(corpus):
    found = report(corpus("vllm-log", "009").text)
    errors = [f.id for f in found.findings if f.severity == "error"]
    assert errors == ["illegal_access"]


def test_empty_braces_do_not_mean_that_nobody_failed(corpus):
    found = report(corpus("vllm-log", "011").text)
    assert found.values["failed_core_procs"] == {}
    assert found.verdict == "fail"


def test_neither_the_dead_worker_nor_the_broadcast_is_blamed(corpus):
    found = report(corpus("vllm-log", "013").text)
    assert [f.id for f in found.findings if f.severity == "error"] == ["exception:ValueError"]
    assert "shm" not in " ".join(f.text for f in found.findings)


def test_a_busy_gpu_is_not_an_oom(corpus):
    assert report(corpus("vllm-log", "025").text).values["error_kind"] == "gpu_not_free"


def test_a_wrong_build_is_not_broken_hardware(corpus):
    summary = report(corpus("vllm-log", "026").text).summary
    assert summary == "Start failed: the build does not match this GPU architecture."


def test_advice_about_memory_is_not_an_oom(corpus):
    found = report(corpus("vllm-log", "033").text)
    assert found.findings == ()
    assert found.values["phase"] == "warmup"


def test_two_clocks_are_not_mixed(corpus):
    found = report(corpus("vllm-log", "024").text)
    assert found.values["phases"] == [["load", 1, "03-10 08:07:20"]]


def test_torn_ray_prefixes_do_not_break_it(corpus):
    found = report(corpus("vllm-log", "019").text)
    assert found.values["phase"] == "rendezvous"
    assert found.values["error"] is None


def test_the_phases_of_a_real_start_come_in_order(shared_dir):
    text = (shared_dir / "facts/vllm_real/serve_compile.log").read_text()
    reader = PhaseReader()
    for line in text.split("\n"):
        reader.feed(line)
        if reader.phase == "ready":
            break
    assert [t.phase for t in reader.transitions] == [
        "config", "init", "rendezvous", "load", "compile", "profile", "kv", "api", "ready",
    ]  # fmt: skip
    assert reader.facts.words["version"] == "0.32.0"
    assert reader.facts.value("kv_tokens") == 1_048_576
    assert reader.facts.value("max_concurrency") == 512.0
    assert reader.cause is None


def test_a_killed_engine_of_a_real_run_is_dead_while_serving(shared_dir):
    text = (shared_dir / "facts/vllm_real/serve_engine_killed.log").read_text()
    found = report(text)
    assert found.verdict == "fail"
    assert found.values["stage"] == "serving"


def test_a_drained_engine_of_a_real_run_is_no_fault(shared_dir):
    text = (shared_dir / "facts/vllm_real/serve_drain_newreq.log").read_text()
    found = report(text)
    assert found.verdict == "unknown"
    assert found.summary == "Stopped in order."
    assert all(f.severity == "info" for f in found.findings if f.id != "listens_on_loopback")


@pytest.mark.parametrize(
    "lines",
    [
        ("GPU KV cache size: 660,016 tokens", "Maximum concurrency for 131,072 tokens per request: 5.04x"),
        ("GPU KV cache size: 660,016 tokens, Maximum concurrency for 131,072 tokens per request: 5.04x",),
    ],
)  # fmt: skip
def test_both_forms_of_the_kv_line_are_read(lines):
    reader = read(*(f"(EngineCore pid=1) INFO 11-29 18:00:00 [k.py:1] {x}" for x in lines))
    assert reader.facts.value("kv_tokens") == 660_016
    assert reader.facts.value("max_concurrency") == 5.04
    assert reader.phase == "kv"


def test_numbers_of_ranks_are_reduced_as_the_engine_does():
    reader = read(
        "(Worker_PP0_TP0 pid=1) INFO 11-29 18:00:00 [g.py:1] Model loading took 43.9 GiB memory and 380.0 seconds",
        "(Worker_PP1_TP0 pid=2) INFO 11-29 18:00:09 [g.py:1] Model loading took 44.8 GiB memory and 390.0 seconds",
        "(Worker_PP0_TP0 pid=1) INFO 11-29 18:01:00 [g.py:1] Available KV cache memory: 16.5 GiB",
        "(Worker_PP1_TP0 pid=2) INFO 11-29 18:01:00 [g.py:1] Available KV cache memory: 13.3 GiB",
    )  # fmt: skip
    assert reader.facts.value("model_load_gib") == 44.8
    assert reader.facts.value("model_load_s") == 390.0
    assert reader.facts.value("kv_available_gib") == 13.3
    assert reader.facts.by_speaker("model_load_gib") == {
        "Worker_PP0_TP0": 43.9,
        "Worker_PP1_TP0": 44.8,
    }


PREFIX = "(Worker_TP3 pid=1) ERROR 11-29 18:00:00 [m.py:1] "
OOM = PREFIX + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
LOADED = "(Worker_TP3 pid=1) INFO 11-29 18:00:00 [g.py:1] Model loading took 44.8 GiB memory and 3 seconds"
KV = "(Worker_TP3 pid=1) INFO 11-29 18:00:00 [g.py:1] Available KV cache memory: 13.3 GiB"
START = "(Worker_TP3 pid=1) INFO 11-29 18:00:00 [g.py:1] Starting to load model /models/x..."
CAPTURE = "Capturing CUDA graphs (decode, FULL):   0%|          | 0/51 [00:00<?, ?it/s]"
READY = "INFO:     Application startup complete."


@pytest.mark.parametrize(
    ("lines", "stage"),
    [
        ((START, OOM), "load"),
        ((START, LOADED, KV, CAPTURE, OOM), "capture"),
        ((START, LOADED, KV, CAPTURE, READY, OOM), "ready"),
        ((PREFIX + '  File "gpu_worker.py", line 588, in capture_model', OOM), "capture"),
    ],
)
def test_an_oom_is_told_by_its_stage(lines, stage):
    reader = read(*lines)
    assert (reader.cause.kind, reader.cause.stage) == ("oom", stage)
    assert reader.ranks_of("oom") == [3]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("vllm: error: unrecognized arguments: --moe-capacity-factor 1", "bad_arguments"),
        ("torch.distributed.DistNetworkError: ... EADDRINUSE", "port_in_use"),
        ("OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): "
         "address already in use", "port_in_use"),
        ("TimeoutError: RPC call to sample_tokens timed out.", "rpc_timeout"),
        ("OSError: [Errno 28] No space left on device", "no_space"),
        ("n:1:1 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 "
         "bytes, error: No space left on device (28)", "no_space"),
        ("RuntimeError: Mismatched NCCL version detected : rank 8 version 22807 rank 0 version "
         "22809", "nccl_mismatch"),
        ("AssertionError: collective_rpc should not be called on follower node",
         "follower_not_headless"),
        ("torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 "
         "clients joined.", "store_timeout"),
        ("RuntimeError: CUDA error: out of memory", "oom"),
        ("ERROR 11-29 18:00:00 [k.py:1] ValueError: To serve at least one request with the model's"
         " max seq len (131072), (20.1 GiB KV cache is needed, which is larger than the available "
         "KV cache memory (13.3 GiB).", "kv_too_small"),
        ("ERROR 11-29 18:00:00 [core.py:1] RuntimeError: something new", "exception:RuntimeError"),
    ],
)  # fmt: skip
def test_a_failure_is_told_by_its_kind(line, kind):
    assert read(line).cause.kind == kind


def test_the_dead_worker_is_named_with_its_rank():
    reader = read(
        "ERROR 11-29 18:38:31 [multiproc_executor.py:285] Worker proc VllmWorker-11 died "
        "unexpectedly, shutting down executor."
    )
    assert (reader.cause.kind, reader.cause.worker) == ("worker_died", "VllmWorker-11")


def test_who_only_waited_for_the_dead_worker_is_no_cause():
    reader = read(
        "ERROR 11-29 18:38:31 [multiproc_executor.py:285] Worker proc VllmWorker-11 died "
        "unexpectedly, shutting down executor.",
        "RuntimeError: cancelled",
    )
    assert reader.cause.kind == "worker_died"


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=1) INFO 11-29 18:00:00 [shm_broadcast.py:705] No available shared memory "
        "broadcast block found in 60 seconds.",
        "INFO 11-29 18:00:00 [m.py:1] If out-of-memory error occurs, consider CUDA out of memory",
        'INFO:     127.0.0.1:50268 - "GET /metrics HTTP/1.1" 200 OK',
        "[W716 19:53:12.3 socket.cpp:764] [c10d] The client socket cannot be initialized (errno: 97)",
    ],
)
def test_lines_of_a_healthy_start_are_no_failure(line):
    assert read(line).failures == ()


def test_a_known_cause_wins_over_what_came_before_and_after():
    reader = read(
        PREFIX + "WorkerProc hit an exception.",
        PREFIX + "KeyError: 'x'",
        OOM,
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    )
    assert reader.cause.kind == "oom"


def test_a_start_is_never_ready_before_its_last_line(shared_dir):
    text = (shared_dir / "facts/vllm_real/serve_compile.log").read_text()
    lines = text.split("\n")
    last = next(i for i, x in enumerate(lines) if "Application startup complete" in x)
    for cut in range(0, last, 7):
        assert report("\n".join(lines[:cut])).verdict != "pass"
    assert report("\n".join(lines[: last + 1])).verdict == "pass"


def test_a_follower_stays_unready():
    reader = read(
        "INFO 11-29 18:00:00 [serve.py:1] Launching vLLM (v0.23.0) headless multiproc executor, "
        "with head node address 127.0.13.27:29500 for torch.distributed process group.",
        CAPTURE,
        "(Worker_PP1_TP0 pid=1) INFO 11-29 18:00:00 [g.py:1] Graph capturing finished in 5 secs, took 1.6 GiB",
    )  # fmt: skip
    assert reader.facts.is_follower
    assert reader.facts.words["version"] == "0.23.0"
    assert reader.phase == "warmup"


def test_a_second_start_in_one_stream_begins_anew():
    config = "(APIServer pid=1) INFO 11-29 18:00:00 [a.py:1] non-default args: {}"
    reader = read(config, START, OOM, config)
    assert (reader.phase, reader.restarts, reader.failures) == ("config", 1, ())


def test_a_reader_goes_on_where_another_stopped():
    reader = PhaseReader(phase="ready")
    assert reader.feed(KV) == ()
    reader.feed(OOM)
    assert (reader.phase, reader.cause.stage) == ("ready", "ready")


def test_ranks_are_numbered_by_the_layout():
    line = "(Worker_PP1_TP3 pid=1) ERROR 11-29 18:00:00 [m.py:1] CUDA out of memory"
    assert read(line).ranks_of("oom") == []
    assert read(line, layout=Layout(1, 8, 8, 2, 1)).ranks_of("oom") == [11]


def test_the_phases_stand_in_the_order_of_a_start():
    assert [phase_rank(p) for p in PHASES] == list(range(11))
    assert phase_rank(None) == -1


def test_memory_does_not_grow_with_the_log():
    reader = PhaseReader()
    for i in range(3_000):
        reader.feed(f"(Worker_TP{i} pid={i}) ERROR 11-29 18:00:00 [m.py:1] A{i}Error: Loading")
        reader.feed(f"raw {i}")
    assert len(reader.failures) <= 64
    assert len(reader.speakers) <= 1024
    assert len(reader.unread) <= 200


def whole(*lines):
    return report_vllm_log([[line.encode() for line in lines]])


def test_a_traceback_without_its_error_leaves_the_cause_unknown():
    found = whole(
        "ERROR 05-07 02:14:18 [core.py:396] EngineCore failed to start.",
        "ERROR 05-07 02:14:18 [core.py:396] Traceback (most recent call last):",
    )
    assert (found.verdict, found.complete) == ("fail", False)
    assert "error_not_shown" in {f.id for f in found.findings}


def test_numbers_of_a_first_start_are_not_those_of_a_second():
    found = whole(
        "INFO 05-07 02:00:00 [api_server.py:1] vLLM API server version 0.9.0",
        "INFO 05-07 02:00:01 [loader.py:458] Loading weights took 7.10 seconds",
        "INFO 05-07 02:00:02 [worker.py:1] Available KV cache memory: 3.00 GiB",
        "INFO 05-07 02:13:52 [api_server.py:1] vLLM API server version 0.9.1",
        "INFO 05-07 02:13:53 [loader.py:458] Loading weights took 0.10 seconds",
    )
    assert found.values["weights_load_s"] == 0.1
    assert found.values["version"] == "0.9.1"
    assert found.values.get("kv_available_gib") is None


def test_ranks_that_tell_of_a_cuda_error_are_named():
    found = whole(
        "(Worker_TP2 pid=3) INFO 05-07 02:00:00 [a.py:1] hello",
        "(Worker_TP3 pid=4) torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "(Worker_TP0 pid=1) CUDA kernel errors might be asynchronously reported at some other API call",
    )
    assert found.values["ranks_with_cuda_error"] == [0, 3]
    assert found.values["ranks_seen"] == [0, 2, 3]
