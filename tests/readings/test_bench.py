from __future__ import annotations

import io
import json

import pytest

from fleet.readings.kinds import read_as
from fleet.readings.verdicts.bench import report_bench

BANNER = "============ Serving Benchmark Result ============\n"
END = "=" * 50 + "\n"


def line(label, value):
    return f"{label:<40} {value:<10}\n"


def latency(title, metric, mean):
    rows = "".join(
        line(f"{s} {metric} (ms):", f"{mean * f:.2f}")
        for s, f in (("Mean", 1), ("Median", 0.9), ("P99", 2))
    )
    return f"{title:-^50}\n{rows}"


def serving(successful=200, failed=0, *, tokens=20_000, duration=50.0, rate=None, ttft=123.4):
    return (
        BANNER
        + line("Successful requests:", successful)
        + ("" if failed is None else line("Failed requests:", failed))
        + ("" if rate is None else line("Request rate configured (RPS):", f"{rate:.2f}"))
        + line("Benchmark duration (s):", f"{duration:.2f}")
        + line("Total input tokens:", 40_000 if successful else 0)
        + line("Total generated tokens:", tokens)
        + line("Request throughput (req/s):", f"{successful / duration:.2f}")
        + line("Output token throughput (tok/s):", f"{tokens / duration:.2f}")
        + line("Peak output token throughput (tok/s):", "611.00")
        + line("Total token throughput (tok/s):", f"{(tokens + 40_000) / duration:.2f}")
        + latency("Time to First Token", "TTFT", ttft)
        + latency("Time per Output Token (excl. 1st token)", "TPOT", 11.5)
        + latency("Inter-token Latency", "ITL", 11.2)
        + END
    )


def ids(report):
    return {finding.id for finding in report.findings}


def numbers(values):
    return {k: v for k, v in values.items() if isinstance(v, int | float)}


def test_a_whole_run_without_failures_passes():
    report = report_bench(serving())
    assert (report.verdict, report.complete) == ("pass", True)
    assert report.values["req_s"] == 4.0
    assert report.values["p99_ttft_ms"] == 246.8


def test_a_run_in_which_every_request_failed_fails():
    report = report_bench(serving(0, 200, tokens=0, ttft=0.0))
    assert report.verdict == "fail"
    assert ids(report) == {"all_requests_failed"}
    assert report.values["failed"] == 200


def test_it_fails_by_zero_successes_where_failures_are_not_told():
    report = report_bench(serving(0, None, tokens=0, ttft=0.0))
    assert report.verdict == "fail"
    assert report.values.get("failed") is None


def test_some_failed_requests_keep_it_from_passing():
    report = report_bench(serving(200, 3))
    assert report.verdict == "unknown"
    assert "requests_failed" in ids(report)


def test_a_missing_count_of_failures_is_unknown_and_not_zero():
    report = report_bench(serving(failed=None))
    assert (report.verdict, report.complete) == ("unknown", True)
    assert "failed" not in report.values
    assert "failed_unknown" in ids(report)


def test_the_command_beside_it_tells_how_many_were_asked_for():
    asked = "Namespace(subparser='bench', num_prompts=200, seed=0)\n"
    assert report_bench(asked + serving(failed=None)).verdict == "pass"
    fewer = report_bench(asked.replace("200", "256") + serving(failed=None))
    assert fewer.verdict == "unknown"
    assert "requests_missing" in ids(fewer)


def test_requests_without_a_token_are_no_good_run():
    report = report_bench(serving(tokens=0))
    assert report.verdict == "unknown"
    assert "no_tokens" in ids(report)


def test_an_unreached_rate_is_told_and_a_burst_is_not():
    assert "rate_not_reached" in ids(report_bench(serving(rate=20)))
    assert "rate_not_reached" not in ids(report_bench(serving(rate=10_000)))


def test_a_rate_that_does_not_follow_from_its_counts_does_not_pass():
    report = report_bench(serving().replace("400.00", "912.00"))
    assert report.verdict == "unknown"
    assert "contradiction" in ids(report)


def test_a_cut_at_any_place_never_passes_and_invents_no_number():
    text = serving()
    good = numbers(report_bench(text).values)
    for at in range(len(text) - 32):
        report = report_bench(text[:at])
        assert report.verdict == "unknown", at
        for key, value in numbers(report.values).items():
            assert key in ("line", "unread_count", "summaries", "complete") or good[key] == value


def test_a_head_cut_at_any_place_never_passes_and_invents_no_number():
    text = serving()
    good = numbers(report_bench(text).values)
    for at in range(20, len(text), 3):
        report = report_bench(text[at:])
        assert report.verdict == "unknown", at
        for key, value in numbers(report.values).items():
            assert key in ("line", "unread_count", "summaries", "complete") or good[key] == value


def test_two_summaries_woven_together_give_neither_number():
    one, other = serving().splitlines(), serving(100, tokens=5_000, ttft=9.0).splitlines()
    woven = "".join(f"{a}\n{b}\n" for a, b in zip(one, other, strict=True))
    report = report_bench(woven)
    assert (report.verdict, report.complete) == ("unknown", False)
    rows = "\n".join(line for pair in zip(one[1:-1], other[1:-1], strict=True) for line in pair)
    report = report_bench(f"{BANNER}{rows}\n{END}")
    assert (report.verdict, report.complete) == ("unknown", False)
    assert report.values["req_s"] is None
    assert report.values["mean_ttft_ms"] is None


def test_several_summaries_have_their_own_values():
    report = report_bench(serving() + "\n" + serving(400, tokens=30_000))
    assert report.verdict == "pass"
    assert [run["successful"] for run in report.values["runs"]] == [200, 400]
    assert "successful" not in report.values
    torn = report_bench(serving() + serving()[:-200])
    assert (torn.verdict, torn.complete) == ("unknown", False)
    failed = report_bench(serving() + serving(0, 200, tokens=0))
    assert failed.verdict == "fail"


def test_a_template_is_no_measurement():
    report = report_bench(serving().replace("246.80", "xxx.xx").replace("4.00 ", "xxx "))
    assert (report.verdict, report.complete) == ("unknown", False)
    assert report.values["req_s"] is None


def test_lines_left_out_are_told():
    kept = [row for row in serving().splitlines() if "input tokens" not in row and "P99" not in row]
    report = report_bench("\n".join(kept) + "\n")
    assert (report.verdict, report.complete) == ("unknown", False)
    assert "input_tokens" not in report.values


def test_what_stands_before_each_line_is_dropped():
    for mark in ("    ", "bench-1  | ", "[1,0]<stdout>:", "> "):
        text = "".join(f"{mark}{row}\n" for row in serving().splitlines())
        report = report_bench(text)
        assert report.verdict == "pass", mark
    stamped = "".join(f"2026-01-02T03:04:05.678Z {row}\n" for row in serving().splitlines())
    assert report_bench(stamped).verdict == "pass"


def test_line_ends_of_windows_and_colours_change_nothing():
    plain = report_bench(serving()).values
    assert report_bench(serving().replace("\n", "\r\n")).values == plain
    assert report_bench(serving().replace("Total", "\x1b[1mTotal\x1b[0m")).values == plain
    assert report_bench("").verdict == "unknown"


def test_an_unknown_label_keeps_its_number():
    extra = line("Acceptance rate (%):", "61.20") + line("Warm cache hits:", "7")
    report = report_bench(serving().replace(END, extra + END))
    assert report.verdict == "pass"
    assert report.values["acceptance_rate_percent"] == 61.2
    assert report.values["other.warm_cache_hits"] == 7


def test_sections_inside_the_summary_do_not_end_it():
    text = serving().replace("Total input", "XX", 1)
    heading = "================== Text Result ===================\n"
    audio = "================== Audio Result ==================\n" + line(
        "Mean AUDIO_TTFP (ms):", "88.50"
    )
    at = serving().index("Total input")
    text = serving()[:at] + heading + serving()[at:].replace(END, audio + END)
    report = report_bench(text)
    assert report.complete is True
    assert report.values["tool"] == "vllm-omni"
    assert report.values["mean_audio_ttfp_ms"] == 88.5
    assert report.values["output_tokens"] == 20_000


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: Initial test run failed - Please make sure benchmark arguments are right.\n",
        "Traceback (most recent call last):\n  File x\naiohttp.client_exceptions.ClientError: no\n",
        "vllm: error: unrecognized arguments: --concurency\n",
    ],
)
def test_a_load_test_that_broke_off_fails(text):
    report = report_bench(text)
    assert report.verdict == "fail"
    assert ids(report) == {"bench_failed"}


def test_errors_beside_a_good_summary_keep_it_from_passing():
    report = report_bench("Traceback (most recent call last):\n" + serving())
    assert report.verdict == "unknown"


RESULT = {
    "date": "20260101-000000", "endpoint_type": "openai", "num_prompts": 200, "request_rate": "inf",
    "duration": 50.0, "completed": 200, "failed": 0, "total_input_tokens": 40_000,
    "total_output_tokens": 20_000, "request_throughput": 4.0, "output_throughput": 400.0,
    "total_token_throughput": 1200.0, "ttfts": [0.1234] * 200, "mean_ttft_ms": 123.4,
}  # fmt: skip


def test_a_result_file_passes_and_keeps_seconds_apart():
    report = report_bench(json.dumps(RESULT))
    assert (report.verdict, report.form) == ("pass", "vllm json")
    assert report.values["mean_ttft_ms"] == 123.4
    assert report.values["ttfts_count"] == 200
    assert "ttfts" not in report.values
    assert report_bench(json.dumps(RESULT, indent=1)).verdict == "pass"


def test_a_result_file_of_failures_only_fails():
    failed = RESULT | {"completed": 0, "failed": 200, "request_throughput": 0.0}
    assert report_bench(json.dumps(failed)).verdict == "fail"
    older = {k: v for k, v in failed.items() if k != "failed"}
    assert report_bench(json.dumps(older)).verdict == "fail"


def test_a_result_file_without_failures_told_is_held_against_its_prompts():
    older = {k: v for k, v in RESULT.items() if k != "failed"}
    report = report_bench(json.dumps(older))
    assert report.verdict == "pass"
    assert "failed" not in report.values
    assert report_bench(json.dumps(older | {"completed": 180})).verdict == "unknown"


@pytest.mark.parametrize("tenth", range(1, 10))
@pytest.mark.parametrize("indent", [None, 2])
def test_a_torn_result_file_never_passes(tenth, indent):
    text = json.dumps(RESULT, indent=indent)
    report = report_bench(text[: len(text) * tenth // 10])
    assert (report.verdict, report.complete) == ("unknown", False)
    for key, value in report.values.items():
        assert key not in RESULT or value == RESULT[key]


def test_the_head_of_a_file_longer_than_is_read_keeps_its_counts():
    text = json.dumps(RESULT | {"itls": [0.01] * 2_000_000})
    report = read_as("bench", io.BytesIO(text.encode()))
    assert (report.verdict, report.complete) == ("unknown", False)
    assert (report.values["completed"], report.values["req_s"]) == (200, 4.0)


def test_a_torn_head_that_is_no_json_ends_what_is_read():
    report = report_bench('{"completed": 5, "num_prompts": -01, "duration": 3, "a": [')
    assert report.values["completed"] == 5
    assert "duration" not in report.values


def test_lines_of_results_are_several_runs():
    text = json.dumps(RESULT) + "\n" + json.dumps(RESULT | {"completed": 0}) + "\n"
    report = report_bench(text)
    assert report.verdict == "fail"
    assert report.values["summaries"] == 2


def test_values_of_json_that_are_no_numbers_are_unknown():
    text = json.dumps(RESULT | {"mean_itl_ms": float("nan"), "rtfx": 10**400})
    values = read_as("bench", io.BytesIO(text.encode())).as_object()["values"]
    assert (values["mean_itl_ms"], values["rtfx"]) == (None, None)


AIPERF = """\
                 NVIDIA AIPerf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓
┃                           Metric ┃      avg ┃      p99 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━┩
│         Time to First Token (ms) │ 1,250.04 │ 2,059.53 │
│          Output Token Throughput │ 1,287.44 │      N/A │
│                     (tokens/sec) │          │          │
│         Request Count (requests) │ 1,000.00 │      N/A │
└──────────────────────────────────┴──────────┴──────────┘
"""


def test_a_label_of_aiperf_goes_on_in_the_next_row():
    report = report_bench(AIPERF)
    assert report.complete is True
    assert report.values["mean_ttft_ms"] == 1250.04
    assert report.values["out_tok_s"] == 1287.44
    assert report.values["request_count"] == 1000
    assert report.verdict == "unknown"


def test_a_torn_table_of_aiperf_is_not_whole():
    for tenth in range(1, 10):
        report = report_bench(AIPERF[: len(AIPERF) * tenth // 10])
        assert (report.verdict, report.complete) == ("unknown", False)


def test_sentences_of_runs_without_a_server():
    text = "Throughput: 7.25 requests/s, 1856.00 total tokens/s, 928.00 output tokens/s\n"
    report = report_bench(text)
    assert (report.verdict, report.values["out_tok_s"]) == ("unknown", 928.0)
    text = "Avg latency: 1.5 seconds\n10% percentile latency: 1.4 seconds\n"
    assert report_bench(text).complete is False
    assert report_bench(text + "99% percentile latency: 2.5 seconds\n").complete is True
