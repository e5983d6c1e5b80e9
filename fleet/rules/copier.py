"""What the copier runs on nodes: argument lists and scripts of ours, and what their ends mean. Pure.

The parent serves one revision read-only by an rsync daemon with a one-time secret, the child pulls it, then reads
every byte back from its own disk. Nothing that a person or a node said is part of a script: it is an argument.
The secret travels in the environment (RSYNC_SECRET here, RSYNC_PASSWORD for rsync itself), never in an argument.
Tried with rsync 3.2.7; exit codes: rsync(1), EXIT VALUES.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from fleet.rules.message import foreign, say
from fleet.rules.shards import Shard

FIRST_PORT, PORTS = 8730, 8  # one daemon a copy; no more at once than a parent may have children
MODULE, USER = "weights", "flotilla"
STORE_MODULE = "models"
SECRET_ENV, PASSWORD_ENV = "RSYNC_SECRET", "RSYNC_PASSWORD"
LANES = 4  # files read at once by a check: one sha256sum is slower than an NVMe
PROGRESS = "files"  # the section of a progress reading
DIRECTORY = re.compile(r"/[A-Za-z0-9._+/-]{1,299}")
MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
REVISION = re.compile(r"[0-9a-f]{40}")

# rsync drops root's rights unless told who it is, and nobody else may name a group.
# The box is gone with the daemon, however it ends but by KILL.
_SERVE = r"""
umask 077
dir=$1 address=$2 port=$3 child=$4
box=$HOME/.flotilla/serve.$5
rm -rf "$box"; mkdir -p "$box" || exit 73
trap 'rm -rf "$box"' EXIT
trap 'exit 143' TERM INT HUP
printf 'flotilla:%s\n' "$RSYNC_SECRET" >"$box/secrets" || exit 73
unset RSYNC_SECRET
cat >"$box/conf" <<END || exit 73
use chroot = no
$([ "$(id -u)" != 0 ] || printf 'uid = 0\ngid = 0')
lock file = $box/lock
max connections = 4
timeout = 120
hosts allow = $child
hosts deny = *
[weights]
path = $dir
read only = yes
list = no
auth users = flotilla
secrets file = $box/secrets
exclude = .ready .ready.new .partial
END
[ -d "$dir" ] || { echo "no directory $dir"; exit 74; }
rsync --daemon --no-detach --config="$box/conf" --address="$address" --port="$port" --log-file=/proc/self/fd/1 &
wait $!
exit $?
"""

# A copy that was killed left its temporary file; what was half copied waits in .partial under no name of a shard.
_PULL = r"""
umask 022
dir=$1 url=$2 port=$3 rate=$4 own=$5 again=$6; shift 6
mkdir -p "$dir" && cd "$dir" || exit 73
rm -f .ready .ready.new
find . -maxdepth 3 -type f -name '.*.??????' -exec rm -f {} +
flags=; [ "$again" = 0 ] || flags=--ignore-times
tries=0
while :; do
    printf '%s\n' "$@" | rsync -t --partial --partial-dir=.partial --bwlimit="$rate" --timeout=60 --contimeout=10 \
        --address="$own" --port="$port" $flags --files-from=- --out-format='C %l %n' "$url" ./
    rc=$?
    [ $rc != 0 ] || break
    [ $rc = 10 ] && [ $tries -lt 15 ] || exit $rc
    tries=$((tries + 1)); sleep 1
done
rm -rf .partial
"""

# Each file is read from the disk of this node; the marker comes last and whole, or not at all.
_CHECK = r"""
LC_ALL=C; export LC_ALL
dir=$1 record=$2 lanes=$3; shift 3
cd "$dir" 2>/dev/null || { echo "no directory"; exit 3; }
find . -type f -printf 'F %s %P\n'
read_all() { xargs -0 -r -n 1 -P "$lanes" nice -n 10 sh -c '
    [ -f "$1" ] && [ ! -L "$1" ] && sum=$(sha256sum <"$1") || exit 0
    sum="H ${sum%% *} $1"
    printf "%s\n" "$sum" >&2; printf "%s\n" "$sum"' sh; }
if [ -z "$record" ]; then
    find . -type f ! -path '*/.*' -printf '%P\0' | read_all >/dev/null
    exit
fi
line='
'
found=$line$(for row; do [ "${row%% *}" = - ] || printf '%s\0' "${row#* * }"; done | read_all)$line
bad=0
for row; do
    sum=${row%% *} size=${row#* } name=${row#* * }; size=${size%% *}
    [ "$size" = - ] || [ "$(stat -c %s "$name" 2>/dev/null)" = "$size" ] || { bad=1; continue; }
    [ "$sum" = - ] && continue
    case $found in *"${line}H $sum $name$line"*) ;; *) bad=1 ;; esac
done
[ $bad = 0 ] || { rm -f .ready; exit 3; }
printf '%s\n' "$record" >.ready.new && { sync .ready.new 2>/dev/null || sync; } && mv -f .ready.new .ready ||
    { rm -f .ready.new; exit 75; }
echo READY
"""


@dataclass(frozen=True)
class Ended:
    """What the end of a copy means: `kind` is done, parent, full, or failed; `text` says it."""

    kind: str
    text: str = ""


DONE, PARENT, FULL, FAILED = "done", "parent", "full", "failed"
DIFFERS_RC = 3  # of a check: at least one file is not as the manifest says
_LOST_PARENT = {5, 10, 12, 30, 35}  # client-server start, socket, protocol stream, two time-outs


def directory_of(model_root: str, model: str, revision: str) -> str:
    """Return where a revision lies on a node. Raises ValueError for what may not be a path in a command."""
    path = f"{model_root.rstrip('/')}/{model}/{revision}"
    if not (MODEL.fullmatch(model) and REVISION.fullmatch(revision) and DIRECTORY.fullmatch(path)):
        raise ValueError(f"{path!r:.200}: expected ROOT/model/40 hex digits")
    if ".." in path.split("/"):
        raise ValueError(f"{path!r:.200}: expected a path without ..")
    return path


def serve_argv(directory: str, address: str, port: int, child: str, name: str) -> list[str]:
    """Serve a directory read-only to one child, on the node's own address; the secret is in the environment."""
    return ["sh", "-c", _SERVE, "serve", directory, address, str(port), child, name]


def pull_argv(
    directory: str,
    source: tuple[str, int, str],
    kibps: int,
    own: str,
    names: Sequence[str],
    *,
    again: bool,
) -> list[str]:
    """Pull these files from (address, port, path of the module); `again`: files that look right are read too.

    What lies below the module is named with each file, before `/./`: a daemon that does not chroot tells every file
    of a directory in the URL as vanished when it is given a list (seen with rsync 3.2.7).
    """
    address, port, path = source
    host = f"[{address}]" if ":" in address else address
    module, _slash, below = path.partition("/")
    user = f"{USER}@" if module == MODULE else ""
    words = [
        directory,
        f"{user}{host}::{module}/",
        str(port),
        str(kibps),
        own,
        "1" if again else "0",
    ]
    return [
        "sh",
        "-c",
        _PULL,
        "pull",
        *words,
        *(f"{below}/./{name}" if below else name for name in names),
    ]


def check_argv(directory: str, record: str, shards: Sequence[Shard], read: set[str]) -> list[str]:
    """Compare sizes of all shards and the hashes of those in `read` on the node's disk; write `record` as .ready."""
    rows = [
        f"{one.sha256 if one.name in read else '-'} {'-' if one.size is None else one.size} {one.name}"
        for one in shards
    ]
    return ["sh", "-c", _CHECK, "check", directory, record, str(LANES), *rows]


def make_argv(directory: str) -> list[str]:
    """Read every file of a directory, to make a manifest; nothing is written."""
    return ["sh", "-c", _CHECK, "check", directory, "", str(LANES)]


def progress_sections(directory: str) -> list[dict]:
    """Return the reading of what lies on the disk by now, partial files too (shim verb probe)."""
    argv = ["find", directory, "-type", "f", "-printf", r"%s %P\n"]
    return [{"name": PROGRESS, "timeout_s": 10, "argv": argv}]


def bytes_of(text: str, shards: Sequence[Shard]) -> int:
    """Sum the bytes of the manifest's files on the disk, those on their way included; at most what each may have."""
    sizes = {shard.name: shard.size or 0 for shard in shards}
    found = dict.fromkeys(sizes, 0)
    for name, size in _files_in(text):
        name = _final_name(name)
        if name in found:
            found[name] = max(found[name], size)
    return sum(min(size, sizes[name]) for name, size in found.items())


def copying_of(text: str, shards: Sequence[Shard]) -> str:
    """Return the file that rsync writes now, known by its temporary name; empty between two files."""
    names = {shard.name for shard in shards}
    on_the_way = [
        _final_name(name)
        for name, _size in _files_in(text)
        if name not in names and not _is_kept(name) and _final_name(name) in names
    ]
    return on_the_way[-1] if on_the_way else ""


def _files_in(text: str) -> list[tuple[str, int]]:
    """Read lines SIZE NAME; the last one is torn unless a line end follows it."""
    rows = [line.partition(" ") for line in text.split("\n")[:-1]]
    return [(name, int(size)) for size, _, name in rows if size.isdecimal() and len(size) < 19]


def _is_kept(name: str) -> bool:
    return ".partial" in name.split("/")[:-1]


def _final_name(name: str) -> str:
    """rsync writes to `.NAME.XXXXXX` beside the file and keeps what was cut off as `.partial/NAME`."""
    folder, _, last = name.rpartition("/")
    if folder == ".partial" or folder.endswith("/.partial"):
        folder = folder.removesuffix(".partial").rstrip("/")
    elif last.startswith(".") and re.fullmatch(r"\..+\.[A-Za-z0-9]{6}", last):
        last = last[1:-7]
    return f"{folder}/{last}" if folder else last


def judge_pull(rc: int | None, text: str) -> Ended:
    """Say what became of a copy: its exit code (None: its process was lost) and what it printed."""
    if rc == 0:
        return Ended(DONE)
    last = _last_words(text)
    if "No space left on device" in text or "Disk quota exceeded" in text or rc == 73:
        why = say("The disk is full or cannot be written: %(text)s", text=last)
        return Ended(FULL, why)
    if rc is None:
        return Ended(PARENT, say("The copying process was lost: its node was started again."))
    if rc in _LOST_PARENT or "vanished" in text:
        why = say("The parent stopped answering (rsync %(rc)s: %(text)s).", rc=rc, text=last)
        return Ended(PARENT, why)
    if rc == 127:
        return Ended(FAILED, say("rsync is not on this node: install it."))
    return Ended(FAILED, say("rsync ended with %(rc)s: %(text)s", rc=rc, text=last))


def judge_serve(rc: int | None, text: str) -> str:
    """Say why a daemon ended before its copy did."""
    if rc == 127:
        return say("rsync is not on the parent: install it there.")
    return say("The parent's daemon ended with %(rc)s: %(text)s", rc=rc, text=_last_words(text))


def _last_words(text: str) -> str:
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith(("C ", "rsync error: some files"))
    ]
    return foreign(lines[-1][:200]) if lines else "-"
