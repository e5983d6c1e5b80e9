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
    assert report.verdict == ("unknown" if number == "007" else "pass")


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
