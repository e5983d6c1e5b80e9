"""SSH to a node: the only door to paramiko. Pinned keys, deadlines on everything, one reader a channel.

A connection belongs to the process that opened it: never open one before a fork. All spans are seconds from
now. What a node sends is data; a broken or lying answer becomes an error with words, never a traceback.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import paramiko
from django.conf import settings
from paramiko.ssh_exception import SSHException

from fleet.execution import ssh_exchange, ssh_http, wire
from fleet.execution.addresses import (
    LOOPBACK,
    AddressRefused,
    check_node_address,
    check_port_of_node,
)
from fleet.execution.faults import fault_point, scaled
from fleet.execution.message import foreign, say, sentence_in
from fleet.execution.remote_body import Body
from fleet.execution.remote_errors import (
    AuthFailed,
    Deadline,
    HostKeyChanged,
    HostKeyUnset,
    PortFailed,
    RemoteError,
    ShimRefused,
    Unreachable,
)

CONNECT_S, LOGIN_S, SILENCE_S, KEEPALIVE_S = 10.0, 20.0, 10.0, 5.0
# A login costs a loaded machine seconds, however fast the clock of a test runs.
LOGIN_FLOOR_S = 6.0
# sshd allows 10 sessions a connection, and frees one only when the remote process has ended.
CHANNELS = 8
_SESSION_WAIT_S = 0.05

__all__ = [
    "AuthFailed",
    "Body",
    "Connection",
    "Deadline",
    "HostKeyChanged",
    "HostKeyUnset",
    "PortFailed",
    "RemoteError",
    "ShimRefused",
    "Unreachable",
    "check_host_key",
    "connect",
]


class Endpoint(Protocol):
    """What `connect` needs of a Host row."""

    name: str
    address: str
    port: int
    user: str
    host_key: str
    key_state: str
    offered_key: str


def connect(host: Endpoint, *, deadline: float) -> Connection:
    """Open a connection to a node within `deadline` seconds. Raises RemoteError."""
    if host.key_state == "changed":
        raise HostKeyChanged(
            say("its host key changed; blocked until a person pins the new key"),
            host.offered_key,
            node=host.name,
        )
    until = time.monotonic() + min(
        deadline, scaled(CONNECT_S) + max(LOGIN_FLOOR_S, scaled(LOGIN_S))
    )
    transport = _handshake(host.name, host.address, host.port, until, pinned=host.host_key)
    try:
        _check_host_key(host, transport)
        _log_in(host, transport, until)
    except BaseException:
        transport.close()
        raise
    transport.set_keepalive(int(max(1, scaled(KEEPALIVE_S))))
    return Connection(transport, name=host.name, address=host.address)


def check_host_key(host: Endpoint, *, deadline: float) -> None:
    """See by a key exchange, without logging in, that a node still shows its pinned key. Raises RemoteError.

    An open connection proves nothing of this: it outlives the daemon that was replaced.
    """
    until = time.monotonic() + deadline
    transport = _handshake(host.name, host.address, host.port, until, pinned=host.host_key)
    try:
        _check_host_key(host, transport)
    finally:
        transport.close()


class Connection:
    """One logged-in SSH connection. Its calls may come from several threads."""

    def __init__(self, transport: paramiko.Transport, *, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self._transport = transport
        self._slots = threading.BoundedSemaphore(CHANNELS)
        self._is_forced = False
        self._arrivals = 0
        self._arriving = threading.Lock()

    @property
    def is_alive(self) -> bool:
        return bool(self._transport.is_active())

    def shim(
        self,
        verb: str,
        subject: str,
        fence: int,
        lines: Sequence[str] = (),
        *,
        deadline: float,
        stdin_open: bool = False,
    ) -> tuple[dict[str, Any], Body]:
        """Call the shim; return its answer and what follows it. The shim arrives by itself when missing.

        `stdin_open` keeps the call's stdin open until the body is closed, for output that is followed:
        then `deadline` counts for the answer only. Raises RemoteError.
        """
        words = wire.check_words(verb, subject, fence)
        text = "".join(f"{line}\n" for line in (*lines, ";end")).encode()
        until = time.monotonic() + deadline
        for _ in range(3):
            arrivals = self._arrivals
            body = self._exec(
                wire.command_line(words, forced=self._is_forced), text, until, stdin_open
            )
            fault_point(f"{verb}-sent")
            answer = body.read_answer()
            if answer["answer"] == "NOSHIM":
                body.close()  # before the arrival, which needs a channel too
                self._arrive(until, arrivals)
            elif answer["answer"] == "REFUSED" and "sha256" in answer and not self._is_forced:
                self._accept_forced(answer)
            else:
                if stdin_open:
                    body.until = None
                return answer, body
            body.close()
        raise ShimRefused(
            say("the shim was put there and is not found; is HOME another one?"), node=self.name
        )

    def http(
        self,
        method: str,
        path: str,
        *,
        port: int,
        address: str = "",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        deadline: float,
        limit: int = 4 * 1024 * 1024,
    ) -> ssh_http.HttpAnswer:
        """Send one HTTP request from the node to `address` (its own when empty). Raises RemoteError."""
        until = time.monotonic() + deadline
        request = ssh_http.HttpRequest(method, path, dict(headers or {}), body, limit)
        with self._port(check_node_address, address or self.address, port, until) as channel:
            try:
                host = f"{address or self.address}:{port}"
                return ssh_http.ask(channel, request, host=host, until=until)
            except TimeoutError:
                why = say("no whole answer in %(seconds)s s", seconds=f"{deadline:.1f}")
                raise self._port_failed(port, why, may_have_run=True) from None

    def exchange(
        self, text: bytes, *, port: int, address: str = LOOPBACK, deadline: float, limit: int
    ) -> ssh_exchange.ExchangeAnswer:
        """Send text from the node to a port, its own loopback's by default; read to the end. Raises RemoteError."""
        until = time.monotonic() + deadline
        with self._port(check_port_of_node, address, port, until) as channel:
            try:
                return ssh_exchange.exchange(channel, text, limit=limit, until=until)
            except ssh_exchange.LinkCut as error:
                raise self._broken(error, until, may_have_run=True) from error

    def close(self) -> None:
        self._transport.close()

    @contextlib.contextmanager
    def _port(
        self, check: Callable[[str, int], str], address: str, port: int, until: float
    ) -> Iterator[paramiko.Channel]:
        try:
            target = check(address, port), port
        except AddressRefused as error:
            raise PortFailed(sentence_in(error), node=self.name) from None
        channel = self._open("direct-tcpip", until, dest_addr=target, src_addr=("127.0.0.1", 0))
        try:
            yield channel
        except (
            ssh_http.HttpBroken,
            ssh_exchange.ExchangeBroken,
            OSError,
            EOFError,
            SSHException,
        ) as error:
            raise self._port_failed(port, sentence_in(error), may_have_run=True) from error
        finally:
            channel.close()
            self._slots.release()

    def _exec(self, command: str, text: bytes, until: float, stdin_open: bool) -> Body:
        channel = self._open("session", until)
        # exec waits for the server's reply without a limit of its own.
        guard = threading.Timer(max(0.0, until - time.monotonic()), channel.close)
        guard.daemon = True
        guard.start()
        body = Body(channel, self.name, until, self._slots.release)
        try:
            channel.exec_command(command)
            channel.settimeout(max(0.01, until - time.monotonic()))
            self._tell(channel, text, until, stdin_open)
        except (SSHException, OSError, EOFError) as error:
            body.close()
            raise self._broken(error, until, may_have_run=True) from error
        finally:
            guard.cancel()
        return body

    def _tell(self, channel: paramiko.Channel, text: bytes, until: float, stdin_open: bool) -> None:
        """Send a call's stdin. What ended before it was told anything has answered: NOSHIM, for one."""
        try:
            channel.sendall(text)
            if not stdin_open:
                channel.shutdown_write()
        except OSError:
            if not (channel.closed and self.is_alive and time.monotonic() < until):
                raise

    def _open(self, kind: str, until: float, **target: Any) -> paramiko.Channel:
        if not self._slots.acquire(timeout=max(0.0, until - time.monotonic())):
            raise Deadline(say("all channels of the connection are busy"), node=self.name)
        try:
            return self._open_when_free(kind, until, target)
        except BaseException:
            self._slots.release()
            raise

    def _open_when_free(self, kind: str, until: float, target: dict[str, Any]) -> paramiko.Channel:
        while True:
            try:
                span = max(0.01, until - time.monotonic())
                return self._transport.open_channel(kind, timeout=span, **target)
            except (SSHException, OSError, EOFError) as error:
                if not self._is_refusal(error):
                    raise self._broken(error, until, may_have_run=False) from error
                why = getattr(error, "text", "refused")
                if kind != "session":
                    raise self._port_failed(target["dest_addr"][1], why) from error
                # A place is free only when the remote process has ended, a moment after its channel.
                if time.monotonic() + _SESSION_WAIT_S >= until:
                    words = say("no more sessions: %(why)s", why=why)
                    raise Unreachable(words, node=self.name) from error
                time.sleep(_SESSION_WAIT_S)

    def _is_refusal(self, error: Exception) -> bool:
        """Tell a node's refusal of one channel from a broken connection.

        paramiko keeps one exception for all threads: of two refused at once, one finds none.
        """
        is_bare = str(error) == "Unable to open channel." and self.is_alive
        return isinstance(error, paramiko.ChannelException) or is_bare

    def _broken(self, error: Exception, until: float, *, may_have_run: bool) -> RemoteError:
        if time.monotonic() >= until:
            why = say("no answer in time")
            return Deadline(why, node=self.name, may_have_run=may_have_run)
        why = say("the connection failed: %(why)s", why=sentence_in(error))
        return Unreachable(why, node=self.name, may_have_run=may_have_run)

    def _port_failed(self, port: int, why: str, *, may_have_run: bool = False) -> PortFailed:
        words = say("port %(port)s: %(why)s", port=port, why=why)
        return PortFailed(words, node=self.name, may_have_run=may_have_run)

    def _arrive(self, until: float, arrivals: int) -> None:
        """Put the shim on the node, unless another thread did so since `arrivals` was read."""
        with self._arriving:
            if self._arrivals > arrivals:
                return
            body = self._exec(wire.command_line(None), wire.shim_text(), until, stdin_open=False)
            answer = body.read_answer()
            body.close()
            self._arrivals += answer["answer"] == "ARRIVED"
        if answer["answer"] != "ARRIVED":
            why = foreign(str(answer.get("explanation") or say("no reason given")))
            words = say("the shim cannot be put there: %(why)s", why=why)
            raise ShimRefused(words, node=self.name)

    def _accept_forced(self, answer: dict[str, Any]) -> None:
        if answer["sha256"] != wire.shim_sha256():
            words = say(
                "its forced command is a shim with sha256 %(found)s, this console needs %(expected)s; "
                "install that one",
                found=repr(str(answer["sha256"])[:64]),
                expected=wire.shim_sha256(),
            )
            raise ShimRefused(words, node=self.name)
        self._is_forced = True


def _handshake(
    name: str, address: str, port: int, until: float, *, pinned: str = ""
) -> paramiko.Transport:
    at = say("%(address)s port %(port)s", address=address, port=port)
    try:
        address = check_node_address(address, port)
        span = min(scaled(CONNECT_S), until - time.monotonic())
        sock = socket.create_connection((address, port), timeout=max(0.1, span))
    except AddressRefused as error:
        raise Unreachable(sentence_in(error), node=name) from None
    except OSError as error:
        words = say("cannot connect to %(at)s: %(why)s", at=at, why=sentence_in(error))
        raise Unreachable(words, node=name) from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # keepalive alone does not notice a dead peer
        sock.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(max(1.0, scaled(SILENCE_S)) * 1000)
        )
    transport = paramiko.Transport(sock)
    transport.daemon = True
    try:
        _prefer(transport, pinned)
        span = max(0.1, until - time.monotonic())
        transport.banner_timeout = transport.handshake_timeout = transport.auth_timeout = span
        transport.start_client(timeout=span)
        transport.get_remote_server_key()  # start_client returns quietly when its time is over
    except (SSHException, OSError, EOFError) as error:
        transport.close()
        words = say("%(at)s does not speak SSH in time: %(why)s", at=at, why=sentence_in(error))
        raise Unreachable(words, node=name) from error
    return transport


def _prefer(transport: paramiko.Transport, pinned: str) -> None:
    """Ask for the pinned kind of key first: a server shows one of several."""
    kind = pinned.partition(" ")[0]
    wanted = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}.get(kind, (kind,))
    options = transport.get_security_options()
    known = list(options.key_types)
    options.key_types = [k for k in known if k in wanted] + [k for k in known if k not in wanted]


def _key_text(transport: paramiko.Transport) -> str:
    key = transport.get_remote_server_key()
    return f"{key.get_name()} {key.get_base64()}"


def _check_host_key(host: Endpoint, transport: paramiko.Transport) -> None:
    offered = _key_text(transport)
    if not host.host_key:
        why = say("no host key is pinned; a person has to accept it")
        raise HostKeyUnset(why, offered, node=host.name)
    if offered.split() != host.host_key.split()[:2]:
        why = say("its host key is not the pinned one; nothing was sent")
        raise HostKeyChanged(why, offered, node=host.name)


def _log_in(host: Endpoint, transport: paramiko.Transport, until: float) -> None:
    key = _console_key()
    transport.auth_timeout = max(0.1, until - time.monotonic())
    try:
        transport.auth_publickey(host.user, key)
    except paramiko.AuthenticationException as error:
        if time.monotonic() >= until:
            raise Deadline(say("the login took too long"), node=host.name) from error
        words = say(
            "user %(user)s does not accept the console's key %(key)s",
            user=host.user,
            key=key.get_name(),
        )
        raise AuthFailed(words, node=host.name) from error
    except (SSHException, OSError, EOFError) as error:
        words = say("the login broke off: %(why)s", why=sentence_in(error))
        raise Unreachable(words, node=host.name) from error


def _console_key() -> paramiko.PKey:
    path = Path(settings.SSH_KEY_FILE)
    try:
        return _load_key(path, path.stat().st_mtime_ns)
    except (OSError, SSHException, ValueError, TypeError) as error:
        why = sentence_in(error)
        words = say("the console's own key %(path)s cannot be read: %(why)s", path=path, why=why)
        raise AuthFailed(words) from error


# Once a process: the consistency check of an RSA key takes 112 ms of CPU (measured 2026-11-29).
@lru_cache(maxsize=4)
def _load_key(path: Path, mtime_ns: int) -> paramiko.PKey:
    return paramiko.PKey.from_path(path)
