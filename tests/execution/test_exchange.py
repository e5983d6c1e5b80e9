"""Text to a port of a node and back: over a real SSH daemon, to servers that answer, refuse, dawdle or never end."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from console.embedded.ports import reserve_port
from fleet.execution import states
from fleet.execution.dispatch import command_dispatch
from fleet.execution.hands import carry_out
from fleet.execution.message import said
from fleet.execution.models import Command, Host
from fleet.execution.output import command_sections
from fleet.execution.remote import connect
from fleet.execution.wire import WireError
from fleet.readings.haproxy import parse_exchange
from releases.gateways.haproxy import CONFIG, SHARE_MAP, Place, render_config, render_shares
from releases.rules.gateway import BackendSet, Route, Server
from tests.children import end_child, start_child
from tests.execution.orders import PATIENT_S, fresh
from tests.needs import HAPROXY, needs_haproxy
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


class Peer:
    """A server that hands each connection to `serve`, and remembers all it heard to the end."""

    def __init__(self, serve: Callable[[bytes, socket.socket], None]) -> None:
        self.heard: list[bytes] = []
        self.over = threading.Event()
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._talk, args=[connection]))
            self._threads[-1].start()

    def _talk(self, connection: socket.socket) -> None:
        with connection:
            heard = b"".join(iter(lambda: connection.recv(65536), b""))
            self.heard.append(heard)
            try:
                self._serve(heard, connection)
            except OSError:
                return  # whoever asked has heard enough

    def close(self) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def make_peer() -> Iterator[Callable[..., Peer]]:
    peers: list[Peer] = []

    def make(serve: Callable[[bytes, socket.socket], None]) -> Peer:
        peers.append(Peer(serve))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


def echo(heard: bytes, connection: socket.socket) -> None:
    connection.sendall(b"you said: " + heard)


def order(host: Host, port: int, text: str, purpose: str = "x", **changes) -> Command:
    effect = changes.pop("effect", "probe")
    return command_dispatch(
        purpose=purpose,
        host=host,
        verb="exchange",
        queue="probe",
        effect=effect,
        payload={"port": port, "text": text, "timeout_s": 30.0, **changes},
        deadline_s=PATIENT_S,
    )


def asked(host: Host, port: int, text: str = "show\n", **changes) -> Command:
    command = order(host, port, text, **changes)
    carry_out([command.pk])
    return fresh(command)


class TestAnswer:
    @pytest.mark.parametrize("effect", ["probe", "ensure"])
    def test_what_was_said_and_what_came_back_are_whole(self, sshd, make_peer, effect):
        peer = make_peer(echo)
        command = asked(sshd.host(), peer.port, "show stat;show map\n", effect=effect)
        assert command.state == states.SUCCEEDED, command.explanation
        assert peer.heard == [b"show stat;show map\n"]
        assert command_sections(command)["body"].body == b"you said: show stat;show map\n"
        assert command.answer["ms"] > 0
        assert command.answer["error"] is None

    def test_metacharacters_pass_as_bytes(self, sshd, make_peer):
        text = "$(id) `id` ;end\n'\"\\ \r\n\x01\x1f\x7f %s \u202e 维护 \U0001f600 && > | *\n"
        peer = make_peer(echo)
        command = asked(sshd.host(), peer.port, text)
        assert peer.heard == [text.encode()]
        assert command_sections(command)["body"].body == b"you said: " + text.encode()

    def test_no_words_are_an_answer_too(self, sshd, make_peer):
        command = asked(sshd.host(), make_peer(lambda *_: None).port)
        assert command.state == states.SUCCEEDED
        assert command_sections(command)["body"].body == b""

    def test_an_answer_of_exactly_the_limit_is_not_too_long(self, sshd, make_peer):
        peer = make_peer(lambda _, connection: connection.sendall(b"y" * 300_000))
        command = asked(sshd.host(), peer.port, limit_bytes=300_000)
        assert len(command_sections(command)["body"].body) == 300_000

    def test_many_are_asked_through_one_connection(self, sshd, make_peer):
        peer, host = make_peer(echo), sshd.host()
        commands = [order(host, peer.port, f"n {n}\n", purpose=f"x{n}") for n in range(24)]
        carry_out([command.pk for command in commands])
        found = [command_sections(fresh(command))["body"].text for command in commands]
        assert found == [f"you said: n {n}\n" for n in range(24)]
        assert sshd.log.count("Accepted publickey") == 1

    @needs_haproxy
    def test_a_real_proxy_answers_several_orders_whole(self, sshd, tmp_path):
        units = tuple(Server(f"u{n}", "127.0.0.1", 9, 100, "maint") for n in range(60))
        (holder, port), (other, admin_port) = reserve_port(), reserve_port()
        route = Route("glm52", ("glm",), (BackendSet("a", "REL-0001", units),))
        (tmp_path / CONFIG).write_text(
            render_config(Place("127.0.0.1", port, admin_port), (route,))
        )
        (tmp_path / SHARE_MAP).write_text(render_shares((route,)))
        holder.close()
        other.close()
        argv, path = [HAPROXY, "-db", "-f", CONFIG], {"PATH": "/usr/bin:/bin"}
        proxy = start_child(argv, path, tmp_path / "log", tmp_path)
        try:
            wait_until(lambda: _listens(admin_port), 20, "the proxy")
            text = f"show servers state; show stat; show map {SHARE_MAP}\n"
            command = asked(sshd.host(), admin_port, text)
        finally:
            end_child(proxy)
        reading = parse_exchange(command_sections(command)["body"].text)
        assert reading.is_whole
        assert len(reading.servers) == 60
        assert reading.shares


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False


class TestProblem:
    def failed(self, command: Command) -> str:
        assert command.state == states.FAILED
        assert command_sections(command) == {}
        assert said(command.explanation).startswith(f"{command.host.name}: ")
        assert command.answer["error"]
        return said(command.explanation)

    def test_a_refused_port_is_said(self, sshd, free_port):
        port = free_port()
        assert f"port {port}: Connect failed" in self.failed(asked(sshd.host(), port))

    def test_a_silent_peer_is_said(self, sshd, make_peer):
        peer = make_peer(lambda *_: peer.over.wait())
        words = self.failed(asked(sshd.host(), peer.port, timeout_s=1.5))
        assert "it took the connection and said nothing in 1." in words
        assert peer.heard, "it was told"

    def test_an_answer_that_does_not_end_is_said(self, sshd, make_peer):
        def begin(_: bytes, connection: socket.socket) -> None:
            connection.sendall(b"begun")
            peer.over.wait()

        peer = make_peer(begin)
        words = self.failed(asked(sshd.host(), peer.port, timeout_s=1.5))
        assert "the answer did not end in 1." in words

    def test_an_answer_without_end_is_cut_at_the_limit(self, sshd, make_peer):
        def flood(_: bytes, connection: socket.socket) -> None:
            while not peer.over.is_set():
                connection.sendall(b"y" * 65536)

        peer = make_peer(flood)
        words = self.failed(asked(sshd.host(), peer.port, limit_bytes=100_000))
        assert "the answer is longer than 100000 bytes" in words

    def test_a_connection_that_breaks_meanwhile_is_no_answer(self, sshd, make_peer):
        def cut(_: bytes, connection: socket.socket) -> None:
            connection.sendall(b"half")
            sshd.end_sessions()
            peer.over.wait()

        peer = make_peer(cut)
        command = asked(sshd.host(), peer.port)
        assert command.state == states.QUEUED, "a reading is asked for again"
        assert "the connection failed" in said(command.explanation)
        assert command_sections(command) == {}

    def test_an_order_that_broke_off_may_have_happened(self, sshd, make_peer):
        def cut(_: bytes, connection: socket.socket) -> None:
            sshd.end_sessions()
            peer.over.wait()

        peer = make_peer(cut)
        assert asked(sshd.host(), peer.port, effect="ensure").state == states.UNKNOWN


class TestDoor:
    def test_it_reaches_the_loopback_of_a_node_that_lies_elsewhere(self, sshd, make_peer, settings):
        peer = make_peer(echo)
        connection = connect(sshd.host(), deadline=20)
        settings.NODE_CIDRS = ["10.0.0.0/8"]
        try:
            found = connection.exchange(b"hi", port=peer.port, deadline=20, limit=100)
        finally:
            connection.close()
        assert found.body == b"you said: hi"

    def test_the_consoles_own_listeners_stay_closed(self, sshd, make_peer, settings):
        peer = make_peer(echo)
        settings.HOST, settings.PORT = "127.0.0.1", peer.port
        command = asked(sshd.host(), peer.port)
        assert command.state == states.FAILED
        assert "one of the console's own listeners" in said(command.explanation)

    def test_an_address_that_no_node_has_is_refused(self, sshd, make_peer):
        command = asked(sshd.host(), make_peer(echo).port, address="8.8.8.8")
        assert command.state == states.FAILED
        assert "NODE_CIDRS" in said(command.explanation)


@pytest.mark.parametrize(
    ("changes", "effect"),
    [
        ({"port": 0}, "probe"),
        ({"port": "80"}, "probe"),
        ({"port": True}, "probe"),
        ({"text": ""}, "probe"),
        ({"text": "a\0b"}, "probe"),
        ({"text": "\ud800"}, "probe"),
        ({"text": "y" * 300_000}, "probe"),
        ({"limit_bytes": 0}, "probe"),
        ({"limit_bytes": 10**9}, "probe"),
        ({}, "once"),
    ],
)
def test_what_cannot_be_said_is_refused_at_once(changes, effect):
    host = Host.objects.create(name="n1", address="127.0.0.1", user="x")
    payload = {"port": 9999, "text": "show\n", **changes}
    with pytest.raises(WireError):
        command_dispatch(
            purpose="x", host=host, verb="exchange", queue="probe", effect=effect, payload=payload
        )
    assert not Command.objects.exists()
