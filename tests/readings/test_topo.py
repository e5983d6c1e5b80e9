from __future__ import annotations

import pytest

from fleet.readings.topo import parse_topo
from fleet.readings.verdicts.topo import report_topo

HEADER = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
ROWS = (
    "GPU0\t X \tNV18\tPIX\t0-47\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tNODE\t0-47\t0\t\tN/A\n"
    "NIC0\tPIX\tNODE\t X \t\t\t\t\n"
)
LEGEND = "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
WHOLE = HEADER + ROWS + LEGEND

# What the corpus calls differently, or says in a shorthand that the loop below spells out.
SHORTHAND = {"gpu_gpu", "numa_affinity", "gpu_numa_id", "gpu_nic", "nearest_nic", "must_not"}
SPOKEN = {"verdict", "warnings", "error", "complete", "xid_count", "nvlinks_per_pair"}
NUMBERS = [
    "002", "003", "004", "007", "008", "009", "012", "015", "017", "018", "019", "021", "022",
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("topo", number)
    report = report_topo(sample.text)
    for key, want in sample.expected.items():
        if key in SHORTHAND | SPOKEN:
            continue
        got = report.values[key]
        if isinstance(want, dict):
            got = {k: got[k] for k in want}
        assert got == want, key
    assert report.complete is sample.expected.get("complete", number != "021")
    assert report.verdict == ("pass" if report.complete else "unknown")


@pytest.mark.parametrize("number", NUMBERS)
def test_every_link_of_the_corpus_is_right(corpus, number):
    sample = corpus("topo", number)
    links = report_topo(sample.text).values.get("gpu_gpu", {})
    for pair, word in sample.expected.get("gpu_gpu", {}).items():
        if pair in ("all_offdiag", "all present"):
            assert set(links.values()) == {word}
            assert links
        else:
            assert links[pair] == word
    if not sample.expected.get("gpu_gpu", True):
        assert links == {}


def test_the_nearest_nic_is_not_the_one_of_the_same_number(corpus):
    sample = corpus("topo", "004")
    values = report_topo(sample.text).values
    assert values["nearest_nic"] == sample.expected["nearest_nic"]
    assert values["nvswitch_uniform"] is True
    assert [values["numa_affinity"][f"GPU{i}"] for i in range(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert set(values["gpu_numa_id"].values()) == {None}


def test_rows_that_are_missing_make_it_incomplete_but_keep_what_is_there(corpus):
    sample = corpus("topo", "017")
    report = report_topo(sample.text)
    nearest = {g: n for g, n in report.values["nearest_nic"].items() if n}
    assert nearest == sample.expected["nearest_nic"]
    # NV8 is this card's whole width; only a golden node can call it degraded.
    assert [f.id for f in report.findings] == ["incomplete"]


def test_a_nic_on_the_other_socket_is_a_warning(corpus):
    report = report_topo(corpus("topo", "008").text)
    assert [(f.id, f.text) for f in report.findings if f.severity != "info"] == [
        ("nic_far", "no GPU is closer than SYS to the only NIC")
    ]
    assert set(report.values["gpu_nic"].values()) == {"SYS"}
    assert report.values["numa_affinity"] == dict.fromkeys(
        ["GPU0", "GPU1", "GPU2", "GPU3", "all"], 1
    )


def test_a_usage_error_is_not_a_node_without_gpus(corpus):
    report = report_topo(corpus("topo", "021").text)
    assert report.values["gpu_count"] is None
    assert report.values["error"] == "usage error"
    assert report.complete is False


def test_it_says_that_the_gpu_numa_column_is_absent(corpus):
    assert report_topo(corpus("topo", "012").text).values["gpu_numa_id"] == "column absent"
    assert parse_topo(corpus("topo", "018").text).rows[0].gpu_numa_id is None


def test_a_single_card_has_no_pair_and_no_claim_about_nvlink(corpus):
    values = report_topo(corpus("topo", "002").text).values
    assert values["has_nvlink"] is None
    assert values["nvswitch_uniform"] is None


def test_lines_of_other_tools_do_not_matter(corpus):
    report = report_topo(corpus("topo", "022").text)
    assert [f.id for f in report.findings] == ["gpu_numa_none"]
    assert report.values["xid_count"] == 0
    assert report.unread == (1, 2, 3, 19, 20)
    assert report.values["nvswitch_uniform"] is False
    assert set(report.values["numa_affinity"].values()) == {0}


def test_two_bridged_cards_count_their_links(corpus):
    assert report_topo(corpus("topo", "007").text).values["nvlinks_per_pair"] == 2


def test_an_empty_cpu_cell_does_not_shift_the_numa_cell():
    topo = parse_topo(WHOLE.replace("0-47\t0", "\t0"))
    assert topo.complete
    assert topo.rows[0].cpu_affinity is None
    assert topo.rows[0].numa_affinity == 0


def test_a_gpu_numa_id_that_is_a_number_is_kept():
    topo = parse_topo(WHOLE.replace("N/A", "1"))
    assert topo.complete
    assert [topo.row(g).gpu_numa_id for g in topo.gpus] == [1, 1]


def test_a_header_without_its_first_tab_does_not_shift_columns():
    topo = parse_topo("\n".join(line.lstrip("\t") for line in WHOLE.split("\n")))
    assert topo.complete
    assert topo.nearest_nics("GPU0") == ("PIX", ("NIC0",))


def test_old_outputs_name_the_device_in_the_column():
    old = WHOLE.split("\nLegend")[0].replace("NIC0", "mlx5_0")
    topo = parse_topo(old)
    assert topo.complete
    assert topo.nic_name(topo.nics[0]) == "mlx5_0"


PLAIN = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV18\t0-47\t0\t\tN/A\n"
    "GPU1\tNV18\t X \t0-47\t0\t\tN/A"
)


@pytest.mark.parametrize("blanks", [False, True])
@pytest.mark.parametrize("cut", range(1, len(PLAIN)))
def test_a_torn_matrix_is_never_a_pass(cut, blanks):
    torn = PLAIN[:cut]
    report = report_topo(torn.replace("\t", "    ") if blanks else torn)
    assert report.complete is False
    assert report.verdict == "unknown"


def test_a_matrix_with_blanks_for_tabs_is_whole():
    assert parse_topo(PLAIN.replace("\t", "    ")).complete


def test_a_missing_nic_legend_is_incomplete():
    assert parse_topo(HEADER + ROWS).problems == ("no name in the NIC legend for NIC0",)


def test_a_matrix_that_contradicts_itself_is_incomplete():
    topo = parse_topo(WHOLE.replace("GPU1\tNV18", "GPU1\tNV17"))
    assert topo.problems == ("GPU1 to GPU0: NV17 one way, NV18 the other",)


def test_a_second_matrix_is_said():
    assert parse_topo(WHOLE + WHOLE).complete is False


def test_a_lost_card_in_place_of_the_matrix_fails():
    report = report_topo(
        "Unable to determine the device handle for GPU3: 0000:4E:00.0: Unknown Error\n"
    )
    assert report.verdict == "fail"
    assert report.values["gpu_count"] is None


@pytest.mark.parametrize("name", ["mlx5_1", "mlx5_", "roceo123"])
def test_a_name_that_no_line_feed_ends_may_be_cut_and_is_not_taken(name):
    report = report_topo(WHOLE.rstrip("\n").replace("mlx5_0", name))
    assert report.verdict == "unknown"
    assert report.values["nic_names"] == ["NIC0"]
    assert [f.id for f in report.findings if f.severity == "warn"] == ["open_end", "incomplete"]


def test_a_numa_number_that_no_line_feed_ends_is_not_taken():
    text = PLAIN.replace("\tGPU NUMA ID", "").replace("\t\tN/A", "")
    assert report_topo(text + "\n").verdict == "pass"
    report = report_topo(text)
    assert report.values["numa_affinity"] == {"GPU0": 0}
    assert report.verdict == "unknown"


def test_groups_of_cards_are_named_by_their_neighbours():
    four = ["\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity"]
    for own, node in enumerate([0, 0, 1, 0]):
        links = "\t".join("X" if own == other else "SYS" for other in range(4))
        four.append(f"GPU{own}\t{links}\t{node}-7\t{node}")
    values = report_topo("\n".join(four) + "\n").values
    assert values["numa_affinity"] == {"GPU0": 0, "GPU1": 0, "GPU2": 1, "GPU3": 0, "GPU0-1": 0}
    assert values["gpu_gpu"]["all_offdiag"] == "SYS"


def test_an_xid_in_the_same_capture_is_no_pass():
    line = "Aug 25 19:25:12 node-a kernel: NVRM: Xid (PCI:0000:9b:00): {}, pid=1, something\n"
    lost = report_topo(WHOLE + line.format(79))
    assert (lost.verdict, lost.values["xid_count"]) == ("fail", 1)
    assert report_topo(WHOLE + line.format(31)).verdict == "unknown"
    assert report_topo(WHOLE).values["xid_count"] is None
    switch = "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n"
    assert report_topo(WHOLE + switch).values["xid_count"] == 0
