"""The shim alone, called by a local sh in a home of its own: what one node does, without SSH."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from fleet.execution import wire

SHIM = Path(wire.__file__).with_name("shim.sh")


class LocalNode:
    """A home directory in which the shim remembers its subjects."""

    def __init__(self, home: Path, shell: str = "/bin/sh") -> None:
        self.home = home
        self.shell = shell
        self.sysroot: Path | None = None
        self.path = os.environ["PATH"]

    @property
    def env(self) -> dict[str, str]:
        root = {"NODE_SYSROOT": str(self.sysroot)} if self.sysroot else {}
        return {"HOME": str(self.home), "PATH": self.path, **root}

    def spawn(self, verb: str, subject: str, fence: int = 0, **env: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.shell, str(SHIM), verb, subject, str(fence)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**self.env, **env},
            cwd=self.home,
        )

    def call(self, verb: str, subject: str, fence: int = 0, lines=()) -> tuple[dict, bytes]:
        """Run one verb to its end; return the answer and the bytes after it."""
        process = self.spawn(verb, subject, fence)
        text = "".join(line + "\n" for line in (*lines, ";end")).encode()
        out, _ = process.communicate(text, timeout=60)
        first, _, body = out.partition(b"\n")
        return json.loads(first), body

    def start(self, subject: str, fence: int, argv, *directives: str) -> dict:
        lines = [*directives, *wire.argument_lines(argv)]
        return self.call("start", subject, fence, lines)[0]

    def stop(self, subject: str, fence: int, grace_s: int = 1, *directives: str) -> dict:
        return self.call("stop", subject, fence, [f";grace {grace_s}", *directives])[0]

    def status(self, subject: str) -> dict:
        return self.call("status", subject)[0]

    def file(self, subject: str, name: str) -> Path:
        return self.home / ".flotilla" / "subjects" / subject / name

    def out(self, subject: str) -> bytes:
        return self.file(subject, "out").read_bytes()

    def processes(self, subject: str = "") -> list[int]:
        """Processes that the shim of this home started, zombies not counted."""
        return marked_processes(self.home, subject)


def marked_processes(home: Path, subject: str = "") -> list[int]:
    """Pids whose environment names this home, and the subject when given."""
    wanted = {f"FLOTILLA_HOME={home}/.flotilla".encode()}
    wanted |= {f"FLOTILLA_SUBJECT={subject}".encode()} if subject else set()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                    found.append(int(entry.name))
    return found


def end_processes(home: Path) -> None:
    while pids := marked_processes(home):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def local_node(shell: str = "/bin/sh"):
    home = Path(tempfile.mkdtemp(prefix="fl-node-"))
    try:
        yield LocalNode(home, shell)
    finally:
        end_processes(home)
        shutil.rmtree(home, ignore_errors=True)
