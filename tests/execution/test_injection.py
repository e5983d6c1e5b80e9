"""Hostile values in every field reach the node as they are, or are refused: never as a second command."""

import pytest

from fleet.execution import states
from fleet.execution.hands import carry_out
from fleet.execution.models import Command
from fleet.execution.output import command_sections
from fleet.execution.wire import WireError
from tests.execution.orders import fresh, order_probe, order_start
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

HOSTILE = [
    "; touch ran",
    "$(touch ran)",
    "`touch ran`",
    "a\ntouch ran\n",
    "| touch ran",
    "&& touch ran",
    "> ran",
    "'; touch ran; '",
    '"; touch ran; "',
    "\\'; touch ran",
    "${IFS}touch${IFS}ran",
    "*",
    "~root",
    "!!",
    "%s%n%x",
    "\\c",
    "\\0101",
    ";end",
    ";container x",
    "-rf",
    "--privileged",
    "-v/:/host",
    "",
    " ",
    "\t\r\n",
    "é漢字🚀",
    "\u202egnp.exe",
    "\x1b]52;c;aGk=\x07",
    "\udcff\udc80",
    "a" * 5000,
    "=",
    "FLOTILLA_SUBJECT=other",
]
PRINTER = ["sh", "-c", 'for a; do printf "%s\\0" "$a"; done', "sh"]


def as_bytes(values: list[str]) -> bytes:
    return b"".join(value.encode("utf-8", "surrogateescape") + b"\0" for value in values)


def test_arguments_of_a_start_are_literal(sshd):
    values = [value for value in HOSTILE if "\udcff" not in value]  # JSON rows hold text
    command = order_start(sshd.host(), [*PRINTER, *values])
    carry_out([command.pk])
    assert fresh(command).state == states.SUCCEEDED, fresh(command).explanation
    wait_until(lambda: sshd.node.status("s1")["answer"] == "DONE", what="end")
    assert sshd.node.out("s1") == as_bytes(values)
    assert not list(sshd.home.glob("**/ran"))


def test_environment_values_are_literal(sshd):
    values = [value for value in HOSTILE if "\udcff" not in value]
    env = {f"V{number}": value for number, value in enumerate(values)}
    script = "".join(f'printf "%s\\0" "$V{number}";' for number in range(len(values)))
    command = order_start(sshd.host(), ["sh", "-c", script], payload={"env": env})
    carry_out([command.pk])
    wait_until(lambda: sshd.node.status("s1")["answer"] == "DONE", what="end")
    assert sshd.node.out("s1") == as_bytes(values)


def test_arguments_of_a_probe_are_literal(sshd):
    values = [value for value in HOSTILE if "\udcff" not in value]
    sections = [{"name": "x", "timeout_s": 9, "argv": [*PRINTER, *values]}]
    command = order_probe(sshd.host(), payload={"sections": sections})
    carry_out([command.pk])
    assert command_sections(fresh(command))["x"].body == as_bytes(values)
    assert not list(sshd.home.glob("**/ran"))


@pytest.mark.parametrize("name", ["; touch ran", "$(touch ran)", "a\nb", "-x", "é'\""])
def test_file_names_and_directories_are_literal(sshd, name):
    (sshd.home / name).mkdir()
    (sshd.home / name / "file").write_bytes(b"found")
    host = sshd.host()
    path = str(sshd.home / name / "file")
    collect = order_probe(host, verb="collect", payload={"files": [path]})
    start = order_start(host, ["pwd"], payload={"cwd": str(sshd.home / name)})
    carry_out([collect.pk, start.pk])
    assert command_sections(fresh(collect))[path].body == b"found"
    assert fresh(start).state == states.SUCCEEDED, fresh(start).explanation
    wait_until(lambda: sshd.node.status("s1")["answer"] == "DONE", what="end")
    assert sshd.node.out("s1").decode().rstrip("\n") == str(sshd.home / name).rstrip("\n")


@pytest.mark.parametrize("value", ["a\0b", "\0", "x" * 200_000])
def test_what_no_program_can_receive_is_refused(sshd, value):
    host = sshd.host()
    with pytest.raises(WireError):
        order_start(host, ["echo", value])
    with pytest.raises(WireError):
        order_start(host, ["echo"], payload={"env": {"A": value}})
    assert not Command.objects.exists()


@pytest.mark.parametrize("name", ["A=B", "A B", "", "1A", "A;touch ran", "A\n", "ÄÖ"])
def test_a_hostile_name_of_a_variable_is_refused(sshd, name):
    with pytest.raises(WireError):
        order_start(sshd.host(), ["true"], payload={"env": {name: "x"}})
