"""What the two nodes of a pair run, as argv, and how the marked parts of the output are told apart. Pure.

Server and client of ib_write_bw are started on their own nodes by the shim; the client waits for the server. The
collective is started on the first node by mpirun, which reaches the second by what the site has set up for it.
Source: manual A 4.4; perftest ib_write_bw(1); nccl-tests doc; Open MPI mpirun(1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

RDMA_PORT = 18515  # perftest's own default; each rail has the next one
GPUS = 8
# What only the matrix says: a value of one fleet copied to another falls back to sockets, or hangs (manual A 4.5).
MATRIX_NAMES = (
    "NCCL_IB_HCA",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_TC",
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
)
ONE, TWO = "one", "two"
CURVE_FROM, CURVE_TO = "8", "8G"
# One rail in one direction; long enough for a stable average, short enough for 8 rails twice.
RAIL_S = 2
_MARK = "== flotilla"
_HEAD = re.compile(
    rf"^{_MARK} (rail|loop|ping|route) (\S{{1,40}}) (\S{{1,8}}) rc (\d{{1,3}}) bytes (\d{{1,9}})$",
    re.M,
)
SERVER = """\
p=$1 s=$2 g=$3 c=$4 l=$5; shift 5
for d; do
  ( for way in one two; do
      [ $way = two ] && b=-b || b=''
      o=$(timeout "$l" ib_write_bw $b -d "$d" ${g:+-x "$g"} ${c:+--tclass="$c"} \\
        -p "$p" -D "$s" --report_gbits -F 2>&1)
      rc=$?
      printf '%s\\n== server %s %s rc %s\\n' "$o" "$d" $way $rc
    done ) &
  p=$((p + 1))
done
wait
"""
CLIENT = """\
h=$1 p=$2 s=$3 g=$4 c=$5 l=$6; shift 6
for d; do
  for way in one two; do
    [ $way = two ] && b=-b || b=''
    n=0
    while :; do
      o=$(timeout "$l" ib_write_bw $b -d "$d" ${g:+-x "$g"} ${c:+--tclass="$c"} \\
        -p "$p" -D "$s" --report_gbits -F "$h" 2>&1)
      rc=$?
      n=$((n + 1))
      case $o in *"Couldn't connect to"*) [ $n -lt 60 ] || break ;; *) break ;; esac
      sleep 0.5
    done
    printf '== flotilla rail %s %s rc %s bytes %s\\n%s\\n' "$d" $way $rc ${#o} "$o"
  done
  p=$((p + 1))
done
"""
LOOP = """\
w=$1 l=$2; shift 2
end=$(($(date +%s) + w)) n=0
while :; do
  n=$((n + 1))
  o=$(timeout -k 5 "$l" "$@" 2>&1); rc=$?
  printf '== flotilla loop %s run rc %s bytes %s\\n%s\\n' $n $rc ${#o} "$o"
  [ $rc -ne 124 ] && [ $rc -ne 137 ] || break
  [ "$(date +%s)" -lt "$end" ] || break
done
"""
COUNTERS = (
    'for d; do grep -rHs . "${NODE_SYSROOT:-}/sys/class/infiniband/$d/ports/1/hw_counters"; done'
)


@dataclass(frozen=True)
class Wiring:
    """What the network matrix says of a node class on a leaf. `gid_index` None: InfiniBand, no GID to name."""

    hcas: tuple[str, ...]
    interface: str
    mtu: int
    gid_index: int | None = None
    traffic_class: int | None = None


@dataclass(frozen=True)
class End:
    """One node of a pair: its name and the address at which the other one finds it."""

    name: str
    address: str


@dataclass(frozen=True)
class Part:
    """A marked part of an output: a rail and its direction, a turn of the loop, or ping and route of a rail.

    `is_whole`: no byte is missing.
    """

    kind: str
    name: str
    way: str
    rc: int
    text: str
    is_whole: bool


def environment_of(wiring: Wiring) -> dict[str, str]:
    """Return what NCCL and Gloo are told by the matrix. Source: manual A 4.5; NCCL environment variables."""
    env = {
        "NCCL_IB_HCA": "=" + ",".join(wiring.hcas),
        "NCCL_SOCKET_IFNAME": wiring.interface,
        "GLOO_SOCKET_IFNAME": wiring.interface,
    }
    if wiring.gid_index is not None:
        env["NCCL_IB_GID_INDEX"] = str(wiring.gid_index)
    if wiring.traffic_class is not None:
        env["NCCL_IB_TC"] = str(wiring.traffic_class)
    return env


def counter_section(wiring: Wiring) -> dict[str, Any]:
    """Return the question for the RDMA counters of the matrix's cards."""
    return section("counters", ["sh", "-c", COUNTERS, "sh", *wiring.hcas], 10)


def section(name: str, argv: list[str], timeout_s: float) -> dict[str, Any]:
    """Return one question of a probe as its command carries it."""
    return {"name": name, "timeout_s": timeout_s, "argv": argv}


def server_argv(wiring: Wiring) -> list[str]:
    """Return what the second node runs for layer 2: a server a rail, first one way, then both."""
    return [
        "sh",
        "-c",
        SERVER,
        "sh",
        str(RDMA_PORT),
        str(RAIL_S),
        *_words(wiring),
        "120",
        *wiring.hcas,
    ]


def client_argv(wiring: Wiring, peer: End) -> list[str]:
    """Return what the first node runs for layer 2: one rail after the other."""
    return [
        "sh",
        "-c",
        CLIENT,
        "sh",
        peer.address,
        str(RDMA_PORT),
        str(RAIL_S),
        *_words(wiring),
        "30",
        *wiring.hcas,
    ]


def _words(wiring: Wiring) -> list[str]:
    return [
        "" if value is None else str(value) for value in (wiring.gid_index, wiring.traffic_class)
    ]


def curve_argv(wiring: Wiring, a: End, b: End, limit_s: float) -> list[str]:
    """Return layer 3: one all-reduce over 16 cards through all sizes, with the lines that prove the transport."""
    words = _mpirun(wiring, a, b, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV"})
    words += ["all_reduce_perf", "-b", CURVE_FROM, "-e", CURVE_TO, "-f", "2", "-g", "1"]
    return _loop(0, limit_s, words)


def loop_argv(wiring: Wiring, a: End, b: End, loop_s: float, limit_s: float) -> list[str]:
    """Return layer 4: the largest size again and again for `loop_s` s; a turn over `limit_s` s is a hang."""
    words = _mpirun(wiring, a, b, {"NCCL_DEBUG": "WARN"})
    words += ["all_reduce_perf", "-b", CURVE_TO, "-e", CURVE_TO, "-g", "1"]
    return _loop(loop_s, limit_s, words)


def _mpirun(wiring: Wiring, a: End, b: End, debug: dict[str, str]) -> list[str]:
    words = ["mpirun", "-np", str(2 * GPUS), "-H", f"{a.address}:{GPUS},{b.address}:{GPUS}"]
    for name, value in sorted({**environment_of(wiring), **debug}.items()):
        words += ["-x", f"{name}={value}"]
    return words


def _loop(loop_s: float, limit_s: float, words: list[str]) -> list[str]:
    return ["sh", "-c", LOOP, "sh", str(math.ceil(loop_s)), str(math.ceil(limit_s)), *words]


def split_parts(text: str) -> list[Part]:
    """Cut an output at its marks. A part whose bytes are not all there is kept and said not to be whole."""
    heads = list(_HEAD.finditer(text))
    return list(_parts(text, heads))


def _parts(text: str, heads: Sequence[re.Match[str]]) -> Iterator[Part]:
    for at, head in enumerate(heads):
        end = heads[at + 1].start() if at + 1 < len(heads) else len(text)
        body = text[head.end() + 1 : end]
        wanted = int(head[5])
        # The shell counts characters or bytes by its locale, and a line feed was added to what it counted.
        is_whole = max(len(body), len(body.encode())) > wanted
        yield Part(head[1], head[2], head[3], int(head[4]), body, is_whole)
