from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.readings.log_line import LineClassifier
from fleet.readings.log_subsystem import SUBSYSTEMS
from fleet.readings.signature import signature

GLM = {"gpus_per_node": 8, "tp": 8, "pp": 2, "dp": 1}
DSV4 = {"gpus_per_node": 8, "tp": 1, "pp": 1, "dp": 8}


def read(text, position=1, shape=GLM):
    return LineClassifier(position=position, **shape).read(text)


def folded(line):
    return signature(line.text, line.level)


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("(Worker_PP1_TP3 pid=48231) INFO 11-29 18:38:30 [a.py:1] x", 11),
        ("(Worker_PP0_TP3 pid=48231) INFO 11-29 18:38:30 [a.py:1] x", 3),
        ("(Worker_TP5 pid=9) \rLoading safetensors checkpoint shards:   0% Completed | 0/8", 5),
        ("(Worker pid=9) INFO 11-29 18:38:30 [a.py:1] x", None),
        ("(VllmWorker rank=3 pid=9) INFO 11-29 18:38:30 [a.py:1] x", 3),
        ("(VllmWorker-0 pid=16109) WARNING 11-29 21:50:34 [vllm.py:725] x", 0),
        ("(EngineCore pid=9) ERROR 11-29 18:38:30 [core.py:1] x", None),
        ("(APIServer pid=9) INFO 11-29 18:38:30 [a.py:1] x", None),
        ("h100-028:48231:48300 [3] NCCL INFO Connected all trees", 11),
        ("[2026-11-29 18:38:30] h100-028:48231:48300 [3] a.cc:1 NCCL WARN x", 11),
        ("(RayWorkerWrapper pid=581, ip=10.0.0.18) k8s17:581:581 [0] NCCL INFO Trees [0] 1", 8),
        ("[0] node-a:227602:227667 [2] NCCL INFO NVLS Head  0:  0  8 16", 10),
        ("WorkerWrapper pid=2361) k8s19:2361:2361 [0] NCCL INFO Channel", 8),
        ("[rank8]:[E1129 18:31:07.113 ProcessGroupNCCL.cpp:632] [Rank 8] Watchdog caught", 8),
        ("[80746] [rank4]:[E321 02:07:08.4 ProcessGroupNCCL.cpp:607] [Rank 4] Watchdog", 4),
        ("[E ProcessGroupNCCL.cpp:475] [Rank 4] Watchdog caught collective", 4),
        ("(Worker_TP2_EP2 pid=1) [rank2]:E0716 18:21:22.79 132331 a.py:874] x", 2),
        ("[rank12]: Traceback (most recent call last):", 12),
        ("ERROR 11-29 18:38:31 [m.py:285] Worker proc VllmWorker-11 died unexpectedly", None),
    ],
)
def test_the_rank_is_the_one_in_the_whole_unit(text, rank):
    assert read(text).rank == rank


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("(Worker_DP3_EP3 pid=1) INFO 11-29 18:38:30 [a.py:1] x", 3),
        ("(EngineCore_DP5 pid=1) INFO 11-29 18:38:30 [a.py:1] x", 5),
        ("(ApiServer_7 pid=1) INFO 11-29 18:38:30 [a.py:1] x", None),
        ("h100-021:1:2 [6] NCCL INFO Connected all rings", 6),
    ],
)
def test_data_parallel_ranks_count_too(text, rank):
    assert read(text, position=0, shape=DSV4).rank == rank


def test_data_parallel_is_the_outermost_number():
    line = "(Worker_DP1_PP1_TP3 pid=1) INFO 11-29 18:38:30 [a.py:1] x"
    assert read(line, shape={"gpus_per_node": 8, "tp": 4, "pp": 2, "dp": 2}).rank == 15


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("INFO 11-29 18:38:30 [a.py:1] an out-of-memory error may occur", "info"),
        ("(EngineCore pid=1) WARNING 11-29 18:38:30 [a.py:1] x", "warn"),
        ("(EngineCore pid=1) DEBUG 11-29 18:38:30 [a.py:1] x", "debug"),
        ("(EngineCore pid=1) ERROR 11-29 18:38:30 [a.py:1] x", "error"),
        ("\x1b[32mINFO\x1b[0m:     Application startup complete.", "info"),
        ('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', "info"),
        ('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 503 Service Unavailable', "warn"),
        ('INFO:     10.0.1.5:50000 - "POST /v1/chat/completions HTTP/1.1" 200 OK', "info"),
        ("ERROR:    Exception in ASGI application", "error"),
        ("node-a:1:2 [0] NCCL INFO error is only a word here", "info"),
        ("node-a:1:2 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect", "warn"),
        ("[W716 19:53:12.333618227 socket.cpp:764] [c10d] The client socket", "warn"),
        ("2026-07-16 20:03:57,095 - INFO - autotuner.py:651 - x", "info"),
        ("2024-04-27 10:13:05 | ERROR | stderr | Traceback", "error"),
        ("Traceback (most recent call last):", "error"),
        ("torch.AcceleratorError: CUDA error: an illegal memory access was encountered", "error"),
        ("terminate called after throwing an instance of 'c10::Error'", "error"),
        ("vllm: error: unrecognized arguments: --foo", "error"),
        ("slurmstepd: error: *** STEP 9.8 ON node-a CANCELLED", "error"),
        ("docker: Error response from daemon: Conflict.", "error"),
        ("/usr/lib/a.py:139: UserWarning: Failed to get the IP address", "warn"),
        ("Loading safetensors checkpoint shards:  12% Completed | 1/8 [02:50<19:56]", "info"),
        ("Capturing CUDA graph shapes: 100%|████| 35/35 [00:14<00:00]", "info"),
        ("  | [2025-03-10T15:07:20Z] ERROR 03-10 08:07:20 [core.py:302] x", "error"),
        ("2026-07-16T20:03:57.123456789Z stderr F ERROR 07-16 20:03:57 [core.py:302] x", "error"),
        ("", "info"),
        ("anything else", "info"),
    ],
)
def test_the_level_is_read_from_every_form(text, level):
    assert read(text).level == level


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("(EngineCore pid=1) ERROR 11-29 18:38:30 [a.py:1] x", "11-29 18:38:30"),
        ("[rank8]:[E1129 18:31:07.113 P.cpp:632] x", "11-29 18:31:07.113"),
        ("[W716 19:53:12.333618227 socket.cpp:764] x", "07-16 19:53:12.333618227"),
        ("[2026-05-05 06:16:47] n:1:1 [3] net.cc:334 NCCL WARN x", "2026-05-05 06:16:47"),
        ("2026-07-16 20:03:57,095 - INFO - autotuner.py:651 - x", "2026-07-16 20:03:57"),
        ("  | [2025-03-10T15:07:20Z] ERROR 03-10 08:07:20 [core.py:302] x", "03-10 08:07:20"),
        ("node-a:1:2 [0] NCCL INFO Trees", None),
    ],
)
def test_the_time_stays_as_printed(text, at):
    assert read(text).message_at == at


@pytest.mark.parametrize(
    ("text", "subsystem"),
    [
        ("n:1:2 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 3 nranks 8 - Init START", "INIT"),
        ("n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "NET"),
        ("n:1:2 [0] NCCL INFO Channel 00/24 :    0   1   2", "INIT"),
        ("n:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE", "NET"),
        ("n:1:2 [0] NCCL INFO AllReduce: opCount 1c3394 sendbuff 0x1", "COLL"),
        ("n:1:2 [0] a.cc:1 NCCL WARN NET/IB : Got completion from peer", "NET"),
        ("[rank8]:[E1129 18:31:07.113 ProcessGroupNCCL.cpp:632] x", "PG"),
        (
            "(Worker_TP0 pid=1) INFO 07-17 14:34:54 [default_loader.py:502] Loading weights t",
            "LOAD",
        ),
        ("(Worker_TP0 pid=1) INFO 07-17 14:34:54 [m.py:5] Model loading took 67.56 GiB", "LOAD"),
        ("(EngineCore pid=1) INFO 07-17 14:34:54 [kv_cache_utils.py:2] GPU KV cache size", "KV"),
        ("(Worker_TP0 pid=1) INFO 07-17 14:34:54 [m.py:5] Graph capturing finished in 5", "GRAPH"),
        ("(EngineCore pid=1) INFO 07-17 14:34:54 [core.py:340] init engine took", "ENG"),
        ("(APIServer pid=1) INFO 07-17 14:34:54 [api_server.py:673] Supported tasks", "API"),
        ('INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK', "HTTP"),
        ("(Worker_TP0 pid=1) Loading safetensors checkpoint shards:  12% Completed | 1/8", "LOAD"),
        ("something", "OTHER"),
    ],
)
def test_the_subsystem_is_the_part_that_it_speaks_of(text, subsystem):
    assert read(text).subsystem == subsystem


def test_a_redrawn_progress_line_keeps_its_speaker():
    text = "(Worker_TP2 pid=1) \rCapturing CUDA graphs (decode, FULL):   0%| | 0/1\rCapturing CUDA "
    line = read(text + "graphs (decode, FULL): 100%|█| 1/1 [00:00<00:00]", position=0)
    assert (line.rank, line.level, line.subsystem) == (2, "info", "GRAPH")


def classify(*texts):
    classifier = LineClassifier(position=1, **GLM)
    return [classifier.read(t) for t in texts]


def test_a_traceback_keeps_the_level_of_its_start():
    lines = classify(
        "(EngineCore pid=1) Traceback (most recent call last):",
        '(EngineCore pid=1)   File "a.py", line 1, in b',
        "(EngineCore pid=1)     raise x",
        "(EngineCore pid=1) RuntimeError: Worker failed with error 'CUDA error",
        "(EngineCore pid=1) Search for `cudaErrorIllegalAddress' in the docs",
        "(EngineCore pid=1) INFO 07-17 14:34:54 [core.py:340] again quiet",
        "(EngineCore pid=1) and raw",
    )
    assert [line.level for line in lines] == ["error"] * 5 + ["info", "info"]


def test_processes_that_write_in_turn_are_not_mixed():
    lines = classify(
        "(Worker_PP1_TP3 pid=1) Traceback (most recent call last):",
        "(Worker_PP1_TP4 pid=2) INFO 07-17 14:34:54 [core.py:340] fine here",
        "(Worker_PP1_TP3 pid=1)   File a",
        "(Worker_PP1_TP4 pid=2) raw and fine",
    )
    assert [(line.rank, line.level) for line in lines] == [
        (11, "error"), (12, "info"), (11, "error"), (12, "info"),
    ]  # fmt: skip


def test_a_continuation_keeps_rank_and_time():
    lines = classify(
        "[rank8]:[E1129 18:31:07.113 ProcessGroupNCCL.cpp:632] [Rank 8] failure",
        "Exception raised from checkTimeout at a.cpp:1 (most recent call first):",
        "frame #0: c10::Error::Error(...)",
    )
    assert [line.level for line in lines] == ["error"] * 3


def test_a_progress_bar_does_not_end_a_traceback():
    lines = classify("Traceback (most recent call last):", "x: 12%|█ | 1/8", "  File a")
    assert [line.level for line in lines] == ["error", "info", "error"]


def test_equal_messages_of_many_ranks_have_one_signature():
    one = read("(Worker_PP1_TP3 pid=48231) ERROR 11-29 18:38:30 [m.py:987] died after 12.5 s")
    two = read("(Worker_PP0_TP1 pid=7) ERROR 11-29 18:38:31 [m.py:987] died after 1 s")
    assert folded(one) == folded(two)
    comm = "comm 0x557fe785f7a0 rank 36 nranks 64 cudaDev 4 busId 9b000 commId 0x5ae7 - Init START"
    other = "comm 0x123 rank 1 nranks 64 cudaDev 1 busId 1b000 commId 0x5ae7 - Init START"
    assert signature(f"h1:1:2 [4] NCCL INFO {comm}") == signature(f"h2:3:4 [1] NCCL INFO {other}")


def test_an_error_never_folds_into_something_less():
    error = read("(Worker_TP0 pid=1) ERROR 11-29 18:38:30 [m.py:987] x")
    warning = read("(Worker_TP0 pid=1) WARNING 11-29 18:38:30 [m.py:987] x")
    assert folded(error) != folded(warning)
    assert folded(read("n:1:2 [0] NCCL INFO x")) != folded(read("n:1:2 [0] NCCL WARN x"))


HOSTILE = [
    "\0\0\0",
    "\x1b]8;;http://x\x07link\x1b]8;;\x07",
    "\x1b]0;" + "t" * 100_000,
    "(" * 100_000,
    "(Worker_TP" + "9" * 10_000 + " pid=1) INFO 11-29 18:38:30 [a.py:1] x",
    "a" * 10_000_000,
    "1" * 1_000_000,
    "[" * 100_000,
    "\ufffd" * 5_000,
    "INFO ",
    " NCCL ",
    " NCCL WARN",
    "(a) ",
    "\r\r\r",
    "<script>alert(1)</script>",
    "\u202eabc",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_gives_a_line(text):
    line = read(text)
    assert line.subsystem in SUBSYSTEMS
    assert len(folded(line)) < 200
    LineClassifier(position=0, **GLM).read(text)


@given(st.text(max_size=300))
def test_any_text_gives_a_line(text):
    line = read(text)
    assert line.level in ("debug", "info", "warn", "error")
    assert line.subsystem in SUBSYSTEMS
    assert isinstance(folded(line), str)


def test_the_memory_of_speakers_is_bounded():
    classifier = LineClassifier(position=0, **GLM)
    for i in range(2_000):
        classifier.read(f"(Worker_TP{i} pid={i}) Traceback (most recent call last):")
    assert len(classifier._last) <= 256
