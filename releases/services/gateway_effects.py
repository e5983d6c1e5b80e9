"""What a gateway's proxy is told, and what it starts from: every effect is a command with a purpose of its own.

Orders name absolute values, so that one said twice changes nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from fleet.execution.dispatch import command_dispatch, subject_create
from fleet.execution.models import Command, Scrape
from releases.gateways.haproxy import CONFIG, SHARE_MAP, Place, render_config, render_shares
from releases.models import Gateway
from releases.rules.gateway import Route, without_servers
from releases.selectors.gateways import READ_EVERY_S

SHOW = f"show servers state; show stat; show map {SHARE_MAP}"
READ_TIMEOUT_S = 5.0
ANSWER_CAP_BYTES = 1024 * 1024
ORDER_TIMEOUT_S = 10.0
# Beside the file and moved over it: a proxy that starts now reads the old one or the new one, never a half.
_WRITE = (
    'umask 077; mkdir -p "$1" && cd "$1" && printf %s "$3" >"$2.new" && mv -f "$2.new" "$2"'
    ' && sha256sum "$2"'
)


@dataclass(frozen=True)
class Files:
    """What the proxy begins with. `frame_sha256` is of what a running one cannot be told."""

    config: str
    shares: str
    frame_sha256: str

    @property
    def sha256(self) -> str:
        return _sha256(self.config, self.shares)


def files_of(gateway: Gateway, routes: tuple[Route, ...]) -> Files:
    """Render the files with which the proxy comes up as desired."""
    place = Place(gateway.host.address, gateway.port, gateway.admin_port)
    frame = _sha256(render_config(place, without_servers(routes)))
    return Files(render_config(place, routes), render_shares(routes), frame)


def dispatch_files(gateway: Gateway, files: Files) -> Command:
    """Write both files on the host; the hash of what was written is in the purpose."""
    wanted = {CONFIG: files.config, SHARE_MAP: files.shares}
    sections = [
        {
            "name": name,
            "timeout_s": 10,
            "argv": ["sh", "-c", _WRITE, "sh", gateway.directory, name, text],
        }
        for name, text in wanted.items()
    ]
    return _dispatch(
        gateway,
        f"files/{files.sha256[:16]}",
        verb="probe",
        effect="ensure",
        payload={"sections": sections},
    )


def dispatch_start(gateway: Gateway) -> Command:
    """Start the proxy under the shim; under a new epoch when it ran before."""
    if gateway.subject is None:
        gateway.subject = subject_create(host=gateway.host, name=f"gateway-{gateway.name}")
    return _dispatch(
        gateway,
        "start",
        verb="start",
        effect="ensure",
        subject=gateway.subject,
        payload={
            "argv": ["haproxy", "-db", "-f", CONFIG],
            "env": {},
            "cwd": gateway.directory,
            "epoch": gateway.subject.epoch + 1,
        },
    )


def dispatch_stop(gateway: Gateway) -> Command:
    """Stop the proxy, because only another start can change what it serves."""
    return _dispatch(
        gateway, "stop", verb="stop", effect="ensure", subject=gateway.subject, payload={}
    )


def dispatch_order(gateway: Gateway, lines: list[str]) -> Command:
    """Give runtime orders; what the proxy does afterwards is read in the same exchange."""
    payload = {
        "port": gateway.admin_port,
        "text": order_text(lines),
        "timeout_s": ORDER_TIMEOUT_S,
        "limit_bytes": ANSWER_CAP_BYTES,
    }
    return _dispatch(gateway, "order", verb="exchange", effect="ensure", payload=payload)


def order_text(lines: list[str]) -> str:
    """Return the orders as one line of the runtime API, with the read-back behind them."""
    return "; ".join([*lines, SHOW]) + "\n"


def watch_gateway(gateway: Gateway) -> None:
    """Let the watch read back what the proxy does, every two seconds."""
    Scrape.objects.update_or_create(
        key=scrape_key(gateway),
        defaults={
            "host": gateway.host,
            "kind": "exchange",
            "port": gateway.admin_port,
            "body": {"text": SHOW + "\n", "limit_bytes": ANSWER_CAP_BYTES},
            "topic": gateway.topic,
            "every_s": READ_EVERY_S,
            "timeout_s": READ_TIMEOUT_S,
        },
    )


def scrape_key(gateway: Gateway) -> str:
    """Return the key of the recurring read-back."""
    return f"gateway:{gateway.name}/read"


def _dispatch(gateway: Gateway, step: str, **order: Any) -> Command:
    gateway.serial += 1
    return command_dispatch(
        purpose=f"gateway:{gateway.name}/{gateway.serial}/{step}",
        host=gateway.host,
        queue="stop" if order["verb"] == "stop" else "start",
        deadline_s=60.0,
        topic=gateway.topic,
        **order,
    )


def _sha256(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
