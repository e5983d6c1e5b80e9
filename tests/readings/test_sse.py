"""Streamed answers: joined, ended or not, and never a raise."""

import json

from hypothesis import given
from hypothesis import strategies as st

from fleet.readings.sse import parse_chat_stream


def event(content: str | None = None, finish: str | None = None, **more) -> str:
    delta = {} if content is None else {"content": content}
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n"


def test_chunks_are_joined_to_one_text():
    body = event("") + event("四十") + event("二。") + event(None, "stop")
    body += 'data: {"choices": [], "usage": {"completion_tokens": 3}}\n\ndata: [DONE]\n\n'
    answer = parse_chat_stream(body.encode())
    assert (answer.text, answer.finish_reason, answer.is_done) == ("四十二。", "stop", True)
    assert answer.usage == {"completion_tokens": 3}
    assert answer.unread == 0


def test_a_stream_without_its_end_says_so():
    answer = parse_chat_stream(event("half").encode())
    assert (answer.is_done, answer.finish_reason) == (False, "")


def test_an_error_inside_the_stream_is_kept():
    answer = parse_chat_stream(b'data: {"error": {"message": "engine dead", "code": 500}}\n\n')
    assert answer.error == "engine dead"


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_a_raise(body):
    assert parse_chat_stream(b"data: " + body).chunks >= 0


@given(
    st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20), max_size=12)
)
def test_what_was_cut_into_chunks_comes_back_whole(parts):
    body = "".join(event(part) for part in parts) + event(None, "stop") + "data: [DONE]\n\n"
    assert parse_chat_stream(body.encode()).text == "".join(parts)
