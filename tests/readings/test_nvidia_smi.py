from __future__ import annotations

import re

import pytest

from fleet.readings.nvidia_smi.cells import parse_cell
from fleet.readings.nvidia_smi.dump import parse_dump
from fleet.readings.nvidia_smi.listing import parse_listing
from fleet.readings.nvidia_smi.nvlink import parse_nvlink
from fleet.readings.nvidia_smi.query import parse_query
from fleet.readings.nvidia_smi.table import parse_table
from fleet.readings.nvidia_smi.throttle import is_throttled, read_reasons
from fleet.readings.verdicts.nvidia_smi import report_nvidia_smi

VERDICTS = {
    "001": "pass", "003": "pass", "004": "pass", "006": "pass", "008": "pass", "009": "pass",
    "012": "pass", "014": "fail", "016": "unknown", "019": "fail", "020": "fail", "021": "fail",
    "024": "unknown", "025": "pass", "026": "pass", "028": "unknown", "029": "unknown",
    "030": "pass", "031": "fail",
}  # fmt: skip
SPOKEN = {"verdict", "must_not", "note"}


@pytest.mark.parametrize("number", VERDICTS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("nvidia-smi", number)
    report = report_nvidia_smi(sample.text)
    for key, want in sample.expected.items():
        if key not in SPOKEN:
            assert report.values[key] == want, key
    assert report.verdict == VERDICTS[number]


def test_mig_devices_are_not_gpus(corpus):
    listing = parse_listing(corpus("nvidia-smi", "001").text)
    assert len(listing.gpus) == 1
    assert [m.index for m in listing.gpus[0].migs] == [0, 1, 2, 3]
    table = parse_table(corpus("nvidia-smi", "012").text)
    assert len(table.gpus) == 1
    assert [(m.gpu_instance, m.memory_total_mib) for m in table.migs] == [
        (2, 40448), (3, 20096), (9, 9984), (10, 9984),
    ]  # fmt: skip
    assert table.gpus[0].ecc_uncorrected is None


def test_not_available_is_not_zero(corpus):
    values = report_nvidia_smi(corpus("nvidia-smi", "006").text).values
    assert values["ecc_uncorrected_volatile"] is None
    assert report_nvidia_smi(corpus("nvidia-smi", "009").text).values["serial"] is None


def test_not_active_is_not_active(corpus):
    values = report_nvidia_smi(corpus("nvidia-smi", "008").text).values
    assert values["reasons_active"] == []
    assert values["throttled"] is False


def test_failed_samples_are_not_idle(corpus):
    values = report_nvidia_smi(corpus("nvidia-smi", "016").text).values
    assert values["gpu_count"] is None
    assert "gpu_util" not in values


def test_err_cells_come_before_the_memory_they_leave(corpus):
    report = report_nvidia_smi(corpus("nvidia-smi", "020").text)
    assert [f.id for f in report.findings] == ["err_cells"]


def test_a_renamed_banner_still_gives_the_driver(corpus):
    table = parse_table(corpus("nvidia-smi", "014").text)
    assert (table.driver, table.cuda) == ("610.57.04", "13.3")


def test_lines_before_the_header_are_not_the_header(corpus):
    report = report_nvidia_smi(corpus("nvidia-smi", "026").text)
    assert report.values["compute_cap"] == "8.0"
    assert report.unread == (1, 7)


def test_links_under_mig_are_unknown_not_down(corpus):
    report = report_nvidia_smi(corpus("nvidia-smi", "029").text)
    assert report.values["links_up"] is None
    assert all(f.severity == "info" for f in report.findings)


ROWS = (
    "index, name, memory.used [MiB], clocks.current.sm [MHz]\n"
    "0, NVIDIA H100 80GB HBM3, 1 MiB, 1980 MHz\n"
    "1, NVIDIA H100 80GB HBM3, 1 MiB, 1980 MHz\n"
)


@pytest.mark.parametrize(
    "text",
    [
        ROWS,
        ROWS.replace(", ", ","),
        ROWS.replace(" MiB", "").replace(" MHz", "").replace("used [MiB]", "used [MiB]"),
        "\x1b[0m" + ROWS.replace("\n", "\r\n"),
    ],
)
def test_blanks_units_and_line_ends_do_not_matter(text):
    table = parse_query(text)
    assert table.complete
    assert [c.value for c in table.column("clocks.sm")] == [1980, 1980]
    assert [r.index for r in table.rows] == [0, 1]


def test_the_caller_names_the_columns_of_an_answer_without_header():
    asked = ["index", "gpu_uuid", "clocks_throttle_reasons.active"]
    table = parse_query("0, GPU-1, 0x0000000000000048\n", asked)
    assert table.fields == ("index", "uuid", "clocks_event_reasons.active")
    assert table.column("clocks_throttle_reasons.active")[0].bits == 0x48


def test_a_sentence_among_the_rows_names_its_card():
    sentence = "Unable to determine the device handle for GPU1: 0000:4E:00.0: Unknown Error"
    table = parse_query(ROWS.replace("1, NVIDIA H100 80GB HBM3, 1 MiB, 1980 MHz", sentence))
    assert [r.index for r in table.rows] == [0]
    assert (table.sentences[0].index, table.sentences[0].pci) == (1, "0000:4E:00.0")
    assert table.complete is False


def test_an_index_cell_may_itself_be_an_error():
    error = "[Unknown Error]"
    table = parse_query(ROWS.replace("1, NVIDIA", f"{error}, NVIDIA"))
    assert [r.index for r in table.rows] == [0, None]
    assert table.complete


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5, 8, 10, 12, 20, 35])
def test_a_row_that_is_cut_is_torn(cut):
    table = parse_query(ROWS[: -1 - cut])
    assert [r.index for r in table.rows] == [0]
    assert table.torn == (3,)
    assert report_nvidia_smi(ROWS[: -1 - cut]).verdict == "unknown"


def test_a_process_name_may_hold_commas():
    text = (
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        "GPU-1, 4711, VLLM::Worker_PP1_TP3, with, commas, 72541 MiB\n"
    )
    table = parse_query(text)
    assert table.column("process_name")[0].text == "VLLM::Worker_PP1_TP3, with, commas"
    assert table.column("used_memory")[0].value == 72541


def test_rows_without_a_page_are_not_retired_pages():
    text = "gpu_uuid, retired_pages.address, retired_pages.cause\n[N/A], [N/A], [N/A]\n" * 1
    report = report_nvidia_smi(text + "[N/A], [N/A], [N/A]\n")
    assert report.form == "retired-pages"
    assert report.values["retired_page_count"] == 0


def test_uncorrected_errors_and_pending_remaps_fail():
    head = "index, ecc.errors.uncorrected.volatile.total, remapped_rows.pending\n"
    assert report_nvidia_smi(head + "0, 0, No\n").verdict == "pass"
    assert report_nvidia_smi(head + "0, 2, No\n").verdict == "fail"
    assert report_nvidia_smi(head + "0, 0, Yes\n").verdict == "fail"


@pytest.mark.parametrize(
    ("mask", "reasons", "throttled"),
    [
        ("0x0000000000000001", ("gpu_idle",), False),
        ("0x0000000000000048", ("hw_slowdown", "hw_thermal_slowdown"), True),
        ("0x0000000000000004", ("sw_power_cap",), True),
        ("[N/A]", None, None),
    ],
)
def test_the_mask_tells_the_reasons(mask, reasons, throttled):
    table = parse_query(f"index, clocks_event_reasons.active\n0, {mask}\n")
    assert read_reasons(table, table.rows[0]) == reasons
    if reasons is not None:
        assert is_throttled(reasons) is throttled


@pytest.mark.parametrize(
    ("text", "state", "value"),
    [
        ("81559 MiB", "ok", 81559),
        ("631.95 W", "ok", 631.95),
        ("38 %", "ok", 38),
        ("[N/A]", "not_available", None),
        ("[Not Supported]", "not_supported", None),
        ("[Requested functionality has been deprecated]", "deprecated", None),
        ("[Unknown Error]", "unknown_error", None),
        ("[GPU requires reset]", "reset_required", None),
        ("[GPU is lost]", "lost", None),
        ("[something new]", "unreadable", None),
        ("P0", "ok", "P0"),
        ("٣", "ok", "٣"),
    ],
)
def test_a_cell_is_a_number_a_word_or_a_state(text, state, value):
    cell = parse_cell(text)
    assert (cell.state, cell.value) == (state, value)


def test_a_lost_card_leaves_the_others_listed():
    listing = parse_listing(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n"
        "Unable to determine the device handle for GPU1: 0000:4E:00.0: Unknown Error\n"
        "GPU 2: NVIDIA H100 80GB HBM3 (UUID: GPU-c)\n"
    )
    assert [g.index for g in listing.gpus] == [0, 2]
    assert listing.sentences[0].index == 1


@pytest.mark.parametrize(
    ("text", "kind", "verdict"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.1\n",
         "driver_mismatch", "fail"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
         "driver_not_loaded", "fail"),
        ("sh: 1: nvidia-smi: not found\n", "tool_missing", "unknown"),
        ("No devices were found\n", "no_devices", "fail"),
    ],
)  # fmt: skip
def test_a_sentence_alone_is_told_by_its_kind(text, kind, verdict):
    report = report_nvidia_smi(text)
    assert report.findings[0].id == kind
    assert report.verdict == verdict
    assert report.complete is False


def test_an_inactive_link_among_active_ones_fails():
    text = "GPU 0: A (UUID: GPU-a)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
    text += "GPU 1: A (UUID: GPU-b)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
    assert [g.up for g in parse_nvlink(text).gpus] == [1, 2]
    assert report_nvidia_smi(text).verdict == "fail"


def test_the_full_report_gives_a_tree_for_each_card(own_sample):
    dump = parse_dump(own_sample("nvidia_smi/query_full.txt"))
    assert (dump.driver, dump.cuda, dump.attached) == ("570.172.08", "12.8", 2)
    assert [g.bus for g in dump.gpus] == ["00000000:1A:00.0", "00000000:2A:00.0"]
    first = dump.gpus[0]
    assert first.cell("ECC Errors/Volatile/SRAM Uncorrectable Parity").value == 0
    assert first.values["Clocks Event Reasons/HW Slowdown"] == "Not Active"
    assert first.cell("FB Memory Usage/Total").value == 81559
    assert dump.complete


def test_a_card_that_is_attached_but_not_printed_makes_the_report_incomplete(own_sample):
    text = own_sample("nvidia_smi/query_full.txt").split("GPU 00000000:2A")[0]
    report = report_nvidia_smi(text)
    assert report.complete is False
    assert report.verdict == "unknown"


def test_a_report_whose_last_card_is_cut_is_never_a_pass(own_sample):
    text = own_sample("nvidia_smi/query_full.txt")
    assert report_nvidia_smi(text).verdict == "pass"
    for cut in range(1, len(text.rstrip())):
        assert report_nvidia_smi(text[:cut]).verdict == "unknown", text[:cut][-40:]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (r"(SRAM Uncorrectable Parity +): 0", r"\1: 3", "ecc"),
        (r"(HW Slowdown +): Not Active", r"\1: Active", "throttled"),
        (r"(Used +): N/A", r"\1: [Unknown Error]", "unknown_error"),
        ("    Processes", "    Remapped Rows\n        Pending    : Yes\n    Processes", "remap"),
    ],
)  # fmt: skip
def test_a_report_of_a_sick_card_fails(own_sample, old, new, found):
    report = report_nvidia_smi(re.sub(old, new, own_sample("nvidia_smi/query_full.txt")))
    assert found in {f.id for f in report.findings}
    assert report.verdict == "fail"


def test_the_full_report_gives_the_quantities_of_each_card(own_sample):
    values = report_nvidia_smi(own_sample("nvidia_smi/query_full.txt")).values
    assert values["ecc_uncorrected_volatile"] == 0
    assert values["ecc_uncorrected_aggregate"] == [0, None]
    assert values["memory_used_mib"] == [1, None]
    assert (values["reasons_active"], values["throttled"]) == (["gpu_idle"], False)
    assert values["reset_required"] is None


LINKS = "GPU {}: A (UUID: GPU-{})\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"


@pytest.mark.parametrize("cut", range(1, len(LINKS.format(1, 1))))
def test_links_that_are_cut_are_unknown_and_not_down(cut):
    report = report_nvidia_smi((LINKS.format(0, 0) + LINKS.format(1, 1))[:-cut])
    assert report.verdict == "unknown"
    assert report.values["links_up"] in ([2, None], None)


def test_a_card_with_fewer_lines_is_cut_and_one_with_inactive_links_is_down():
    two = LINKS.format(0, 0) + LINKS.format(1, 1)
    short = two[: two.rindex("\t Link 1")]
    assert report_nvidia_smi(short).verdict == "unknown"
    assert report_nvidia_smi(short + "\t Link 1: <inactive>\n").verdict == "fail"


@pytest.mark.parametrize(
    "text",
    [
        LINKS.format(0, 0) * 2,
        "GPU 0: A (UUID: GPU-a)\nGPU 0: A (UUID: GPU-b)\n",
        ROWS * 2,
        "\n".join(line for row in ROWS.splitlines() for line in (row, row)) + "\n",
    ],
)
def test_the_answers_of_two_nodes_in_one_text_are_not_counted_as_one(text):
    report = report_nvidia_smi(text)
    assert "mixed" in {f.id for f in report.findings}
    assert report.verdict == "unknown"
    assert report.values["gpu_count"] is None


@pytest.mark.parametrize(
    "text",
    [
        "GPU 0: A (UUID: GPU-a)\nGPU 2: A (UUID: GPU-b)\n",
        ROWS.replace("\n1, ", "\n2, "),
    ],
)
def test_a_number_that_is_missing_is_said(text):
    report = report_nvidia_smi(text)
    assert [f.id for f in report.findings] == ["cards_missing"]
    assert report.verdict == "unknown"


def test_a_last_cell_that_may_be_cut_is_not_taken():
    head = "index, driver_version\n0, 590.48.01\n"
    report = report_nvidia_smi(head + "1, 590.48.0")
    assert (report.verdict, report.values["driver"]) == ("unknown", "590.48.01")
    assert report.values["gpu_count"] == 1
    assert report_nvidia_smi(ROWS.rstrip("\n")).values["gpu_count"] == 2


def test_a_table_ends_with_the_border_below_its_processes(corpus):
    text = corpus("nvidia-smi", "012").text
    for cut in range(1, len(text.rstrip())):
        report = report_nvidia_smi(text[:cut])
        assert report.verdict != "pass", text[:cut][-60:]
        assert report.values["gpu_count"] is None
    assert report_nvidia_smi(text.rstrip()).verdict == "pass"
    assert report_nvidia_smi(text + text).values["gpu_count"] is None


def test_the_legend_of_another_tool_does_not_make_it_a_list_of_links(corpus):
    both = corpus("nvidia-smi", "012").text + corpus("topo", "007").text
    assert report_nvidia_smi(both).form == "table"


def test_the_zeros_of_a_card_that_waits_for_its_reset_are_not_taken():
    reset = "[GPU requires reset]"
    text = ROWS.replace(
        "1, NVIDIA H100 80GB HBM3, 1 MiB, 1980 MHz", f"1, NVIDIA H100 80GB HBM3, 0 MiB, {reset}"
    )
    report = report_nvidia_smi(text)
    assert report.values["memory_used_mib"] == [1, None]
    assert report.values["sm_clock_mhz"] == [1980, None]
    assert (report.verdict, report.values["needs_reset"]) == ("fail", [1])


def test_a_card_that_cannot_tell_its_number_is_not_another_one_that_is_missing():
    text = ROWS.replace("\n0, NVIDIA", "\n[Unknown Error], NVIDIA")
    assert [f.id for f in report_nvidia_smi(text).findings] == ["unknown_error"]


def test_a_sentence_of_a_lost_card_names_its_bus():
    text = "GPU 00000000:1A:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    assert report_nvidia_smi(text).values["lost_gpu"] == {"index": None, "pci": "00000000:1A:00.0"}
