"""Result files as JSON of nccl-tests, perftest and guidellm: read like the tables, and never passed when torn."""

import io
import json

import pytest

from fleet.readings.kinds import read_as, recognise
from fleet.readings.report import Report


def read(kind: str, text: str) -> Report:
    return read_as(kind, io.BytesIO(text.encode()))


def nccl_row(size: int, wrong: float | None = 0.0, busbw: float = 300.0) -> dict:
    cells = {"time": size / 1e5, "alg_bw": busbw / 1.875, "bus_bw": busbw, "nwrong": wrong}
    return {
        "size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1",
        "out_of_place": cells, "in_place": cells, "actual_iterations": 20, "experiment_name": "AllReduce",
    }  # fmt: skip


def nccl_file(**changes) -> dict:
    """Two hosts of eight ranks, one process a rank, three sizes."""
    devices = [
        {
            "rank": rank, "group": 0, "pid": 100 + rank, "hostname": f"h100-02{rank // 8}",
            "device": rank % 8, "device_hex": "0000:19:00", "device_info": "NVIDIA H100 80GB HBM3",
        }
        for rank in range(16)
    ]  # fmt: skip
    config = {
        "nthreads": 1, "ngpus": 1, "minimum_bytes": 1 << 20, "maximum_bytes": 1 << 22, "step_factor": 2,
        "warmup_iters": 1, "iterations": 20, "aggregated_iterations": 1, "validation": 1, "graph": 0,
        "devices": devices,
    }  # fmt: skip
    return {
        "version": 3, "start_time": "2026-11-30 10:00:00", "args": ["/opt/all_reduce_perf", "-J", "x"],
        "env": ["HOME=/root"], "nccl_version": 22703, "config": config,
        "results": [nccl_row(1 << n) for n in (20, 21, 22)],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 300.0, "okay": "unchecked"}, "errors": [""],
        "end_time": "2026-11-30 10:01:00", **changes,
    }  # fmt: skip


PERFTEST = """{
"test_info": {
"test": "RDMA_Write_BW_Test",
"Dual_port": "OFF",
"Device": "mlx5_0",
"Number_of_qps": 1,
"Transport_type": "IB",
"Connection_type": "RC",
"Using_SRQ": "OFF",
"PCIe_relax_order": "ON",
"ibv_wr_API": "ON",
"TX_depth": 128,
"CQ_Moderation": 1,
"Mtu": 4096,
"Link_type": "IB",
"Max_inline_data": 0,
"rdma_cm_QPs": "OFF",
"Data_ex_method": "Ethernet"
},
"results": {
"MsgSize": 65536,
"n_iterations": 5000,
"BW_peak": 394.98,
"BW_average": 394.21,
"MsgRate": 0.751895
}
}
"""


def spread(mean: float) -> dict:
    return {"successful": {
        "mean": mean, "median": mean, "std_dev": 1.0, "min": mean, "max": mean, "count": 400,
        "total_sum": mean * 400, "percentiles": {"p50": mean, "p95": 2 * mean, "p99": 3 * mean},
    }}  # fmt: skip


def guide(errored: int = 0, **metrics) -> dict:
    return {
        "type_": "generative_benchmark", "duration": 60.0, "config": {"strategy": {"type_": "concurrent"}},
        "metrics": {
            "request_totals": {"successful": 400, "errored": errored, "incomplete": 8, "total": 408 + errored},
            "requests_per_second": spread(6.5), "output_tokens_per_second": spread(1700.0),
            "tokens_per_second": spread(5100.0), "time_to_first_token_ms": spread(120.0),
            "inter_token_latency_ms": spread(9.0), "request_latency": spread(4.5),
            "prompt_token_count": spread(512.0), "output_token_count": spread(256.0), **metrics,
        },
    }  # fmt: skip


def guide_file(*benchmarks: dict) -> dict:
    return {"metadata": {"version": 1, "guidellm_version": "0.5.0"}, "benchmarks": list(benchmarks)}


def files() -> dict[str, tuple[str, str]]:
    return {
        "nccl-tests": ("nccl-tests", json.dumps(nccl_file(), separators=(",", ":"))),
        "nccl-tests of jq": ("nccl-tests", json.dumps(nccl_file(), indent=2) + "\n"),
        "perftest": ("ib-write-bw", PERFTEST),
        "guidellm": ("bench", json.dumps(guide_file(guide()))),
        "guidellm of jq": ("bench", json.dumps(guide_file(guide()), indent=2) + "\n"),
    }


@pytest.mark.parametrize("name", files())
def test_a_whole_file_is_recognised_and_passes(name):
    kind, text = files()[name]
    assert recognise(text) == kind
    found = read("auto", text)
    assert (found.kind, found.complete, found.verdict) == (kind, True, "pass"), found.findings
    assert found == read(kind, text)
    assert found == read(kind, text.replace("\n", "\r\n"))


@pytest.mark.parametrize("name", files())
def test_a_torn_file_is_never_passed_and_its_numbers_are_those_of_the_whole(name):
    kind, text = files()[name]
    whole = set(map(str, numbers(read(kind, text).values)))
    text = text.rstrip()
    for at in range(1, len(text), max(1, len(text) // 97)):
        found = read(kind, text[:at])
        assert found.verdict == "unknown", (at, found)
        assert not found.complete
        assert set(map(str, numbers(found.values))) - {"0", "1"} <= whole, at


def numbers(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in ("line", "unread_count"):
                yield from numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("name", ["nccl-tests", "nccl-tests of jq", "perftest"])
def test_other_text_beside_the_file_keeps_it_from_passing(name):
    kind, text = files()[name]
    assert read(kind, text.rstrip() + "\nconnection to host closed by {}\n").verdict != "pass"


# -- nccl-tests


def test_the_values_of_nccl_tests_are_those_of_its_table():
    values = read("nccl-tests", json.dumps(nccl_file())).values
    assert values["collective"] == "all_reduce"
    assert (values["ranks"], values["hosts"]) == (16, ["h100-020", "h100-021"])
    assert values["busbw_at_max"] == {"oop": 300.0, "ip": 300.0}
    assert (values["avg_busbw"], values["oob"], values["validated"]) == (300.0, 0, True)


def test_processes_of_several_cards_name_only_their_first():
    text = nccl_file()
    text["config"]["ngpus"] = 8
    text["config"]["devices"] = [text["config"]["devices"][n] for n in (0, 8)]
    assert read("nccl-tests", json.dumps(text)).values["ranks"] == 16


@pytest.mark.parametrize(
    ("changes", "verdict", "finding"),
    [
        ({"out_of_bounds": {"count": 3, "okay": "false"}}, "fail", "wrong_values"),
        ({"results": [nccl_row(1 << n, wrong=2.0) for n in (20, 21, 22)]}, "fail", "wrong_values"),
        ({"errors": ["unhandled cuda error"]}, "fail", "crash"),
        (
            {"average_bus_bandwidth": {"bandwidth": 300.0, "okay": "false"}},
            "fail",
            "below_asked_bandwidth",
        ),
        (
            {"results": [nccl_row(1 << n, wrong=None) for n in (20, 21, 22)]},
            "unknown",
            "not_validated",
        ),
        ({"results": [nccl_row(1 << 20)]}, "unknown", "rows_left_out"),
        ({"end_time": None}, "unknown", "not_concluded"),
        ({"out_of_bounds": None}, "unknown", "no_summary"),
        ({"config": None}, "unknown", "no_plan"),
    ],
)
def test_what_speaks_against_a_result_of_nccl_tests(changes, verdict, finding):
    found = read("nccl-tests", json.dumps(nccl_file(**changes)))
    assert found.verdict == verdict
    assert finding in {f.id for f in found.findings}


def test_two_results_in_one_text_have_their_own_values():
    text = json.dumps(nccl_file())
    found = read("nccl-tests", f"{text}\n{text}\n")
    assert len(found.values["runs"]) == 2
    assert "avg_busbw" not in found.values


# -- perftest


def test_the_unit_of_perftest_is_told_by_size_and_rate():
    values = read("ib-write-bw", PERFTEST).values
    assert (values["bw_avg"], values["unit"], values["bw_avg_gbps"]) == (394.21, "Gb/sec", 394.21)
    assert (values["device"], values["link"], values["mtu"]) == ("mlx5_0", "IB", 4096)
    mib = PERFTEST.replace("394.21", "46993.44").replace("394.98", "47000.00")
    assert read("ib-write-bw", mib).values["unit"] == "MB/sec"


def test_a_bandwidth_that_fits_no_unit_is_unknown():
    found = read("ib-write-bw", PERFTEST.replace("394.21", "1000.00"))
    assert found.verdict == "unknown"
    assert "unit" in found.summary
    assert found.values["bw_avg_gbps"] is None


def test_the_form_of_older_versions_is_read():
    """Words without quotes, a comma before the closing brace."""
    words = PERFTEST.replace('"', "").replace("0.751895\n", "0.751895,\n")
    assert recognise(words) == "ib-write-bw"
    assert read("ib-write-bw", words).values["bw_avg_gbps"] == 394.21


def test_nothing_moved_fails():
    still = PERFTEST.replace("394.21", "0.00").replace("0.751895", "0.000000")
    assert read("ib-write-bw", still).verdict == "fail"


# -- guidellm


def test_the_figures_of_guidellm_are_those_of_successful_requests():
    values = read("bench", json.dumps(guide_file(guide()))).values
    assert (values["tool"], values["strategy"]) == ("guidellm", "concurrent")
    assert (values["successful"], values["failed"], values["unfinished"]) == (400, 0, 8)
    assert (values["req_s"], values["out_tok_s"], values["total_tok_s"]) == (6.5, 1700.0, 5100.0)
    assert (values["mean_ttft_ms"], values["p99_ttft_ms"], values["p95_itl_ms"]) == (
        120.0,
        360.0,
        18.0,
    )
    assert values["mean_latency_s"] == 4.5
    assert values["output_tokens"] == 256.0 * 400


def test_errors_missing_counts_and_no_benchmark_keep_guidellm_from_passing():
    for top in (
        guide_file(guide(errored=3)),
        guide_file(guide(request_totals=None)),
        guide_file(guide(requests_per_second=None)),
        guide_file(),
        guide_file(guide(), {}),
    ):
        assert read("bench", json.dumps(top)).verdict == "unknown", top


def test_no_success_fails():
    totals = {"successful": 0, "errored": 50, "incomplete": 0, "total": 50}
    assert read("bench", json.dumps(guide_file(guide(request_totals=totals)))).verdict == "fail"


def test_each_strategy_of_a_sweep_is_a_run_of_its_own():
    found = read("bench", json.dumps(guide_file(guide(), guide(requests_per_second=spread(9.0)))))
    assert [run["req_s"] for run in found.values["runs"]] == [6.5, 9.0]
    assert found.verdict == "pass"
