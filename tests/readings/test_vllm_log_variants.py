# ruff: noqa: E501 - lines of tools stay whole
"""Engine logs of other releases, behind other launchers, and other ways in which a start ends."""

import io

import pytest

from fleet.readings.kinds import read_as
from fleet.readings.report import Report

START = """\
INFO 11-30 20:20:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=1) INFO 11-30 20:20:04 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=1) INFO 11-30 20:20:04 [utils.py:233] non-default args: {'model': 'glm-5.2'}
(EngineCore_DP0 pid=80) INFO 11-30 20:20:16 [core.py:644] Waiting for init message from front-end.
(EngineCore_DP0 pid=80) INFO 11-30 20:20:16 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: model='glm-5.2'
(Worker_TP0 pid=90) INFO 11-30 20:20:20 [pynccl.py:103] vLLM is using nccl==2.27.3
(Worker_TP0 pid=90) INFO 11-30 20:20:24 [gpu_model_runner.py:2602] Starting to load model glm-5.2...
(Worker_TP0 pid=90) INFO 11-30 20:21:24 [default_loader.py:267] Loading weights took 59.10 seconds
(Worker_TP0 pid=90) INFO 11-30 20:21:26 [gpu_model_runner.py:2653] Model loading took 43.2100 GiB and 61.812345 seconds
(Worker_TP0 pid=90) INFO 11-30 20:21:57 [gpu_worker.py:298] Available KV cache memory: 16.23 GiB
(EngineCore_DP0 pid=80) INFO 11-30 20:21:57 [kv_cache_utils.py:1087] GPU KV cache size: 425,424 tokens
(EngineCore_DP0 pid=80) INFO 11-30 20:21:57 [kv_cache_utils.py:1091] Maximum concurrency for 65,536 tokens per request: 6.49x
(Worker_TP0 pid=90) INFO 11-30 20:22:04 [gpu_model_runner.py:3480] Graph capturing finished in 7 secs, took 0.95 GiB
(EngineCore_DP0 pid=80) INFO 11-30 20:22:04 [core.py:210] init engine (profile, create kv cache, warmup model) took 25.99 seconds
"""
READY = (
    START
    + """\
(APIServer pid=1) INFO 11-30 20:22:14 [api_server.py:1912] Starting vLLM API server 0 on http://0.0.0.0:8000
(APIServer pid=1) INFO:     Started server process [1]
(APIServer pid=1) INFO:     Waiting for application startup.
(APIServer pid=1) INFO:     Application startup complete.
"""
)
STOPPED = """\
(APIServer pid=1) INFO:     Shutting down
(APIServer pid=1) INFO:     Waiting for application shutdown.
(APIServer pid=1) INFO:     Application shutdown complete.
"""


def read(text: str) -> Report:
    return read_as("vllm-log", io.BytesIO(text.encode()))


def test_a_whole_start_passes_with_its_numbers():
    found = read(READY)
    assert (found.verdict, found.complete) == ("pass", True)
    wanted = {
        "kv_tokens": 425424,
        "max_concurrency": 6.49,
        "graph_capture_s": 7.0,
        "version": "0.11.0",
    }
    assert {key: found.values[key] for key in wanted} == wanted


PREFIXES = [
    "Nov 30 20:26:37 h100-001 vllm[8052]: ",
    "2026-11-30T20:26:37+0000 h100-001 docker[8052]: ",
    "2026-11-30T20:26:37.123456789Z ",
    "glm52-a  | ",
    "[pod/glm52-0/vllm] ",
    "h100-001: ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_a_launcher_puts_before_each_line_changes_nothing(prefix):
    plain, found = (
        read(READY),
        read("".join(f"{prefix}{line}" for line in READY.splitlines(keepends=True))),
    )
    assert found.verdict == "pass"
    assert {**found.values, "phases": 0} == {**plain.values, "phases": 0}


def test_an_engine_that_stopped_in_order_serves_no_more():
    assert read(READY + "Terminated\n").verdict == "unknown"
    found = read(READY + STOPPED)
    assert (found.verdict, found.summary) == ("unknown", "Stopped in order.")


def test_a_dead_engine_whose_server_then_stops_is_a_failure():
    dead = "(APIServer pid=1) ERROR 11-30 21:00:00 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    assert read(READY + dead + STOPPED).verdict == "fail"


def test_a_second_start_behind_a_stop_is_judged_for_itself():
    assert read(READY + STOPPED + READY).verdict == "pass"
    assert read(READY + STOPPED + START).verdict == "unknown"


CORE = "(EngineCore_DP0 pid=80) ERROR 11-30 20:21:58 [core.py:708] "
# lines behind a start, kind of the cause
ENDS = [
    (f"{CORE}EngineCore failed to start.\n{CORE}Traceback (most recent call last):\n{CORE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.", "oom"),
    (f"{CORE}EngineCore failed to start.\n{CORE}ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "kv_none"),
    (f"{CORE}ValueError: To serve at least one request with the models's max seq len (131072), (12.0 GiB KV cache is needed, which is larger than the available KV cache memory (9.4 GiB).", "kv_too_small"),
    (f"{CORE}ValueError: Free memory on device (10.1/79.2 GiB) on startup is less than desired GPU memory utilization (0.9, 71.3 GiB).", "gpu_not_free"),
    (f"{CORE}AssertionError", "exception:AssertionError"),
    (f"{CORE}Exception: WorkerProc initialization failed due to an exception in a background process.", "worker_exception"),
    (f"{CORE}safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer", "exception:SafetensorError"),
    ("(APIServer pid=1) OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use", "port_in_use"),
    ("(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", "start_failed"),
    ("(APIServer pid=1) ERROR 11-30 20:23:00 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client.", "engine_fatal"),
    ("(EngineCore_DP0 pid=80) ERROR 11-30 20:23:00 [multiproc_executor.py:154] Worker proc VllmWorker-3 died unexpectedly, shutting down executor.", "worker_died"),
    ("Killed", "killed"),
    ("/bin/bash: line 1:    12 Killed                  vllm serve glm-5.2", "killed"),
    ("Segmentation fault (core dumped)", "killed"),
    ("container glm52-a exited with code 137", "host_oom"),
    ("(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM)", "host_oom"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "kind"), ENDS)
@pytest.mark.parametrize("prefix", ["", *PREFIXES[:1]])
def test_a_start_that_broke_fails_with_its_cause(lines, kind, prefix):
    text = "".join(f"{prefix}{line}\n" for line in (START + lines).splitlines())
    found = read(text)
    assert found.verdict == "fail"
    assert found.values["error_kind"] == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n',
            "container_failed",
        ),
        ("bash: vllm: command not found\n", "vllm_missing"),
        ("/usr/bin/python3: No module named vllm\n", "vllm_missing"),
        (
            "usage: vllm serve [model_tag] [options]\nvllm: error: unrecognized arguments: --no-such\n",
            "bad_arguments",
        ),
    ],
)
def test_a_start_that_never_began_fails(text, kind):
    found = read(text)
    assert (found.verdict, found.values["error_kind"]) == ("fail", kind)


HARMLESS = [
    "(EngineCore_DP0 pid=80) INFO 11-30 20:20:30 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 second.",
    "(APIServer pid=1) WARNING 11-30 20:22:10 [config.py:1371] Default sampling parameters have been overridden",
    "(Worker_TP0 pid=90) WARNING 11-30 20:20:21 [custom_all_reduce.py:85] Custom allreduce is disabled because it failed a check.",
    "/usr/lib/python3.12/site-packages/torch/utils/cpp_extension.py:2356: UserWarning: TORCH_CUDA_ARCH_LIST is not set",
    '(APIServer pid=1) INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
    "[rank0]:[W1130 20:20:20.1 ProcessGroupNCCL.cpp:4718] [PG ID 0 Rank 0]  using GPU 0 as device used by this process is currently unknown.",
]


def test_lines_that_sound_bad_in_healthy_starts_are_no_failure():
    found = read(READY + "".join(f"{line}\n" for line in HARMLESS))
    assert found.verdict == "pass"
    assert found.values["error"] is None


WRONG = """\
(APIServer pid=1) ERROR 11-30 21:21:58 [serving_chat.py:200] Error in preprocessing prompt inputs
(APIServer pid=1) ERROR 11-30 21:21:58 [serving_chat.py:200] Traceback (most recent call last):
(APIServer pid=1) ERROR 11-30 21:21:58 [serving_chat.py:200] ValueError: This model's maximum context length is 4096 tokens.
"""


def test_a_wrong_request_is_no_failure_of_the_engine():
    found = read(READY + WRONG)
    assert found.verdict == "pass"
    assert [(f.id, f.severity) for f in found.findings] == [("requests_refused", "info")]


def test_any_other_exception_while_serving_is_one():
    assert read(READY + WRONG.replace("ValueError", "RuntimeError")).verdict == "fail"
    assert read(START + WRONG).verdict == "fail"
