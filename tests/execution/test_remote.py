"""The SSH door: pinned keys before anything is sent, deadlines on everything, both streams drained."""

import contextlib
import os
import signal
import subprocess
import time

import pytest

from fleet.execution import wire
from fleet.execution.addresses import AddressRefused, check_node_address
from fleet.execution.models import Host
from fleet.execution.remote import (
    AuthFailed,
    Connection,
    Deadline,
    HostKeyChanged,
    HostKeyUnset,
    RemoteError,
    ShimRefused,
    Unreachable,
    check_host_key,
    connect,
)
from tests.execution.plain_sshd import PlainSshd
from tests.waiting import wait_until


def host_of(sshd: PlainSshd, **changes) -> Host:
    """A host that is not stored: the door needs no database."""
    fields = {
        "name": "n1",
        "address": sshd.address,
        "port": sshd.port,
        "user": sshd.user,
        "host_key": sshd.host_key,
        "key_state": "pinned",
        **changes,
    }
    return Host(**fields)


@pytest.fixture
def link(sshd: PlainSshd):
    connection = connect(host_of(sshd), deadline=20)
    yield connection
    connection.close()


def run(link: Connection, argv: list[str], *, deadline: float = 20.0, timeout_s: float = 15.0):
    lines = wire.section_lines("x", timeout_s, argv)
    answer, body = link.shim("probe", "node", 0, lines, deadline=deadline)
    head = body.read_line()
    raw = b"".join(body)
    body.close()
    return answer, head, raw


class TestHostKey:
    def test_an_unset_key_is_offered_and_nobody_logs_in(self, sshd):
        with pytest.raises(HostKeyUnset) as caught:
            connect(host_of(sshd, host_key="", key_state="unset"), deadline=20)
        assert caught.value.offered == sshd.host_key
        assert "Accepted" not in sshd.log

    def test_a_changed_key_stops_before_any_login(self, sshd):
        host = host_of(sshd)
        offered = sshd.swap_key()
        with pytest.raises(HostKeyChanged) as caught:
            connect(host, deadline=20)
        assert caught.value.offered == offered
        wait_until(lambda: "Connection" in sshd.log, what="the server's line")
        assert not [word for word in ("Accepted", "Failed", "publickey") if word in sshd.log]

    def test_a_blocked_host_is_not_even_dialled(self, sshd):
        with pytest.raises(HostKeyChanged):
            connect(host_of(sshd, key_state="changed", offered_key="x y"), deadline=20)
        assert "Connection from" not in sshd.log

    def test_a_key_is_checked_without_login(self, sshd):
        check_host_key(host_of(sshd), deadline=20)
        host = host_of(sshd)
        sshd.swap_key()
        with pytest.raises(HostKeyChanged):
            check_host_key(host, deadline=20)
        assert "Accepted" not in sshd.log

    def test_the_pinned_kind_of_key_is_asked_for(self, make_sshd):
        sshd = make_sshd(start=False)
        rsa = sshd.directory / "rsa"
        command = [
            "ssh-keygen",
            "-q",
            "-t",
            "rsa",
            "-b",
            "2048",
            "-N",
            "",
            "-C",
            "",
            "-f",
            str(rsa),
        ]
        subprocess.run(command, check=True)
        sshd.extra = [f"HostKey {rsa}"]
        sshd.start()
        pinned = " ".join(rsa.with_suffix(".pub").read_text().split()[:2])
        connect(host_of(sshd, host_key=pinned), deadline=20).close()


class TestConnecting:
    def test_a_refused_port_is_unreachable(self, make_sshd):
        with pytest.raises(Unreachable, match="refused") as caught:
            connect(host_of(make_sshd(start=False)), deadline=20)
        assert not caught.value.may_have_run

    def test_a_key_that_is_not_accepted_is_said(self, sshd):
        sshd.authorized_keys.write_text("")
        try:
            with pytest.raises(AuthFailed, match="does not accept") as caught:
                connect(host_of(sshd), deadline=20)
        finally:
            key = sshd.authorized_keys.with_name("console_key.pub")
            sshd.authorized_keys.write_text(key.read_text())
        assert caught.value.is_lasting

    def test_a_missing_console_key_is_our_own_fault(self, sshd, settings, tmp_path):
        settings.SSH_KEY_FILE = tmp_path / "none"
        with pytest.raises(AuthFailed, match="own key"):
            connect(host_of(sshd), deadline=20)

    def test_a_frozen_daemon_meets_the_deadline(self, sshd):
        os.kill(sshd.process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(Unreachable, match="does not speak SSH in time"):
                connect(host_of(sshd), deadline=1)
        finally:
            os.kill(sshd.process.pid, signal.SIGCONT)

    def test_something_else_than_ssh_is_said(self, sshd, make_http):
        with pytest.raises(Unreachable, match="does not speak SSH"):
            connect(host_of(sshd, port=make_http(b"").port), deadline=3)


class TestCalls:
    def test_the_shim_arrives_once_and_is_verified_each_time(self, sshd, link):
        assert run(link, ["echo", "hi"])[2] == b"hi\n"
        (shim,) = (sshd.home / ".flotilla").glob("shim-*.sh")
        assert shim.read_bytes() == wire.shim_text()
        shim.write_text("#!/bin/sh\necho tampered\n")
        assert run(link, ["echo", "again"])[2] == b"again\n"
        assert shim.read_bytes() == wire.shim_text()

    def test_50_mb_on_both_streams_do_not_hang(self, link):
        script = "head -c 50000000 /dev/zero >&2 & exec head -c 50000000 /dev/zero"
        body = link._exec(f"sh -c '{script}'", b"", time.monotonic() + 60, False)
        assert sum(map(len, body)) == 50_000_000
        assert len(body.stderr) <= 4096
        body.close()

    def test_closed_stdout_without_an_end_meets_the_deadline(self, link):
        body = link._exec("exec sleep 30 >&- 2>/dev/null", b"", time.monotonic() + 1, False)
        with pytest.raises(RemoteError):
            body.read_answer()

    def test_a_call_without_progress_is_cut_at_its_deadline(self, link):
        run(link, ["true"])
        with pytest.raises(Deadline) as caught:
            run(link, ["sleep", "30"], deadline=1, timeout_s=30)
        assert caught.value.may_have_run
        assert run(link, ["echo", "still"])[2] == b"still\n"

    def test_a_broken_connection_says_that_the_call_may_have_run(self, sshd, link):
        run(link, ["true"])
        lines = wire.section_lines("x", 30, ["sleep", "30"])
        _, body = link.shim("probe", "node", 0, lines, deadline=30)
        sshd.end_sessions()
        with pytest.raises(RemoteError) as caught:
            body.read_exact(1000)
        assert caught.value.may_have_run
        wait_until(lambda: not link.is_alive, what="the end of the connection")

    def test_noise_of_the_login_shell_is_passed_over(self, make_sshd):
        sshd = make_sshd(start=False)
        noisy = sshd.directory / "noisy"
        noisy.write_text(
            '#!/bin/sh\necho "Welcome!"; echo "{not json"; echo warn >&2\n'
            'exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"\n'
        )
        noisy.chmod(0o755)
        sshd.force = str(noisy)
        sshd.start()
        connection = connect(host_of(sshd), deadline=20)
        assert run(connection, ["echo", "hi"])[2] == b"hi\n"
        connection.close()

    def test_more_calls_than_channels_wait_their_turn(self, link):
        run(link, ["true"])
        bodies = [link.shim("status", "s1", 0, deadline=20)[1] for _ in range(8)]
        with pytest.raises(Deadline, match="busy"):
            link.shim("status", "s1", 0, deadline=0.2)
        for body in bodies:
            body.close()
        for _ in range(12):
            link.shim("status", "s1", 0, deadline=20)[1].close()

    def test_following_stays_open_and_ends_with_its_close(self, sshd, link):
        sshd.node.start("s1", 1, ["sh", "-c", "echo one; sleep 60"])
        lines = [wire.directive("offset", 0), wire.directive("follow", 1)]
        answer, body = link.shim("logs", "s1", 0, lines, deadline=10, stdin_open=True)
        assert answer["ended"] is False
        assert body.read_some() == b"one\n"
        body.close()
        mark = f"{sshd.home}/.flotilla/shim".encode()
        wait_until(lambda: not _shims(mark), what="no follower on the node")

    @pytest.mark.parametrize(
        "words",
        [
            ("rm", "s1", 0),
            ("start", "s1; id", 0),
            ("start", "S1", 0),
            ("start", "s1\n", 0),
            ("start", "", 0),
            ("start", "../x", 0),
            ("start", "s1", -1),
            ("start", "s1", "1; id"),
            ("start", "s" * 81, 1),
        ],
    )
    def test_no_word_of_the_command_line_can_be_anything_else(self, link, words):
        with pytest.raises(wire.WireError):
            link.shim(*words, deadline=5)

    def test_an_answer_given_before_the_call_was_heard_is_read(self, link):
        """A shell that ends at once closes the channel while the text is still on its way."""
        body = link._exec("echo answered", b"x" * 8_000_000, time.monotonic() + 20, False)
        assert body.read_line() == b"answered"
        body.close()


class TestForcedCommand:
    def forced(self, make_sshd, text: bytes) -> Connection:
        sshd = make_sshd(start=False)
        shim = sshd.directory / "fleet-shim"
        shim.write_bytes(text)
        shim.chmod(0o755)
        sshd.force = str(shim)
        sshd.start()
        return connect(host_of(sshd), deadline=20)

    def test_the_installed_shim_is_used_when_it_is_ours(self, make_sshd):
        connection = self.forced(make_sshd, wire.shim_text())
        for word in (b"one\n", b"two\n"):
            assert run(connection, ["echo", word.decode().strip()])[2] == word
        connection.close()

    def test_another_version_is_refused_with_both_hashes(self, make_sshd):
        connection = self.forced(make_sshd, wire.shim_text() + b"# older\n")
        with pytest.raises(ShimRefused, match=wire.shim_sha256()):
            run(connection, ["true"])
        connection.close()


class TestAddresses:
    @pytest.mark.parametrize(
        ("cidrs", "address"),
        [
            (["127.0.0.0/8"], "127.0.13.28"),
            (["10.40.0.0/16"], "10.40.3.4"),
            (["fd00::/8"], "fd00::12"),
        ],
    )
    def test_it_accepts_what_is_listed(self, settings, cidrs, address):
        settings.NODE_CIDRS = cidrs
        assert check_node_address(address, 22) == address

    @pytest.mark.parametrize(
        ("cidrs", "address"),
        [
            (["127.0.0.0/8"], "127.1"),
            (["127.0.0.0/8"], "0x7f000001"),
            (["127.0.0.0/8"], "2130706433"),
            (["127.0.0.0/8"], "0177.0.0.1"),
            (["127.0.0.0/8"], "localhost"),
            (["127.0.0.0/8"], "rebinds.example"),
            (["127.0.0.0/8"], "127.0.0.1\n"),
            (["127.0.0.0/8"], "127.0.0.1%lo"),
            (["127.0.0.0/8", "::/0"], "::ffff:127.0.0.1"),
            (["127.0.0.0/8", "::/0"], "64:ff9b::7f00:1"),
            (["127.0.0.0/8", "::/0"], "2002:7f00:1::"),
            (["::/0"], "::"),
            (["::/0"], "::1"),
            (["::/0"], "fe80::1"),
            (["::/0"], "fe80::1%eth0"),
            (["::/0"], "ff02::1"),
            (["0.0.0.0/0"], "0.0.0.0"),
            (["0.0.0.0/0"], "127.0.0.1"),
            (["0.0.0.0/0"], "169.254.169.254"),
            (["0.0.0.0/0"], "224.0.0.1"),
            (["0.0.0.0/0"], "255.255.255.255"),
            (["10.40.0.0/16"], "10.41.0.1"),
            ([], "10.40.0.1"),
        ],
    )
    def test_it_refuses_the_rest(self, settings, cidrs, address):
        settings.NODE_CIDRS = cidrs
        with pytest.raises(AddressRefused):
            check_node_address(address, 22)
        host = Host(name="n1", address=address, port=22, user="x", host_key="k", key_state="pinned")
        with pytest.raises(Unreachable):
            connect(host, deadline=1)

    def test_the_consoles_own_listeners_are_no_nodes(self, settings):
        settings.NODE_CIDRS = ["127.0.0.0/8"]
        database = settings.DATABASES["default"]
        for port in (settings.PORT, int(database["PORT"])):
            with pytest.raises(AddressRefused, match="own listeners"):
                check_node_address("127.0.0.1", port)


def _shims(mark: bytes) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read()
            if mark in words and b"logs" in words.split(b"\0"):
                found.append(pid)
    return found
