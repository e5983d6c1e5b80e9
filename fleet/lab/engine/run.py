"""One engine process from its command line to its exit code."""

import asyncio
import gc
import json
import os
import signal
import socket

from .death import Death, StartFailed, report_start_failure
from .engine import Engine
from .flags import parse_flags
from .hang import HangFaults, watchdog_fires
from .log import Log, Voice
from .plan import Refused, plan_from_flags
from .serving import Serving, bind_early
from .shutdown import Shutdown
from .startup import StartUp
from .texts import traceback


def main(container_dir: str, up: int, down: int) -> int:
    """Play the container in `container_dir`; `up` and `down` are the pipes to the monitor."""
    with open(os.path.join(container_dir, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    log = Log(os.path.join(container_dir, "log"))
    version = str(config.get("vllm_version") or "0.23.0")
    env = {key: str(value) for key, value in (config.get("env") or {}).items()}
    try:
        flags = parse_flags(list(config["argv"]), version, config.get("flags_file") or "")
        plan = plan_from_flags(flags, version, env)
    except Refused as refusal:
        refuse(log, refusal)
        return refusal.code
    return asyncio.run(Container(container_dir, config, plan, log, up, down).play())


def refuse(log: Log, refusal: Refused) -> None:
    """Log why the engine does not start, as plain words or as a traceback."""
    if not refusal.as_traceback:
        log.err(refusal.text)
        return
    voice = Voice(log, "APIServer", os.getpid())
    frame = ("entrypoints/cli/main.py", 75, "main", "args.dispatch_function(args)")
    voice.raw(traceback(frame, error=refusal.text))


class Container:
    """Wires an engine's rooms together and waits for its end."""

    def __init__(self, container_dir: str, config: dict, plan, log: Log, up: int, down: int):
        self.arguments = (container_dir, config, plan, log, up)
        self.down = down

    async def play(self) -> int:
        self.engine = engine = Engine(*self.arguments)
        self.death = Death(engine)
        self.shutdown = Shutdown(engine)
        self.hangs = HangFaults(engine)
        self.serving: Serving | None = None
        self._listen_to_the_world()
        start = asyncio.get_running_loop().create_task(self._start())
        self.death.start_task = start
        try:
            return await engine.ended
        finally:
            start.cancel()
            self._leave()

    def _listen_to_the_world(self) -> None:
        engine, loop = self.engine, asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.shutdown.on_signal)
        loop.add_signal_handler(signal.SIGCHLD, engine.workers.reap)
        # The monitor's end of this pipe closes only with the monitor.
        loop.add_reader(self.down, engine.end, 70)
        engine.workers.on_death = self.death.worker_died
        engine.link.on_lost = self.death.peer_lost
        engine.link.on_event = self.on_event
        engine.faults.on_change = self.on_faults
        engine.faults.poll()

    async def _start(self) -> None:
        engine = self.engine
        try:
            sock = self._bind() if engine.serves else None
            kv = await StartUp(engine).run()
            if sock is None:
                engine.set_phase("serving")
            else:
                self.serving = Serving(engine, kv, self.death)
                self.death.serving = self.shutdown.serving = self.serving
                await self.serving.open(sock)
            gc.collect()
            gc.freeze()
            self.on_faults()
        except StartFailed as failure:
            self._fail(failure)
        except asyncio.CancelledError:
            if self.death.start_failure is not None and not engine.ended.done():
                self._fail(self.death.start_failure)
        except Exception:
            # A fault of the lab itself must end the container, not leave it half alive.
            engine.end(70)
            raise

    def _bind(self) -> socket.socket:
        plan = self.engine.plan
        try:
            return bind_early(self.engine)
        except OSError as error:
            text = f"OSError: [Errno {error.errno}] {error.strerror or 'Address already in use'}"
            raise StartFailed(f"{text}: ('{plan.host}', {plan.port})", None) from error

    def _fail(self, failure: StartFailed) -> None:
        self.engine.failed_in = self.engine.phase
        self.engine.set_phase("dead")
        report_start_failure(self.engine, failure)
        self.engine.link.close(graceful=False)
        self.engine.end(1)

    def on_event(self, node_rank: int, message: dict) -> None:
        """News from another node of the unit."""
        loop = asyncio.get_running_loop()
        if "hang" in message and self.serving is not None:
            self.serving.hang.stall(message["hang"], message.get("rank"))
        elif "watchdog" in message:
            self.death.watchdog_runs = True
            self.watch_task = loop.create_task(watchdog_fires(self.engine, message.get("watchdog")))
        elif "refused" in message:
            workers = self.engine.workers.ranks()
            self.death.fail_start(StartFailed(message["refused"], workers[0] if workers else None))

    def on_faults(self) -> None:
        """Apply what changed in faults.json, once the engine serves."""
        if self.engine.phase != "serving":
            return
        if self.serving is not None:
            self.serving.freeze(bool(self.engine.faults.find("engine.freeze")))
        for signature, rank in self.hangs.apply():
            if self.serving is not None:
                self.serving.hang.stall(signature, rank)
            else:
                self.engine.link.tell(hang=signature, rank=rank)

    def _leave(self) -> None:
        self.engine.faults.stop()
        if self.serving is not None:
            self.serving.close()
        self.engine.link.close(graceful=False)
        self.engine.workers.end_all()
