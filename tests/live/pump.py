"""The middle of the watch without a node: numbered lines go through its capture to both stores, at a given rate."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from django.conf import settings
from django.db import connections

from fleet.execution.log_format import LineFacts
from fleet.execution.watch_capture import Capture
from fleet.execution.watch_frames import FrameSender
from fleet.execution.watch_lease import Fence
from fleet.execution.watch_store import open_writer

PAD = "NCCL INFO Channel 03/0 : 5[5] -> 6[6] via NET/IB/5/GDRDMA comm 0x5581 nRanks 16"
_STEP_S = 0.005
_STORE_EVERY_S = 0.25


def facts_of(text: str) -> LineFacts:
    """Ranks 0 to 7 in turn, by the line's own number."""
    return LineFacts(int(text.split(" ", 1)[0]) % 8, "I", "NET")


class Pump:
    """Says `<n> <monotonic ns> PAD` for n = 1, 2, 3 ... on some streams in turn."""

    def __init__(self, stream_ids: list[int], fence: Fence, rate: int):
        self.sent = dict.fromkeys(stream_ids, 0)
        self.rate = rate
        self.cpu_s = 0.0
        self._captures = {
            pk: Capture(open_writer(pk, fence)[0], classify=facts_of, redact=lambda text: text)
            for pk in stream_ids
        }
        self._sender = FrameSender(
            settings.STREAMS_REDIS_URL, lambda: list(self._captures.values())
        )
        for capture in self._captures.values():
            capture.on_lines = self._sender.wake
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._say, daemon=True),
            threading.Thread(target=self._store, daemon=True),
        ]

    def __enter__(self) -> Pump:
        self._sender.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        time.sleep(0.2)  # the last frame
        self._sender.stop()
        self._sender.join()

    def _say(self) -> None:
        begun, said, streams = time.monotonic(), 0, list(self.sent)
        while not self._stopping.is_set():
            due = int((time.monotonic() - begun) * self.rate)
            texts: dict[int, list[str]] = {pk: [] for pk in streams}
            while said < due:
                pk = streams[said % len(streams)]
                self.sent[pk] += 1
                texts[pk].append(f"{self.sent[pk]} {time.monotonic_ns()} {PAD}\n")
                said += 1
            for pk, lines in texts.items():
                if lines:
                    self._captures[pk].feed("".join(lines).encode())
            time.sleep(_STEP_S)
        self.cpu_s = time.thread_time()

    def _store(self) -> None:
        try:
            while True:
                is_last = self._stopping.wait(_STORE_EVERY_S) and not self._threads[0].is_alive()
                for capture in self._captures.values():
                    capture.store()
                if is_last:
                    return
        finally:
            connections.close_all()
