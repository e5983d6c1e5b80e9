"""Metrics as other clients and exporters write them: OpenMetrics, exemplars, blanks, sentinels, two scrapes woven."""

import io

import pytest

from fleet.readings.kinds import read_as
from fleet.readings.metrics.exposition import SENTINELS, SeriesCache, parse_exposition
from fleet.readings.report import Report

ENGINE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="glm-5.2"} 3.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="glm-5.2"} 1.0
# HELP vllm:time_to_first_token_seconds Histogram of time to first token in seconds.
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="glm-5.2"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="glm-5.2"} 4.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="glm-5.2"} 4.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="glm-5.2"} 2.0
"""
LABELS = (
    'gpu="0",UUID="GPU-1",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",Hostname="h100-001"'
)
CARD = "".join(
    f"# HELP {name} about it\n# TYPE {name} gauge\n{name}{{{LABELS}}} {value}\n"
    for name, value in (
        ("DCGM_FI_DEV_GPU_TEMP", 41), ("DCGM_FI_DEV_POWER_USAGE", 97.5), ("DCGM_FI_DEV_GPU_UTIL", 12),
        ("DCGM_FI_DEV_SM_CLOCK", 1980), ("DCGM_FI_DEV_XID_ERRORS", 0),
    )
)  # fmt: skip


def read(text: str) -> Report:
    return read_as("metrics", io.BytesIO(text.encode()))


def card(name: str, value: str) -> str:
    """The card's dump with one value changed or added."""
    line = f"{name}{{{LABELS}}}"
    rows = [row for row in CARD.splitlines() if not row.startswith(line)]
    return "\n".join([*rows, f"{line} {value}"]) + "\n"


def test_an_engine_and_a_card_pass():
    assert read(ENGINE).verdict == "pass"
    assert read(CARD).verdict == "pass"


def test_openmetrics_with_examples_and_its_end_is_the_same():
    text = ENGINE.replace(
        'le="0.5",model_name="glm-5.2"} 2.0',
        'le="0.5",model_name="glm-5.2"} 2.0 # {trace_id="a b}c"} 0.41 1796070397.5',
    )
    found = read(
        text.replace(
            "# HELP vllm:num", "# UNIT vllm:num_requests_running requests\n# HELP vllm:num", 1
        )
        + "# EOF\n"
    )
    assert found.verdict == "pass"
    assert found.values == read(ENGINE).values


@pytest.mark.parametrize("glue", [" ", "\t", "  ", " \t"])
def test_any_blank_may_stand_before_a_value(glue):
    exposition = parse_exposition(
        f'up{glue}1\nup_labelled{{a="b"}}{glue}2 1796070397000\n'.encode()
    )
    assert [sample.value for sample in exposition.samples] == [1.0, 2.0]
    assert exposition.complete


@pytest.mark.parametrize(
    ("written", "label"),
    [
        (r"a\"b", 'a"b'),
        (r"a\\", "a\\"),
        (r"a\nb", "a\nb"),
        ("a{b}c", "a{b}c"),
        ("a # {b", "a # {b"),
        ("", ""),
    ],
)
def test_labels_hold_anything(written, label):
    exposition = parse_exposition(f'x{{a="{written}",b="c",}} 1\n'.encode())
    assert dict(exposition.samples[0].series.labels) == {"a": label, "b": "c"}


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_no_number_of_requests_is_unknown(value):
    found = read(
        ENGINE.replace(
            '_running{engine="0",model_name="glm-5.2"} 3.0',
            f'_running{{engine="0",model_name="glm-5.2"}} {value}',
        )
    )
    assert found.verdict == "unknown"
    assert found.values["running"] is None
    assert found.values["waiting"] == 1


@pytest.mark.parametrize(
    "value", ["9223372036854775794", "2147483633", "140737488355328", "140737488355330.000000"]
)
def test_a_card_that_does_not_answer_is_unknown(value):
    assert float(value) in SENTINELS
    found = read(card("DCGM_FI_DEV_GPU_TEMP", value))
    assert found.verdict == "unknown"
    assert found.values["temperature_c"] is None


@pytest.mark.parametrize(
    ("name", "value", "verdict"),
    [
        ("DCGM_FI_DEV_XID_ERRORS", "79", "fail"),
        ("DCGM_FI_DEV_XID_ERRORS", "119", "fail"),
        ("DCGM_FI_DEV_XID_ERRORS", "31", "unknown"),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "2", "fail"),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "1", "fail"),
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", "1", "unknown"),
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", "0", "pass"),
    ],
)
def test_a_fault_of_a_card_is_told(name, value, verdict):
    assert read(card(name, value)).verdict == verdict


def test_an_xid_that_an_exporter_counted_is_told():
    count = f'DCGM_EXP_XID_ERRORS_COUNT{{{LABELS},window_size_in_ms="300000",xid="31"}} 1\n'
    assert read(CARD + count).verdict == "unknown"
    assert read(CARD + count.replace('xid="31"', 'xid="79"')).verdict == "fail"
    assert read(CARD + count.replace("} 1", "} 0")).verdict == "pass"


def weave(a: str, b: str) -> str:
    rows = a.splitlines(), b.splitlines()
    return "".join(
        f"{row}\n" for n in range(max(map(len, rows))) for text in rows for row in text[n : n + 1]
    )


def test_two_scrapes_line_by_line_are_no_pass_even_when_no_name_is_in_both():
    found = read(weave(ENGINE, CARD))
    assert found.verdict == "unknown"
    assert "two_scrapes" in {finding.id for finding in found.findings}


def test_two_whole_scrapes_of_different_names_are_both_read():
    found = read(ENGINE + CARD)
    assert found.verdict == "pass"
    assert (found.values["running"], found.values["gpus"]) == (3, 1)


def test_a_page_of_an_error_is_no_scrape():
    found = read("<html><head><title>404 Not Found</title></head></html>\n")
    assert (found.verdict, found.complete) == ("unknown", False)


def test_an_endpoint_read_again_gives_what_a_first_reading_gives():
    """Lines that were met before are remembered; those of older scrapes are let go."""
    cache = SeriesCache()
    for turn in range(300):
        raw = ENGINE.replace(" 3.0\n", f" {turn}.5\n").encode()
        assert cache.parse(raw) == parse_exposition(raw)
    assert len(cache._lines) <= 2 * len(ENGINE.splitlines()) + 64 + len(ENGINE.splitlines())
