"""Reads `ibv_devinfo`: what libibverbs sees of the RDMA devices, the active MTU among it.

The active MTU is RDMA's own, a power of two; it is not the MTU of the network interface behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.host.whole import whole_lines

_HCA = re.compile(r"hca_id:\s+(\S{1,64})\s*")
_PORT = re.compile(r"\s+port:\s+(\d{1,3})\s*", re.ASCII)
_PAIR = re.compile(r"\s+(state|active_mtu|link_layer):\s+(\w{1,24})(?: \(\d{1,3}\))?\s*", re.ASCII)


@dataclass(frozen=True)
class DevicePort:
    """One port; `active_mtu` in bytes, None when the block does not tell it."""

    device: str
    port: int
    state: str | None
    active_mtu: int | None
    link_layer: str | None


def parse_devinfo(text: str) -> tuple[DevicePort, ...] | None:
    """Return the ports of every device; None for a text that is cut, mixed, or another tool's.

    The link layer stands last in a block, so a port without one was cut. Source: ibv_devinfo(1).
    """
    device = ""
    devices: list[str] = []
    blocks: list[tuple[str, int, dict[str, str]]] = []
    lines, ends = whole_lines(text)
    for line in lines:
        if found := _HCA.fullmatch(line.text):
            device = found[1]
            devices.append(device)
        elif (found := _PORT.fullmatch(line.text)) and device:
            blocks.append((device, int(found[1]), {}))
        elif (found := _PAIR.fullmatch(line.text)) and blocks:
            blocks[-1][2][found[1]] = found[2]
    whole = ends and all("link_layer" in told for _, _, told in blocks)
    once = len({(name, port) for name, port, _ in blocks}) == len(blocks)
    if not (blocks and whole and once and {name for name, _, _ in blocks} == {*devices}):
        return None
    return tuple(_port(name, port, told) for name, port, told in blocks)


def _port(device: str, port: int, told: dict[str, str]) -> DevicePort:
    mtu = told.get("active_mtu", "")
    number = int(mtu) if mtu.isascii() and mtu.isdigit() and len(mtu) <= 5 else None
    return DevicePort(device, port, told.get("state"), number, told["link_layer"])
