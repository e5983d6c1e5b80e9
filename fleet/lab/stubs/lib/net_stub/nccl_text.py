"""Texts around the table of nccl-tests: its head, its device list, and what NCCL 2.28 says with NCCL_DEBUG=INFO."""

BUSES = ("1a", "2a", "3c", "4e", "9a", "aa", "bc", "ce")
CHANNELS = 4
GPUS = 8
COLUMNS = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""


def table_head(low, high, factor):
    """Return the lines above the device list."""
    step = f"{factor}(factor)" if factor > 1 else "1048576(bytes)"
    return (
        "# Collective test starting: all_reduce_perf\n"
        f"# nThread 1 nGpus 1 minBytes {low} maxBytes {high} step: {step} warmup iters: 1"
        " iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n"
    )


def device_lines(nodes, pid):
    """Return a line a card and the heads of the columns."""
    lines = []
    for place, node in enumerate(nodes):
        for card in range(GPUS):
            rank = place * GPUS + card
            lines.append(
                f"#  Rank {rank:>2} Group  0 Pid {pid + rank:>6} on {node.name:>10} device {card:>2}"
                f" [0000:{BUSES[card]}:00] NVIDIA H100 80GB HBM3\n"
            )
    return "".join(lines) + COLUMNS


def setup_lines(nodes, pid, interface, rails):
    """Yield the set-up lines of every rank; without rails NCCL has only sockets."""
    for place, node in enumerate(nodes):
        for card in range(GPUS):
            rank = place * GPUS + card
            head = f"{node.name}:{pid + rank}:{pid + rank + 200} [{card}] NCCL INFO "
            for text in _texts(node, place, card, rank, interface, rails):
                yield f"{head}{text}\n"


def _texts(node, place, card, rank, interface, rails):
    address = node.state.get("address", "")
    if not rank:
        yield "NCCL version 2.28.9+cuda12.9"
    yield f"Bootstrap: Using {interface}:{address}<0>"
    if rails:
        cards = " ".join(f"[{at}]{name}:1/RoCE" for at, name in enumerate(rails))
        yield f"NET/IB : Using {cards} [RO]; OOB {interface}:{address}<0>"
    else:
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]{interface}:{address}<0>"
    yield f"Using network {'IB' if rails else 'Socket'}"
    comm = f"comm 0x5{rank:011x} rank {rank} nranks 16 cudaDev {card} nvmlDev {card}"
    comm += f" busId {BUSES[card]}000 commId 0xf1e2d3c4b5a69788"
    yield f"ncclCommInitRank {comm} - Init START"
    for channel in range(CHANNELS):
        after = place * GPUS + (card + 1) % GPUS
        yield (
            f"Channel {channel:02d}/0 : {rank}[{card}] -> {after}[{(card + 1) % GPUS}] via P2P/CUMEM"
        )
    other = (1 - place) * GPUS + card
    via = f"NET/IB/{card % len(rails)}/GDRDMA" if rails else "NET/Socket/0"
    yield f"Channel 00/0 : {rank}[{card}] -> {other}[{card}] [send] via {via}"
    yield f"Channel 00/0 : {other}[{card}] -> {rank}[{card}] [receive] via {via}"
    yield f"Connected all rings, use ring PXN 0 GDR {int(bool(rails))}"
    yield f"ncclCommInitRank {comm} - Init COMPLETE"
