"""The real TCP connection between the nodes of a unit: join, barriers, bad news.

One JSON object a line. The head listens on MASTER_ADDR:MASTER_PORT, followers dial it. It carries
what NCCL and the store would; nothing of it is printed here. There is no heartbeat: the end of a
process closes its connection, and a frozen one is not noticed by the real engine either.
"""

import asyncio
import errno
import json
from collections.abc import Callable


class Peer:
    """One end of a connection between two nodes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.hello: dict = {}

    def send(self, **message: object) -> None:
        if not self.writer.is_closing():
            self.writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict | None:
        """Return the next message, None when the other side is gone."""
        try:
            line = await self.reader.readline()
        except (OSError, ValueError):
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        self.writer.close()


class Link:
    """What all nodes of a unit share: barriers and events. This one serves a unit of one node."""

    def __init__(self, node_rank: int = 0) -> None:
        self.node_rank = node_rank
        self.on_lost: Callable[[int, bool], None] = lambda rank, graceful: None
        self.on_event: Callable[[int, dict], None] = lambda rank, message: None
        self.joined = False

    async def barrier(self, name: str, value: object = None) -> list:
        """Wait until every node reached `name`; return all values by node rank."""
        return [value]

    def tell(self, **message: object) -> None:
        """Send an event to the other nodes."""

    def close(self, graceful: bool) -> None:
        """Leave the unit; the others see the store go."""


class HeadLink(Link):
    """The head's side: listens, waits for all followers, gathers barriers."""

    def __init__(self, nnodes: int) -> None:
        super().__init__(0)
        self.nnodes = nnodes
        self.peers: dict[int, Peer] = {}
        self.server: asyncio.Server | None = None
        self.listen_error: OSError | None = None
        self.complete = asyncio.Event()
        self.check: Callable[[dict], str] = lambda hello: ""
        self.refusal = ""
        self._values: dict[str, dict[int, object]] = {}
        self._waiting: dict[str, asyncio.Future] = {}
        self._graceful: set[int] = set()
        self._tasks: set[asyncio.Task] = set()

    async def listen(self, address: str, port: int) -> None:
        self.server = await asyncio.start_server(self._accept, address, port)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: asyncio's own task for one complains when the loop ends before it.
        task = asyncio.get_running_loop().create_task(self._welcome(Peer(reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _welcome(self, peer: Peer) -> None:
        hello = await peer.receive()
        if not hello or "hello" not in hello:
            peer.close()
            return
        peer.hello = hello
        rank = int(hello["hello"])
        self.refusal = self.refusal or self.check(hello)
        self.peers[rank] = peer
        if len(self.peers) == self.nnodes - 1:
            self.complete.set()
        await self._follow(rank, peer)

    async def _follow(self, rank: int, peer: Peer) -> None:
        while message := await peer.receive():
            if "barrier" in message:
                self._arrive(message["barrier"], rank, message.get("value"))
            elif "bye" in message:
                self._graceful.add(rank)
            else:
                self.on_event(rank, message)
        peer.close()
        if self.peers.pop(rank, None):
            self.on_lost(rank, rank in self._graceful)

    def _arrive(self, name: str, rank: int, value: object) -> None:
        values = self._values.setdefault(name, {})
        values[rank] = value
        if len(values) == self.nnodes and name in self._waiting:
            gathered = [values[key] for key in sorted(values)]
            for peer in self.peers.values():
                peer.send(passed=name, values=gathered)
            future = self._waiting.pop(name)
            if not future.done():
                future.set_result(gathered)

    async def barrier(self, name: str, value: object = None) -> list:
        future = asyncio.get_running_loop().create_future()
        self._waiting[name] = future
        self._arrive(name, 0, value)
        return await future

    def tell(self, **message: object) -> None:
        for peer in self.peers.values():
            peer.send(**message)

    def close(self, graceful: bool) -> None:
        if self.server is not None:
            self.server.close()
        for peer in self.peers.values():
            if graceful:
                peer.send(bye=True)
            peer.close()
        self.peers.clear()


class FollowerLink(Link):
    """A follower's side: dials the head, waits at barriers."""

    def __init__(self, node_rank: int) -> None:
        super().__init__(node_rank)
        self.peer: Peer | None = None
        self._waiting: dict[str, asyncio.Future] = {}
        self._passed: dict[str, list] = {}
        self._graceful = False
        self._task: asyncio.Task | None = None

    async def dial(self, address: str, port: int, hello: dict) -> int:
        """Try to join once; return 0, or the errno that the system gave."""
        try:
            reader, writer = await asyncio.open_connection(address, port)
        except OSError as error:
            return error.errno or errno.ECONNREFUSED
        self.peer = Peer(reader, writer)
        self.peer.send(hello=self.node_rank, **hello)
        self._task = asyncio.get_running_loop().create_task(self._follow())
        self.joined = True
        return 0

    async def _follow(self) -> None:
        peer = self.peer
        while peer is not None and (message := await peer.receive()):
            if "passed" in message:
                self._pass(message["passed"], message["values"])
            elif "bye" in message:
                self._graceful = True
            else:
                self.on_event(0, message)
        if self.peer is not None:
            self.close(False)
            self.on_lost(0, self._graceful)

    def _pass(self, name: str, values: list) -> None:
        self._passed[name] = values
        future = self._waiting.pop(name, None)
        if future is not None and not future.done():
            future.set_result(values)

    async def barrier(self, name: str, value: object = None) -> list:
        if name in self._passed:
            return self._passed[name]
        future = asyncio.get_running_loop().create_future()
        self._waiting[name] = future
        self.tell(barrier=name, value=value)
        return await future

    def tell(self, **message: object) -> None:
        if self.peer is not None:
            self.peer.send(**message)

    def close(self, graceful: bool) -> None:
        peer, self.peer = self.peer, None
        if peer is not None:
            if graceful:
                peer.send(bye=True)
            peer.close()
