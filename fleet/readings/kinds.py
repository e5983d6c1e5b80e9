"""The kinds of text that can be read, and how a text is recognised by its content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from fleet.readings.by_node import Nodes, part_by_node, report_nodes
from fleet.readings.open_end import LineBatches
from fleet.readings.report import Report, open_end
from fleet.readings.text import Readable, Rewound, decode, read_capped
from fleet.readings.told import tell
from fleet.readings.verdicts.bench import report_bench
from fleet.readings.verdicts.fabric import report_fabric
from fleet.readings.verdicts.host import report_host
from fleet.readings.verdicts.ib_write_bw import report_ib_write_bw
from fleet.readings.verdicts.kernel_log import report_kernel_log
from fleet.readings.verdicts.metrics import report_metrics
from fleet.readings.verdicts.nccl_log import report_nccl_log
from fleet.readings.verdicts.nccl_tests import report_nccl_tests
from fleet.readings.verdicts.nvidia_smi import report_nvidia_smi
from fleet.readings.verdicts.topo import report_topo
from fleet.readings.verdicts.vllm_log import report_vllm_log

_HEAD_BYTES = 1024 * 1024
_HEAD_LINES = 4000
# What is asked of many nodes at once; logs and benches have names of their own in their lines.
_OF_NODES = ("topo", "nvidia-smi", "fabric", "ib-write-bw", "host")


def _whole(kind: str, report: Callable[[str], Report]) -> Callable[[Readable], Report]:
    """Read small tools at once; what is longer than the cap is cut and therefore incomplete."""

    def read(stream: Readable) -> Report:
        text, is_cut = read_capped(stream)
        nodes = part_by_node(text) if kind in _OF_NODES else None
        if nodes is not None and _is_of_kind(nodes, kind):
            found = report_nodes(nodes, kind, report)
        else:
            found = report(text)
        if not is_cut:
            return found
        verdict = "unknown" if found.verdict == "pass" else found.verdict
        return Report(
            found.kind,
            found.form,
            False,
            verdict,
            tell("Only the first part was read. %(summary)s", summary=found.summary),
            found.findings,
            found.values,
            found.unread,
        )

    return read


def _streamed(
    report: Callable[[Iterable[list[bytes]]], Report], *ends: bytes
) -> Callable[[Readable], Report]:
    """Read logs of any length line by line; one that ends inside its last line is incomplete.

    `ends` are the endings by which a last line without its line feed is known to be whole.
    """

    def read(stream: Readable) -> Report:
        batches = LineBatches(stream, ends)
        found = report(batches)
        torn = batches.torn_line
        if torn is None:
            return found
        summary, verdict = found.summary, found.verdict
        if verdict == "pass":
            summary = tell("The text ends inside its last line. %(summary)s", summary=summary)
            verdict = "unknown"
        return replace(
            found,
            complete=False,
            verdict=verdict,
            summary=summary,
            # A log that is still written ends so: it is said, and warns of nothing.
            findings=(*found.findings, *open_end(torn, "info")),
            unread=tuple(sorted({*found.unread, torn})),
        )

    return read


READERS: dict[str, Callable[[Readable], Report]] = {
    "topo": _whole("topo", report_topo),
    "nvidia-smi": _whole("nvidia-smi", report_nvidia_smi),
    "fabric": _whole("fabric", report_fabric),
    "host": _whole("host", report_host),
    "ib-write-bw": _whole("ib-write-bw", report_ib_write_bw),
    "metrics": _whole("metrics", report_metrics),
    "bench": _whole("bench", report_bench),
    "nccl-tests": report_nccl_tests,
    "vllm-log": _streamed(report_vllm_log, b"Application startup complete."),
    "nccl-log": _streamed(report_nccl_log, b"Init COMPLETE", b"Destroy COMPLETE"),
    "kernel-log": _streamed(report_kernel_log),
}

# Kind, pattern of one telling line. The kind with the most telling lines is taken, with a weight
# for those that say it with one line.
_MARKS: tuple[tuple[str, int, str], ...] = (
    ("topo", 50, r"^\s*GPU0\s.*CPU Affinity|Connection traversing|^\s*GPU\d+\s+X\s"),
    ("nvidia-smi", 50, r"NVSMI LOG|\| NVIDIA-SMI|^GPU \d+: .*\(UUID: GPU-|Pwr:Usage/Cap"),
    ("nvidia-smi", 20, r"^index, |^uuid, |^timestamp, |GPU requires reset|\[Unknown Error\]"),
    ("nvidia-smi", 20, r"device handle for GPU|No devices were found|not a valid field to query"),
    ("nvidia-smi", 20, r"^\d+, .*\d (?:MiB|MHz|W|%)(?:,|$)|^\d+, (?:NVIDIA|Tesla) "),
    ("nvidia-smi", 20, r"GPU is lost\.|^gpu_name, |^gpu_uuid, |^name, |^pid, "),
    ("topo", 20, r"-i command line argument must be used in conjunction"),
    ("nvidia-smi", 20, r"NVML|nvidia-smi: (?:command )?not found|communicate with the NVIDIA"),
    # One such line stands in a test's output, beside thousands of NCCL's where those are asked for.
    (
        "nccl-tests",
        20_000,
        r"nThread \d+ nGpus \d+ minBytes|Collective test (?:starting|concluded):",
    ),
    ("nccl-tests", 20_000, r"Avg bus bandwidth {0,8}:|Out of bounds values {0,8}:"),
    ("nccl-tests", 60, r" \.\. .{1,300}: Test failure \S+:\d|\balgbw {1,8}busbw\b|algbw\(GB/s\)"),
    (
        "nccl-tests",
        20,
        r"^(?:\S{1,40}:)? {0,24}\d{1,15} {1,24}\d{1,15} {1,24}(?:float|half|bfloat16) ",
    ),
    ("ib-write-bw", 60, r"#bytes\s+(?:#sl\s+)?#iterations|^\s*[A-Z][\w ]+ (?:BW|Latency) Test\s*$"),
    ("ib-write-bw", 60, r"Failed status \d+: wr_id|Completion wi?th error at (?:client|server)"),
    ("ib-write-bw", 30, r"Couldn't (?:set the link layer|get context for the device)"),
    ("ib-write-bw", 30, r"Port number \d+ state is |BW peak won't be measured|Waiting for client"),
    ("ib-write-bw", 30, r"\bib_\w+_(?:bw|lat)\b|for socket connection|init the socket connection"),
    ("nccl-log", 2, r" NCCL (?:INFO|WARN) |Watchdog caught|^PGID +\||PEER_DEAD"),
    ("nccl-log", 2, r"NCCL version|ProcessGroupNCCL|communicator data|last enqueued work"),
    ("nccl-log", 2, r"Got completion from peer"),
    ("vllm-log", 3, r"\((?:APIServer|ApiServer_|EngineCore|Worker|VllmWorker)[^)]{0,40}pid="),
    ("vllm-log", 3, r"(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d "),
    # Ray's worker class of vLLM: NCCL's set-up lines in it are a part of an engine's start.
    ("vllm-log", 3, r"\(RayWorkerWrapper pid=[^)]{1,64}\) .* NCCL INFO "),
    ("vllm-log", 3, r"vllm: error:|checkpoint shards:|# GPU blocks:|KV cache size:|vLLM"),
    ("kernel-log", 20, r"NVRM: |Xid \(PCI|mlx5_core |Out of memory: Killed|\[ *\d+\.\d{6}\] "),
    ("kernel-log", 20, r"^\S.{14,80} kernel: |^\[\w{1,3} \w{1,5} +\d{1,2} \d\d:\d\d:\d\d \d{4}\] "),
    ("kernel-log", 20, r"^kern +:|^\d,\d+,\d+,[^;]*;|EDAC MC|: segfault at "),
    ("fabric", 20, r"^CA '|^\s*Port \d+:$|Infiniband device '|\bport \d+ ==> |n_gids_found"),
    ("fabric", 20, r"^DEV\s+PORT\s+INDEX|Link layer: |^NAME +.*MOUNTPOINT|^Filesystem +"),
    ("fabric", 20, r'^\S+ +(?:UP|DOWN|UNKNOWN) |"blockdevices"|"ifname":|^NAME="'),
    ("fabric", 20, r"^\d+: \S+: <[A-Z]|^ibpanic:|^(?:ibstat|show_gids|lsblk|df): "),
    (
        "fabric",
        20,
        r"^NAME +(?:.* )?(?:FSTYPE|SIZE|MODEL)\b|^Mounted on |^hca_id:\s|^link \S+/\d+:? state ",
    ),
    ("host", 50, r"^Leap status +: |^(?:chronyc: )?506 Cannot talk|^System time +: .* of NTP time"),
    (
        "host",
        50,
        r"^available: \d+ nodes? \(|^No NUMA |^(?:MemTotal|MemAvailable):|^CPU\(s\):|^NUMA node\d",
    ),
    (
        "host",
        50,
        r'^ ?(?:NIC|PHY|Standard) statistics|infiniband/\S+/ports/\d+/(?:hw_)?counters/\S+:|^\{ ?"lscpu"',
    ),
    (
        "host",
        50,
        r'^Client: |^(?:Client|Server):$|"ApiVersion"|[Dd]ocker daemon|[Mm]ax locked memory',
    ),
    (
        "host",
        50,
        r"^ {0,8}READ: bw=|: \(groupid=\d+, jobs=|^\d+ bytes .*copied, |\d packets transmitted, ",
    ),
    (
        "host",
        20,
        r'^\s*\{?\s*"fio version"|^(?:chronyc|ethtool|lscpu|numactl|docker|fio): ',
    ),
    ("bench", 60, r"Serving Benchmark Result|Request throughput \(req/s\)|\"request_throughput\""),
    ("bench", 60, r"AIPerf \| |GuideLLM|guidellm|Benchmarking complete|Initial test run failed"),
    (
        "bench",
        60,
        r"subparser='bench'|\"endpoint_type\": |\(tok/s\):|^Throughput: [\d.]+ requests/s",
    ),
    ("bench", 60, r"^\s*(?:Mean|Median|P99) (?:TTFT|TPOT|ITL|E2EL) \(ms\):|% percentile latency: "),
    ("metrics", 20, r"^# (?:HELP|TYPE) |^DCGM_FI_|^vllm[:_]\w+\{|^nvidia_smi_"),
)
KINDS = (
    "topo",
    "nvidia-smi",
    "fabric",
    "host",
    "nccl-tests",
    "ib-write-bw",
    "nccl-log",
    "kernel-log",
    "vllm-log",
    "bench",
    "metrics",
)
_COMPILED = tuple((kind, weight, re.compile(pattern)) for kind, weight, pattern in _MARKS)


# A result file as JSON may be one line of any length, and names in its keys what it is.
_JSON_MARKS: tuple[tuple[str, str], ...] = (
    ("ib-write-bw", r"""\A\s*\{\s*"?test_info"?\s*:"""),
    ("nccl-tests", r"""\A\s*\{\s*"version"\s*:\s*\d{1,3}\s*,\s*"start_time"\s*:"""),
    ("nccl-tests", r"""\A\s*\{(?s:.){0,65536}"average_bus_bandwidth"\s*:"""),
    (
        "bench",
        r"""\A\s*\{(?s:.){0,65536}"(?:benchmarks|requests_per_second|request_throughput)"\s*:""",
    ),
)
_JSON_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _JSON_MARKS)


def recognise(text: str) -> str | None:
    """Return the kind that most lines of a text speak for, or None; lines that name nodes count without the name."""
    nodes = part_by_node(text)
    if nodes is not None and (found := _kind_of(nodes)) in _OF_NODES:
        return found
    for kind, pattern in _JSON_COMPILED:
        if pattern.match(text):
            return kind
    return _scored(text)


def _is_of_kind(nodes: Nodes, kind: str) -> bool:
    return _kind_of(nodes) == kind


def _kind_of(nodes: Nodes) -> str | None:
    """Return the kind of the first node that gave something known: others may have failed."""
    told = (_scored(share.text) for share in nodes.shares.values())
    return next((kind for kind in told if kind is not None), None)


def _scored(text: str) -> str | None:
    scores: dict[str, int] = {}
    for row in text.split("\n", _HEAD_LINES)[:_HEAD_LINES]:
        line = row[:512]
        for kind, weight, pattern in _COMPILED:
            if pattern.search(line):
                scores[kind] = scores.get(kind, 0) + weight
    return max(scores, key=lambda kind: scores[kind]) if scores else None


def read_as(kind: str, stream: Readable) -> Report:
    """Read a stream as one kind; `auto` looks at its head first. `kind` is in `readable_kinds`."""
    if kind != "auto":
        return READERS[kind](stream)
    head = _read_head(stream)
    found = recognise(decode(head))
    if found in READERS:
        return READERS[found](Rewound(head, stream))
    if found is None:
        summary = tell("Not recognised as the output of any known tool.")
        return Report("auto", "unrecognised", False, "unknown", summary)
    summary = tell("This looks like %(kind)s, for which there is no reader yet.", kind=found)
    return Report(found, "not read", False, "unknown", summary)


def readable_kinds() -> tuple[str, ...]:
    """Return the kinds that can be asked for."""
    return (*(kind for kind in KINDS if kind in READERS), "auto")


def _read_head(stream: Readable) -> bytes:
    parts: list[bytes] = []
    left = _HEAD_BYTES
    while left > 0 and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
