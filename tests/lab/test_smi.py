"""nvidia-smi as a node prints it: lists, selected columns, error sentences, exit codes."""

import json
import subprocess

from fleet.lab.node import Lab
from fleet.lab.procs import start_ticks

QUERY = "nvidia-smi --query-gpu={} --format={}"


def put(paper: Lab, name: str, **args: object) -> None:
    from datetime import UTC, datetime

    from fleet.lab import faults

    site = faults.open_site(
        paper.directory, paper.host("h100-001"), datetime(2026, 11, 29, tzinfo=UTC), {}
    )
    fault = faults.find_fault(name)
    faults.put_on(site, fault, {**fault.arguments, **args}, "f-0001")


def test_it_lists_eight_cards_by_uuid(run, paper: Lab) -> None:
    done = run("nvidia-smi -L")

    uuids = [gpu["uuid"] for gpu in paper.state("h100-001")["gpu"]]
    expected = [f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: {u})" for n, u in enumerate(uuids)]
    assert done.stdout.splitlines() == expected
    assert done.returncode == 0


def test_it_selects_columns_with_units(run) -> None:
    done = run(QUERY.format("index,memory.total,clocks.sm,temperature.gpu", "csv"))

    header, first, *_rest = done.stdout.splitlines()
    assert header == "index, memory.total [MiB], clocks.sm [MHz], temperature.gpu"
    assert first.startswith("0, 81559 MiB, 345 MHz, 3")
    assert len(done.stdout.splitlines()) == 9


def test_it_leaves_out_header_and_units_when_asked(run) -> None:
    done = run(QUERY.format("index,power.limit", "csv,noheader,nounits") + " -i 5")

    assert done.stdout == "5, 700.00\n"


def test_blanks_around_fields_do_not_matter(run) -> None:
    done = run(QUERY.format("'index, name'", "csv,noheader") + " --id=0")

    assert done.stdout == "0, NVIDIA H100 80GB HBM3\n"


def test_an_unknown_field_is_refused_on_stdout_with_code_2(run) -> None:
    done = run(QUERY.format("index,ecc.errors.uncorrected.volatile", "csv"))

    sentence = 'Field "ecc.errors.uncorrected.volatile" is not a valid field to query.\n\n'
    assert done.stdout == sentence
    assert done.returncode == 2


def test_old_and_new_names_of_throttle_reasons_agree(run) -> None:
    done = run(QUERY.format(
        "clocks_event_reasons.active,clocks_throttle_reasons.active,clocks_event_reasons.gpu_idle",
        "csv,noheader",
    ) + " -i 0")  # fmt: skip

    assert done.stdout == "0x0000000000000001, 0x0000000000000001, Active\n"


def test_a_lost_card_is_a_sentence_in_the_middle_of_the_rows(run, paper: Lab) -> None:
    put(paper, "gpu.xid79", gpu=3)

    done = run(QUERY.format("index,memory.used", "csv,noheader"))

    lines = done.stdout.splitlines()
    assert done.returncode == 15
    assert lines[3] == (
        "Unable to determine the device handle for GPU3: 0000:4E:00.0: Unknown Error"
    )
    assert [line.split(",")[0] for line in lines if "," in line] == list("0124567")
    assert run("nvidia-smi -L").returncode == 15
    topology = run("nvidia-smi topo -m")
    assert (topology.returncode, topology.stdout) == (15, lines[3] + "\n")


def test_a_missing_card_renumbers_the_others(run, paper: Lab) -> None:
    put(paper, "gpu.missing", gpu=3)
    fifth = paper.state("h100-001")["gpu"][4]

    done = run(QUERY.format("index,uuid,pci.bus_id,count", "csv,noheader"))

    assert done.stdout.splitlines()[3] == f"3, {fifth['uuid']}, 00000000:9A:00.0, 7"
    assert len(done.stdout.splitlines()) == 7
    assert "GPU7" not in run("nvidia-smi topo -m").stdout


def test_a_card_that_is_not_there_is_no_device(run) -> None:
    done = run(QUERY.format("index", "csv,noheader") + " -i 9")

    assert (done.stdout, done.returncode) == ("No devices were found\n", 6)


def test_a_form_it_does_not_know_fails_and_is_recorded(run, paper: Lab) -> None:
    done = run("nvidia-smi dmon -c 1")

    assert done.returncode == 2
    assert done.stdout.startswith("Invalid combination of input arguments.")
    assert paper.unknown() == ["h100-001 nvidia-smi dmon -c 1"]


def test_only_living_ranks_are_compute_apps(run, paper: Lab) -> None:
    container = paper.host("h100-001").directory / "docker" / "containers" / "c1"
    container.mkdir()
    with subprocess.Popen(["sleep", "60"]) as process:
        ticks = start_ticks(process.pid)
        worker = {"rank": 9, "local_rank": 1, "pid": process.pid, "argv0": "VLLM::Worker_PP1_TP1"}
        rows = [
            {**worker, "start_ticks": ticks},
            {**worker, "local_rank": 2, "start_ticks": (ticks or 0) + 1},
            {**worker, "local_rank": None, "start_ticks": ticks},
        ]
        (container / "workers.json").write_text(json.dumps(rows))

        done = run(
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader"
        )

        process.kill()
    uuid = paper.state("h100-001")["gpu"][1]["uuid"]
    assert done.stdout == f"{uuid}, {process.pid}, VLLM::Worker_PP1_TP1\n"
