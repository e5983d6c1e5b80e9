"""What pasted NCCL and watchdog lines say: transports, who finished set-up, and what broke."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from fleet.readings.nccl_log import NcclReader
from fleet.readings.nccl_log.channels import ChannelUse
from fleet.readings.nccl_log.events import NcclEvent
from fleet.readings.nccl_log.setup import SetupLog
from fleet.readings.report import Finding, Report, Severity, Verdict
from fleet.readings.told import tell
from fleet.readings.verdicts.nccl_watchdog import watchdog_findings, watchdog_values

_ADVICE = {
    "ib_completion_error": tell("look at the rail and its peer"),
    "shm_full": tell("raise /dev/shm (--shm-size, --ipc=host, or a memory volume)"),
    "no_space": tell("mostly /dev/shm; raise it"),
    "nccl_version_mismatch": tell("images differ"),
    "duplicate_rank": tell("two processes claim one rank: a stale process or a wrong launcher"),
    "no_net_plugin": tell("no network could be initialised"),
    "ibv_create_ah_failed": tell(
        "the HCA list may match management ports; name HCAs exactly (=mlx5_0,..)"
    ),
    "ibv_modify_qp_failed": tell("the GID index may be of the wrong kind"),
    "connect_failed": tell("the peer cannot be reached"),
    "ib_async_fatal": tell("look at the port, its cable and its counters"),
    "memory_registration_failed": tell("raise the limit of locked memory (memlock unlimited)"),
    "duplicate_gpu": tell(
        "two ranks use one card: look at CUDA_VISIBLE_DEVICES and the local rank"
    ),
    "message_truncated": tell("ranks called the operation with different sizes"),
    "nvls_bind_failed": tell(
        "the NVSwitch fabric refused multicast memory: look at the fabric manager"
    ),
}
_EDGES_SHOWN = 256
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")


def report_nccl_log(batches: Iterable[list[bytes]], *, cut: bool = False) -> Report:
    """Judge the lines of any number of ranks; batches keep memory small for files of gigabytes."""
    reader = NcclReader()
    for batch in batches:
        reader.feed(batch)
    reader.finish()
    return report_read(reader, cut=cut)


def report_read(reader: NcclReader, *, cut: bool = False) -> Report:
    """Judge what a reader has collected."""
    findings = tuple(_findings(reader))
    whole = _is_whole(reader)
    return Report(
        kind="nccl-log",
        form=_form(reader),
        complete=whole and not reader.torn_count and not cut,
        verdict=_verdict(reader, findings, whole),
        summary=_summary(reader, findings),
        findings=findings,
        values=_values(reader),
        unread=tuple(sorted({*reader.unread, *reader.torn_lines})),
    )


def root_event(reader: NcclReader) -> NcclEvent | None:
    """Return the first event that nothing else explains, errors before warnings."""
    for wanted in ("error", "warn"):
        for event in reader.events:
            if event.severity == wanted and not event.is_echo:
                return event
    # Only consequences are left; one that names its peer says more than an exception's name.
    named = (event for event in reader.events if event.name != "unhandled_error")
    return next(named, reader.events[0] if reader.events else None)


def _form(reader: NcclReader) -> str:
    if reader.watchdog.timeouts or reader.watchdog.progress or reader.watchdog.cut:
        return "watchdog"
    if reader.ras.missing:
        return "flight-recorder"
    if reader.ras.values:
        return "ras"
    if reader.nccl_lines:
        return "nccl"
    return "exception" if reader.events else "none"


def _is_whole(reader: NcclReader) -> bool:
    """Whether each communicator that began was seen to end on all of its ranks."""
    comms = reader.setup.comms.values()
    done = [c for c in comms if not c.missing or len(c.destroyed) == c.nranks]
    return bool(done) and len(done) == len(comms)


def _verdict(reader: NcclReader, findings: tuple[Finding, ...], whole: bool) -> Verdict:
    if any(f.severity == "error" for f in findings):
        return "fail"
    doubtful = any(f.severity == "warn" for f in findings)
    return "pass" if whole and not doubtful and not reader.torn_count else "unknown"


def _findings(reader: NcclReader) -> Iterator[Finding]:
    yield from watchdog_findings(reader.watchdog)
    yield from _ras_findings(reader)
    yield from _event_findings(reader)
    yield from _init_findings(reader)
    yield from _place_findings(reader)
    setup = reader.setup
    if setup.connect_retries:
        text = tell(
            "%(count)s connection attempts timed out and were tried again",
            count=setup.connect_retries,
        )
        yield Finding("connect_timeout_retry", "warn", text)
    if setup.bad_interface:
        text = tell(
            "%(name)s is an interface of containers; other nodes cannot reach it",
            name=setup.bad_interface,
        )
        yield Finding("bad_interface", "warn", text)
    if _uses_socket(reader):
        text = tell("NET/Socket is the network: no RDMA between nodes (harmless on a single node)")
        severity: Severity = "info" if _is_one_node(reader) else "warn"
        yield Finding("socket_network", severity, text, tuple(reader.socket_lines))


def _place_findings(reader: NcclReader) -> Iterator[Finding]:
    """Tell what the names of networks, transports and hosts mean."""
    for name in reader.setup.networks:
        if name.startswith("IBext"):
            text = tell(
                "the network is %(name)s: InfiniBand verbs through an external plugin", name=name
            )
            yield Finding("external_plugin", "info", text)
    ways = _transport_values(reader)["transports"]
    if told := _ways_told(ways["intra"], ways["inter"]):
        yield Finding("transports", "info", told)
    for host in reader.table.hosts(_EDGES_SHOWN):
        if _CONTAINER_ID.fullmatch(host):
            text = tell(
                "host %(host)s is the id of a container; the node is not named in this text",
                host=host,
            )
            yield Finding("container_host", "info", text)
            return


def _ways_told(intra: str | list[str] | None, inter: str | list[str] | None) -> str:
    inside = tell("inside a node %(names)s", names=_way_words(intra)) if intra else ""
    outside = tell("between nodes %(names)s", names=_way_words(inter)) if inter else ""
    if inside and outside:
        return tell("%(first)s; %(second)s", first=inside, second=outside)
    return inside or outside


def _way_words(ways: str | list[str]) -> str:
    names = [ways] if isinstance(ways, str) else ways[:16]
    return ", ".join(name.replace("/GDRDMA", " with GDRDMA") for name in names)


def _event_findings(reader: NcclReader) -> Iterator[Finding]:
    root = root_event(reader)
    named: dict[str, list[NcclEvent]] = {}
    for event in reader.events:
        is_echo = event.is_echo and event is not root
        named.setdefault("echo" if is_echo else event.name, []).append(event)
    for name, events in named.items():
        first = events[0]
        advice = _ADVICE.get(first.name)
        lines = tuple(e.line for e in events)
        if name == "echo":
            text = tell(
                "%(count)s lines that follow from other events: %(first)s",
                count=len(events), first=first.text[:160],
            )  # fmt: skip
            yield Finding("consequence", "info", text, lines)
            continue
        # The words of NCCL itself stay as they are.
        said = first.text[:240]
        if advice:
            said = tell("%(text)s (%(advice)s)", text=said, advice=advice)
        yield Finding(first.name, first.severity, said, lines)


def _ras_findings(reader: NcclReader) -> Iterator[Finding]:
    ras, lines = reader.ras, tuple(reader.ras.lines)
    if ras.values.get("event") == "PEER_DEAD":
        text = tell(
            "process %(process)s on %(node)s is dead",
            process=ras.values.get("process"), node=ras.values.get("node"),
        )  # fmt: skip
        yield Finding("peer_dead", "error", text, lines)
    error = ras.values.get("error")
    if error == "MISMATCH":
        text = tell("ranks differ in their counts; by one operation this is skew, not a fault")
        yield Finding("ras_mismatch", "warn", text, lines)
    elif error:
        text = tell(
            "communicator is %(error)s; missing rank %(rank)s",
            error=error, rank=ras.values.get("missing_rank", tell("unknown")),
        )  # fmt: skip
        yield Finding("ras_incomplete", "error", text, lines)
    for row in ras.missing[:64]:
        text = tell(
            "group %(group)s: ranks %(ranks)s did not enter %(op)s",
            group=row["pgid"], ranks=str(row["ranks"]), op=row["op"],
        )  # fmt: skip
        yield Finding("missing_ranks", "error", text, lines)


def _init_findings(reader: NcclReader) -> Iterator[Finding]:
    for key, comm in list(reader.setup.comms.items())[:64]:
        stuck = sorted(comm.started - comm.completed)
        if stuck and comm.completed:
            text = tell(
                "communicator %(comm)s: ranks %(ranks)s started and did not finish",
                comm=key, ranks=str(stuck[:32]),
            )  # fmt: skip
            yield Finding("init_unfinished", "warn", text)
        if comm.completed and comm.missing:
            text = tell(
                "communicator %(comm)s: %(seen)s of %(of)s ranks finished in this text",
                comm=key, seen=len(comm.completed), of=comm.nranks,
            )  # fmt: skip
            yield Finding("init_partial", "info", text)


def _is_one_node(reader: NcclReader) -> bool:
    """Whether all ranks are known to stand on one node: no network carries anything there."""
    nodes = reader.setup.nnodes
    return nodes == 1 or (nodes is None and _is_whole(reader) and len(reader.table.hosts()) == 1)


def _uses_socket(reader: NcclReader) -> bool:
    return "Socket" in reader.setup.networks or any(
        name.startswith("NET/Socket") for name in reader.table.transport_counts()
    )


def _summary(reader: NcclReader, findings: tuple[Finding, ...]) -> str:
    errors = [f for f in findings if f.severity == "error"]
    if errors:
        return errors[0].text
    ends = [(len(c.completed), c.nranks) for c in reader.setup.comms.values() if c.completed]
    if ends:
        done, of = sum(d for d, _ in ends), sum(n for _, n in ends)
        return tell(
            "Set-up finished on %(done)s of %(of)s ranks of %(comms)s communicators.",
            done=done, of=of, comms=len(ends),
        )  # fmt: skip
    if any(c.destroyed for c in reader.setup.comms.values()):
        return tell("Orderly teardown.")
    if reader.nccl_lines:
        return tell("NCCL lines without an error; set-up is not complete in this text.")
    if status := reader.ras.values.get("status"):
        return tell("RAS: the communicator is %(status)s, without an error.", status=status)
    return tell("No NCCL or watchdog message in this text.")


def _values(reader: NcclReader) -> dict[str, Any]:
    values = _setup_values(reader) | _transport_values(reader)
    values["hosts"] = reader.table.hosts()[:_EDGES_SHOWN]
    values["host_count"] = len(reader.table.hosts())
    values["lines"] = reader.lines
    values["unread_count"] = reader.unread_count
    values["torn_lines"] = reader.torn_count
    values |= _event_values(reader)
    values |= watchdog_values(reader.watchdog)
    if reader.ras.missing:
        values["missing"] = reader.ras.missing
    return values | reader.ras.values


def _setup_values(reader: NcclReader) -> dict[str, Any]:
    setup = reader.setup
    return {
        "network": next(iter(setup.networks), None),
        "networks": list(setup.networks),
        "link": next(iter(sorted(setup.links)), None),
        "hcas": setup.hcas,
        "oob": setup.oob,
        "interfaces": len(setup.interfaces),
        "interface_names": setup.interfaces,
        "bootstrap_if": setup.bootstrap_if,
        "bad_interface": setup.bad_interface,
        "plugin_error": setup.plugin_error,
        "no_ib_hosts": sorted(setup.hosts_without_ib),
        "cuda_driver": setup.cuda_driver,
        "nccl": setup.nccl,
        "cuda": setup.cuda,
        **_rank_values(setup),
        "nvls": setup.nvls,
        "nvls_channels": setup.nvls_channels,
        "channels": setup.channels or setup.coll_channels,
        "nranks": setup.nranks,
        "nnodes": setup.nnodes,
        "local_ranks": setup.local_ranks,
        "mnnvl": setup.mnnvl,
        "init_s": setup.init_s,
        "settings": setup.settings,
    }


def _rank_values(setup: SetupLog) -> dict[str, Any]:
    comms = list(setup.comms.values())
    completed = [r for c in comms for r in c.completed_order][:_EDGES_SHOWN]
    destroyed = [r for c in comms for r in c.destroyed_order][:_EDGES_SHOWN]
    started = sorted({r for c in comms for r in c.started})
    return {
        "ranks_complete_seen": completed,
        "ranks_started": started[:_EDGES_SHOWN],
        "ranks_missing": {
            key: sorted(c.missing)[:64] for key, c in setup.comms.items() if c.completed
        },
        "rank": started[0] if len(started) == 1 else None,
        "rank_seen": setup.rank_seen,
        "ranks": destroyed,
    }


def _transport_values(reader: NcclReader) -> dict[str, Any]:
    counts = reader.table.transport_counts()
    uses = [ChannelUse(0, a, b, t) for a, b, t in reader.edges]
    inside = sorted({u.transport for u in uses if not u.is_network})
    outside = sorted({u.transport for u in uses if u.is_network})
    gdr = [u.has_gdr for u in uses if u.family == "NET/IB"]
    return {
        "transport_counts": counts,
        "transports": {"intra": _one(inside), "inter": _one(outside)},
        "transport": _one([*inside, *outside]),
        "intra": _one(sorted({t.split("/")[0] for t in inside})),
        "gdr": all(gdr) if gdr else reader.setup.ring_gdr,
        "edges": [f"{u.source}-{u.target}" for u in uses[:_EDGES_SHOWN]],
        "edge_transports": [f"{u.source}-{u.target} {u.transport}" for u in uses[:_EDGES_SHOWN]],
        "cards": [
            {"host": s.host, "gpu": s.gpu, "transports": s.transports, "warnings": s.warnings}
            for s in list(reader.table.seats.values())[:_EDGES_SHOWN]
        ],
    }


def _one(names: list[str]) -> str | list[str] | None:
    return names[0] if len(names) == 1 else (names or None)


def _event_values(reader: NcclReader) -> dict[str, Any]:
    root = root_event(reader)
    if root is None:
        if reader.setup.connect_retries:
            count = reader.setup.connect_retries
            return {"event": "connect_timeout_retry", "count": count, "severity": "pre-failure"}
        if any(c.destroyed for c in reader.setup.comms.values()):
            return {"event": "destroy_complete", "severity": "normal"}
        return {"event": None}
    fields: dict[str, Any] = {}
    for event in reader.events:
        if event.name == root.name:
            fields |= event.fields
    echoes = sum(1 for e in reader.events if e.is_echo)
    told: dict[str, Any] = {
        "event": root.name,
        "event_counts": reader.event_counts,
        "host": root.host,
        "gpu": root.gpu,
        "time": root.said_at,
        "root_line": root.line,
        "consequences": echoes,
        **fields,
    }
    if root.name == "connect_failed" and "port" in fields:
        told["peer"] = f"{fields['peer']}:{fields['port']}"
    if all(e.name == "ignored_setting" for e in reader.events):
        told["warn_severity"] = "config, not fatal"
    if root.name == "no_ibverbs":
        told["cause"] = "libibverbs.so not in image"
    if any("unhandled system error" in e.text for e in reader.events):
        told["class"] = "unhandled system error"
    return told
