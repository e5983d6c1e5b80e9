"""The node as docker sees it: its directories, images, GPUs and containers."""

import os
import sys

from . import plain_json


class Refusal(Exception):
    """Docker's own error: text for stderr and an exit code."""

    def __init__(self, text: str, code: int = 1, stdout: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.stdout = stdout


LAB = os.environ.get("LAB", "")
NODE_DIR = os.environ.get("NODE_DIR", "")
CONTAINERS = os.path.join(NODE_DIR, "docker", "containers")
NAMES = os.path.join(NODE_DIR, "docker", "names")


def read_json(path: str, default=None):
    """Return the content of a JSON file, `default` when it is missing or torn."""
    try:
        with open(path, encoding="utf-8") as file:
            return plain_json.read(file.read())
    except (OSError, ValueError):
        return default


def replace_file(path: str, text: str) -> None:
    """Write a file whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.replace(path + ".new", path)


def note_unknown(argv: list[str]) -> None:
    """Record a form that this stub does not know, so that no test passes on it silently."""
    with open(os.path.join(LAB, "unknown.log"), "a", encoding="utf-8") as file:
        file.write(f"{os.environ.get('NODE_NAME', '?')} docker {' '.join(argv)}\n")


def registry() -> list[dict]:
    """Return the images that the registry has."""
    folder = os.path.join(LAB, "store", "images")
    return [read_json(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]


def images() -> list[dict]:
    """Return the images that this node holds: those of the registry that are not marked as absent."""
    return [image for image in registry() if not os.path.exists(absent_path(image))]


def absent_path(image: dict) -> str:
    """Return the file that says that this node lacks an image."""
    return os.path.join(NODE_DIR, "docker", "absent", image["tag"])


def faults(name: str) -> list[dict]:
    """Return the arguments of each fault of this name on the node."""
    rows = read_json(os.path.join(NODE_DIR, "faults.json"), [])
    return [row.get("args", {}) for row in rows if row.get("name") == name]


def find_image(ref: str, among: list[dict] | None = None) -> dict | None:
    """Return the image of a reference; with a digest the tag does not count, as in docker.

    `among`: the images to look through, those of the node when it is None.
    """
    name, _, digest = ref.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, "latest"
    for image in images() if among is None else among:
        if ref in (image["id"], image["id"].removeprefix("sha256:")[:12]):
            return image
        if image["repository"] == repository and (
            image["digest"] == digest if digest else image["tag"] == tag
        ):
            return image
    return None


def gpus() -> list[tuple[int, str, str]]:
    """Return (index, uuid, health) of the GPUs that the driver lists."""
    with open(os.path.join(NODE_DIR, "view", "docker.gpus"), encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return [(int(index), uuid, health) for index, uuid, health in rows]


def start_ticks(pid: int) -> int:
    """Return the start ticks of a living process, 0 when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in "ZX" else int(fields[19])


class Container:
    """One container's directory."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.config: dict = read_json(os.path.join(directory, "config.json"), {})

    @property
    def id(self) -> str:
        return self.config["id"]

    @property
    def log_path(self) -> str:
        return os.path.join(self.directory, "log")

    def state(self) -> dict:
        """Return state.json as it is now."""
        return read_json(os.path.join(self.directory, "state.json"), {})

    def is_running(self, state: dict | None = None) -> bool:
        """Whether the engine lives, or its monitor still has to write the end down."""
        state = self.state() if state is None else state
        if state.get("status") != "running":
            return False
        pairs = (("pid", "start_ticks"), ("monitor_pid", "monitor_start_ticks"))
        return any(
            state.get(pid) and start_ticks(state[pid]) == state.get(ticks) for pid, ticks in pairs
        )

    def exit_code(self) -> int:
        """Return the exit code of a container that ended; 137 when nobody could write it down."""
        state = self.state()
        return int(state.get("exit_code") or 0) if state.get("status") == "exited" else 137


def all_containers() -> list[Container]:
    """Return every container of the node."""
    found = []
    for name in sorted(os.listdir(CONTAINERS)):
        container = Container(os.path.join(CONTAINERS, name))
        if container.config:
            found.append(container)
    return found


def find_container(name: str) -> Container | None:
    """Return a container by name, id or beginning of an id."""
    wanted = name.removeprefix("/")
    by_prefix = []
    for container in all_containers():
        if wanted in (container.config["name"], container.id):
            return container
        if container.id.startswith(wanted) and wanted:
            by_prefix.append(container)
    return by_prefix[0] if len(by_prefix) == 1 else None


def need_container(name: str) -> Container:
    """Return a container or raise docker's refusal."""
    container = find_container(name)
    if container is None:
        raise Refusal(f"Error response from daemon: No such container: {name}")
    return container


def say(text: str) -> None:
    """Print one line now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
