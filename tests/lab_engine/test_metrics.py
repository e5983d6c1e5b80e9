"""/metrics: the families of the version, counts that move with requests, the client's spelling."""

from fleet.lab.engine.metrics import Histogram, spell
from tests.lab_engine.units import Container, Units


def test_counters_follow_a_request(head: Container) -> None:
    names = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
    before = [head.metric(name) for name in names]
    requests = head.metric("vllm:time_to_first_token_seconds_count")
    usage = head.chat("Describe rack 31 please.").json["usage"]
    after = [head.metric(name) for name in names]
    moved = [new - old for new, old in zip(after, before, strict=True)]
    assert moved == [usage["prompt_tokens"], usage["completion_tokens"]]
    assert head.metric("vllm:time_to_first_token_seconds_count") == requests + 1
    assert head.metric("vllm:e2e_request_latency_seconds_sum") > 0


def test_a_repeated_opening_hits_the_prefix_cache(head: Container) -> None:
    opening = "Consider the following rules of the watch. " * 30
    head.chat(opening + "First?")
    hits = head.metric("vllm:prefix_cache_hits_total")
    head.chat(opening + "Second?")
    assert head.metric("vllm:prefix_cache_hits_total") >= hits + 128


def test_the_families_are_those_of_the_version(head: Container) -> None:
    page = head.ask("/metrics").body.decode()
    for name in (
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:inter_token_latency_seconds", "vllm:cache_config_info", "http_requests_total",
        "process_start_time_seconds", "vllm:request_success_total",
    ):  # fmt: skip
        assert f"# TYPE {name} " in page
    assert "vllm:admission_rejections" not in page  # 0.32
    assert "vllm:request_num_preemptions" not in page  # 0.30
    assert "spec_decode" not in page
    assert 'num_gpu_blocks="8339"' in page
    assert 'kv_cache_size_tokens="533696"' in page
    assert 'le="100000.0",model_name=' in page
    assert 'le="200000.0"' not in page


def test_every_sample_has_a_type(head: Container) -> None:
    page = head.ask("/metrics").body.decode()
    typed: dict[str, str] = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            typed[name] = kind
        elif not line.startswith("#"):
            name = line.split("{")[0].split(" ")[0]
            stem = name
            for ending in ("_bucket", "_count", "_sum"):
                stem = stem.removesuffix(ending)
            assert name in typed or typed.get(stem) == "histogram", line


def test_numbers_are_spelled_as_the_client_spells_them() -> None:
    cases = {0: "0.0", 21: "21.0", 0.7757968902587891: "0.7757968902587891"}
    cases |= {2177138688: "2.177138688e+09", 1000000: "1e+06", 131072: "131072.0"}
    for value, text in cases.items():
        assert spell(value) == text


def test_a_histogram_puts_a_border_value_below_its_border() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 9.0):
        histogram.observe(value)
    assert histogram.counts == [1, 1, 1]


def test_speculation_has_its_own_counters(units: Units) -> None:
    flags = "--speculative-config.method mtp --speculative-config.num_speculative_tokens 3"
    container = units.serving_small(*flags.split())
    container.chat("go on", max_tokens=500, ignore_eos=True)
    drafts = container.metric("vllm:spec_decode_num_drafts_total")
    drafted = container.metric("vllm:spec_decode_num_draft_tokens_total")
    accepted = container.metric("vllm:spec_decode_num_accepted_tokens_total")
    assert drafted == 3 * drafts
    assert 2.3 < 1 + accepted / drafts < 2.6
    page = container.ask("/metrics").body.decode()
    assert 'accepted_tokens_per_pos_total{engine="0",model_name="glm-5.2-fp8",position="2"}' in page
