"""ping and ip route get. Only the forms that the console uses are known."""

import sys

from . import wires

HEADERS = 28


def ip(argv):
    """Run `ip route get ADDRESS`."""
    if argv[:2] != ["route", "get"] or len(argv) != 3:
        raise wires.UnknownForm(f'Object "{" ".join(argv)[:40]}" is not rehearsed')
    if wires.node_at(argv[2]) is None:
        sys.stderr.write("RTNETLINK answers: Network is unreachable\n")
        return 2
    print(f"{argv[2]} dev bond0 src {wires.ADDRESS} uid 1000 \n    cache ")
    return 0


def ping(argv):
    """Run `ping -c N [-i S] [-M do] [-s BYTES] [-I DEV] ADDRESS`."""
    options, rest = _options(argv)
    if len(rest) != 1:
        raise wires.UnknownForm("usage error: Destination address required")
    count, size = int(options.get("-c", 4)), int(options.get("-s", 56))
    here, there = wires.Node(wires.NAME), wires.node_at(rest[0])
    packet = size + HEADERS
    print(f"PING {rest[0]} ({rest[0]}) {size}({packet}) bytes of data.")
    is_whole = options.get("-M") == "do"
    if is_whole and packet > here.mtu():
        for _ in range(count):
            sys.stderr.write(f"ping: local error: message too long, mtu={here.mtu()}\n")
        return _statistics(rest[0], count, 0, [], "+" + str(count) + " errors, ")
    is_lost = there is None or not there.is_lit() or (is_whole and packet > there.mtu())
    trips = [] if is_lost else _trips(here, there, count)
    for at, trip in enumerate(trips, start=1):
        print(f"{size + 8} bytes from {rest[0]}: icmp_seq={at} ttl=64 time={trip:.3f} ms")
    return _statistics(rest[0], count, len(trips), trips)


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


def _trips(here, there, count):
    way = wires.Way(here, there)
    base = 0.06 if way.same_leaf else 0.11
    kept = count - round(count * max(way.loss_pct(rail) for rail in range(wires.RAILS)) / 100)
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
