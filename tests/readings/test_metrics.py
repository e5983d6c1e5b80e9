from __future__ import annotations

import pytest

from fleet.readings.metrics.cards import read_cards
from fleet.readings.metrics.engine import read_engines
from fleet.readings.metrics.exposition import SeriesCache, parse_exposition, parse_series
from fleet.readings.verdicts.metrics import report_metrics

NUMBERS = ["002", "003", "004", "006", "007", "008", "011", "013", "014"]


@pytest.mark.parametrize("number", NUMBERS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("metrics", number)
    report = report_metrics(sample.text)
    for key, want in sample.expected.items():
        if key != "must_not":
            assert report.values[key] == want, key
    assert report.complete
    # 007 may be stuck; 004 and 008 are excerpts without the number of running or waiting requests.
    assert report.verdict == ("unknown" if number in ("004", "007", "008") else "pass")


def test_a_series_that_is_absent_is_not_zero(corpus):
    engine = read_engines(parse_exposition(corpus("metrics", "004").text.encode()))[0]
    assert "running" not in engine.numbers


def test_the_value_of_an_info_series_is_no_measurement(corpus):
    values = report_metrics(corpus("metrics", "002").text).values
    assert 1.0 not in (values["kv_cache_size_tokens"], values["block_size"])


def test_waiting_is_not_waiting_by_reason(corpus):
    report = report_metrics(corpus("metrics", "007").text)
    assert report.values["waiting"] == 2
    assert [f.id for f in report.findings] == ["stuck_suspect"]


def test_two_models_are_two_subjects(corpus):
    engines = read_engines(parse_exposition(corpus("metrics", "006").text.encode()))
    assert [(e.model, e.numbers["running"]) for e in engines] == [("model-a", 3), ("model-b", 5)]


def test_engines_of_one_model_are_summed_but_usage_is_the_fullest():
    text = "".join(
        f'vllm:num_requests_running{{engine="{n}",model_name="m"}} {n}\n'
        f'vllm:kv_cache_usage_perc{{engine="{n}",model_name="m"}} 0.{n}\n'
        for n in range(8)
    )
    engine = read_engines(parse_exposition(text.encode()))[0]
    assert (engine.numbers["running"], engine.kv_usage) == (28, 0.7)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (r'a{p="C:\\x\\y.exe",q="b c"}', {"p": r"C:\x\y.exe", "q": "b c"}),
        (r'a{p="say \"hi\", {x}"}', {"p": 'say "hi", {x}'}),
        (r'a{p="1\n2"}', {"p": "1\n2"}),
        ("a{}", {}),
        ("a", {}),
        ('a{p="x",}', {"p": "x"}),
    ],
)
def test_labels_are_unescaped(text, labels):
    assert parse_series(text).labels == labels
    sample = parse_exposition(f"{text} 3.59e+010\n".encode()).samples[0]
    assert (sample.series.labels, sample.value) == (labels, 3.59e10)


@pytest.mark.parametrize(
    "line", ["a{p=x} 1", 'a{p="x" 1', "{} 1", "a", "a b c d", "a{} x", "1a 1", 'a{p="x"}']
)
def test_a_line_that_is_no_sample_is_told(line):
    exposition = parse_exposition(f"ok 1\n{line}\n".encode())
    assert exposition.bad_lines == (2,)
    assert len(exposition.samples) == 1
    assert not exposition.complete


def test_a_time_stamp_behind_the_value_is_not_the_value():
    assert parse_exposition(b'a{p="x"} 5 1700000000000\n').samples[0].value == 5


def test_a_cut_last_line_makes_it_incomplete():
    assert not parse_exposition(b"a 12").complete
    assert report_metrics('vllm:num_requests_running{model_name="m"} 12').verdict == "unknown"


def test_a_second_scrape_gives_the_new_values(corpus):
    raw = corpus("metrics", "002").text.encode()
    cache = SeriesCache()
    assert cache.parse(raw) == parse_exposition(raw)
    newer = raw.replace(b"628.0", b"700.0")
    assert cache.parse(newer) == parse_exposition(newer)


def test_what_is_remembered_is_bounded():
    cache = SeriesCache()
    for start in range(0, 200_000, 50_000):
        cache.parse(b"".join(b"a%d 1\n" % n for n in range(start, start + 50_000)))
    assert len(cache._known) <= 65_536


DCGM = 'DCGM_FI_DEV_{f}{{gpu="0",UUID="GPU-1",modelName="H100",Hostname="h"{more}}} {v}\n'


def test_a_sentinel_is_no_measurement():
    text = DCGM.format(f="SM_CLOCK", v=9223372036854775794, more="")
    card = read_cards(parse_exposition(text.encode()))[0]
    assert card.numbers == {"sm_clock_mhz": None}


def test_instances_of_one_card_are_not_cards():
    text = "".join(DCGM.format(f="SM_CLOCK", v=1980, more=f',GPU_I_ID="{n}"') for n in (1, 2))
    values = report_metrics(text).values
    assert (values["gpus"], values["instances"]) == (1, 2)


def engine(name, value, number=0, model="m", more=""):
    return f'vllm:{name}{{engine="{number}",model_name="{model}"{more}}} {value}\n'


RUNNING = engine("num_requests_running", 3) + engine("num_requests_waiting", 0)


def ids(report):
    return {finding.id for finding in report.findings}


@pytest.mark.parametrize("number", NUMBERS)
def test_the_corpus_torn_at_each_tenth_does_not_pass_nor_give_another_number(corpus, number):
    text = corpus("metrics", number).text
    full = report_metrics(text).values
    for tenth in range(10):
        report = report_metrics(text[: len(text) * tenth // 10])
        assert report.verdict != "pass", tenth
        for name, value in report.values.items():
            if isinstance(value, int | float) and name not in ("samples", "gpus", "instances"):
                # Before the second model is seen, the first one's number stands alone.
                whole = full[name]
                known = whole.values() if isinstance(whole, dict) else [whole]
                assert value in known, (tenth, name)


def test_a_dump_cut_at_any_byte_gives_no_other_number(corpus):
    text = corpus("metrics", "008").text
    full = report_metrics(text).values
    for cut in range(len(text)):
        values = report_metrics(text[:cut]).values
        for name in ("running", "ttft_count", "ttft_sum_s"):
            assert values.get(name) in (None, full[name]), cut


@pytest.mark.parametrize("number", NUMBERS)
def test_line_ends_of_windows_change_nothing(corpus, number):
    text = corpus("metrics", number).text
    assert report_metrics(text.replace("\n", "\r\n")) == report_metrics(text)


def test_two_scrapes_in_one_text_are_not_summed(corpus):
    before, after = corpus("metrics", "002").text, corpus("metrics", "003").text
    report = report_metrics(before + after)
    assert "two_scrapes" in ids(report)
    assert (report.verdict, report.complete) == ("unknown", False)
    assert report.values.get("prompt_tokens") is None
    assert report.values.get("generation_tokens") is None
    assert report.values["running"] == 0


def test_the_same_scrape_twice_is_one(corpus):
    text = corpus("metrics", "003").text
    assert report_metrics(text + text).values["prompt_tokens"] == 23345


def test_an_engine_that_is_missing_in_a_series_leaves_no_sum():
    text = engine("num_requests_waiting", 1) + engine("num_requests_waiting", 2, 1)
    report = report_metrics(text + engine("num_requests_running", 5))
    assert report.values["running"] is None
    assert report.values["waiting"] == 3
    assert {"engines_missing", "requests_unknown"} <= ids(report)
    assert report.verdict == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        engine("e2e_request_latency_seconds_bucket", 1, more=',le="1.0"'),
        engine("e2e_request_latency_seconds_bucket", 1, more=',le="+Inf"'),
        engine("e2e_request_latency_seconds_bucket", 1, more=',le="1.0"')
        + engine("e2e_request_latency_seconds_count", 1),
    ],
)
def test_a_histogram_without_its_end_is_torn(text):
    report = report_metrics(RUNNING + text)
    assert "torn_histogram" in ids(report)
    assert report.verdict == "unknown"


def test_a_family_that_is_announced_and_not_there_is_torn():
    assert report_metrics(RUNNING).verdict == "pass"
    assert report_metrics(RUNNING + "# EOF\n").verdict == "pass"
    assert report_metrics(RUNNING + "# TYPE vllm:x gauge\n").verdict == "unknown"


@pytest.mark.parametrize("value", ["+Inf", "-Inf", "NaN", "1_000", "\u0663", "0x10", "1e400"])
def test_what_is_no_finite_number_is_no_value(value):
    report = report_metrics(
        engine("num_requests_running", value) + engine("num_requests_waiting", 0)
    )
    assert report.values["running"] is None
    assert report.verdict == "unknown"


def test_a_known_series_with_an_odd_value_is_not_taken():
    cache = SeriesCache()
    cache.parse(b"a 1\n")
    assert cache.parse(b"a 1_0\n").bad_lines == (1,)


def test_an_exporter_whose_tool_failed_fails(corpus):
    text = corpus("metrics", "011").text
    failed = text.replace("nvidia_smi_command_exit_code 0", "nvidia_smi_command_exit_code 18")
    assert report_metrics(failed).verdict == "fail"
    stale = text.replace("nvidia_smi_last_collect_success 1", "nvidia_smi_last_collect_success 0")
    assert report_metrics(stale).verdict == "unknown"


def test_a_card_of_which_something_is_missing_is_unknown():
    text = "".join(DCGM.format(f=f, v=50, more="") for f in ("GPU_TEMP", "POWER_USAGE", "GPU_UTIL"))
    assert report_metrics(text).verdict == "pass"
    report = report_metrics(text.replace("GPU_UTIL", "SM_CLOCK"))
    assert (report.verdict, ids(report)) == ("unknown", {"card_incomplete"})
    instances = DCGM.format(f="GPU_TEMP", v=50, more=',GPU_I_ID="1"')
    assert report_metrics(instances).verdict == "pass"
