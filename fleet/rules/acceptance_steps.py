"""What an acceptance asks of a node besides a probe: a look at images and limits, and two tests that last. Pure.

Nothing here changes a node: the tests run in a container that removes itself, and read a file that is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.rules.acceptance import Pins
from fleet.rules.acceptance_host import NOT_ON_NODE, ON_NODE
from fleet.rules.probe_reading import SectionSeen

LOOK_DEADLINE_S = 60.0
START_DEADLINE_S = 60.0
RUN_S = (
    900.0  # from the order to the last verdict of a run; the longest test takes about two minutes
)
MEMLOCK = "memlock"
IMAGE_HEAD = "image-"
# Enough to fill the queues of four NVMe for a good while, little enough to be over in seconds.
READ_BYTES, READ_S = 16 << 30, 60
READ_LEAST_BYTES = 1 << 30  # a shorter read says nothing of a disk
# $1 the model root, $2 bytes, $3 seconds. The largest file is a shard of weights, as a launch reads it; direct I/O,
# so that the page cache is not measured. fio where there is one, because dd has a single request in flight.
READ_SCRIPT = """f=$(find -L "$1" -type f -printf '%s %p\\n' 2>/dev/null | sort -rn | head -n 1)
f=${f#* }
[ -n "$f" ] || { echo "no file to read below $1"; exit 3; }
echo "reading $f"
if command -v fio >/dev/null 2>&1; then
  exec timeout "$3" fio --name=read --readonly --filename="$f" --rw=read --bs=1M --direct=1 \\
    --ioengine=libaio --iodepth=32 --size="$2" --runtime="$3" --output-format=json
fi
exec timeout "$3" dd if="$f" of=/dev/null bs=4M count=$(($2 / 4194304)) iflag=direct
"""


def look_sections(images: Sequence[str]) -> list[dict[str, Any]]:
    """Return the sections of the look: each image by its digest, and locked memory inside the first one.

    Locked memory is what a container with the flags of a launch gets (manual 5.2), not what a login shell has.
    """
    found: list[dict[str, Any]] = [
        {
            "name": f"{IMAGE_HEAD}{at}",
            "timeout_s": 10.0,
            "argv": ["docker", "image", "inspect", image, "--format", "json"],
        }
        for at, image in enumerate(images)
    ]
    if images:
        argv = [
            "docker",
            "run",
            "--rm",
            "--pull",
            "never",
            "--ipc",
            "host",
            "--ulimit",
            "memlock=-1",
        ]
        argv += ["--entrypoint", "sh", images[0], "-c", "ulimit -l"]
        found.append({"name": MEMLOCK, "timeout_s": 30.0, "argv": argv})
    return found


def allreduce_argv(image: str, subject: str, container: str, gpus: int) -> list[str]:
    """Return the argv of all_reduce over the cards of one node, in the serving image by digest."""
    words = ["docker", "run", "--rm", "--pull", "never", "--name", container]
    words += ["--label", f"fleet.subject={subject}", "--gpus", "all", "--network", "none"]
    words += ["--ipc", "host", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"]
    words += ["--entrypoint", "all_reduce_perf", image]
    return [*words, "-b", "8M", "-e", "8G", "-f", "2", "-g", str(gpus)]


def read_argv(model_root: str) -> list[str]:
    """Return the argv of the sequential read below a model root."""
    return ["sh", "-c", READ_SCRIPT, "read-test", model_root, str(READ_BYTES), str(READ_S)]


def images_of(pins: Sequence[Pins]) -> list[str]:
    """Return the images of these releases, each once, in order."""
    return list(dict.fromkeys(one.image for one in pins))


def read_images(images: Sequence[str], sections: Mapping[str, SectionSeen]) -> dict[str, str]:
    """Return image -> present, absent, or why it is not known."""
    return {
        image: _image_state(image, sections.get(f"{IMAGE_HEAD}{at}"))
        for at, image in enumerate(images)
    }


def _image_state(image: str, section: SectionSeen | None) -> str:
    if section is None or section.rc is None or section.truncated:
        return "unread"
    text = section.body.decode("utf-8", "replace")
    if section.rc:
        return NOT_ON_NODE if "No such image" in text or "no such image" in text else "unread"
    try:
        rows = json.loads(text)
        row = rows[0] if isinstance(rows, list) else rows
        digests = {str(ref).partition("@")[2] for ref in row["RepoDigests"]}
    except (ValueError, LookupError, TypeError, RecursionError):
        return "unread"
    return ON_NODE if image.partition("@")[2] in digests else NOT_ON_NODE


def read_memlock(section: SectionSeen | None) -> str | int | None:
    """Return what a container may lock: unlimited, or KiB; None when it did not say."""
    if section is None or section.rc != 0 or section.truncated:
        return None
    text = section.body.decode("utf-8", "replace").strip()
    if text == "unlimited":
        return text
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
