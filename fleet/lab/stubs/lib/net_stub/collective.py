"""mpirun with all_reduce_perf over two nodes: table of nccl-tests, NCCL lines of the transport that was chosen."""

import os
import socket
import sys
import time

from . import wires
from .nccl_text import device_lines, setup_lines, table_head

GPUS, SSH_PORT = 8, 2222
LATENCY_US, GOLD_GBS, SOCKET_GBS = 36.0, 388.0, 4.8
CURVE_S, TURN_S = 18.0, 2.0
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


def main(argv):
    """Run `mpirun -np 16 -H A:8,B:8 [-x NAME=VALUE].. all_reduce_perf -b S -e S [-f N] -g 1`."""
    hosts, env, words = _mpirun(argv)
    if not words or words[0].rpartition("/")[2] != "all_reduce_perf" or len(hosts) != 2:
        raise wires.UnknownForm("this form is not rehearsed")
    nodes = []
    for address in hosts:
        node = wires.node_at(address)
        if node is None or not _answers(address):
            sys.stderr.write(
                "ORTE was unable to reliably start one or more daemons.\n"
                f"ssh: connect to host {address} port 22: Connection refused\n"
            )
            return 255
        nodes.append(node)
    way = wires.Way(*nodes)
    load = wires.Load(way)
    try:
        return _run(way, load, env, _sizes(words[1:]))
    finally:
        load.end()


def _mpirun(argv):
    hosts, env, words = [], {}, list(argv)
    while words:
        word = words.pop(0)
        if word in ("-np", "-n", "-H", "-x", "--mca") and words:
            value = words.pop(0)
            if word == "-H":
                hosts = [one.partition(":")[0] for one in value.split(",")]
            elif word == "-x":
                name, _, text = value.partition("=")
                env[name] = text
            elif word == "--mca":
                words.pop(0)
        elif word.startswith("-"):
            raise wires.UnknownForm(f"Unrecognized option: {word}")
        else:
            return hosts, env, [word, *words]
    return hosts, env, []


def _answers(address):
    if address == wires.ADDRESS:
        return True
    try:
        with socket.create_connection((address, SSH_PORT), timeout=5):
            return True
    except OSError:
        return False


def _bytes(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


def _sizes(words):
    values, at = {"-b": "32M", "-e": "32M", "-f": "1", "-g": "1"}, 0
    while at < len(words):
        if words[at] not in ("-b", "-e", "-f", "-g", "-n", "-w", "-c") or at + 1 == len(words):
            raise wires.UnknownForm(f"invalid option -- '{words[at]}'")
        values[words[at]] = words[at + 1]
        at += 2
    low, high, factor = _bytes(values["-b"]), _bytes(values["-e"]), int(values["-f"])
    sizes = [low]
    while factor > 1 and sizes[-1] * factor <= high:
        sizes.append(sizes[-1] * factor)
    return sizes, high, factor


def _rails(env):
    """Return the rails that NCCL_IB_HCA leaves: a list of prefixes, or of whole names behind `=`."""
    wanted = env.get("NCCL_IB_HCA", "")
    names = [name.partition(":")[0] for name in wanted.lstrip("=").split(",") if name]
    every = [f"mlx5_{rail}" for rail in range(wires.RAILS)]
    if not wanted:
        return every
    if wanted.startswith("="):
        return [one for one in every if one in names]
    return [one for one in every if any(one.startswith(name) for name in names)]


def _run(way, load, env, plan):
    sizes, high, factor = plan
    nodes = (way.here, way.there)
    rails = _rails(env)
    is_socket = (
        env.get("NCCL_IB_DISABLE") == "1" or not rails or any(n.has("nccl.socket") for n in nodes)
    )
    say_all = env.get("NCCL_DEBUG") == "INFO"
    pid = os.getpid()
    sys.stdout.write(table_head(sizes[0], high, factor) + device_lines(nodes, pid))
    interface = env.get("NCCL_SOCKET_IFNAME", "bond0")
    if say_all:
        sys.stdout.writelines(setup_lines(nodes, pid, interface, [] if is_socket else rails))
    sys.stdout.flush()
    if not is_socket and (code := _refusal(way, env, rails, pid)):
        return code
    if way.hangs():
        while True:
            time.sleep(60)
    wires.take_time(CURVE_S if len(sizes) > 1 else TURN_S)
    width = SOCKET_GBS if is_socket else _width(way, rails) * load.share()
    _print_table(sizes, width)
    if not is_socket:
        way.note_traffic(rails)
    return 0


def _refusal(way, env, rails, pid):
    """A forced GID that is no RoCE v2 address, or a port that is down, ends the start."""
    index = int(env.get("NCCL_IB_GID_INDEX", wires.ROCE_V2_IPV4))
    for node in (way.here, way.there):
        down = next((r for r in rails if node.nic(r)["port"] != "up"), None)
        wrong = next((r for r in rails if node.good_gid(r) != index), None)
        device = down or wrong
        if device is None:
            continue
        call = "ibv_modify_qp failed with 22 Invalid argument"
        print(
            f"{node.name}:{pid}:{pid + 200} [0] misc/ibvwrap.cc:307 NCCL WARN Call to {call}, on dev"
            f" {device}:1, curr state INIT, next state RTR, local GID index {index}, local GID ::,"
            " remote GID ::"
        )
        print(
            f"{node.name}: Test NCCL failure common.cu:1005 'unhandled system error (run with"
            " NCCL_DEBUG=INFO for details) / '"
        )
        print(f" .. {node.name} pid {pid}: Test failure common.cu:844", flush=True)
        return 3
    return 0


def _width(way, rails):
    """Return the bus bandwidth of large messages, GB/s: the slowest rail holds all others back."""
    slowest = min(way.rail_factor(rail) for rail in rails)
    gold = GOLD_GBS * (1 + wires.spread(-0.006, 0.006, *sorted((way.here.name, way.there.name))))
    return gold * slowest * (1.0 if len(rails) == wires.RAILS else len(rails) / wires.RAILS)


def _print_table(sizes, width):
    share = 2 * (2 * GPUS - 1) / (2 * GPUS)
    cells = []
    for size in sizes:
        micros = LATENCY_US + size * share / (width * 1e3)
        algorithm = size / micros / 1e3
        cells.append(algorithm * share)
        cell = f"{micros:>9.2f} {algorithm:>7.2f} {algorithm * share:>7.2f}       0"
        print(f"{size:>12}  {size // 4:>12}     float     sum      -1 {cell} {cell}")
    print("# Out of bounds values : 0 OK")
    print(f"# Avg bus bandwidth    : {sum(cells) / len(cells):g} \n#")
    print("\n# Collective test concluded: all_reduce_perf", flush=True)
