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
        holder, self.port = reserve_port()
        holder.close()
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


@contextlib.contextmanager
def plain_sshds():
    """`make()` gives a started daemon; all are gone at the end, with what they started."""
    base = Path(tempfile.mkdtemp(prefix="fl-sshd-"))
    base.chmod(0o711)
    public = make_key(base / "console_key")
    (base / "authorized_keys").write_text(public + "\n")
    made: list[PlainSshd] = []

    def make(*, start: bool = True) -> PlainSshd:
        directory = base / f"n{len(made)}"
        directory.mkdir()
        made.append(PlainSshd(directory, base / "authorized_keys"))
        if start:
            made[-1].start()
        return made[-1]

    make.key = base / "console_key"
    try:
        yield make
    finally:
        for one in made:
            one.stop()
            end_processes(one.home)
        shutil.rmtree(base, ignore_errors=True)
