import json
from typing import Any

import pytest
from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.test import Client

from fleet.execution.models import LogStream
from fleet.models import RoleGrant
from releases.models import Launch
from tests import factories
from tests.live import log_scene
from tests.live.pump import Pump
from tests.live.threads import in_thread
from tests.sockets import Socket

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def launch(transactional_db: None) -> Launch:
    return log_scene.make_launch(1)


@pytest.fixture
def stream(launch: Launch) -> LogStream:
    return log_scene.stream_of(launch, 0)


@pytest.fixture
def application() -> Any:
    from console.urls import websocket_urlpatterns

    return AuthMiddlewareStack(URLRouter(websocket_urlpatterns))


@pytest.fixture
def cookie(launch: Launch) -> bytes:
    client = Client()
    client.force_login(factories.make_person("chen"))
    return f"flotilla-session={client.cookies['flotilla-session'].value}".encode()


@pytest.fixture
def open_socket(application: Any, launch: Launch, cookie: bytes) -> Any:
    def make(path: str = "", cookie: bytes | None = cookie) -> Socket:
        headers = [(b"cookie", cookie)] if cookie else []
        return Socket(application, path or f"/ws/log/{launch.public_id}/", headers=headers)

    return make


async def _numbers(socket: Socket, upto: int) -> list[int]:
    """Receive until line `upto`, and check that every frame goes on where the last one ended."""
    found: list[int] = []
    expected = None
    while not found or found[-1] < upto:
        frame = await socket.receive()
        if "lines" not in frame:
            continue
        assert expected is None or frame["first_line"] == expected, "a gap or a repeat"
        expected = frame["first_line"] + frame["count"]
        found += [line[0] for line in frame["lines"]]
    return found


async def test_it_sends_what_is_stored_and_then_what_comes(
    stream: LogStream, open_socket: Any, redis_client: Any
) -> None:
    fence = await in_thread(log_scene.hold_lease)
    socket = open_socket()
    with await in_thread(Pump, [stream.pk], fence, 2000):
        assert await socket.connect()
        await socket.say(json.dumps({"after": {}}))
        found = await _numbers(socket, 3000)
        assert found == list(range(1, found[-1] + 1))
        await socket.disconnect()


async def test_lines_go_on_when_redis_forgets_everything_at_any_moment(
    stream: LogStream, open_socket: Any, redis_client: Any
) -> None:
    fence = await in_thread(log_scene.hold_lease)
    socket = open_socket()
    with await in_thread(Pump, [stream.pk], fence, 1500):
        assert await socket.connect()
        await socket.say(json.dumps({"after": {str(stream.pk): 0}}))
        found: list[int] = []
        for upto in (500, 1000, 1500, 2000):
            more = await _numbers(socket, upto)
            assert not found or more[0] == found[-1] + 1
            found += more
            await in_thread(redis_client.flushall)
        assert found == list(range(1, found[-1] + 1))
        await socket.disconnect()


async def test_a_filter_counts_what_it_holds_back(stream: LogStream, open_socket: Any) -> None:
    fence = await in_thread(log_scene.hold_lease)
    said = [(n, n % 8, "E" if n == 40 else "I", "NET", f"line {n} <b>") for n in range(1, 101)]
    await in_thread(log_scene.say, stream, said, fence)
    for asked, numbers in (
        ({"rank": "3"}, [n for n in range(1, 101) if n % 8 == 3]),
        ({"level": "error"}, [40]),
        ({"q": "line 7"}, [7, *range(70, 80)]),
        ({"q": "/line \\d$/", "rank": "1"}, []),
        ({"q": "/line [12]\\b/"}, [1, 2]),
    ):
        socket = open_socket()
        assert await socket.connect()
        await socket.say(json.dumps({"after": {}, **asked}))
        found, covered = [], 0
        while covered < 100:
            frame = await socket.receive()
            if "lines" in frame:
                assert frame["first_line"] == covered + 1
                covered += frame["count"]
                found += [line[0] for line in frame["lines"]]
        assert found == numbers, asked
        await socket.disconnect()


async def test_frames_stay_below_64_kib_and_text_is_visible(
    stream: LogStream, open_socket: Any
) -> None:
    fence = await in_thread(log_scene.hold_lease)
    said = [
        (n, 0, "I", "", "\x1b[1mbold\x1b[0m \x1b]52;c;x\x07" + '中"\\' * 3000) for n in range(20)
    ]
    await in_thread(log_scene.say, stream, said, fence)
    socket = open_socket()
    assert await socket.connect()
    await socket.say('{"after":{}}')
    lines: list[Any] = []
    while len(lines) < 20:
        message = await socket.receive_output(5)
        assert len(message["text"].encode()) <= 64 * 1024
        lines += json.loads(message["text"]).get("lines", [])
    assert lines[0][5][0] == ["bold", True]
    assert lines[0][5][1][0].startswith(' 中"\\')
    await socket.disconnect()


async def test_nobody_without_a_session_is_let_in(open_socket: Any) -> None:
    assert not await open_socket(cookie=None).connect()
    assert not await open_socket(cookie=b"flotilla-session=forged").connect()


async def test_a_launch_that_is_not_there_is_said(open_socket: Any) -> None:
    socket = open_socket("/ws/log/LN-9999/")
    assert await socket.connect()
    assert await socket.closed_with() == 4404


async def test_a_person_who_loses_the_role_is_put_out(stream: LogStream, open_socket: Any) -> None:
    socket = open_socket()
    assert await socket.connect()
    await socket.say('{"after":{}}')
    await in_thread(RoleGrant.objects.all().delete)
    assert await socket.closed_with() == 4403


@pytest.mark.parametrize(
    "said", ["", "[]", "nonsense", '{"after": {"x": 1}}', '{"after":[]}', "9" * 20000]
)
async def test_what_cannot_be_read_closes_the_socket(open_socket: Any, said: str) -> None:
    socket = open_socket()
    assert await socket.connect()
    await socket.say(said)
    assert await socket.closed_with() == 4400


async def test_an_expression_that_does_not_parse_closes_the_socket_with_the_reason(
    stream: LogStream, open_socket: Any
) -> None:
    fence = await in_thread(log_scene.hold_lease)
    await in_thread(log_scene.say, stream, [(0, 0, "I", "", "x")], fence)
    socket = open_socket()
    assert await socket.connect()
    await socket.say('{"after":{}, "q": "/(/"}')
    assert await socket.closed_with() == 4400


async def test_the_end_of_a_stream_is_said(stream: LogStream, open_socket: Any) -> None:
    fence = await in_thread(log_scene.hold_lease)
    await in_thread(log_scene.say, stream, [(0, 0, "I", "", "last")], fence)
    await in_thread(LogStream.objects.filter(pk=stream.pk).update, is_complete=True)
    socket = open_socket()
    assert await socket.connect()
    await socket.say('{"after":{}}')
    while True:
        frame = await socket.receive()
        if frame.get("ended"):
            assert frame["stream"] == stream.pk
            break
    await socket.disconnect()
