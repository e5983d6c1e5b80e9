"""The asynchronous server sends long answers in pieces."""

from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, AsyncRequestFactory, RequestFactory

from console.streaming import PIECE_BYTES, StreamingMiddleware, in_pieces
from tests.factories import make_person


async def gathered(answer) -> bytes:
    return b"".join([piece async for piece in answer])


class Counted:
    """Parts of one byte less than a piece, and how many were asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(1000):
            self.asked += 1
            yield b"x" * (PIECE_BYTES - 1)


async def test_it_takes_no_more_from_a_stream_than_it_sends():
    parts = Counted()
    pieces = in_pieces(iter(parts))
    assert len(await anext(pieces)) == 2 * (PIECE_BYTES - 1)
    assert parts.asked == 2
    await pieces.aclose()


async def test_a_file_comes_whole_and_is_closed(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(bytes(range(256)) * 1000)
    stream = file.open("rb")
    middleware = StreamingMiddleware(lambda _request: FileResponse(stream))
    answer = middleware(AsyncRequestFactory().get("/"))
    assert await gathered(answer) == file.read_bytes()
    answer.close()
    assert stream.closed


def test_other_answers_and_other_servers_are_left_alone():
    short, long = HttpResponse(b"x"), StreamingHttpResponse(iter([b"a", b"b"]))
    assert StreamingMiddleware(lambda _: short)(AsyncRequestFactory().get("/")) is short
    answer = StreamingMiddleware(lambda _: long)(RequestFactory().get("/"))
    assert b"".join(answer) == b"ab"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("address", ["/static/css/tokens.css", "/audit/?format=csv"])
async def test_pages_that_stream_do_so_without_a_warning(address):
    client = AsyncClient(headers={"host": "127.0.0.1"})
    try:
        await client.aforce_login(await sync_to_async(make_person)("ana"))
        answer = await client.get(address)
        assert answer.streaming
        assert len(await gathered(answer)) >= 100
    finally:
        await sync_to_async(connections.close_all)()
