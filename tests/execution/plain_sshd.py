"""A plain OpenSSH daemon on a free port of loopback: a node without anything of ours on it."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from console.embedded.ports import reserve_port
from tests.children import Child, end_child, start_child
from tests.execution.local_node import LocalNode, end_processes
from tests.waiting import wait_until

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
USER = pwd.getpwuid(os.geteuid()).pw_name


def make_key(path: Path) -> str:
    """Write a key pair; return the public half as "type base64"."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True
    )
    return " ".join(path.with_name(path.name + ".pub").read_text().split()[:2])


class PlainSshd:
    """One daemon with a home of its own. `node` is what the shim remembers there."""

    def __init__(self, directory: Path, authorized_keys: Path) -> None:
        self.directory = directory
        self.home = directory / "home"
        self.home.mkdir(parents=True)
        self.node = LocalNode(self.home)
        self.address = "127.0.0.1"
        # Kept to the end: nobody else may listen there while this daemon is down.
        self._holder, self.port = reserve_port()
        self.user = USER
        self.authorized_keys = authorized_keys
        self.path = "/usr/bin:/bin"
        self.force = ""
        self.extra: list[str] = []
        self.env: dict[str, str] = {}
        self.host_key = make_key(directory / "hostkey")
        self.process: Child | None = None

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        env = {"HOME": self.home, "PATH": self.path, "SHLVL": "5", **self.env}
        lines = [
            f"ListenAddress {self.address}",
            f"Port {self.port}",
            f"HostKey {self.directory}/hostkey",
            f"PidFile {self.directory}/pid",
            f"AuthorizedKeysFile {self.authorized_keys}",
            "UsePAM no",
            "StrictModes no",
            "MaxStartups 100:30:200",
            "UseDNS no",
            "PermitRootLogin prohibit-password",
            "LogLevel VERBOSE",
            "SetEnv " + " ".join(f'"{name}={value}"' for name, value in env.items()),
            *([f"ForceCommand {self.force}"] if self.force else []),
            *self.extra,
        ]
        (self.directory / "conf").write_text("\n".join(lines) + "\n")
        before = self.log.count("Server listening")
        argv = [SSHD, "-D", "-e", "-f", str(self.directory / "conf")]
        plain_env = {"PATH": os.environ["PATH"]}
        self.process = start_child(argv, plain_env, self.directory / "log", self.directory)
        wait_until(lambda: self.log.count("Server listening") > before, what="sshd listening")

    @property
    def log(self) -> str:
        with contextlib.suppress(OSError):
            return (self.directory / "log").read_text(errors="replace")
        return ""

    def stop(self) -> None:
        """End the daemon and its sessions; what the shim started lives on."""
        if self.process:
            self.end_sessions()
            end_child(self.process)
            self.process = None

    def end(self) -> None:
        """End it for good, with what was started through it."""
        self.stop()
        self._holder.close()
        end_processes(self.home)

    def sessions(self) -> list[int]:
        """Pids of the daemon's children: one a connection, with its descendants of the same name."""
        found, parents = [], {self.process.pid} if self.process else set()
        for entry in sorted(
            Path("/proc").iterdir(), key=lambda p: int(p.name) if p.name.isdigit() else 0
        ):
            with contextlib.suppress(OSError, ValueError):
                head, _, rest = (entry / "stat").read_text().rpartition(") ")
                if "(sshd" in head and int(rest.split()[1]) in parents:
                    found.append(int(entry.name))
                    parents.add(int(entry.name))
        return found

    def end_sessions(self) -> None:
        for pid in self.sessions():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def swap_key(self) -> str:
        """Come back with another host key; return it."""
        self.stop()
        (self.directory / "log").unlink()
        self.host_key = make_key(self.directory / "hostkey")
        self.start()
        return self.host_key

    def host(self, name: str = ""):
        """Make the Host row that reaches this daemon."""
        from fleet.execution.models import Host

        return Host.objects.create(
            name=name or f"n{self.port}",
            address=self.address,
            port=self.port,
            user=self.user,
            host_key=self.host_key,
            key_state="pinned",
        )


class Sshds:
    """Daemons of one test; `key` opens all of them. Gone at the end, with what they started."""

    def __init__(self, base: Path, key: Path) -> None:
        self.base = base
        self.key = key
        self.made: list[PlainSshd] = []

    def __call__(self, *, start: bool = True) -> PlainSshd:
        directory = Path(tempfile.mkdtemp(prefix="n", dir=self.base))
        directory.chmod(0o711)
        self.made.append(PlainSshd(directory, self.key.with_name("authorized_keys")))
        if start:
            self.made[-1].start()
        return self.made[-1]

    def end(self) -> None:
        for one in self.made:
            one.end()


@contextlib.contextmanager
def console_key():
    """A folder with the console's key, and the file that lets it in."""
    base = Path(tempfile.mkdtemp(prefix="fl-sshd-"))
    base.chmod(0o711)
    (base / "authorized_keys").write_text(make_key(base / "console_key") + "\n")
    try:
        yield base / "console_key"
    finally:
        shutil.rmtree(base, ignore_errors=True)
