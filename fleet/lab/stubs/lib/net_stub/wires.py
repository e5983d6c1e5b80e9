"""What carries data between two rehearsed nodes: state, faults and counters of both ends. Numbers are LAB.md 3.7.

Every figure is invented for the rehearsal; nothing about real cards may be concluded from it.
"""

import fcntl
import json
import math
import os
import shutil
import time
from hashlib import sha256

LAB = os.environ.get("LAB", "")
NAME = os.environ.get("NODE_NAME", "")
ADDRESS = os.environ.get("NODE_ADDR", "")
RAILS = 8
NODES_PER_LEAF = 8  # what the uplinks of a leaf are built for (fleet/lab/fabric.py)
ROCE_V2_IPV4, ROCE_V2 = 3, "ipv4/v2"
FRONT = "bond0"
GOLD_GBITS, GOLD_RATE = 391.6, 400
# Share of the bandwidth that is left at 0.1 % and at 1 % of lost packets (LAB.md 3.7).
LOSS_AT_TENTH, LOSS_AT_ONE = 0.55, 0.12
RETRANSMIT_COUNTERS = ("packet_seq_err", "local_ack_timeout_err")


class UnknownForm(Exception):
    """A form of a tool that is not rehearsed."""


def note_unknown(argv):
    """Record a form that no stub knows, so that no test passes on it silently."""
    with open(os.path.join(LAB, "unknown.log"), "a", encoding="utf-8") as file:
        file.write(f"{NAME} {' '.join(argv)}\n")


def read_json(*parts, default=None):
    """Return the content of a JSON file below the lab, `default` when it is missing or torn."""
    try:
        with open(os.path.join(LAB, *parts), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return default


def scale():
    """How much faster than life tools that take time are here."""
    return float(read_json("lab.json", default={}).get("scales", {}).get("watch", 10.0))


def spread(low, high, *keys):
    """Return a repeatable value between `low` and `high`."""
    seed = read_json("lab.json", default={}).get("seed", 1)
    digest = sha256("/".join(map(str, (seed, *keys))).encode()).digest()
    return low + (high - low) * int.from_bytes(digest[:4], "big") / 0xFFFFFFFF


class Node:
    """One node as the fabric sees it."""

    def __init__(self, name):
        self.name = name
        self.state = read_json("nodes", name, "state.json", default={})
        self.faults = read_json("nodes", name, "faults.json", default=[])

    @property
    def leaf(self):
        return self.state.get("leaf", 0)

    def has(self, fault):
        return any(row["name"] == fault for row in self.faults)

    def rows(self, fault, other=""):
        """Return the arguments of a fault's rows that concern the way to `other`."""
        return [
            row["args"]
            for row in self.faults
            if row["name"] == fault and row["args"].get("peer", "") in ("", other)
        ]

    def nic(self, device):
        return next((n for n in self.state.get("nic", ()) if n["device"] == device), None)

    def mtu(self):
        """Return the smallest MTU of its rails."""
        rails = self.state.get("nic", ())[:RAILS]
        return min((nic["mtu"] for nic in rails), default=0)

    def port_to(self, address):
        """Return the rail that shares a network (/24) with an address, the front end for any other."""
        nics = self.state.get("nic", ())
        network = address.rpartition(".")[0]
        rail = next((n for n in nics[:RAILS] if n["ip"].rpartition(".")[0] == network), None)
        return rail or next((n for n in nics if n["netdev"] == FRONT), None)

    def port_with(self, address):
        """Return the NIC that has this address; None when none has it."""
        return next((n for n in self.state.get("nic", ()) if n["ip"] == address), None)

    def good_gid(self, device):
        """Return the index of a card's RoCE v2 address; None when it has none."""
        nic = self.nic(device)
        return nic["gids"].index(ROCE_V2) if nic and ROCE_V2 in nic["gids"] else None

    def is_lit(self):
        return self.state.get("reach") != "dead"


def node_at(address):
    """Return the node that logs in at an address, None when nobody does."""
    for row in read_json("inventory.json", default=[]):
        if row["address"] == address:
            return Node(row["name"])
    return None


def node_with(address):
    """Return the node of which any NIC has an address, None when nobody has it."""
    if (found := node_at(address)) is not None:
        return found
    nodes = (Node(row["name"]) for row in read_json("inventory.json", default=[]))
    return next((node for node in nodes if node.port_with(address)), None)


class Way:
    """The way between two nodes."""

    def __init__(self, here, there):
        self.here, self.there = here, there
        self.fabric = read_json("fabric.json", default={})

    @property
    def same_leaf(self):
        return self.here.leaf == self.there.leaf

    def loss_pct(self, rail):
        """Return the percent of packets lost on one rail, to everybody or on this way only."""
        lost = self.fabric.get("loss_ratio", {})
        names = [
            key
            for one, other in ((self.here, self.there), (self.there, self.here))
            for key in (f"{one.name}/mlx5_{rail}", f"{one.name}/mlx5_{rail}>{other.name}")
        ]
        return 100 * max(lost.get(name, 0.0) for name in names)

    def rail_factor(self, device):
        """Return which share of a sound rail this one carries: port, cable, loss and MTU of both ends."""
        rail = int(device.rpartition("_")[2])
        rates = [node.nic(device)["rate_gbps"] for node in (self.here, self.there)]
        rates += [
            cable["gbps"]
            for cable in self.fabric.get("cables", ())
            if cable["nic"] == device and cable["node"] in (self.here.name, self.there.name)
        ]
        factor = min(rates) / GOLD_RATE * loss_factor(self.loss_pct(rail))
        return factor * (0.7 if min(self.here.mtu(), self.there.mtu()) < 4096 else 1.0)

    def gbits(self, device, is_two_way):
        """Return what ib_write_bw measures, Gb/s; both directions are added in the second form."""
        gold = GOLD_GBITS + spread(-0.4, 0.4, self.here.name, self.there.name, device)
        return gold * self.rail_factor(device) * (1.96 if is_two_way else 1.0)

    def note_traffic(self, devices):
        """Let the counters of both ends grow as after a test over these rails."""
        for device in devices:
            loss = self.loss_pct(int(device.rpartition("_")[2]))
            again = int(loss * 10_000)
            grow_counters(self.here.name, device, dict.fromkeys(RETRANSMIT_COUNTERS, again))
            grow_counters(self.there.name, device, {"out_of_sequence": again})

    def hangs(self):
        """Tell whether a collective over this way never ends: a rail stands still, or it was asked to."""
        still = {key.partition("/")[0] for key in self.fabric.get("paused", ())}
        return bool(
            still & {self.here.name, self.there.name}
            or self.here.rows("net.hang", self.there.name)
            or self.there.rows("net.hang", self.here.name)
        )

    def uplinks(self):
        """Return by leaf how many pairs the uplinks of both ends carry at full width.

        A pair loads the uplinks of a leaf with all rails of one node; sold once, they carry every node of the leaf.
        """
        sold = {row["leaf"]: row["oversub"] for row in self.fabric.get("leaves", ())}
        return {
            leaf: NODES_PER_LEAF / sold.get(leaf, 1.0) for leaf in (self.here.leaf, self.there.leaf)
        }


def loss_factor(percent):
    """Return the share of the bandwidth that is left at a percentage of lost packets."""
    if percent <= 0:
        return 1.0
    decades = math.log10(percent / 0.1)
    return min(1.0, max(0.01, LOSS_AT_TENTH * (LOSS_AT_ONE / LOSS_AT_TENTH) ** decades))


def grow_counters(name, device, growth):
    """Add to hw_counters of one card of one node; its sisters share the files until then."""
    growth = {counter: more for counter, more in growth.items() if more}
    node = os.path.join(LAB, "nodes", name)
    if not growth or not os.path.isdir(os.path.join(node, "root/sys/class/infiniband", device)):
        return
    with open(os.path.join(node, "net.lock"), "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        card = os.path.join(_own_tree(name), "class/infiniband", device)
        directory = os.path.join(card, "ports/1/hw_counters")
        for counter, more in growth.items():
            path = os.path.join(directory, counter)
            with open(path, encoding="ascii") as file:
                value = int(file.read())
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(f"{value + more}\n")
            os.replace(path + ".new", path)


def _own_tree(name):
    """Return the node's own /sys, copied from the tree that it shares with its sisters.

    A fault, a reset or a boot links the node to a shared tree again: its counters begin anew.
    """
    link = os.path.join(LAB, "nodes", name, "root/sys")
    tree = os.readlink(link)
    own = os.path.join(os.path.dirname(tree), f"own-{name}")
    if tree != own:
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(tree, own)
        os.symlink(own, f"{link}.own")
        os.replace(f"{link}.own", link)
    return own


class Load:
    """The pairs that test at this moment, as files: one a pair, held by a lock for its life."""

    def __init__(self, way):
        folder = os.path.join(LAB, "net")
        os.makedirs(folder, exist_ok=True)
        leaves = f"{way.here.leaf}-{way.there.leaf}"
        self.path = os.path.join(folder, f"{leaves}.{os.getpid()}")
        self.is_across = not way.same_leaf
        self.uplinks = way.uplinks()
        self.file = open(self.path, "w", encoding="ascii")  # noqa: SIM115 - held for the life
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def others(self):
        """Return by leaf how many other pairs cross its uplinks now."""
        count = dict.fromkeys(self.uplinks, 0)
        for name in os.listdir(os.path.dirname(self.path)):
            path = os.path.join(os.path.dirname(self.path), name)
            here, _, there = name.partition(".")[0].partition("-")
            mine = [leaf for leaf in count if str(leaf) in (here, there)]
            if path == self.path or here == there or not mine or not _is_held(path):
                continue
            for leaf in mine:
                count[leaf] += 1
        return count

    def share(self):
        """Return which share of its width this pair gets: min(1, uplinks / need) of the tighter leaf."""
        if not self.is_across:
            return 1.0
        need = {leaf: 1 + count for leaf, count in self.others().items()}
        return min([1.0, *(self.uplinks[leaf] / need[leaf] for leaf in need)])

    def end(self):
        os.unlink(self.path)
        self.file.close()


def _is_held(path):
    try:
        with open(path, encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def take_time(seconds):
    """Let the wall time of a tool pass, divided by the scale."""
    time.sleep(seconds / scale())
