import json

from fleet.execution.message import said
from fleet.execution.watch_scrape import judge_golden, judge_metrics, sum_families, token_counters

DUMP = b"""# HELP vllm:generation_tokens_total x
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="a b}"} 41.5
vllm:generation_tokens_total{engine="1",model_name="a"} 8 1732000000000
vllm:num_requests_running{engine="0"} NaN
vllm:num_requests_running{engine="1"} 3.0
python_info 1.0
vllm:generation_tokens_total_other 7
torn{
"""


def _chat(content: object) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


def test_metrics_are_summed_over_their_series_and_nan_is_no_reading() -> None:
    keep = ["vllm:generation_tokens_total", "vllm:num_requests_running", "python_info", "absent"]
    values = sum_families(DUMP, keep)
    assert values == {
        "vllm:generation_tokens_total": 49.5,
        "vllm:num_requests_running": 3.0,
        "python_info": 1.0,
    }
    assert token_counters(values) == {"vllm:generation_tokens_total": 49.5}


def test_an_answer_without_the_wanted_metrics_is_an_error() -> None:
    assert judge_metrics(200, DUMP, ["python_info"], 1.0).is_ok
    assert not judge_metrics(200, b"", ["python_info"], 1.0).is_ok
    refused = judge_metrics(503, DUMP, ["python_info"], 1.0)
    assert said(refused.error) == "HTTP 503, 200 expected"


def test_only_the_exact_golden_answer_is_right() -> None:
    assert judge_golden(200, _chat("42"), "42", 1.0).is_ok
    for status, body in (
        (500, _chat("42")),
        (200, _chat("43")),
        (200, _chat("42 ")),
        (200, _chat(None)),
        (200, b"{}"),
        (200, b"\x00\xff"),
        (200, b"[]"),
    ):
        assert not judge_golden(status, body, "42", 1.0).is_ok
    assert "\0" not in judge_golden(200, b"\x00", "42", 1.0).found
