"""An ordinary stop: TERM, with `--shutdown-timeout 0` (abort) or N (drain), and the follower's.

Exit code 0 in all cases; about 7 s nominal after the last request (LAB.md 4.6).
"""

import asyncio
import time

from .completions import DEAD
from .death import client_lines
from .engine import Engine
from .generation import Aborted
from .serving import Serving
from .texts import uvicorn_info

TEARDOWN_S = 7.0
POLL_S = 0.05


class Shutdown:
    """Stops one container when it is asked to."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.serving: Serving | None = None
        self.task: asyncio.Task | None = None

    def on_signal(self) -> None:
        """Begin once; a second TERM changes nothing."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        engine = self.engine
        if engine.phase == "dead":
            engine.end(0)
        elif self.serving is None:
            if not engine.serves and not engine.is_starting:
                engine.main.info("serve.py:246", "Shutting down.")
            engine.link.close(graceful=True)
            engine.end(0)
        else:
            await self._stop_server(self.serving)

    async def _stop_server(self, serving: Serving) -> None:
        engine = self.engine
        front = engine.fronts[0]
        timeout_s = float(engine.plan.shutdown_timeout_s or 0)
        mode = "drain" if timeout_s else "abort"
        wait = f"{timeout_s:g}s"
        engine.set_phase("draining")
        serving.state.is_draining = True
        front.info("launcher.py:254", "[shutdown] API server: shutdown triggered")
        front.info(
            "launcher.py:270",
            f"[shutdown] API server: stopping engine client mode={mode} timeout={wait}",
        )
        for core in engine.cores:
            core.info("core.py:1454", "[shutdown] EngineCore: trigger received signal=SIGTERM")
            core.info("core.py:1635", f"[shutdown] EngineCore: start mode={mode} timeout={wait}")
        if timeout_s:
            await self._drain(serving, timeout_s, wait)
        else:
            serving.generation.fail_all(Aborted(DEAD))
        self._teardown_lines()
        await asyncio.sleep(engine.launch_s(TEARDOWN_S))
        self._last_lines(f"{timeout_s:g}s")
        engine.link.close(graceful=True)
        engine.end(0)

    async def _drain(self, serving: Serving, timeout_s: float, wait: str) -> None:
        """Let running requests finish, at most `timeout_s`; health stays 200 meanwhile."""
        deadline = time.monotonic() + timeout_s
        left = serving.generation.unfinished()
        if left:
            self.engine.cores[0].info(
                "core.py:1655",
                f"[shutdown] EngineCore: draining in-flight requests count={left} timeout={wait}",
            )
        while serving.generation.unfinished() and time.monotonic() < deadline:
            await asyncio.sleep(POLL_S)
        serving.generation.fail_all(Aborted(DEAD))

    def _teardown_lines(self) -> None:
        engine = self.engine
        count = engine.plan.local_world
        for core in engine.cores:
            core.info(
                "core.py:1666",
                "[shutdown] EngineCore: request processing complete; starting resource teardown",
            )
            core.info("core.py:1499", "[shutdown] EngineCore: exiting busy loop")
            core.info(
                "multiproc_executor.py:479",
                f"[shutdown] Executor: waiting for worker exit count={count}",
            )
        for voice in engine.rank_voices():
            voice.info(
                "multiproc_executor.py:843", "Parent process exited, terminating worker queues"
            )

    def _last_lines(self, wait: str) -> None:
        front = self.engine.fronts[0]
        client_lines(front, wait)
        front.info("launcher.py:279", "[shutdown] API server: engine client stopped")
        front.info("launcher.py:282", "[shutdown] API server: signalling HTTP server shutdown")
        front.info("launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server")
        for text in (
            "Shutting down", "Waiting for application shutdown.",
            "Application shutdown complete.",
        ):  # fmt: skip
            uvicorn_info(self.engine.log, text)
