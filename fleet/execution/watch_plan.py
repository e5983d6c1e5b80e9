"""What the watch should be doing, read from the rows every second: which nodes, which subjects, which scrapes."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.db.models import Q

from fleet.execution import states
from fleet.execution.models import Host, Scrape, Subject
from fleet.execution.watch_follow import Work

# A new subject belongs to the hand that starts it; an ended one is read to the end of its output.
_OPEN = (states.SUBJECT_LIVE, states.SUBJECT_UNKNOWN)


@dataclass
class Plan:
    """Nodes by host id, the subjects of each, and the scrapes that are switched on."""

    hosts: dict[int, Host]
    work: dict[int, tuple[Work, ...]] = field(default_factory=dict)
    scrapes: list[Scrape] = field(default_factory=list)

    def keeps(self, host: Host) -> bool:
        """Tell whether a node is still to be watched at the same address with the same key."""
        now = self.hosts.get(host.pk)
        return now is not None and _address(now) == _address(host)


def read_plan() -> Plan:
    """Read the plan with three queries. A node without a pinned key is not connected to."""
    hosts = {host.pk: host for host in Host.objects.filter(key_state=Host.Key.PINNED)}
    # read every second: what was answered before stays where it is
    scrapes = Scrape.objects.filter(is_enabled=True, host__in=hosts).defer("answer", "found")
    return Plan(hosts, _read_work(), list(scrapes))


def _read_work() -> dict[int, tuple[Work, ...]]:
    unread = Q(stream__is_complete=False, state__in=states.SUBJECT_ENDED)
    rows = Subject.objects.filter(Q(state__in=_OPEN) | unread, stream__isnull=False)
    found: dict[int, list[Work]] = {}
    for row in rows.select_related("stream").order_by("pk"):
        work = Work(
            subject_id=row.pk,
            name=row.name,
            stream_id=row.stream.pk,
            layout=tuple(sorted(row.stream.layout.items())),
            is_open=row.state in _OPEN,
        )
        found.setdefault(row.host_id, []).append(work)
    return {pk: tuple(work) for pk, work in found.items()}


def _address(host: Host) -> tuple[object, ...]:
    return host.address, host.port, host.user, host.host_key
