"""The peer of T1: ansible-playbook made as fast as its manual says (pipelining, forks, kept connections)."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


class Ansible:
    """Asks every node of a lab by a playbook, with fresh connections each time.

    `{{ model_root }}` in a question is the node's own.
    """

    def __init__(self, program: str, directory: Path, lab: Any, questions: list[list[str]]):
        self._program, self._directory, self._lab = program, directory, lab
        directory.mkdir()
        self._inventory = directory / "hosts.ini"
        self._inventory.write_text(_inventory(lab.inventory()))
        self._playbook = directory / "probe.yml"
        # As a probe does: words reach the node as they are, and an exit code (grep that found nothing) stops nothing.
        tasks = [
            {
                "ansible.builtin.command": {"argv": argv, "expand_argument_vars": False},
                "failed_when": False,
            }
            for argv in questions
        ]
        play = {"hosts": "all", "gather_facts": False, "tasks": tasks}
        self._playbook.write_text(json.dumps([play]))  # JSON is YAML
        self._config = directory / "ansible.cfg"
        self._config.write_text("")
        self._changed = f"changed={len(questions)} "

    def ask_all(self) -> float:
        """Run the playbook once; return its wall time. Raises RuntimeError unless every node answered all."""
        sockets = self._directory / "cp"
        sockets.mkdir(exist_ok=True)
        started = time.monotonic()
        done = subprocess.run(
            [self._program, "-i", str(self._inventory), str(self._playbook)],
            env=self._environment(sockets),
            cwd=self._directory,
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.monotonic() - started
        self._close_connections(sockets)
        answered, nodes = done.stdout.count(self._changed), len(self._lab.inventory())
        if answered != nodes:
            raise RuntimeError(
                f"ansible: {nodes} nodes expected, {answered} answered: {done.stdout[-800:]}{done.stderr[-400:]}"
            )
        return took_s

    def _environment(self, sockets: Path) -> dict[str, str]:
        keys = f"-o UserKnownHostsFile={self._lab.known_hosts_path} -o IdentitiesOnly=yes"
        return {
            **os.environ,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CONFIG": str(self._config),  # an empty one, so that the user's own has no say
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_FORKS": "48",
            "ANSIBLE_LOCAL_TEMP": str(self._directory / "tmp"),
            "ANSIBLE_HOME": str(self._directory / "home"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets),
            "ANSIBLE_SSH_ARGS": f"-o ControlMaster=auto -o ControlPersist=60s {keys}",
            "ANSIBLE_PRIVATE_KEY_FILE": str(self._lab.key_path),
            "ANSIBLE_NOCOLOR": "1",
        }

    def _close_connections(self, sockets: Path) -> None:
        for path in sockets.iterdir():
            subprocess.run(
                ["ssh", "-O", "exit", "-o", f"ControlPath={path}", "node"],
                capture_output=True,
                check=False,
            )


def _inventory(nodes: list[dict[str, Any]]) -> str:
    lines = [
        f"{node['name']} ansible_host={node['address']} ansible_port={node['ssh_port']}"
        f" ansible_user={node['user']} ansible_python_interpreter={sys.executable}"
        f" model_root={node['model_root']}"
        for node in nodes
    ]
    return "[all]\n" + "\n".join(lines) + "\n"
