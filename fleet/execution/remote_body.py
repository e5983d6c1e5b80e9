"""What a call prints on its way in: one reader for both streams, bounded in memory and in time.

Not in charge of opening channels (remote.py) nor of what the bytes mean.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from fleet.execution.message import foreign, say
from fleet.execution.remote_errors import Deadline, ShimRefused, Unreachable

LINE_CAP_BYTES = 64 * 1024
BODY_CAP_BYTES = 64 * 1024 * 1024
_NOISE_CAP_BYTES = 64 * 1024
_STDERR_KEPT_BYTES = 4096


class Body:
    """What a call prints, in order: stdout by `read_*` or iteration, the start of stderr kept aside.

    Iterating ends with the remote end of file. `until` None means that it may last.
    """

    def __init__(
        self, channel: Any, name: str, until: float | None, release: Callable[[], None]
    ) -> None:
        self.until = until
        self.stderr = b""
        self._channel = channel
        self._name = name
        self._release: Callable[[], None] | None = release
        self._kept = b""
        self._total = 0
        self._arrived = threading.Event()
        for buffer in (channel.in_buffer, channel.in_stderr_buffer):
            buffer.set_event(_Bell(self._arrived))

    def __iter__(self) -> Iterator[bytes]:
        while block := self.read_some():
            yield block

    def read_some(self) -> bytes:
        """Return the next bytes, b"" at the end. Raises Deadline, Unreachable, ShimRefused."""
        if self._kept:
            block, self._kept = self._kept, b""
            return block
        while True:
            self._arrived.clear()
            if self._channel.recv_stderr_ready():
                self.stderr = (self.stderr + self._channel.recv_stderr(65536))[:_STDERR_KEPT_BYTES]
                continue
            if self._channel.recv_ready():
                return self._count(self._channel.recv(65536))
            if self._channel.eof_received or self._channel.closed:
                return self._last()
            self._wait()

    def read_exact(self, size: int) -> bytes:
        """Return exactly `size` bytes. Raises ShimRefused when the node ends before."""
        pieces, missing = [], size
        while missing:
            block = self.read_some()
            if not block:
                raise ShimRefused(
                    say(
                        "%(size)s bytes were announced and %(came)s came",
                        size=size,
                        came=size - missing,
                    ),
                    node=self._name,
                    may_have_run=True,
                )
            pieces.append(block[:missing])
            self._kept = block[missing:]
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def read_line(self) -> bytes:
        """Return one line without its line feed; what is left at the end counts as one."""
        text = b""
        while b"\n" not in text:
            if len(text) > LINE_CAP_BYTES:
                raise ShimRefused(
                    say("a line of more than %(n)s bytes", n=LINE_CAP_BYTES),
                    node=self._name,
                    may_have_run=True,
                )
            block = self.read_some()
            if not block:
                return text
            text += block
        line, _, self._kept = text.partition(b"\n")
        return line

    def read_answer(self) -> dict[str, Any]:
        """Return the shim's answer; what the login shell printed before it is passed over."""
        noise = 0
        while noise < _NOISE_CAP_BYTES:
            line = self.read_line()
            if line.startswith(b'{"answer":"'):
                return self._parsed(line)
            noise += len(line) + 1
            if not line and self._is_at_end:
                break
        words = (self.stderr or b"nothing").decode("utf-8", "replace").strip()[:300]
        raise ShimRefused(
            say("no answer of the shim; stderr said: %(words)s", words=foreign(words)),
            node=self._name,
            may_have_run=True,
        )

    def close(self) -> None:
        """Give the channel back. A call that still runs on the node is not ended by this."""
        self._channel.close()
        release, self._release = self._release, None
        if release:
            release()

    @property
    def _is_at_end(self) -> bool:
        return (
            not self._kept
            and not self._channel.recv_ready()
            and (self._channel.eof_received or self._channel.closed)
        )

    def _parsed(self, line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("answer"), str):
            shown = line[:200].decode("utf-8", "replace")
            raise ShimRefused(
                say("not an answer of the shim: %(words)s", words=foreign(shown)),
                node=self._name,
                may_have_run=True,
            )
        return answer

    def _count(self, block: bytes) -> bytes:
        self._total += len(block)
        if self.until is not None and self._total > BODY_CAP_BYTES:
            self.close()
            raise ShimRefused(
                say("more than %(n)s bytes in one answer", n=BODY_CAP_BYTES),
                node=self._name,
                may_have_run=True,
            )
        return block

    def _last(self) -> bytes:
        # Data may have come between the look at the buffer and the look at the flag.
        if self._channel.recv_ready():
            return self._count(self._channel.recv(65536))
        if not self._channel.eof_received and self._release is not None:
            why = say("the connection broke")
            raise Unreachable(why, node=self._name, may_have_run=True)
        return b""

    def _wait(self) -> None:
        if self.until is None:
            self._arrived.wait()
        elif not self._arrived.wait(max(0.0, self.until - time.monotonic())):
            self.close()
            raise Deadline(say("no answer in time"), node=self._name, may_have_run=True)


class _Bell:
    """An event for two buffers at once: each may ring, neither may silence the other."""

    def __init__(self, event: threading.Event) -> None:
        self._event = event

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        return
