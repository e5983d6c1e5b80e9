from dataclasses import dataclass

import pytest

from fleet.rules.gather import GPU_FIELDS, commands_of, plan_probe
from fleet.rules.message import said
from fleet.rules.probe_cards import read_cards
from fleet.rules.probe_reading import read_probe
from fleet.rules.probe_verdict import judge_probe, judge_silence, state_after
from tests.probe_texts import depth_texts

COMMANDS = commands_of("/models")
UNITS = {"memory.total": "MiB", "memory.used": "MiB", "clocks.sm": "MHz", "power.draw": "W"}
TOPO_LEGEND = "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n"


@dataclass
class Section:
    body: bytes
    rc: int = 0
    truncated: bool = False
    error: str = ""


def uuid_of(index: int) -> str:
    return f"GPU-41d6a8b0-9a53-5f0c-8c0e-5d2b6f7e19b{index}"


def listing(cards: list[int]) -> str:
    return "".join(f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: {uuid_of(n)})\n" for n in cards)


def query(cards: list[int], **changed: str) -> str:
    """A CSV answer; `changed` replaces the cells of GPU 3, dots written as two underscores."""
    head = ", ".join(f"{name} [{UNITS[name]}]" if name in UNITS else name for name in GPU_FIELDS)
    return "\n".join([head, *(_row(number, changed) for number in cards)]) + "\n"


def _row(number: int, changed: dict[str, str]) -> str:
    cells = {
        "index": str(number),
        "uuid": uuid_of(number),
        "name": "NVIDIA H100 80GB HBM3",
        "serial": f"165292304187{number}",
        "pci.bus_id": f"00000000:{number}E:00.0",
        "driver_version": "570.172.08",
        "memory.total": "81559 MiB",
        "memory.used": "1 MiB",
        "clocks.sm": "345 MHz",
        "temperature.gpu": "31",
        "power.draw": "71.20 W",
        "pstate": "P0",
        "utilization.gpu": "0 %",
        "ecc.errors.uncorrected.volatile.total": "0",
        "clocks_event_reasons.active": "0x0000000000000001",
    }
    if number == 3:
        cells |= {name.replace("__", "."): value for name, value in changed.items()}
    return ", ".join(cells[name] for name in GPU_FIELDS)


def topo(cards: int) -> str:
    names = [f"GPU{n}" for n in range(cards)] + [f"NIC{n}" for n in range(cards)]
    rows = ["\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for n in range(cards):
        links = ["X" if m == n else "NV18" for m in range(cards)]
        links += ["PIX" if m == n else "SYS" for m in range(cards)]
        numa = n * 2 // cards
        rows.append(
            "\t".join([f"GPU{n}", *links, "0-47" if numa == 0 else "48-95", str(numa), "N/A"])
        )
    for n in range(cards):
        links = ["PIX" if m == n else "SYS" for m in range(cards)]
        links += ["X" if m == n else "SYS" for m in range(cards)]
        rows.append("\t".join([f"NIC{n}", *links]))
    return "\n".join(rows) + TOPO_LEGEND + "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(cards))


def sections(cards: int = 8, **changed: Section) -> dict[str, Section]:
    """The sections of a good node; keyword names have underscores for hyphens."""
    numbers = list(range(cards))
    texts = {
        "gpu-list": listing(numbers),
        "gpu-query": query(numbers),
        "topo": topo(cards),
        "shm": "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "tmpfs 1056440320 640 1056439680 1% /dev/shm\n",
        "model-disk": "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "/dev/md0 15032385536 786432000 14245953536 6% /models\n",
        "memory": "   total used free shared buff/cache available\n"
        "Mem: 2163589873664 134140772352 1900000000000 0 0 2029449101312\nSwap: 0 0 0\n",
        "kernel": "6.8.0-79-generic\n",
        "cpus": "96\n",
        "boot": "2026-11-20 02:11:04\n",
        "clock": "Reference ID    : 0A280001 (10.40.0.1)\nStratum         : 3\n"
        "System time     : 0.000080211 seconds slow of NTP time\nLeap status     : Normal\n",
        "docker": '{"Client":{"Version":"27.5.1"},"Server":{"Version":"27.5.1"}}\n',
        "containers": "",
        "models": '/models/glm/abc/.ready:{"manifest_sha256": "ff", "files": 142, "bytes": 9}\n',
        **depth_texts(),
    }
    good = {name: Section(text.encode()) for name, text in texts.items()}
    return good | {name.replace("_", "-"): section for name, section in changed.items()}


def judge(seen: dict[str, Section], expected: int = 8):
    reading = read_probe(seen, COMMANDS, "boot-1")
    cards = read_cards(reading, expected)
    return reading, cards, judge_probe(reading, cards, COMMANDS, expected)


def facts(seen: dict[str, Section]) -> dict[str, object]:
    return {fact.key: fact.value for fact in judge(seen)[0].facts}


def words(verdict) -> str:
    return " | ".join(
        said(part) for f in verdict.findings for part in (f.expected, f.found, f.next)
    )


def test_a_probe_asks_at_least_eight_read_only_commands():
    argv0 = [ask.argv[0] for ask in plan_probe("/models")]
    assert len(argv0) >= 8
    assert set(argv0) <= {
        "nvidia-smi", "df", "free", "uname", "nproc", "uptime", "chronyc", "docker", "grep", "sh"
    }  # fmt: skip


def test_a_good_node_passes():
    _, cards, verdict = judge(sections())
    assert (verdict.verdict, verdict.findings) == ("pass", ())
    assert [card.health for card in cards] == ["ok"] * 8
    assert "8 GPUs" in said(verdict.summary)


def test_facts_carry_plain_values():
    found = facts(sections())
    assert found["gpu_count"] == 8
    assert found["driver_version"] == "570.172.08"
    assert found["shm_total"] == 1056440320 * 1024
    assert found["clock_offset"] == pytest.approx(-0.000080211)
    assert found["docker_version"] == "27.5.1"
    assert found["containers"] == []
    assert found["models"][0]["files"] == 142
    assert found["boot_id"] == "boot-1"
    assert len(found["topo"]["rows"]) == 16


def test_cards_carry_numa_nic_and_readings():
    _, cards, _ = judge(sections())
    assert (cards[5].fields["numa"], cards[5].fields["nic"]) == (1, "mlx5_5")
    assert cards[5].fields["memory_total_mib"] == 81559


def test_seven_of_eight_cards_fail_and_the_eighth_is_shown_as_failed():
    _, cards, verdict = judge(sections(7))
    assert verdict.verdict == "fail"
    assert "8 GPUs expected" in words(verdict)
    assert "7 listed" in words(verdict)
    assert (cards[7].health, cards[7].fields) == ("failed", {})


def test_a_lost_card_fails_with_the_tools_own_sentence():
    lost = "Unable to determine the device handle for GPU3: 0000:4E:00.0: Unknown Error\n"
    others = [n for n in range(8) if n != 3]
    seen = sections(
        gpu_list=Section((listing([0, 1, 2]) + lost + listing([4, 5, 6, 7])).encode(), rc=15),
        gpu_query=Section((query(others[:3]) + lost).encode(), rc=15),
        topo=Section(lost.encode(), rc=15),
    )
    _, cards, verdict = judge(seen)
    assert verdict.verdict == "fail"
    assert cards[3].health == "failed"
    assert "0000:4E:00.0" in said(cards[3].explanation)


@pytest.mark.parametrize("cell", ["[Unknown Error]", "[GPU requires reset]", "[GPU is lost]"])
def test_a_card_that_does_not_answer_a_question_fails(cell):
    text = query(list(range(8)), temperature__gpu=cell)
    _, cards, verdict = judge(sections(gpu_query=Section(text.encode())))
    assert (cards[3].health, verdict.verdict) == ("failed", "fail")


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("ecc.errors.uncorrected.volatile.total", "2"),
        ("clocks_event_reasons.active", "0x0000000000000048"),
    ],
)
def test_errors_and_throttling_ask_for_attention_but_do_not_fail_a_probe(column, cell):
    text = query(list(range(8)), **{column.replace(".", "__"): cell})
    _, cards, verdict = judge(sections(gpu_query=Section(text.encode())))
    assert (cards[3].health, verdict.verdict) == ("attention", "pass")
    assert said(cards[3].explanation)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_missing_tool_is_unknown_never_a_pass(name):
    seen = sections() | {name: Section(b"sh: not found\n", rc=127)}
    _, _, verdict = judge(seen)
    assert verdict.verdict == "unknown"
    assert COMMANDS[name] in words(verdict)
    assert "not found" in words(verdict)


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize(
    "section",
    [
        Section(b"", rc=124),
        Section(b"", error="cut off"),
        Section(b"half", truncated=True),
        Section(b"\x00\xff<script>alert(1)</script>\x1b]52;c;AAAA\x07\n"),
    ],
    ids=["late", "error", "truncated", "garbage"],
)
def test_what_cannot_be_read_is_unknown(name, section):
    _, _, verdict = judge(sections() | {name: section})
    assert verdict.verdict == "unknown"
    assert verdict.findings


def test_a_section_that_never_came_is_unknown():
    seen = sections()
    del seen["docker"]
    assert judge(seen)[2].verdict == "unknown"


def test_a_foreign_node_is_unknown_with_a_reason_for_each_tool():
    missing = {name: Section(b"sh: 1: not found\n", rc=127) for name in COMMANDS}
    reading, cards, verdict = judge(missing)
    assert verdict.verdict == "unknown"
    assert set(reading.problems) == set(COMMANDS)
    assert {card.health for card in cards} == {"unknown"}
    assert all(fact.value is None and fact.problem for fact in reading.facts if fact.section)


def test_a_failed_fact_keeps_its_key_without_a_value():
    reading, _, _ = judge(sections(clock=Section(b"506 Cannot talk to daemon\n", rc=1)))
    clock = next(fact for fact in reading.facts if fact.key == "clock_offset")
    assert clock.value is None
    assert "506 Cannot talk to daemon" in said(clock.problem)


def test_no_finished_models_is_a_fact_not_a_problem():
    assert facts(sections(models=Section(b"", rc=1)))["models"] == []


def test_a_silent_node_is_unknown_with_the_kernels_reason():
    verdict = judge_silence("no banner within 20 s", "failed")
    assert verdict.verdict == "unknown"
    assert "no banner" in said(verdict.summary)


@pytest.mark.parametrize(
    ("state", "verdict", "answered", "after"),
    [
        ("probing", "pass", True, "ready"),
        ("probing", "fail", True, "acceptance"),
        ("probing", "unknown", True, "acceptance"),
        ("probing", "unknown", False, "registered"),
        ("acceptance", "pass", True, "ready"),
        ("acceptance", "unknown", False, "acceptance"),
        ("ready", "pass", True, "ready"),
        ("ready", "fail", True, "acceptance"),
        ("ready", "unknown", True, "acceptance"),
        ("ready", "unknown", False, "ready"),
        ("quarantined", "pass", True, "quarantined"),
        ("retired", "pass", True, "retired"),
    ],
)
def test_the_state_of_a_node_after_a_probe(state, verdict, answered, after):
    assert state_after(state, verdict, has_answered=answered) == after
