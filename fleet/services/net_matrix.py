"""The network matrix and the golden pairs: written by one person, signed by another, never edited in place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import Max
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Leaf, NetGolden, NetMatrix, NetPair, Node
from fleet.rules import netgold, netverdict
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add

TOPIC = "network"
CARD = re.compile(r"[a-z][a-z0-9_]{0,30}")
INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9._@-]{0,14}")
MTU_RANGE = (1280, 65520)  # IPv6's least, IPoIB's most
GID_MAX, CLASS_MAX = 255, 255
_LOCK_CLASS = 7408


@transaction.atomic
def matrix_write(*, fields: Mapping[str, str], actor: Actor, user: Any = None) -> NetMatrix:
    """Write the next version for a node class and a leaf (none: every leaf). Raises Refused for a bad field."""
    permit_demand(user, "network-matrix-write")
    node_class = fields.get("node_class", "").strip()
    if not Node.objects.filter(node_class=node_class).exists():
        raise Refused(
            _("No node is of class %(name)s. Choose one that the inventory has.")
            % {"name": node_class[:40] or "?"}
        )
    leaf = _leaf(fields.get("leaf", ""))
    _lock_line(f"matrix/{node_class}/{leaf.number if leaf else '-'}")
    last = NetMatrix.objects.filter(node_class=node_class, leaf=leaf).aggregate(v=Max("version"))
    row = NetMatrix.objects.create(
        node_class=node_class,
        leaf=leaf,
        version=(last["v"] or 0) + 1,
        hcas=_cards(fields.get("hcas", "")),
        interface=_interface(fields.get("interface", "")),
        mtu=_number(fields, "mtu", *MTU_RANGE) or MTU_RANGE[0],
        gid_index=_number(fields, "gid_index", 0, GID_MAX, is_optional=True),
        traffic_class=_number(fields, "traffic_class", 0, CLASS_MAX, is_optional=True),
        note=fields.get("note", "").strip()[:500],
        written_by=user,
    )
    _tell(row, "network_matrix.write", actor)
    return row


@transaction.atomic
def matrix_sign(*, matrix: NetMatrix, actor: Actor, user: Any) -> NetMatrix:
    """Sign a version, so that launches take it. Raises NotAllowed for its author, Conflict unless it is the newest."""
    permit_demand(user, "network-matrix-sign")
    row = NetMatrix.objects.select_for_update(of=("self",)).get(pk=matrix.pk)
    if row.written_by_id == user.pk:
        raise NotAllowed(
            _("You wrote %(row)s; a second person compares it with the network and signs.")
            % {"row": row}
        )
    if row.signed_by_id is not None:
        raise Conflict(_("%(row)s is signed already.") % {"row": row})
    newer = NetMatrix.objects.filter(
        node_class=row.node_class, leaf=row.leaf_id, version__gt=row.version
    )
    if newer.exists():
        raise Conflict(_("There is a newer version than %(row)s. Look at that one.") % {"row": row})
    row.signed_by, row.signed_at = user, Now()
    row.save(update_fields=["signed_by", "signed_at"])
    row.refresh_from_db()
    _tell(row, "network_matrix.sign", actor)
    return row


@transaction.atomic
def golden_choose(*, pair: NetPair, actor: Actor, user: Any = None) -> NetGolden:
    """Make a measured pair the one that others of its class and topology are compared with.

    Raises Refused unless its transport is proved and its bandwidth was measured: gold that is not known to be sound
    would make every other pair look good.
    """
    permit_demand(user, "network-golden")
    pair = NetPair.objects.select_related("run", "a__host", "b__host").get(pk=pair.pk)
    if pair.a.node_class != pair.b.node_class:
        raise Refused(_("%(pair)s are of two classes; a golden pair is of one.") % {"pair": pair})
    layer = pair.layers.get(netverdict.COLLECTIVE) or {}
    is_bad = any(one.get("verdict") != netverdict.PASS for one in _sentences_beside_gold(pair))
    if pair.busbw_gbs is None or not layer or is_bad:
        raise Refused(
            _(
                "%(pair)s has no sound measurement: bandwidth, transport proof and counters are needed."
                " Test the pair again, then choose it."
            )
            % {"pair": pair}
        )
    words = {"node_class": pair.a.node_class, "topology": pair.topology}
    _lock_line(f"golden/{pair.a.node_class}/{pair.topology}")
    before = NetGolden.objects.filter(is_current=True, **words)
    old = before.select_related("pair__a__host", "pair__b__host").first()
    NetGolden.objects.filter(is_current=True, **words).update(is_current=False)
    bar = old.bar if old else netverdict.BAR
    gold = NetGolden.objects.create(pair=pair, chosen_by=user, bar=bar, **words)
    trail_add(
        actor=actor,
        verb="network_golden.choose",
        object_kind="network",
        object_id=pair.run.public_id,
        before={"pair": str(old.pair)} if old else None,
        after={**words, "pair": str(pair), "busbw_gbs": pair.busbw_gbs},
    )
    ring(TOPIC, "golden", pair.run.topic)
    return gold


@transaction.atomic
def golden_bar(
    *, gold: NetGolden, bar: str, reason: str, actor: Actor, user: Any = None
) -> NetGolden:
    """Make the next version of a golden pair with another bar, in percent as typed; runs from now on take it.

    Raises NeedsReason, Refused for what is no bar or changes nothing, Conflict unless the version is in force.
    """
    permit_demand(user, "golden-pair-bar")
    if not reason.strip():
        raise NeedsReason(_("Another bar needs a reason. Write why, then send again."))
    wanted = netgold.read_bar(bar)
    if wanted is None:
        low, high = (100 * one for one in netgold.BAR_RANGE)
        raise Refused(
            _("Bar: expected a percentage from %(low)d to %(high)d, found %(found)s.")
            % {"low": low, "high": high, "found": bar.strip()[:20] or "-"}
        )
    _lock_line(f"golden/{gold.node_class}/{gold.topology}")
    old = NetGolden.objects.select_related("pair__run", "pair__a__host", "pair__b__host").get(
        pk=gold.pk
    )
    if not old.is_current:
        raise Conflict(_("There is a newer version of this golden pair. Look at that one."))
    if wanted == old.bar:
        raise Refused(
            _("Nothing would change: the bar is %(bar)s %% already.") % {"bar": f"{100 * wanted:g}"}
        )
    words = {"node_class": old.node_class, "topology": old.topology}
    NetGolden.objects.filter(pk=old.pk).update(is_current=False)
    new = NetGolden.objects.create(
        pair=old.pair, chosen_by=user, bar=wanted, note=reason.strip()[:500], **words
    )
    trail_add(
        actor=actor,
        verb="network_golden.bar",
        object_kind="network",
        object_id=old.pair.run.public_id,
        reason=reason,
        before={"bar": old.bar},
        after={**words, "pair": str(old.pair), "bar": wanted},
    )
    ring(TOPIC, "golden", old.pair.run.topic)
    return new


def _lock_line(line: str) -> None:
    """Let writers of one class go one after the other; the first version has no row to lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK_CLASS, line])


def _sentences_beside_gold(pair: NetPair) -> list[dict[str, Any]]:
    """Everything said of a pair but its comparison with the gold that it replaces, or with the one that was missing."""
    return [
        one
        for layer in pair.layers.values()
        for one in layer.get("said", ())
        if "golden pair" not in one.get("text", "")
    ]


def _tell(row: NetMatrix, verb: str, actor: Actor) -> None:
    trail_add(
        actor=actor,
        verb=verb,
        object_kind="network-matrix",
        object_id=row.public_id,
        after={
            "node_class": row.node_class,
            "leaf": row.leaf.number if row.leaf else None,
            "version": row.version,
            "hcas": row.hcas,
            "interface": row.interface,
            "mtu": row.mtu,
            "gid_index": row.gid_index,
            "traffic_class": row.traffic_class,
        },
    )
    ring(TOPIC)


def _leaf(text: str) -> Leaf | None:
    if not text.strip():
        return None
    found = (
        Leaf.objects.filter(number=int(text)).first()
        if text.strip().isdecimal() and len(text) < 6
        else None
    )
    if found is None:
        raise Refused(_("No leaf has the number %(n)s.") % {"n": text[:10]})
    return found


def _cards(text: str) -> list[str]:
    names = [word for word in re.split(r"[\s,]+", text.strip()) if word]
    bad = [name for name in names if not CARD.fullmatch(name)]
    if not names or bad or len(set(names)) != len(names) or len(names) > 16:
        raise Refused(
            _(
                "RDMA cards: expected 1 to 16 different names such as mlx5_0 mlx5_1, found %(found)s."
            )
            % {"found": text[:80] or "-"}
        )
    return names


def _interface(text: str) -> str:
    if not INTERFACE.fullmatch(text.strip()):
        raise Refused(
            _("Interface: expected a name such as bond0, found %(found)s.")
            % {"found": text[:20] or "-"}
        )
    return text.strip()


def _number(
    fields: Mapping[str, str], name: str, low: int, high: int, *, is_optional: bool = False
) -> int | None:
    text = fields.get(name, "").strip()
    if not text and is_optional:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 7 and low <= int(text) <= high):
        raise Refused(
            _("%(name)s: expected a whole number from %(low)d to %(high)d, found %(found)s.")
            % {"name": name, "low": low, "high": high, "found": text[:20] or "-"}
        )
    return int(text)
