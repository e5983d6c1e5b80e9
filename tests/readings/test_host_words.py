"""Small tools of a host: what is theirs is read, anything else and anything cut is none."""

import pytest

from fleet.readings.fabric.devinfo import parse_devinfo
from fleet.readings.host.memory import parse_limits_memlock
from fleet.readings.host.system import parse_hostname, parse_is_active, parse_os_release
from fleet.readings.verdicts.host import report_host
from tests.probe_texts import devinfo


def test_the_active_mtu_of_every_port():
    ports = parse_devinfo(devinfo(2))
    assert [(p.device, p.port, p.active_mtu, p.state) for p in ports] == [
        ("mlx5_0", 1, 4096, "PORT_ACTIVE"),
        ("mlx5_1", 1, 4096, "PORT_ACTIVE"),
    ]


@pytest.mark.parametrize(
    "text",
    ["", "No IB devices found\n", devinfo(2)[:-30], devinfo(2) + devinfo(2), "hca_id:\tmlx5_0\n"],
)
def test_no_devices_and_a_cut_or_doubled_report_are_none(text):
    assert parse_devinfo(text) is None


def test_a_port_without_its_mtu_has_none():
    text = devinfo(1).replace("\t\t\tactive_mtu:\t\t4096 (5)\n", "")
    assert parse_devinfo(text)[0].active_mtu is None


ROW = "Max locked memory         {}            {}            bytes\n"


@pytest.mark.parametrize(("word", "limit"), [("unlimited", None), ("67108864", 67108864), ("0", 0)])
def test_the_soft_limit_is_bytes_or_unlimited(word, limit):
    found = parse_limits_memlock("Limit  Soft Limit  Hard Limit  Units\n" + ROW.format(word, "1"))
    assert (found.limit_bytes, found.is_unlimited) == (limit, limit is None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Max locked memory         6710",
        ROW.format("1", "2") * 2,
        ROW.format("-1", "2"),
        "cat: no\n",
    ],
)
def test_a_limit_that_was_cut_is_none(text):
    assert parse_limits_memlock(text) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n', "Ubuntu 24.04.3 LTS"),
        ("PRETTY_NAME=Alpine\n", "Alpine"),
        ('PRETTY_NAME="Ubuntu 24', None),
        ('PRETTY_NAME="a"\nPRETTY_NAME="b"\n', None),
        ("", None),
    ],
)
def test_the_name_of_the_system(text, name):
    assert parse_os_release(text) == name


def test_a_host_name_is_one_word():
    assert parse_hostname("h100-001.dc1\n") == "h100-001.dc1"
    for text in ("", "a b\n", "<script>\n", "uname: not found\n", "-x\n"):
        assert parse_hostname(text) is None


def test_the_state_of_a_unit_is_one_of_systemds_words():
    assert parse_is_active("inactive\n") == "inactive"
    for text in ("", "activ\n", "System has not been booted with systemd\n"):
        assert parse_is_active(text) is None


DD = "1024+0 records in\n1024+0 records out\n4294967296 bytes (4.3 GB, 4.0 GiB) copied, 0.361 s, 11.9 GB/s\n"


def test_a_rate_behind_an_error_of_reading_is_no_pass():
    assert report_host(DD).verdict == "pass"
    found = report_host("dd: error reading '/models/a': Input/output error\n" + DD)
    assert (found.verdict, found.findings[0].lines) == ("fail", (1,))
    assert found.summary == "dd: error reading '/models/a': Input/output error"


PING = "--- 10.0.0.1 ping statistics ---\n5 packets transmitted, 5 received, 0% packet loss, time 4ms\n"


@pytest.mark.parametrize(
    ("text", "verdict", "told"),
    [
        (PING, "pass", set()),
        (PING.replace("5 ", "0 "), "unknown", set()),
        (PING + "bash: chronyc: command not found\n", "unknown", {"tool_missing"}),
        ("NIC statistics:\n     rx_packets: 5\n     link_down_events_phy: 0\n", "pass", set()),
        ("NIC statistics:\n     rx_packets: 5\n     link_down_events_phy: 7\n", "unknown", {"counted_before"}),
    ],
)  # fmt: skip
def test_what_was_not_sent_not_there_or_counted_is_no_pass(text, verdict, told):
    found = report_host(text)
    assert (found.verdict, {finding.id for finding in found.findings}) == (verdict, told)
