"""Checks one row of an inventory before anything is stored. Pure: what is allowed is handed in."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.execution.message import SentenceError
from fleet.rules.hostkeys import key_problem
from fleet.rules.message import foreign, say

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}", re.ASCII)
_RACK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}", re.ASCII)
_CLASS = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}", re.ASCII)
_MODEL_ROOT = re.compile(r"/[A-Za-z0-9._/-]{1,199}", re.ASCII)
LEAF_MAX = 4096
DEFAULT_CLASS, DEFAULT_ROOT = "hgx-h100-roce", "/models"
# words that stand where a node's name does in the addresses of the console's pages
_ADDRESSES = frozenset({"add", "export", "import"})


@dataclass(frozen=True)
class NodeRow:
    """One node of an inventory, checked."""

    name: str
    address: str
    port: int
    user: str
    leaf: int
    rack: str
    node_class: str
    model_root: str
    host_key: str
    gpus: int


class BadRow(SentenceError, ValueError):
    """A row that is refused; a stored sentence says which field, what was expected and what was found."""


def read_rows(text: str) -> list[Mapping[str, Any]]:
    """Read an inventory: a JSON list of objects. Raises BadRow for everything else."""
    try:
        rows = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise BadRow(
            say("expected JSON, found something else: %(found)s", found=foreign(str(error)))
        ) from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadRow(say("expected a JSON list of objects, one for each node"))
    return rows


def check_row(
    row: Mapping[str, Any], *, cidrs: Sequence[str], own: Sequence[tuple[str, int]] = ()
) -> NodeRow:
    """Return the row as a NodeRow. `own` are the console's listeners, which are no nodes. Raises BadRow."""
    port = integer_field(row, "ssh_port", 1, 65535, default=22)
    address = check_address(str(row.get("address", "")), cidrs=cidrs)
    if (address, port) in own:
        raise BadRow(
            say("address: %(address)s is this console itself", address=f"{address}:{port}")
        )
    key = str(row.get("host_key") or "").strip()
    if key and (problem := key_problem(key)):
        raise BadRow(say("%(field)s: %(why)s", field="host_key", why=problem))
    if row.get("name") in _ADDRESSES:
        raise BadRow(
            say(
                "name: %(name)s is an address of this console; a node needs another name",
                name=row["name"],
            )
        )
    root = text_field(row, "model_root", _MODEL_ROOT, say("an absolute path"), default=DEFAULT_ROOT)
    if ".." in root.split("/"):
        raise BadRow(
            say("model_root: expected a path without .., found %(found)s", found=repr(root[:60]))
        )
    return NodeRow(
        name=text_field(row, "name", _NAME, say("lower-case letters, digits and -")),
        address=address,
        port=port,
        user=text_field(row, "user", _USER, say("a login name")),
        leaf=integer_field(row, "leaf", 1, LEAF_MAX),
        rack=text_field(row, "rack", _RACK, say("letters, digits, . _ -")),
        node_class=text_field(
            row, "node_class", _CLASS, say("a class name"), default=DEFAULT_CLASS
        ),
        model_root=root.rstrip("/"),
        host_key=key,
        gpus=integer_field(row, "gpus", 1, 16, default=8),
    )


def check_address(text: str, *, cidrs: Sequence[str]) -> str:
    """Return a plain IP address inside the allowed CIDRs. Raises BadRow for every other form.

    Names, short forms (127.1), hexadecimal and mapped addresses are refused, so that what is checked is
    what is connected to.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise BadRow(
            say("address: expected an IP address, found %(found)s", found=repr(text[:60]))
        ) from None
    if text != str(address):
        raise BadRow(
            say(
                "address: expected %(address)s in its plain form, found %(found)s",
                address=str(address),
                found=repr(text[:60]),
            )
        )
    if isinstance(address, ipaddress.IPv6Address) and (
        address.ipv4_mapped or address.sixtofour or address in _NAT64
    ):
        raise BadRow(say("address: expected no IPv4 inside IPv6, found %(found)s", found=text))
    if address.is_multicast or address.is_unspecified or address.is_link_local:
        raise BadRow(say("address: %(found)s is no address of a node", found=text))
    networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
    if not any(address in network for network in networks if network.version == address.version):
        raise BadRow(
            say(
                "address: %(found)s is outside NODE_CIDRS (%(named)s); add its network there",
                found=text,
                named=", ".join(cidrs) or say("nothing"),
            )
        )
    return text


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def text_field(
    row: Mapping[str, Any], field: str, form: re.Pattern[str], what: str, default: str = ""
) -> str:
    """Return a field that matches `form` as a whole. Raises BadRow: `what`, a stored sentence, was expected."""
    value = str(row.get(field) or default)
    if not form.fullmatch(value):
        raise BadRow(
            say(
                "%(field)s: expected %(what)s, found %(found)s",
                field=field,
                what=what,
                found=repr(value[:60]),
            )
        )
    return value


def integer_field(
    row: Mapping[str, Any], field: str, low: int, high: int, default: int | None = None
) -> int:
    """Return a field that is a whole number in a range. Raises BadRow."""
    found = row.get(field)
    value: Any = default if found is None else found
    try:
        number = low - 1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = low - 1
    if not low <= number <= high:
        raise BadRow(
            say(
                "%(field)s: expected a number from %(low)s to %(high)s, found %(found)s",
                field=field,
                low=low,
                high=high,
                found=f"{value!r:.60}",
            )
        )
    return number
