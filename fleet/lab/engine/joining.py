"""How a unit comes together: the head's store, the followers' dials, and who cannot join.

Real TCP on MASTER_ADDR:MASTER_PORT (LAB.md 4.6).
"""

import asyncio
import errno
import os
import time

from .death import StartFailed
from .engine import Engine
from .rendezvous import FollowerLink, HeadLink

STORE_TIMEOUT_S = 600
FOLLOWER_SERVES = "AssertionError: collective_rpc should not be called on follower node"


async def listen_early(engine: Engine) -> None:
    """Open the head's store before its workers need it, so that a follower in step finds it.

    A failure is kept and told where the real store would be opened.
    """
    link = engine.link
    if isinstance(link, HeadLink) and engine.plan.master_addr == engine.node["addr"]:
        link.check = lambda hello: mismatch(engine, hello)
        try:
            await link.listen(engine.plan.master_addr, engine.plan.master_port)
        except OSError as error:
            link.listen_error = error


def hello_of(engine: Engine) -> dict:
    """What a follower tells of itself; digest and revision are told and never compared."""
    return {
        "world": engine.plan.world, "nccl": engine.config.get("nccl", ""),
        "vllm": engine.plan.version, "revision": engine.files.revision,
        "plan_sha": (engine.config.get("labels") or {}).get("fleet.plan_sha", ""),
    }  # fmt: skip


def nccl_number(version: str) -> str:
    """Spell 2.28.9 as NCCL does: 22809."""
    parts = [int(part) for part in version.split("+")[0].split(".") if part.isdigit()]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return str(major * 10000 + minor * 100 + patch)


def mismatch(engine: Engine, hello: dict) -> str:
    """Return the error of a follower whose NCCL is another version; empty when it is the same."""
    own = nccl_number(str(engine.config.get("nccl", "")))
    theirs = nccl_number(str(hello.get("nccl", "")))
    if own == theirs:
        return ""
    rank = int(hello["hello"]) * engine.plan.local_world
    return (
        f"RuntimeError: Mismatched NCCL version detected : rank {rank} version {theirs}"
        f" rank 0 version {own}"
    )


async def join_unit(engine: Engine) -> None:
    """Wait until all nodes are joined; raises StartFailed after the store's time-out."""
    plan = engine.plan
    first = engine.workers.ranks()[0]
    if not plan.is_head and not plan.headless:
        raise StartFailed(FOLLOWER_SERVES, None)
    lacking = [worker for worker in engine.workers.ranks() if worker.gpu is None]
    if lacking:
        raise StartFailed("torch.AcceleratorError: CUDA error: invalid device ordinal", lacking[0])
    wrong_host = plan.env.get("VLLM_HOST_IP", "")
    if wrong_host and wrong_host != engine.node["addr"]:
        raise StartFailed(cannot_assign(wrong_host, plan.master_port), first)
    if isinstance(engine.link, HeadLink):
        await wait_for_followers(engine, engine.link)
    elif isinstance(engine.link, FollowerLink):
        await dial_head(engine, engine.link)


def cannot_assign(address: str, port: int) -> str:
    """Return the error of a master address that this node does not have."""
    return (
        f"torch.distributed.DistNetworkError: The server socket has failed to bind to"
        f" [{address}]:{port} (errno: 99 - Cannot assign requested address)."
    )


def cannot_listen(port: int, error: OSError) -> str:
    """Return the error of a master port that is taken."""
    number = error.errno or errno.EADDRINUSE
    return (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local"
        f" network address. port: {port}, useIpv6: false, code: -{number},"
        f" name: {errno.errorcode.get(number, 'EIO')}, message: {os.strerror(number).lower()}"
    )


async def wait_for_followers(engine: Engine, link: HeadLink) -> None:
    """Wait on the head until every node joined. Raises StartFailed for a wrong address, port, version or time-out."""
    plan = engine.plan
    first = engine.workers.ranks()[0]
    if plan.master_addr != engine.node["addr"]:
        raise StartFailed(cannot_assign(plan.master_addr, plan.master_port), first)
    if link.listen_error is not None:
        raise StartFailed(cannot_listen(plan.master_port, link.listen_error), first)
    began = time.monotonic()
    try:
        await asyncio.wait_for(link.complete.wait(), engine.watch_s(STORE_TIMEOUT_S))
    except TimeoutError:
        raise StartFailed(timed_out(engine, began, 1 + len(link.peers)), first) from None
    link.joined = True
    if link.refusal:
        link.tell(refused=link.refusal)
        raise StartFailed(link.refusal, first)


def timed_out(engine: Engine, began: float, joined: int) -> str:
    """Return the error of a store that not all nodes joined in time."""
    waited = int(time.monotonic() - began) + 1
    return (
        f"torch.distributed.DistStoreError: Timed out after {waited} seconds waiting for clients."
        f" {joined}/{engine.plan.nnodes} clients joined."
    )


async def dial_head(engine: Engine, link: FollowerLink) -> None:
    """Dial until the head answers; each refusal is c10d's warning on stderr."""
    plan = engine.plan
    retry_s = max(0.05, min(1.0, engine.launch_s(60)))
    began = time.monotonic()
    while True:
        code = await link.dial(plan.master_addr, plan.master_port, hello_of(engine))
        if code == 0:
            return
        if time.monotonic() - began > engine.watch_s(STORE_TIMEOUT_S):
            raise StartFailed(timed_out(engine, began, 1), engine.workers.ranks()[0])
        stamp = time.strftime("%m%d %H:%M:%S", time.gmtime())
        engine.log.err(
            f"[W{stamp}.{time.time_ns() % 10**9:09d} socket.cpp:764] [c10d] The client socket has"
            f" failed to connect to [{plan.master_addr}]:{plan.master_port}"
            f" (errno: {code} - {os.strerror(code)})."
        )
        await asyncio.sleep(retry_s)
