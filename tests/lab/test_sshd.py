"""What a node's SSH daemon needs, and how the lab says that it is missing."""

import pwd
from pathlib import Path

import pytest

from fleet.lab import sshd
from fleet.lab.node import Lab
from fleet.lab.place import LabError


def test_a_missing_sshd_is_named_with_the_command_that_installs_it(monkeypatch) -> None:
    monkeypatch.setattr(sshd.shutil, "which", lambda *_args, **_named: None)

    with pytest.raises(LabError, match="apt-get install --no-install-recommends openssh-server"):
        sshd.find_sshd()


def test_a_locked_root_account_is_refused_with_two_ways_out(monkeypatch) -> None:
    monkeypatch.setattr(sshd.os, "geteuid", lambda: 0)
    monkeypatch.setattr(sshd, "_shadow_field", lambda _user: "!*")

    with pytest.raises(LabError, match=r"locked.*usermod -p '\*' root.*ordinary user"):
        sshd.check_account()


def test_an_account_without_a_shell_is_refused(monkeypatch) -> None:
    entry = pwd.struct_passwd(("svc", "x", 999, 999, "", "/", "/usr/sbin/nologin"))
    monkeypatch.setattr(sshd.pwd, "getpwuid", lambda _uid: entry)

    with pytest.raises(LabError, match="account svc has the login shell"):
        sshd.check_account()


def test_each_node_has_its_own_key_address_and_environment(paper: Lab) -> None:
    confs = [(host.directory / "sshd.conf").read_text() for host in paper.hosts()]

    for host, conf in zip(paper.hosts(), confs, strict=True):
        lines = dict(line.split(" ", 1) for line in conf.splitlines())
        assert lines["ListenAddress"] == host.address
        assert lines["HostKey"] == str(host.directory / "hostkey")
        assert lines["MaxSessions"] == "10"
        assert f'"NODE_NAME={host.name}"' in lines["SetEnv"]
        assert f'"FLOTILLA_LAB={paper.directory}"' in lines["SetEnv"]
    assert (paper.directory / "nodes/h100-001/hostkey").stat().st_mode & 0o777 == 0o600


def test_the_inventory_is_what_an_import_needs(paper: Lab) -> None:
    first, second = paper.inventory()
    gateway = paper.gateway_row()

    assert {"name", "address", "ssh_port", "user", "leaf", "rack", "model_root", "node_class",
            "host_key", "origin"} <= set(first)  # fmt: skip
    assert Path(first["model_root"]).is_dir()
    assert first["host_key"].startswith("ssh-ed25519 ")
    known = paper.known_hosts_path.read_text().splitlines()
    assert known == [
        f"[{row['address']}]:2222 {row['host_key']}" for row in (first, second, gateway)
    ]
