"""What the kernel of a node says while it starts: the beginning of its log (LAB.md 2.1).

Nothing here is an error: what a log says besides is written by faults.
"""


def boot_lines(state: dict) -> list[dict]:
    """Return the entries of one start, at the second of the boot."""
    at = state["boot"]["at"]
    return [{"at": at, "text": text} for text in _texts(state)]


def _texts(state: dict) -> list[str]:
    kernel, driver = state["os"]["kernel"], state["driver"]["version"]
    memory_kb = state["memory"]["total_gib"] << 20
    return [
        f"Linux version {kernel} (buildd@lcy02-amd64-026) #81-Ubuntu SMP PREEMPT_DYNAMIC",
        f"Memory: {memory_kb}K/{memory_kb}K available",
        f"smp: Brought up {state['cpu']['sockets']} nodes, "
        f"{state['cpu']['sockets'] * state['cpu']['cores']} CPUs",
        *(_nic_line(nic) for nic in state["nic"]),
        f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {driver}  Release Build",
        "XFS (md0): Mounting V5 Filesystem",
    ]


def _nic_line(nic: dict) -> str:
    return f"mlx5_core 0000:{nic['bus'].lower()}:00.0: firmware version: {nic['firmware']}"
