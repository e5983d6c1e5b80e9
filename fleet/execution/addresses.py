"""Which addresses the console may connect to as a node: an allow-list, exact forms, never itself.

An address is an IP written in full. Names are resolved once, at import, by whoever imports them.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from django.conf import settings

from fleet.execution.message import SentenceError, say

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
LOOPBACK = "127.0.0.1"
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class AddressRefused(SentenceError, ValueError):
    """The address is not one that a node may have."""


def check_node_address(text: str, port: int) -> str:
    """Return the address in its normal form. Raises AddressRefused with the reason."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise AddressRefused(
            say(
                "%(text)s is not an IP address in full form; a node's name is resolved once, at import",
                text=repr(text),
            )
        ) from None
    if not 1 <= port <= 65535:
        raise AddressRefused(say("port %(port)s: expected 1 to 65535", port=port))
    if reason := _never(address):
        why = say("%(address)s is %(what)s, which no node is", address=address, what=reason)
        raise AddressRefused(why)
    if not any(_covers(network, address) for network in _allowed()):
        raise AddressRefused(
            say(
                "%(address)s lies in none of NODE_CIDRS (%(allowed)s)",
                address=address,
                allowed=", ".join(settings.NODE_CIDRS) or say("empty"),
            )
        )
    _refuse_own_listener(address, port)
    return str(address)


def check_port_of_node(address: str, port: int) -> str:
    """Return an address that a node itself may be asked to speak to: its own loopback, or a node's.

    NODE_CIDRS says whom the console dials; a node's loopback is reached through the node alone. On a machine that
    is both, the console's own listeners stay closed.
    """
    if address != LOOPBACK:
        return check_node_address(address, port)
    if not 1 <= port <= 65535:
        raise AddressRefused(say("port %(port)s: expected 1 to 65535", port=port))
    _refuse_own_listener(ipaddress.ip_address(address), port)
    return address


def _never(address: Address) -> str:
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id:
            return say("an address with a zone")
        if address.ipv4_mapped or address.sixtofour or address.teredo or address in _NAT64:
            return say("an IPv4 address in disguise")
    if address.is_unspecified:
        return say("the unspecified address")
    if address.is_link_local:
        return say("a link-local address")
    if address.is_multicast:
        return say("a multicast address")
    if str(address) == "255.255.255.255":
        return say("the broadcast address")
    return ""


def _allowed() -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return [ipaddress.ip_network(text, strict=False) for text in settings.NODE_CIDRS]


def _covers(network: ipaddress.IPv4Network | ipaddress.IPv6Network, address: Address) -> bool:
    # Loopback must be named as such: 0.0.0.0/0 does not open it.
    return address in network and (not address.is_loopback or network.is_loopback)


def _refuse_own_listener(address: Address, port: int) -> None:
    if (str(address), port) in _own_listeners() or (_is_any(port) and address.is_loopback):
        at = say("%(address)s port %(port)s", address=address, port=port)
        raise AddressRefused(say("%(at)s is one of the console's own listeners", at=at))


def _own_listeners() -> set[tuple[str, int]]:
    database = settings.DATABASES["default"]
    redis = urlsplit(settings.REDIS_URL)
    found = {
        (_normal(settings.HOST), settings.PORT),
        (_normal(database["HOST"]), int(database["PORT"] or 5432)),
        (_normal(redis.hostname or ""), redis.port or 6379),
    }
    return found


def _is_any(port: int) -> bool:
    return settings.HOST in {"0.0.0.0", "::"} and port == settings.PORT


def _normal(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
