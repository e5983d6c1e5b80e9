"""ib_write_bw of perftest: server and client really meet over TCP; what they measure is the fabric's model."""

import json
import os
import socket
import sys

from . import wires

PORT = 18515
VALUES = {
    "-d": "dev",
    "-x": "gid",
    "-s": "size",
    "-D": "secs",
    "-p": "port",
    "-q": "qps",
    "-n": "iters",
}
RULER = "-" * 87
STARS = "*" * 36
LINE_CAP = 4096
ACCEPT_S = 300.0


def main(argv):
    """Run the server, or the client when a host is named."""
    options, rest = _options(argv)
    device = options.get("dev", "mlx5_0")
    here = wires.Node(wires.NAME)
    nic = here.nic(device)
    if nic is None:
        sys.stderr.write(
            f" IB device {device} not found\n Unable to find the Infiniband/RoCE device\n"
        )
        return 1
    if nic["port"] != "up":
        sys.stderr.write(
            " Port number 1 state is Down\n Couldn't set the link layer\n"
            " Couldn't get context for the device\n"
        )
        return 1
    port = int(options.get("port", PORT))
    hello = {
        "node": here.name,
        "pid": os.getpid(),
        "gid": int(options.get("gid", wires.ROCE_V2_IPV4)),
        "two": "-b" in options,
    }
    if rest:
        return _client(rest[0], port, device, options, hello)
    return _server(port, device, options, hello)


def _options(argv):
    options, rest, words = {}, [], list(argv)
    while words:
        word = words.pop(0)
        if word in VALUES and words:
            options[VALUES[word]] = words.pop(0)
        elif word in ("-b", "-F", "-a", "--report_gbits") or word.startswith("--tclass="):
            options[word] = True
        elif word.startswith("-"):
            raise wires.UnknownForm(f"invalid option -- '{word}'")
        else:
            rest.append(word)
    return options, rest


def _server(port, device, options, hello):
    print(f"\n{STARS}\n* Waiting for client to connect... *\n{STARS}", flush=True)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(ACCEPT_S)
        listener.bind((wires.ADDRESS, port))
        listener.listen(1)
        peer, _address = listener.accept()
    with peer:
        return _meet(peer, device, options, hello, "server")


def _client(host, port, device, options, hello):
    try:
        peer = socket.create_connection((host, port), timeout=10, source_address=(wires.ADDRESS, 0))
    except OSError:
        sys.stderr.write(
            f" Couldn't connect to {host}:{port}\n Unable to open file descriptor for socket connection"
            " Unable to init the socket connection\n"
        )
        return 1
    with peer:
        return _meet(peer, device, options, hello, "client")


def _meet(peer, device, options, hello, side):
    """Exchange addresses, run, and print what both sides print."""
    peer.settimeout(60)
    peer.sendall(json.dumps(hello).encode() + b"\n")
    line = peer.makefile("rb").readline(LINE_CAP)
    if not line:
        sys.stderr.write(" Failed to exchange data between server and clients\n")
        return 1
    other = json.loads(line)
    way = wires.Way(wires.Node(hello["node"]), wires.Node(other["node"]))
    if side == "server":
        way = wires.Way(way.there, way.here)
    _print_head(device, options, hello, other, side)
    if any(node.good_gid(device) != said["gid"] for node, said in _ends(way, hello, other)):
        sys.stdout.flush()
        sys.stderr.write(
            f" Completion with error at {side}\n Failed status 12: wr_id 0 syndrom 0x81\n"
            " scnt=128, ccnt=0\n"
        )
        return 1
    _print_row(way, device, options)
    if side == "client":
        way.note_traffic([device])
    return 0


def _ends(way, hello, other):
    said = {hello["node"]: hello, other["node"]: other}
    return [(node, said[node.name]) for node in (way.here, way.there)]


def _print_head(device, options, hello, other, side):
    title = "RDMA_Write Bidirectional BW Test" if hello["two"] else "RDMA_Write BW Test"
    print(f"{RULER}\n{title:>{44 + len(title) // 2}}")
    print(f" Dual-port       : OFF\t\tDevice         : {device}")
    print(" Number of qps   : 1\t\tTransport type : IB")
    print(" Connection type : RC\t\tUsing SRQ      : OFF")
    print(" PCIe relax order: ON\t\tLock-free      : OFF")
    print(" ibv_wr* API     : ON\t\tUsing DDP      : OFF")
    if side == "client":
        print(" TX depth        : 128")
    print(" CQ Moderation   : 1\n Mtu             : 4096[B]\n Link type       : Ethernet")
    print(f" GID index       : {hello['gid']}\n Max inline data : 0[B]")
    print(f" rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n{RULER}")
    for word, end in (("local", hello), ("remote", other)):
        pid = end["pid"]
        print(
            f" {word} address: LID 0000 QPN 0x{pid & 0xFFFF:04x} PSN 0x{pid * 7919 & 0xFFFFFF:06x}"
            f" RKey 0x{pid & 0xFFFF:06x} VAddr 0x007f{pid & 0xFFFFFF:08x}00"
        )
        print(f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:41:{device[-1]}:{end['node'][-3:]}")
    print(RULER, flush=True)


def _print_row(way, device, options):
    size = int(options.get("size", 65536))
    seconds = float(options.get("secs", 2))
    wires.take_time(seconds)
    gbits = way.gbits(device, "-b" in options)
    is_gbits = "--report_gbits" in options
    unit = "Gb/sec" if is_gbits else "MB/sec"
    shown = gbits if is_gbits else gbits * 1e9 / 8 / 2**20
    rate = gbits * 1e9 / 8 / size / 1e6
    print(f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]")
    print(
        f" {size:<10} {int(rate * 1e6 * seconds):<14}   {0 if 'secs' in options else shown:<7.2f}"
        f"            {shown:<7.2f}\t\t     {rate:.6f}"
    )
    print(RULER, flush=True)
