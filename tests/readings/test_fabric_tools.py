"""The smaller tools of a node's acceptance in the forms that people paste."""

from __future__ import annotations

import pytest

from fleet.readings.fabric.blocks import parse_storage
from fleet.readings.fabric.links import parse_links
from fleet.readings.fabric.netdevs import parse_netdevs
from fleet.readings.verdicts.fabric import report_fabric

BRIEF_LINK = (
    "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n"
    "ens1f0np0        UP             b8:3f:d2:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP> \n"
    "bond0.100@bond0  UP             b8:3f:d2:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP> \n"
)
DEAF = "ens2f0np0        DOWN           b8:3f:d2:00:00:02 <NO-CARRIER,BROADCAST,MULTICAST,UP> \n"


def test_brief_links_show_macs_and_say_nothing_of_addresses():
    report = report_fabric(BRIEF_LINK)
    assert (report.form, report.verdict, report.complete) == ("ip-br-link", "pass", True)
    assert report.values["names"] == ["lo", "ens1f0np0", "bond0.100"]
    assert report.values["mac"]["ens1f0np0"] == "b8:3f:d2:00:00:01"
    assert report.values["up_without_address"] is None


def test_a_link_that_hears_nobody_is_told_apart_from_one_that_is_off():
    report = report_fabric(BRIEF_LINK + DEAF)
    assert [f.id for f in report.findings] == ["link_down", "no_carrier"]
    off = report_fabric(BRIEF_LINK + DEAF.replace("NO-CARRIER,", "").replace(",UP>", ">"))
    assert [f.id for f in off.findings] == ["link_down"]


def test_a_prompt_with_a_bracket_is_no_json():
    report = report_fabric("[ana@node-a ~]$ ip -br link\n" + BRIEF_LINK)
    assert (report.form, report.values["interfaces"]) == ("ip-br-link", 3)


# At 40 a whole line is missing, which a list cannot show.
@pytest.mark.parametrize("cut", [*range(1, 40), *range(41, 60)])
def test_an_address_that_is_cut_is_not_taken(cut):
    text = "lo  UNKNOWN  127.0.0.1/8 ::1/128\nens1f0np0  UP  10.0.91.59/31 fe80::1/64\n"
    report = report_fabric(text[:-cut])
    assert report.verdict == "unknown"
    assert "ens1f0np0" not in report.values.get("addr", {})
    assert not report.values.get("up_without_address")


def test_the_long_form_gives_state_mtu_and_addresses():
    text = (
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000\n"
        "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n"
        "    inet 127.0.0.1/8 scope host lo\n       valid_lft forever preferred_lft forever\n"
        "7: ens1f0np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default\n"
        "    link/ether b8:3f:d2:00:00:01 brd ff:ff:ff:ff:ff:ff\n    inet 10.0.91.59/31 brd 10.0.91.59 scope global\n"
    )  # fmt: skip
    found = parse_links(text)
    assert [(n.name, n.state, n.mtu, n.addresses) for n in found.links] == [
        ("lo", "UNKNOWN", 65536, ("127.0.0.1/8",)),
        ("ens1f0np0", "UP", 9000, ("10.0.91.59/31",)),
    ]
    assert report_fabric(text).verdict == "pass"


def test_json_that_is_cut_gives_no_interfaces():
    text = '[{"ifname":"ibp12s0","operstate":"UP","mtu":2044},{"ifname":"ibp18s0","operstate":"UP","mtu":2044}]'
    assert report_fabric(text).values["interfaces"] == 2
    for cut in range(1, len(text)):
        report = report_fabric(text[:-cut])
        assert report.verdict == "unknown"
        assert report.values.get("interfaces") is None


DF = (
    "Filesystem      Size  Used Avail Use% Mounted on\n"
    "/dev/md0         14T  9.1T  4.9T  66% /models\n"
    "tmpfs           504G   16M  504G   1% /dev/shm\n"
    "/dev/loop3       64M   64M     0 100% /snap/core20/2321\n"
    "efivarfs           -     -     -    - /sys/firmware/efi/efivars\n"
)


def test_file_systems_are_read_by_their_titles():
    report = report_fabric(DF)
    assert (report.verdict, report.findings) == ("pass", ())
    assert report.values["used_pct"] == {
        "/models": 66, "/dev/shm": 1, "/snap/core20/2321": 100, "/sys/firmware/efi/efivars": None,
    }  # fmt: skip
    assert report.values["dev_shm_size"] == "504G"
    assert report.values["nvme_disks"] is None


def test_inodes_are_no_sizes():
    text = (
        "Filesystem       Inodes   IUsed   IFree IUse% Mounted on\n"
        "/dev/sda2      41943040  411234 41531806    1% /\n"
        "tmpfs          66060288       9 66060279    1% /dev/shm\n"
    )
    report = report_fabric(DF + text)
    assert report.values["dev_shm_size"] == "504G"
    assert report_fabric(text).values["dev_shm_size"] is None
    assert report_fabric(text).values["size"] == {}


def test_a_full_file_system_whose_device_is_not_told_is_no_pass():
    """What df --output=pcent,target prints; a snap is always full, a disk must not be."""
    report = report_fabric("Use% Mounted on\n 99% /\n  1% /models\n")
    assert (report.verdict, report.complete) == ("unknown", True)
    assert [(f.id, f.severity, f.lines) for f in report.findings] == [("disk_full", "warn", (2,))]
    assert report_fabric("Use% Mounted on\n 9% /\n  1% /models\n").verdict == "pass"


def test_a_type_column_and_a_wrapped_name_do_not_shift_cells():
    text = (
        "Filesystem     Type  1K-blocks      Used Available Use% Mounted on\n"
        "/dev/mapper/ubuntu--vg-ubuntu--lv\n"
        "               ext4  102626232  51234567  46132442  53% /\n"
        "nas:/models    nfs4 9000000000 100000000 8900000000  2% /mnt/my models\n"
    )
    found = parse_storage(text)
    assert [(f.source, f.fstype, f.size, f.used_percent, f.mountpoint) for f in found.file_systems] == [
        ("/dev/mapper/ubuntu--vg-ubuntu--lv", "ext4", "102626232", 53, "/"),
        ("nas:/models", "nfs4", "9000000000", 2, "/mnt/my models"),
    ]  # fmt: skip
    assert found.complete


@pytest.mark.parametrize(
    ("old", "new", "found", "verdict"),
    [
        ("9.1T  4.9T  66%", " 14T     0 100%", "disk_full", "fail"),
        ("9.1T  4.9T  66%", " 13T  1.0T  93%", "disk_full", "unknown"),
        ("504G   16M  504G", " 64M     0   64M", "dev_shm_small", "unknown"),
        ("Filesystem ", "df: /mnt/nas: Stale file handle\nFilesystem ", "dead_mount", "fail"),
    ],
)
def test_what_is_wrong_with_a_file_system_is_said(old, new, found, verdict):
    report = report_fabric(DF.replace(old, new))
    assert [f.id for f in report.findings] == [found]
    assert report.verdict == verdict


def test_rows_without_titles_are_the_end_of_something():
    report = report_fabric(DF.split("\n", 1)[1])
    assert (report.verdict, report.complete) == ("unknown", False)


LSBLK = (
    "NAME        MAJ:MIN RM   SIZE RO TYPE  MOUNTPOINTS\n"
    "loop0         7:0    0  63.9M  1 loop  /snap/core20/2318\n"
    "sda           8:0    1     0B  0 disk  \n"
    "nvme0n1     259:0    0   3.5T  0 disk  \n"
    "└─md0         9:0    0  13.9T  0 raid0 /models\n"
    "nvme1n1     259:1    0 447.1G  0 disk  \n"
    "├─nvme1n1p1 259:2    0     1G  0 part  /boot/efi\n"
    "└─nvme1n1p2 259:3    0 446.1G  0 part  /var/snap\n"
    "                                       /\n"
)


@pytest.mark.parametrize("text", [LSBLK, "\n".join(" ".join(x.split()) for x in LSBLK.split("\n"))])
def test_the_columns_that_lsblk_prints_by_itself_are_read(text):
    found = parse_storage(text)
    assert [(d.name, d.kind, d.size) for d in found.devices] == [
        ("loop0", "loop", "63.9M"), ("sda", "disk", "0B"), ("nvme0n1", "disk", "3.5T"),
        ("md0", "raid0", "13.9T"), ("nvme1n1", "disk", "447.1G"), ("nvme1n1p1", "part", "1G"),
        ("nvme1n1p2", "part", "446.1G"),
    ]  # fmt: skip
    assert {d.name: d.mountpoint for d in found.devices if d.mountpoint} == {
        "loop0": "/snap/core20/2318", "md0": "/models", "nvme1n1p1": "/boot/efi", "nvme1n1p2": "/var/snap",
    }  # fmt: skip


def test_disks_without_a_medium_are_entries_but_no_capacity():
    values = report_fabric(LSBLK).values
    assert (values["disks"], values["nvme_disks"], values["empty_disks"]) == (3, 2, ["sda"])
    assert values["nvme_capacity_bytes"] is None


def test_a_model_with_blanks_stays_in_its_column():
    text = (
        "NAME     SIZE TYPE MODEL                     MOUNTPOINT\n"
        "sda      0B   disk File-Stor Gadget          \n"
        "nvme0n1  3.5T disk SAMSUNG MZTL63T8HFLT      /models\n"
    )
    found = parse_storage(text)
    assert [(d.size, d.mountpoint) for d in found.devices] == [("0B", None), ("3.5T", "/models")]


def test_a_list_of_disks_that_is_cut_does_not_lack_nvme():
    report = report_fabric(LSBLK[: LSBLK.index("nvme0n1") + 3])
    assert report.verdict == "unknown"
    assert report_fabric(LSBLK.replace("nvme", "sd")).verdict == "fail"


VERBOSE = (
    "0000:1a:00.0 mlx5_0 (MT4129 - MCX75310AAS-NEAT) NVIDIA ConnectX-7 HHHL fw 28.39.1002"
    " port 1 (ACTIVE) ==> ens1np0 (Up)\n"
    "0000:3c:00.0 mlx5_1 (MT4129 - MCX75310AAS-NEAT) NVIDIA ConnectX-7 HHHL fw 28.39.1002"
    " port 1 (DOWN  ) ==> ens2np0 (Down)\n"
)


def test_the_verbose_form_names_the_same_devices():
    devices, unread = parse_netdevs(VERBOSE)
    assert [(d.device, d.port, d.netdev, d.is_up) for d in devices] == [
        ("mlx5_0", 1, "ens1np0", True),
        ("mlx5_1", 1, "ens2np0", False),
    ]
    assert unread == ()


PLAIN = "mlx5_0 port 1 ==> ens1np0 (Up)\nmlx5_1 port 1 ==> ens2np0 (Up)\n"


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_a_device_whose_name_lost_its_beginning_is_not_taken(lost):
    report = report_fabric(PLAIN[lost:])
    assert report.values["up"] == ["mlx5_1"]
    assert (report.verdict, report.unread) == ("unknown", (1,))


def test_devices_of_two_nodes_are_not_counted_together():
    assert report_fabric(PLAIN).verdict == "pass"
    report = report_fabric(PLAIN + PLAIN)
    assert [f.id for f in report.findings] == ["mixed"]
    assert report.values["device_count"] is None


def test_a_container_without_gids_says_so():
    text = (
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n---\t----\t-----\t---\nn_gids_found=0\n"
    )
    report = report_fabric(text)
    assert (report.form, report.verdict, report.values["gids"]) == ("show_gids", "unknown", 0)
    assert [f.id for f in report.findings] == ["no_gids"]
    assert report_fabric(text[:-3]).values["gids_found"] is None


IBSTAT = (
    "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: {ports}\n\tPort 1:\n\t\tState: Active\n"
    "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tBase lid: 0\n\t\tLink layer: Ethernet\n"
)


def test_healthy_ports_before_the_tool_broke_off_are_no_pass():
    text = (
        IBSTAT.format(n=0, ports=1)
        + "ibpanic: [4711] main: stat of IB device 'mlx5_1' failed: (No such file)\n"
    )
    report = report_fabric(text)
    assert (report.verdict, report.values["active_ports"]) == ("unknown", 1)
    assert [f.id for f in report.findings] == ["tool_failed"]


def test_a_card_with_fewer_blocks_than_ports_is_cut():
    report = report_fabric(IBSTAT.format(n=0, ports=2))
    assert [f.id for f in report.findings] == ["incomplete"]
    assert report.complete is False


def test_a_rate_that_is_cut_is_not_taken():
    text = IBSTAT.format(n=0, ports=1)
    report = report_fabric(text[: text.index("400") + 2])
    assert report.values["ports"] == {"mlx5_0/1": ["Active", "LinkUp"]}


def test_polling_and_disabled_are_different_faults():
    texts = set()
    for physical in ("Polling", "Disabled"):
        down = IBSTAT.format(n=1, ports=1).replace("Active", "Down").replace("LinkUp", physical)
        report = report_fabric(IBSTAT.format(n=0, ports=1) + down)
        assert [f.id for f in report.findings] == ["port_down"]
        texts.add(report.findings[0].text.split("(")[1])
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bash: ibstat: command not found\n", "tool_missing"),
        ("sh: 1: show_gids: not found\n", "tool_missing"),
        ("lsblk: /dev/nvme9n1: not a block device\n", "tool_failed"),
        ("Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)\n", "tool_failed"),
    ],
)  # fmt: skip
def test_a_sentence_in_place_of_an_answer_is_told(text, found):
    report = report_fabric(text)
    assert (report.form, report.verdict) == ("sentence", "unknown")
    assert [f.id for f in report.findings] == [found]
