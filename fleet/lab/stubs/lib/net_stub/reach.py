"""ping and ip route get. Only the forms that the console uses are known."""

import sys

from . import wires

HEADERS = 28


def ip(argv):
    """Run `ip route get ADDRESS [from ADDRESS]`: a rail's address goes out of the rail of its network."""
    if argv[:2] != ["route", "get"] or len(argv) not in (3, 5) or argv[3:4] not in ([], ["from"]):
        raise wires.UnknownForm(f'Object "{" ".join(argv)[:40]}" is not rehearsed')
    here, address = wires.Node(wires.NAME), argv[2]
    if argv[4:] and here.port_with(argv[4]) is None:
        sys.stderr.write("RTNETLINK answers: Invalid argument\n")
        return 2
    port = here.port_to(address)
    if wires.node_with(address) is None or port is None or port["port"] != "up":
        sys.stderr.write("RTNETLINK answers: Network is unreachable\n")
        return 2
    way = f"dev {port['netdev']} src {port['ip']}"
    if argv[4:]:
        way = f"from {argv[4]} dev {port['netdev']}"
    print(f"{address} {way} uid 1000 \n    cache ")
    return 0


def ping(argv):
    """Run `ping -c N [-i S] [-M do] [-s BYTES] [-I DEV] ADDRESS`."""
    options, rest = _options(argv)
    if len(rest) != 1:
        raise wires.UnknownForm("usage error: Destination address required")
    count, size = int(options.get("-c", 4)), int(options.get("-s", 56))
    here, there = wires.Node(wires.NAME), wires.node_with(rest[0])
    port = _port(here, options.get("-I"), rest[0])
    if port is None:
        sys.stderr.write(f"ping: SO_BINDTODEVICE {options.get('-I')}: No such device\n")
        return 2
    packet = size + HEADERS
    print(f"PING {rest[0]} ({rest[0]}) {size}({packet}) bytes of data.")
    is_whole = options.get("-M") == "do"
    if is_whole and packet > port["mtu"]:
        for _ in range(count):
            sys.stderr.write(f"ping: local error: message too long, mtu={port['mtu']}\n")
        return _statistics(rest[0], count, 0, [], "+" + str(count) + " errors, ")
    other = there and there.port_with(rest[0])
    is_lost = (
        there is None
        or not there.is_lit()
        or not other
        or port["port"] != "up"
        or other["port"] != "up"
        or port["rail"] != other["rail"]
        or (is_whole and packet > other["mtu"])
    )
    trips = [] if is_lost else _trips(here, there, count, port["rail"])
    for at, trip in enumerate(trips, start=1):
        print(f"{size + 8} bytes from {rest[0]}: icmp_seq={at} ttl=64 time={trip:.3f} ms")
    return _statistics(rest[0], count, len(trips), trips)


def _port(here, device, address):
    """Return the NIC that a ping leaves by: the one that is named, or the one of the address's network."""
    if device is None:
        return here.port_to(address)
    return next(
        (nic for nic in here.state.get("nic", ()) if device in (nic["netdev"], nic["ip"])), None
    )


def _options(argv):
    options, rest, words = {}, [], list(argv)
    while words:
        word = words.pop(0)
        if word in ("-c", "-i", "-M", "-s", "-I", "-W") and words:
            options[word] = words.pop(0)
        elif word.startswith("-"):
            raise wires.UnknownForm(f"invalid option -- '{word}'")
        else:
            rest.append(word)
    return options, rest


def _trips(here, there, count, rail):
    """Return the times of what came back, ms. Only rails lose packets in the rehearsal, the front end never."""
    way = wires.Way(here, there)
    base = 0.06 if way.same_leaf else 0.11
    kept = count - round(count * (0 if rail is None else way.loss_pct(rail)) / 100)
    return [base + wires.spread(0, 0.01, here.name, there.name, at) for at in range(kept)]


def _statistics(address, sent, received, trips, errors=""):
    loss = 100 * (sent - received) / sent
    print(f"\n--- {address} ping statistics ---")
    print(
        f"{sent} packets transmitted, {received} received, {errors}{loss:g}% packet loss, "
        f"time {200 * sent}ms"
    )
    if trips:
        mean = sum(trips) / len(trips)
        print(f"rtt min/avg/max/mdev = {min(trips):.3f}/{mean:.3f}/{max(trips):.3f}/0.004 ms")
    return 0 if received else 1
