"""The HTTP surface of a serving head: routes, answers, streams, errors, aborts."""

import json
import socket

from tests.lab_engine.units import GLM, REVISION, Container, Units
from tests.waiting import wait_until


def joined(reply) -> str:
    deltas = [event["choices"][0]["delta"] for event in reply.events() if event["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_it_answers_the_plain_routes(head: Container) -> None:
    assert (head.ask("/health").status, head.ask("/health").body) == (200, b"")
    assert head.ask("/ping").status == 200
    assert head.ask("/version").json == {"version": "0.23.0"}
    assert head.ask("/load").json == {"server_load": 0}
    model = head.ask("/v1/models").json["data"][0]
    assert model["id"] == GLM
    assert model["root"] == f"/models/{GLM}/{REVISION}"
    assert model["max_model_len"] == 131072


def test_it_knows_no_other_route(head: Container) -> None:
    reply = head.ask("/server_info")
    assert (reply.status, reply.json) == (404, {"detail": "Not Found"})


def test_it_computes(head: Container) -> None:
    body = head.chat("What is 17 + 25?").json
    choice = body["choices"][0]
    assert choice["message"]["content"] == "17 + 25 = 42"
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_it_answers_chinese_in_chinese(head: Container) -> None:
    text = head.chat("请说明值班要点。").json["choices"][0]["message"]["content"]
    assert "。" in text
    assert text == head.chat("请说明值班要点。").json["choices"][0]["message"]["content"]


def test_it_finds_the_code_word(head: Container) -> None:
    hay = "The wind was calm. " * 200
    text = f"{hay}Remember: the code word is amber-7. {hay}\nWhat is the code word?"
    assert head.chat(text).json["choices"][0]["message"]["content"] == "amber-7"


def test_a_stream_joins_to_the_unstreamed_text(head: Container) -> None:
    for question in ("Tell me about rack 7.", "说说第七号机柜。", "Repeat exactly: ünï 单元 🚢 7"):
        whole = head.chat(question).json["choices"][0]["message"]["content"]
        stream = head.chat(question, stream=True, stream_options={"include_usage": True})
        assert joined(stream) == whole
        events = stream.events()
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert events[-2]["choices"][0]["finish_reason"] == "stop"
        assert events[-1]["choices"] == []
        assert events[-1]["usage"]["completion_tokens"] > 0


def test_it_thinks_when_asked(head: Container) -> None:
    thinking = {"chat_template_kwargs": {"enable_thinking": True}}
    message = head.chat("What is 1 + 1?", **thinking).json["choices"][0]["message"]
    assert message["reasoning"]
    assert message["content"] == "1 + 1 = 2"
    stream = head.chat("What is 1 + 1?", stream=True, **thinking)
    deltas = [event["choices"][0]["delta"] for event in stream.events()]
    assert "".join(delta.get("reasoning") or "" for delta in deltas) == message["reasoning"]
    assert joined(stream) == "1 + 1 = 2"


def test_it_stops_at_the_token_limit_and_at_stop_words(head: Container) -> None:
    short = head.chat("Tell me about rack 7.", max_tokens=5).json
    assert short["choices"][0]["finish_reason"] == "length"
    assert short["usage"]["completion_tokens"] == 5
    whole = head.chat("Tell me about rack 7.").json["choices"][0]["message"]["content"]
    word = whole.split()[3]
    cut = head.chat("Tell me about rack 7.", stop=[word]).json["choices"][0]
    assert cut["message"]["content"] == whole[: whole.index(word)]
    assert cut["finish_reason"] == "stop"


def test_completions_take_several_prompts(head: Container) -> None:
    body = {"model": GLM, "prompt": ["What is 2 + 3?", "What is 4 * 5?"]}
    choices = head.ask("/v1/completions", body).json["choices"]
    assert [choice["text"] for choice in choices] == ["2 + 3 = 5", "4 * 5 = 20"]
    exact = {"model": GLM, "prompt": "hello", "max_tokens": 40, "ignore_eos": True}
    assert head.ask("/v1/completions", exact).json["usage"]["completion_tokens"] == 40


def test_the_tokenizer_counts_what_usage_counts(head: Container) -> None:
    messages = [{"role": "user", "content": "Count 这些 tokens."}]
    counted = head.ask("/tokenize", {"model": GLM, "messages": messages}).json
    used = head.chat("Count 这些 tokens.", max_tokens=1).json["usage"]
    assert counted["count"] == len(counted["tokens"]) == used["prompt_tokens"]
    assert counted["max_model_len"] == 131072


def test_errors_have_vllms_body(head: Container) -> None:
    unknown = head.ask("/v1/completions", {"model": "nope", "prompt": "x"})
    assert unknown.status == 404
    assert unknown.json["error"]["message"] == "The model `nope` does not exist."
    too_long = head.chat("word " * 10, max_tokens=140_000)
    assert too_long.status == 400
    assert "maximum context length is 131072 tokens" in too_long.json["error"]["message"]
    assert head.ask("/v1/chat/completions", b"{not json").status == 400
    assert head.ask("/v1/chat/completions", {"model": GLM}).status == 400
    assert set(unknown.json["error"]) == {"message", "type", "param", "code"}


def test_a_client_that_goes_away_frees_its_request(head: Container) -> None:
    aborted = 'vllm:request_success_total{engine="0",finished_reason="abort"'
    before = head.ask("/metrics").body.decode().count(aborted)
    assert before == 1
    connection = head.connect()
    body = {
        "model": GLM, "stream": True, "max_tokens": 4000, "ignore_eos": True,
        "messages": [{"role": "user", "content": "go on"}],
    }  # fmt: skip
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answer = connection.getresponse()
    answer.read(10)
    assert head.metric("vllm:num_requests_running") == 1
    answer.close()
    connection.close()
    wait_until(lambda: head.metric("vllm:num_requests_running") == 0, what="the abort")
    assert head.metric("vllm:kv_cache_usage_perc") == 0


def test_requests_on_one_connection_are_answered_in_turn(head: Container) -> None:
    connection = head.connect()
    for path in ("/health", "/version", "/v1/models"):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read()
    connection.close()


def test_every_request_is_in_the_access_log(head: Container) -> None:
    head.ask("/ping?probe=9")
    head.wait_for_line('"\x1b[1mGET /ping?probe=9 HTTP/1.1\x1b[0m" \x1b[32m200 OK\x1b[0m')


def test_a_body_of_the_wrong_inside_is_a_bad_request(head: Container) -> None:
    messages = [{"role": "user", "content": "x"}]
    for odd in ({"n": "many"}, {"stream_options": "yes", "stream": True}, {"min_tokens": []},
                {"chat_template_kwargs": 7}, {"messages": ["x"]}, {"messages": "x"}):  # fmt: skip
        body = {"model": GLM, "messages": messages, **odd}
        assert head.ask("/v1/chat/completions", body).status == 400, odd
    assert head.metric("vllm:num_requests_running") == 0


def test_bytes_that_are_no_request_are_answered_and_closed(head: Container) -> None:
    with socket.create_connection((head.address, head.port), timeout=20) as sock:
        sock.sendall(b"\x16\x03\x01\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 400")
        while sock.recv(100):
            pass


def test_a_key_guards_v1_only(units: Units) -> None:
    container = units.serving_small("--api-key", "s3cret")
    assert container.ask("/health").status == 200
    assert container.ask("/v1/models").status == 401
    assert container.ask("/v1/models", authorization="Bearer s3cret").status == 200
