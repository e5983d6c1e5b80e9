"""Sends long answers in pieces; the asynchronous server alone would first gather a file or a log whole in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

PIECE_BYTES = 64 * 1024


class StreamingMiddleware:
    """Let the asynchronous server take a synchronous stream piece by piece; stands before all that make one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (
            isinstance(request, ASGIRequest)
            and isinstance(response, StreamingHttpResponse)
            and not response.is_async
        ):
            response.streaming_content = in_pieces(iter(response.streaming_content))
        return response


async def in_pieces(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the bytes of `parts` in pieces of about 64 KiB, each gathered in the request's own thread."""
    while piece := await sync_to_async(_next_piece)(parts):
        yield piece


def _next_piece(parts: Iterator[bytes]) -> bytes:
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= PIECE_BYTES:
            break
    return bytes(piece)
