"""The container's log: one os.write a line, and the voices (processes) that speak in it."""

import os
import time

from .clock import rfc3339

O_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class Log:
    """Append `<rfc3339nano> O|E <text>` lines; O is the container's stdout, E its stderr."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, O_FLAGS, 0o644)
        self._stamp_second = 0
        self._stamp = ""

    def out(self, text: str) -> None:
        self._write("O", text)

    def err(self, text: str) -> None:
        self._write("E", text)

    def _write(self, stream: str, text: str) -> None:
        now = rfc3339()
        for line in text.split("\n"):
            os.write(self.fd, f"{now} {stream} {line}\n".encode("utf-8", "replace"))

    def stamp(self) -> str:
        """Return vLLM's `MM-DD HH:MM:SS` (containers run in UTC)."""
        second = int(time.time())
        if second != self._stamp_second:
            self._stamp_second = second
            self._stamp = time.strftime("%m-%d %H:%M:%S", time.gmtime(second))
        return self._stamp


class Voice:
    """One process in the log: `(Worker_PP1_TP3 pid=N) LEVEL MM-DD HH:MM:SS [file.py:line] text`."""

    def __init__(self, log: Log, name: str, pid: int) -> None:
        self.log = log
        self.name = name
        self.pid = pid

    @property
    def prefix(self) -> str:
        # The headless follower's main process has none (LAB.md 4.4).
        return f"({self.name} pid={self.pid}) " if self.name else ""

    def info(self, source: str, text: str) -> None:
        self.say("INFO", source, text)

    def warning(self, source: str, text: str) -> None:
        self.say("WARNING", source, text)

    def error(self, source: str, text: str) -> None:
        self.say("ERROR", source, text)

    def say(self, level: str, source: str, text: str) -> None:
        head = f"{self.prefix}{level} {self.log.stamp()} [{source}] "
        for line in text.split("\n"):
            self.log.out(head + line)

    def raw(self, text: str) -> None:
        """Write lines with the process prefix only (a traceback on stderr)."""
        for line in text.split("\n"):
            self.log.err(self.prefix + line)


def glog_stamp(now: float) -> str:
    """Return the `MMDD HH:MM:SS.mmm` of torch's C++ log lines."""
    whole = time.strftime("%m%d %H:%M:%S", time.gmtime(now))
    return f"{whole}.{int(now % 1 * 1000):03d}"
