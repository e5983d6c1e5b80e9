"""A fleet as the pictures show it: rows only, no machine behind them. Nothing random; times count back from now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.db.models.functions import Now
from django.utils import timezone

from fleet.execution import log_format
from fleet.execution.models import (
    Command,
    Host,
    Lease,
    LogChunk,
    LogStream,
    Scrape,
    Subject,
)
from fleet.execution.output import Section, sections_pack
from fleet.models import (
    Evidence,
    Fact,
    Gpu,
    Hold,
    Leaf,
    Member,
    Node,
    NodeProbe,
    Pool,
    ProbeRun,
    Rack,
    Replica,
    RoleGrant,
    Tick,
    TrailEntry,
    TrailSeal,
)
from fleet.readings.vllm_log import PHASES as ENGINE_PHASES
from fleet.rules.message import say
from fleet.services.permits import roles_say
from releases.launchers.docker_mp import Place, plan_render, plan_sha256
from releases.models import Launch, LaunchPhase, LaunchPosition, Release
from tests import factories
from tests.browser import (
    scene_acceptance,
    scene_gates,
    scene_gateway,
    scene_golden,
    scene_imports,
    scene_network,
    scene_releases,
    scene_rollouts,
    scene_runbooks,
    scene_weights,
)

PASSWORD = "flotilla"
SPARES = {7, 8, 23, 24, 39, 40}
PHASES = ("start", *(name for name in ENGINE_PHASES if name != "ready"))
SECONDS = (4, 6, 3, 31, 346, 28, 9, 4, 98, 10, 3)
CONTENT: dict[str, Any] = {
    "model": {
        "slug": "glm-5.2-fp8",
        "served_name": "glm-5.2",
        "revision": "4" * 40,
        "manifest_sha256": "7" * 64,
    },
    "image": {
        "name": "registry.internal/vllm-openai",
        "digest": "sha256:" + "9e07" * 16,
        "vllm_version": "0.23.0",
    },
    "platform": {"driver": "570.172.08", "vbios": "96.00.89.00.01"},
    "launcher": "docker_mp",
    "tokenizer": {"tokenizer": "1" * 64, "template": "2" * 64, "generation_config": "3" * 64},
    "shape": {"tp": 8, "pp": 2, "dp": 1, "ep": False, "nodes": 2, "gpus_per_node": 8},
    "args": [
        ["--kv-cache-dtype", "fp8"],
        ["--gpu-memory-utilization", "0.88"],
        ["--max-model-len", "131072"],
        ["--max-num-seqs", "16"],
        ["--enable-prefix-caching", None],
        ["--tool-call-parser", "glm47"],
    ],
    "env": {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"},
    "golden": [
        {
            "id": "zh-arithmetic",
            "messages": [{"role": "user", "content": "17 + 25"}],
            "expect": "42",
        },
        {
            "id": "en-echo",
            "messages": [{"role": "user", "content": "Repeat exactly: flotilla"}],
            "expect": "flotilla",
        },
    ],
}
TOPO_NAMES = [*(f"GPU{n}" for n in range(8)), *(f"NIC{n}" for n in range(8))]


def draw() -> None:
    """Fill an empty database with the scene."""
    people()
    pools = {pool.slug: pool for pool in _pools()}
    nodes = [_node(number) for number in range(1, 49)]
    _gpus(nodes)
    _units(pools, nodes)
    _troubles(nodes)
    probe(nodes[27], "fail")
    probe(nodes[0], "pass")
    scene_golden.draw(nodes, topo(None))
    launches(pools["glm52"])
    scene_imports.draw()
    scene_releases.draw()
    scene_gates.draw()
    scene_rollouts.draw(CONTENT)
    scene_gateway.draw()
    scene_runbooks.draw(CONTENT)
    scene_weights.draw()
    scene_rollouts.ask()
    scene_acceptance.draw(factories.make_person("ana"))
    scene_network.draw()
    trail()
    later = timezone.now() + timedelta(hours=1)  # nothing ticks here, and no page should say so
    Tick.objects.create(name="sweep", at=later)
    Lease.objects.create(name="watch", owner="watch-1", until=later, fence=1, beaten_at=later)


def people() -> None:
    for name, role in factories.ROLES.items():
        user = factories.make_person(name, role="")
        # the web process has the real settings, whose hasher is not the fast one of tests
        user.password = Argon2PasswordHasher().encode(PASSWORD, "seasalt-of-scene")
        user.save()
        RoleGrant.objects.get_or_create(user=user, role=role, pool=None)


def _pools() -> list[Pool]:
    rows = (
        ("glm51", "GLM-5.1", "p51", "PP2 × TP8", 2, 16, False, 6),
        ("glm52", "GLM-5.2", "p52", "PP2 × TP8", 2, 16, False, 6),
        ("dsv4", "DeepSeek-V4-Flash", "pds", "DP8 + EP", 1, 8, False, 12),
        ("spare", "Spare", "psp", "", 1, 8, True, 0),
    )
    return [
        Pool.objects.create(
            slug=slug,
            name=name,
            tone=tone,
            shape=shape,
            unit_nodes=nodes,
            unit_gpus=gpus,
            is_spare=spare,
            promised_units=promised,
            position=n,
            spare_floor=3 if spare else 0,
        )
        for n, (slug, name, tone, shape, nodes, gpus, spare, promised) in enumerate(rows)
    ]


def _node(number: int) -> Node:
    leaf, _ = Leaf.objects.get_or_create(number=(number - 1) // 8 + 1)
    rack, _ = Rack.objects.get_or_create(
        name=f"R{(number - 1) // 4 + 1:02d}", defaults={"leaf": leaf}
    )
    return factories.make_node(
        f"gpu{number:03d}",
        host={"address": f"127.0.13.{number}", "seen_at": timezone.now() - timedelta(seconds=3)},
        rack=rack,
        origin="lab",
        probed_at=timezone.now() - timedelta(minutes=4),
    )


def _gpus(nodes: list[Node]) -> None:
    at = timezone.now() - timedelta(seconds=12)
    Gpu.objects.bulk_create(
        Gpu(
            node=node,
            index=n,
            uuid=f"GPU-{node.pk:08x}-{n}f1c",
            name="NVIDIA H100 80GB HBM3",
            bus=f"0000:{n:02x}:00.0",
            numa=n // 4,
            nic=f"mlx5_{n}",
            memory_total_mib=81559,
            memory_used_mib=512 + (n * 37 + node.pk * 11) % 9 * 8000,
            sm_clock_mhz=(345, 1980, 1755)[(n + node.pk) % 3],
            temperature_c=30 + n,
            power_w=72 + n,
            ecc_uncorrected=0,
            utilization_pct=0,
            health="ok",
            observed_at=at,
        )
        for node in nodes
        for n in range(8)
    )


def _units(pools: dict[str, Pool], nodes: list[Node]) -> None:
    free = [node for number, node in enumerate(nodes, 1) if number not in SPARES]
    layout = [("glm51", 2)] * 7 + [("glm52", 2)] * 7 + [("dsv4", 1)] * 14
    order = sorted(range(len(layout)), key=lambda n: (n % 7, n))
    counts: dict[str, int] = {}
    for place in order:
        slug, size = layout[place]
        counts[slug] = counts.get(slug, 0) + 1
        members, free = free[:size], free[size:]
        factories.make_replica(
            f"{slug}-r{counts[slug]}",
            pool=pools[slug],
            nodes=members,
            state="ready" if slug != "glm51" else "planned",
        )


def _troubles(nodes: list[Node]) -> None:
    bad = nodes[27]
    factories.make_hold(
        bad, owner="user:ana", reason="GPU 3 fell off the bus; waits for the vendor"
    )
    Gpu.objects.filter(node=bad, index=3).update(
        health="failed",
        explanation="no answer: GPU is lost",
        sm_clock_mhz=None,
        memory_used_mib=None,
        power_w=None,
        temperature_c=None,
        ecc_uncorrected=None,
    )
    Host.objects.filter(pk=nodes[20].pk).update(reach="suspect", misses=3)
    Node.objects.filter(pk=nodes[44].pk).update(state="registered", probed_at=None)
    Host.objects.filter(pk=nodes[44].pk).update(reach="unknown", seen_at=None)
    Gpu.objects.filter(node=nodes[44]).delete()
    Host.objects.filter(pk=nodes[41].pk).update(
        key_state="changed",
        offered_key=factories.host_key(9),
        explanation=say("The node showed another key."),
    )
    Hold.objects.create(
        node=nodes[41], kind="cordon", owner="host-key", reason="its host key changed"
    )


def _summary(is_bad: bool) -> str:
    if is_bad:
        return say(
            "%(expected)s; %(found)s",
            expected=say("%(n)s GPUs expected", n=8),
            found=say("%(n)s listed by nvidia-smi -L", n=7),
        )
    return say("%(gpus)s GPUs as expected, all %(checks)s commands read.", gpus=8, checks=2)


def probe(node: Node, verdict: str) -> None:
    """A settled probe with facts, findings and raw output."""
    ago = timezone.now() - timedelta(minutes=4)
    run = ProbeRun.objects.create(scope=node.name, ended_at=ago)
    sections = [
        {"name": name, "timeout_s": 5, "argv": ["nvidia-smi", *rest]}
        for name, rest in (("gpu-list", ["-L"]), ("topo", ["topo", "-m"]))
    ]
    command = factories.make_command(
        node.host,
        f"probe:{run.pk}/{node.name}",
        payload={"sections": sections},
        state="succeeded",
        settled_at=ago,
    )
    body = (
        b"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        b"\x1b]52;c;aGVsbG8=\x07<script>alert(1)</script> \xe2\x80\xaetxt\n"
    )
    sections_pack(command.pk, [Section("gpu-list", rc=0, ms=41, body=body)]).save()
    is_bad = verdict == "fail"
    NodeProbe.objects.create(
        run=run,
        node=node,
        command=command,
        verdict=verdict,
        settled_at=ago,
        summary=_summary(is_bad),
        findings=[{"id": "gpu-lost", "severity": "error", "text": "GPU 3 is lost: Xid 79"}]
        if is_bad
        else [],
    )
    values = {
        "driver_version": "570.172.08",
        "gpu_count": 7 if is_bad else 8,
        "kernel": "6.8.0-52-generic",
        "shm_total": 1_081_101_176_832,
        "topo": topo(3 if is_bad else None),
        **depth(is_bad),
    }
    for key, value in values.items():
        Fact.objects.create(
            node=node,
            key=key,
            value=value,
            unit=UNITS.get(key, ""),
            observed_at=ago,
            source=command,
            section="topo" if key == "topo" else "gpu-list",
            expires_at=ago + timedelta(days=1),
        )
    Fact.objects.create(
        node=node,
        key="docker_version",
        problem=say(
            "%(command)s: the command was not found on the node.", command="docker version"
        ),
        observed_at=ago,
        expires_at=ago + timedelta(days=1),
        source=command,
        section="gpu-list",
    )


UNITS = {"shm_total": "B", "clock_offset": "s", "power_limit_w": "W", "memory_temperature": "°C"}


def depth(is_bad: bool) -> dict[str, Any]:
    """Facts of firmware, ports and the kernel log; on the bad node a port is slow and a card has an Xid."""
    ports = [
        {
            "device": f"mlx5_{n}", "port": 1, "state": "Active", "physical": "LinkUp",
            "rate_gbps": 400.0 if n < 8 else 100.0, "link_layer": "Ethernet",
            "netdev": f"rail{n}np0" if n < 8 else "bond0", "mtu": 9000 if n < 8 else 1500,
            "active_mtu": 4096 if n < 8 else 1024, "firmware": "28.43.2026",
        }
        for n in range(9)
    ]  # fmt: skip
    if is_bad:
        ports[3] |= {"state": "Down", "physical": "Polling"}
    xid = {"code": 79, "bus": "0000:03:00", "text": "GPU has fallen off the bus.", "count": 1}
    return {
        "hostname": "gpu028" if is_bad else "gpu001",
        "os": "Ubuntu 24.04.3 LTS",
        "booted_at": "2026-11-20 02:11:04",
        "cuda_version": "12.8",
        "vbios": "96.00.89.00.01",
        "gsp_firmware": "570.172.08",
        "ecc_mode": "Enabled",
        "persistence_mode": "Enabled",
        "power_limit_w": 700,
        "memory_temperature": {str(n): 42 + n % 4 for n in range(8)},
        "remap_pending": {str(n): "Yes" if n == 5 else "No" for n in range(8)} if is_bad else "No",
        "remap_failure": "No",
        "remapped_uncorrectable": 0,
        "fabric_state": "Completed",
        "fabric_manager": "active",
        "rdma_ports": ports,
        "gids": [
            {"device": f"mlx5_{n}", "port": 1, "index": 3, "version": "v2", "ip": f"10.41.{n}.28"}
            for n in range(8)
        ],
        "link_mtu": {port["netdev"]: port["mtu"] for port in ports},
        "links_down": ["eno2"],
        "rdma_counters": {
            f"mlx5_{n}": {"out_of_sequence": 12000 if is_bad and n == 6 else 0} for n in range(9)
        },
        "block_devices": [
            {"name": f"nvme{n}n1", "kind": "disk", "size_bytes": 3840755982336} for n in range(4)
        ],
        "numa_nodes": [
            {"index": n, "cpus": ("0-47", "48-95")[n], "size_gib": 1007} for n in (0, 1)
        ],
        "memlock_kb": "unlimited",
        "clock_offset": -0.00008,
        "xids": [xid] if is_bad else [],
        "sxids": [],
        "mlx5_errors": [],
        "oom_kills": 0,
        "kernel_log_from": "2026-11-20T02:11:04,000000+00:00",
    }


def topo(lost: int | None) -> dict[str, Any]:
    def link(row: int, column: int) -> str:
        if row == column:
            return "X"
        if lost in (row, column):
            return "ERR"
        if column < 8:
            return "NV18"
        return "PIX" if column - 8 == row else "NODE" if (column - 8) // 4 == row // 4 else "SYS"

    rows = [
        {
            "name": f"GPU{n}",
            "links": [link(n, c) for c in range(16)],
            "cpus": "0-47" if n < 4 else "48-95",
            "numa": n // 4,
        }
        for n in range(8)
    ]
    return {"columns": TOPO_NAMES, "nics": {f"NIC{n}": f"mlx5_{n}" for n in range(8)}, "rows": rows}


def launches(pool: Pool) -> None:
    """glm52-r4: a ready generation that ended, one that failed, and one that loads now."""
    replica = Replica.objects.get(name="glm52-r4")
    release = Release.objects.create(
        pool=pool,
        title="glm-5.2 vLLM 0.23.0",
        state="sealed",
        content=CONTENT,
        content_sha256="c" * 64,
        is_rehearsal=True,
        sealed_at=timezone.now(),
    )
    now = timezone.now()
    ended = launch(
        replica,
        release,
        1,
        now - timedelta(days=2),
        upto=len(PHASES),
        state="stopped",
        ended=now - timedelta(days=1),
    )
    failed = launch(
        replica,
        release,
        2,
        now - timedelta(hours=3),
        upto=len(PHASES),
        state="failed",
        ended=now - timedelta(hours=2),
    )
    cause = say(
        "%(node)s lost its ranks: the engine ended with exit code %(rc)s. %(why)s",
        node="gpu026",
        rc=137,
        why="",
    )
    Launch.objects.filter(pk=failed.pk).update(cause=cause, explanation=cause)
    Launch.objects.filter(pk=ended.pk).update(
        explanation=say("Stopping every rank: %(reason)s", reason="new driver")
    )
    for title in (
        say("%(node)s log of the last 10 min", node="gpu025"),
        "gpu025 nvidia-smi-L",
        say("%(node)s log of the last 10 min", node="gpu026"),
    ):
        Evidence.objects.create(
            object_kind="launch",
            object_id=failed.public_id,
            title=title,
            origin="stream 1, lines 1 to 90",
            body=b"evidence",
            size_bytes=148_213,
            sha256="ab" * 32,
            is_rehearsal=True,
        )
    live = launch(
        replica, release, 3, now - timedelta(minutes=6, seconds=45), upto=5, state="loading"
    )
    Launch.objects.filter(pk=live.pk).update(
        explanation=say("Loading: %(phases)s.", phases="gpu025 load, gpu026 load")
    )
    Replica.objects.filter(pk=replica.pk).update(
        state="launching",
        generation=3,
        explanation=say("Generation %(generation)s is being launched.", generation=3),
    )
    other = Replica.objects.get(name="glm52-r6")
    Replica.objects.filter(pk=other.pk).update(state="failed", explanation=cause, generation=0)
    serving = Replica.objects.get(name="glm52-r1")
    ready = launch(serving, release, 1, now - timedelta(hours=9), upto=len(PHASES), state="ready")
    Replica.objects.filter(pk=serving.pk).update(generation=1)
    head = ready.positions.get(position=0).node.host
    Scrape.objects.create(
        key=f"launch:{ready.public_id}/golden",
        host=head,
        kind="golden",
        port=8000,
        path="/",
        tried_at=now,
        ok_at=now - timedelta(seconds=8),
        status=200,
    )
    Scrape.objects.create(
        key=f"launch:{ready.public_id}/metrics",
        host=head,
        kind="metrics",
        port=8000,
        path="/metrics",
        ok_at=now,
        values={
            "vllm:num_requests_running": 7,
            "vllm:num_requests_waiting": 0,
            "vllm:kv_cache_usage_perc": 0.41,
        },
    )


def launch(
    replica: Replica,
    release: Release,
    generation: int,
    created: datetime,
    *,
    upto: int,
    state: str,
    ended: datetime | None = None,
) -> Launch:
    """A launch that went through the first `upto` phases of its engine."""
    members = list(replica.members.select_related("node__host").order_by("position"))
    places = [Place(m.position, m.node.name, m.node.host.address, "/models") for m in members]
    plan = plan_render(
        unit=replica.name,
        generation=generation,
        content=release.content,
        content_sha=release.content_sha256,
        places=places,
    )
    row = Launch.objects.create(
        replica=replica,
        release=release,
        generation=generation,
        plan=plan,
        plan_sha256=plan_sha256(plan),
        state=state,
        created_by=factories.make_person("ana"),
    )
    began = created + timedelta(seconds=9)
    total = sum(SECONDS[:upto])
    ready = began + timedelta(seconds=total + 61) if upto == len(PHASES) else None
    Launch.objects.filter(pk=row.pk).update(
        created_at=created,
        ready_at=ready,
        ended_at=ended,
        start_deadline_at=began + timedelta(minutes=2),
    )
    for member in members:
        _place(row, member, began, upto, ended)
    row.refresh_from_db()
    return row


def _place(row: Launch, member: Member, began: datetime, upto: int, ended: datetime | None) -> None:
    planned = row.plan["positions"][member.position]
    subject = Subject.objects.create(
        host=member.node.host,
        name=planned["subject"],
        state="gone" if ended else "live",
        plan_sha=row.plan_sha256,
    )
    start = factories.make_command(
        member.node.host,
        f"launch:{row.public_id}/start/{member.position}",
        verb="start",
        queue="start",
        effect="ensure",
        state="succeeded",
        subject=subject,
    )
    Command.objects.filter(pk=start.pk).update(
        created_at=began, settled_at=began + timedelta(seconds=2)
    )
    is_done = upto == len(PHASES)
    place = LaunchPosition.objects.create(
        launch=row,
        position=member.position,
        node=member.node,
        subject=subject,
        start=start,
        phase="ready" if is_done else PHASES[upto - 1],
        reader_state={"world_size": 16, "shards": [112 + 2 * member.position, 142]},
    )
    at = began
    for n, (name, seconds) in enumerate(zip(PHASES[:upto], SECONDS, strict=False)):
        end = at + timedelta(seconds=seconds * (1 + row.generation / 20))
        LaunchPhase.objects.create(
            position=place,
            name=name,
            started_at=at,
            ended_at=None if n == upto - 1 and not is_done else end,
        )
        at = end
    if is_done:
        LaunchPhase.objects.create(position=place, name="ready", started_at=at)
        golden = f"launch:{row.public_id}/golden/zh-arithmetic#1"
        if member.position == 0:
            end = at + timedelta(seconds=21)
            LaunchPhase.objects.create(position=place, name="golden", started_at=at, ended_at=end)
            made = factories.make_command(
                member.node.host, golden, verb="http", queue="gate", state="succeeded"
            )
            Command.objects.filter(pk=made.pk).update(
                created_at=at, settled_at=at + timedelta(seconds=4)
            )
    _log(subject, member.position)


def _log(subject: Subject, position: int) -> None:
    stream = LogStream.objects.create(
        subject=subject,
        layout={"position": position, "gpus_per_node": 8, "tp": 8, "pp": 2, "dp": 1},
    )
    started = timezone.now() - timedelta(seconds=40)
    texts = (
        (0, "I", "NET", "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB bond0"),
        (
            0,
            "I",
            "LOAD",
            "Loading safetensors checkpoint shards:  79% Completed | 112/142 [05:44<01:31,  3.06s/it]",
        ),
        (3, "W", "LOAD", "shard 113 read again: \x1b[31mslow\x1b[0m \u202edisk"),
        (5, "E", "CORE", "<img src=x onerror=alert(1)> watchdog"),
    )
    rows = "".join(
        f"{n * 900}\t{rank + 8 * position}\t{level}\t{part}\t{text}\n"
        for n, (rank, level, part, text) in enumerate(texts)
    ).encode()
    LogChunk.objects.create(
        stream=stream,
        epoch=1,
        offset=0,
        end_offset=len(rows),
        first_line=1,
        line_count=len(texts),
        started_at=started,
        ended_at=started + timedelta(seconds=4),
        warn_count=1,
        error_count=1,
        ranks=[0],
        body=log_format.zstandard.compress(rows),
    )
    LogStream.objects.filter(pk=stream.pk).update(
        line_count=len(texts), end_offset=len(rows), warn_count=1, error_count=1, first_error_line=4
    )


def trail() -> None:
    """Entries of people and rules, one refused, most of them sealed."""
    rows = (
        ("ana", "web", "probe.start", "fleet", "all", "", None, {"nodes": 48}),
        (
            "rule:probe",
            "rule",
            "node.move",
            "node",
            "gpu028",
            _summary(True),
            {"state": "acceptance"},
            {"state": "ready"},
        ),
        (
            "ana",
            "web",
            "hold.add",
            "node",
            "gpu028",
            "GPU 3 fell off the bus; waits for the vendor",
            None,
            {"kind": "cordon", "owner": "user:ana"},
        ),
        (
            "chen",
            "web",
            "launch-create",
            "replica",
            "glm52-r4",
            say("needs one of the roles %(roles)s", roles=roles_say(("approver", "operator"))),
            None,
            None,
        ),
        (
            "ana",
            "web",
            "launch.create",
            "launch",
            "LN-0003",
            "",
            None,
            {"unit": "glm52-r4", "release": "REL-0001"},
        ),
        (
            "rule:launch-preflight",
            "rule",
            "launch.starting",
            "launch",
            "LN-0003",
            "",
            {"state": "preflight"},
            {"state": "starting"},
        ),
        (
            "=cmd|' /C calc'!A0",
            "web",
            "hold.lift",
            "node",
            "gpu030",
            "<script>alert(1)</script>",
            {"kind": "drain"},
            {"lifted_by": "ana"},
        ),
    )
    for actor, source, verb, kind, name, reason, before, after in rows:
        TrailEntry.objects.create(
            actor=actor,
            source=source,
            verb=verb,
            object_kind=kind,
            object_id=name,
            reason=reason,
            before=before,
            after=after,
            address="127.0.0.1" if source == "web" else "",
            request_id="7c4019e2" if source == "web" else "",
            outcome="refused" if actor == "chen" else "done",
        )
    for position, entry in enumerate(TrailEntry.objects.order_by("id")[:5], 1):
        TrailSeal.objects.create(
            entry=entry, position=position, mac=f"{position:064x}", sealed_at=Now()
        )
