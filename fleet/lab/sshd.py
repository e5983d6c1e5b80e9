"""The SSH daemon of one node: its configuration, its forced command, what it needs to run."""

import os
import pwd
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .place import SSH_PORT, LabError

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server")

CONF = """\
ListenAddress {address}
Port {port}
HostKey {node_dir}/hostkey
PidFile {node_dir}/sshd.pid
AuthorizedKeysFile {lab}/ssh/authorized_keys
AllowUsers {user}
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100:30:200
MaxSessions 10
UseDNS no
PrintMotd no
ClientAliveInterval 5
ClientAliveCountMax 2
Subsystem sftp internal-sftp
SetEnv {environment}
ForceCommand {node_dir}/force
"""

# The first case keeps SFTP alive under a forced command; without it the session just closes.
FORCE = """\
#!/bin/sh
cd "$HOME" || exit 1
case "$SSH_ORIGINAL_COMMAND" in internal-sftp*) exec {sftp_server} ;; esac
exec sh -c ". \\"\\$NODE_DIR/rc\\"
${{SSH_ORIGINAL_COMMAND:-exec sh}}"
"""

# What is a shell builtin cannot be a stub on PATH.
RC = """\
ulimit() {
  case "$*" in
  -l | "-H -l" | "-S -l") cat "$NODE_DIR/view/memlock" ;;
  -n) cat "$NODE_DIR/view/nofile" ;;
  *) command ulimit "$@" ;;
  esac
}
"""


@dataclass(frozen=True)
class NodeHost:
    """What sshd and the stubs of one node are told about it."""

    kind: ClassVar[str] = "node"

    lab: Path
    name: str
    address: str
    python: str

    @property
    def directory(self) -> Path:
        return self.lab / "nodes" / self.name

    def environment(self) -> dict[str, str]:
        """Return the variables that every command on the node sees (CONTRACTS: node env)."""
        return {
            "PATH": f"{self.lab}/bin:/usr/bin:/bin",
            "HOME": f"{self.directory}/root/home",
            "NODE_DIR": str(self.directory),
            "NODE_ADDR": self.address,
            "NODE_NAME": self.name,
            "NODE_SYSROOT": f"{self.directory}/root",
            "LAB": str(self.lab),
            "FLOTILLA_LAB": str(self.lab),
            "LAB_PYTHON": self.python,
            # bash as a login shell reads ~/.bashrc on a socket unless it thinks it is nested.
            "SHLVL": "5",
        }


def write_sshd_files(host: NodeHost) -> None:
    """Write sshd.conf, force and rc of a node; they are the same at every start."""
    pairs = " ".join(f'"{name}={value}"' for name, value in host.environment().items())
    conf = CONF.format(
        address=host.address,
        port=SSH_PORT,
        node_dir=host.directory,
        lab=host.lab,
        user=login_user(),
        environment=pairs,
    )
    (host.directory / "sshd.conf").write_text(conf)
    for name in ("force", "rc"):
        (host.directory / name).unlink(missing_ok=True)
        os.link(host.lab / "lib" / name, host.directory / name)


def write_shared_files(lab: Path) -> None:
    """Write the forced command and the shell functions, which are the same on every node."""
    force = lab / "lib" / "force"
    force.write_text(FORCE.format(sftp_server=find_sftp_server()))
    force.chmod(0o755)
    (lab / "lib" / "rc").write_text(RC)


def login_user() -> str:
    """Return the account that runs the lab: its SSH daemons can only log that one in."""
    return pwd.getpwuid(os.geteuid()).pw_name


def find_sshd() -> str:
    """Return the path of sshd; raise LabError with the way to get it."""
    found = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        raise LabError(
            "the lab needs OpenSSH's sshd and found none; "
            "install it: apt-get install --no-install-recommends openssh-server"
        )
    return found


def find_sftp_server() -> str:
    """Return OpenSSH's sftp-server program; `false` when the package lacks it."""
    return next((path for path in SFTP_SERVERS if os.path.exists(path)), "false")


def check_account() -> None:
    """Raise LabError when logins of this account cannot work, and say what would."""
    entry = pwd.getpwuid(os.geteuid())
    if not os.access(entry.pw_shell or "/bin/sh", os.X_OK) or entry.pw_shell.endswith(
        ("/nologin", "/false")
    ):
        raise LabError(
            f"account {entry.pw_name} has the login shell {entry.pw_shell!r}, so SSH cannot run "
            "commands; run the lab under an account with a real shell"
        )
    if os.geteuid() == 0 and _shadow_field("root").startswith("!"):
        raise LabError(
            "root's account is locked (its shadow field starts with '!'), so sshd refuses it; "
            "run `usermod -p '*' root`, or run the lab as an ordinary user"
        )


def _shadow_field(user: str) -> str:
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except OSError:
        return ""
    rows = (line.split(":") for line in lines)
    return next((row[1] for row in rows if row[0] == user and len(row) > 1), "")


def prepare_machine() -> str:
    """Check everything an sshd needs here and return its path."""
    sshd = find_sshd()
    check_account()
    if os.geteuid() == 0:
        # Privilege separation wants this directory; its package only makes it at boot.
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    return sshd


def sshd_command(sshd: str, host: NodeHost) -> list[str]:
    """Return the argv that runs a node's listener in the foreground."""
    return [sshd, "-D", "-e", "-f", str(host.directory / "sshd.conf")]


def known_hosts_line(address: str, host_key: str) -> str:
    """Return a known_hosts line as `ssh-keyscan` prints it for a port other than 22."""
    return f"[{address}]:{SSH_PORT} {host_key}"


def quoted(value: str | Path) -> str:
    """Quote one word for a POSIX shell."""
    return shlex.quote(str(value))
