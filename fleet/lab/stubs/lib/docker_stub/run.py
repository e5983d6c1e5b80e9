"""`docker run`: checks what the daemon checks, makes the container, starts the engine.

Other programs of an image (`vllm serve --help`, `sh -c`) run at once and leave no container.
"""

import os
import time

from . import all_reduce, attach, help_text, plain_json
from .node import (
    CONTAINERS,
    LAB,
    NAMES,
    NODE_DIR,
    Container,
    Refusal,
    find_image,
    gpus,
    note_unknown,
    read_json,
    replace_file,
    say,
)
from .options import RUN_SHORT, RUN_SWITCHES, RUN_VALUES, Flags, parse

START_LIMIT_S = 5.0
HINT = "See 'docker run --help'."


def run(argv: list[str]) -> int:
    """Run `docker run ARGV`; return its exit code."""
    flags = parse(argv, "run", RUN_VALUES, RUN_SWITCHES, RUN_SHORT)
    if not flags.rest:
        raise Refusal(f'"docker run" requires at least 1 argument.\n{HINT}', code=1)
    ref, *args = flags.rest
    image = find_image(ref)
    if image is None:
        raise _daemon_refusal(f"manifest for {ref} not found: manifest unknown")
    entrypoint = flags.last("entrypoint")
    if entrypoint and not _is_engine(entrypoint, args):
        return _run_program(entrypoint, args, image, flags, argv)
    if entrypoint:
        args = args[1:]
    # A client that is told to stop must not leave half a container behind.
    attach.hold_signals()
    container = _create(flags, ref, image, args)
    _check_devices(container)
    _start(container)
    if not flags.has("detach"):
        return attach.follow(container, is_removed=flags.has("rm"))
    if flags.has("rm"):
        note_unknown(["run", *argv])
    _await_start(container)
    say(container.id)
    return 0


def _daemon_refusal(text: str) -> Refusal:
    return Refusal(f"docker: Error response from daemon: {text}.\n{HINT}", code=125)


def _is_engine(entrypoint: str, args: list[str]) -> bool:
    is_help = any(word.startswith("--help") or word == "-h" for word in args)
    return entrypoint == "vllm" and args[:1] == ["serve"] and not is_help


def _run_program(
    entrypoint: str, args: list[str], image: dict, flags: Flags, argv: list[str]
) -> int:
    if entrypoint == "vllm":
        return help_text.run_vllm(args, image, argv)
    if os.path.basename(entrypoint) in ("sh", "bash") and args[:1] == ["-c"] and len(args) > 1:
        script = f'. "$NODE_DIR/rc"\n{args[1]}'
        environment = {**os.environ, **_environment(flags)}
        os.execve("/bin/sh", ["sh", "-c", script, *args[2:]], environment)
    if entrypoint == "all_reduce_perf":
        wanted = _wanted_gpus(flags)
        scale = read_json(os.path.join(LAB, "lab.json"), {}).get("scales", {}).get("launch", 1.0)
        return all_reduce.run_all_reduce(args, argv, wanted, scale)
    note_unknown(["run", *argv])
    raise Refusal(
        "docker: Error response from daemon: failed to create task for container: "
        f'exec: "{entrypoint}": executable file not found in $PATH: unknown.',
        code=127,
    )


def _environment(flags: Flags) -> dict[str, str]:
    lines = list(flags.all("env"))
    for path in flags.all("env-file"):
        with open(path, encoding="utf-8") as file:
            rows = [line.strip() for line in file]
        lines = [row for row in rows if row and not row.startswith("#")] + lines
    found = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if equals or name in os.environ:
            found[name] = value if equals else os.environ[name]
    return found


def _create(flags: Flags, ref: str, image: dict, args: list[str]) -> Container:
    container_id = os.urandom(32).hex()
    name = flags.last("name") or f"lab_{container_id[:10]}"
    config = _config(flags, ref, image, args, container_id, name)
    _claim_name(name, container_id)
    directory = os.path.join(CONTAINERS, container_id)
    os.mkdir(directory)
    replace_file(os.path.join(directory, "state.json"), plain_json.write({"status": "created"}))
    replace_file(os.path.join(directory, "config.json"), plain_json.write(config))
    replace_file(os.path.join(directory, "listing"), _listing(config))
    open(os.path.join(directory, "log"), "a", encoding="utf-8").close()
    return Container(directory)


def _claim_name(name: str, container_id: str) -> None:
    """Take a name for a container; making the link is what decides between two at once."""
    if not (name[0].isalnum() and all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)):
        raise _daemon_refusal(
            f"Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
        )
    os.makedirs(NAMES, exist_ok=True)
    link = os.path.join(NAMES, name)
    try:
        os.symlink(container_id, link)
    except FileExistsError:
        owner = os.readlink(link)
        raise _daemon_refusal(
            f'Conflict. The container name "/{name}" is already in use by container "{owner}". '
            "You have to remove (or rename) that container to be able to reuse that name"
        ) from None


def _config(
    flags: Flags, ref: str, image: dict, args: list[str], container_id: str, name: str
) -> dict:
    lab = read_json(os.path.join(LAB, "lab.json"), {})
    labels = dict(line.partition("=")[::2] for line in flags.all("label"))
    return {
        "id": container_id,
        "name": name,
        "image": ref,
        "digest": image["digest"],
        "image_id": image["id"],
        "vllm_version": image["vllm_version"],
        "nccl": image["nccl"],
        "flags_file": os.path.join(LAB, "lib", "flags", image["flags_file"]),
        "argv": args,
        "env": _environment(flags),
        "labels": labels,
        "binds": _binds(flags),
        "gpus": _wanted_gpus(flags),
        "ipc": flags.last("ipc", "private"),
        "network": flags.last("network", "bridge"),
        "ulimits": flags.all("ulimit"),
        "shm_size": flags.last("shm-size"),
        "restart": flags.last("restart", "no"),
        "node": {
            "name": os.environ["NODE_NAME"],
            "addr": os.environ["NODE_ADDR"],
            "dir": NODE_DIR,
            "position_gpus": 8,
        },
        "scales": lab.get("scales", {}),
        "seed": lab.get("seed", 1),
        "created": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime())}."
        f"{time.time_ns() % 10**9:09d}Z",
    }


def _binds(flags: Flags) -> list[list[str]]:
    binds = []
    for text in flags.all("volume"):
        source, _, rest = text.partition(":")
        target, _, mode = rest.partition(":")
        binds.append([source, target or source, mode or "rw"])
    for text in flags.all("mount"):
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        source = parts.get("source", parts.get("src", ""))
        target = parts.get("target", parts.get("dst", parts.get("destination", "")))
        binds.append([source, target, "ro" if "readonly" in parts else "rw"])
    for source, _target, _mode in binds:
        # The daemon makes a missing source as an empty directory: a wrong model path shows as
        # an empty one. Outside the lab nothing is made.
        if source.startswith(LAB + "/") and not os.path.exists(source):
            os.makedirs(source)
    return binds


def _wanted_gpus(flags: Flags) -> list[int]:
    wanted = flags.last("gpus").strip('"')
    if not wanted:
        return []
    listed = [index for index, _uuid, _health in gpus()]
    if wanted == "all":
        return listed
    by_uuid = {uuid: index for index, uuid, _health in gpus()}
    names = wanted.removeprefix("device=").split(",")
    return [by_uuid[name] if name in by_uuid else int(name) for name in names if name]


def _listing(config: dict) -> str:
    """Return the line that `docker ps` prints from: see docker_ps.awk."""
    labels = "\x1f".join(f"{key}={value}" for key, value in config["labels"].items())
    command = " ".join(["vllm serve", *config["argv"]])
    cut = command if len(command) <= 20 else command[:19] + "…"
    created = config["created"]
    shared = {
        "CreatedAt": f"{created[:10]} {created[11:19]} +0000 UTC",
        "Image": config["image"],
        "Labels": ",".join(f"{key}={value}" for key, value in config["labels"].items()),
        "LocalVolumes": "0",
        "Mounts": ",".join(source for source, _target, _mode in config["binds"]),
        "Names": config["name"],
        "Networks": config["network"],
        "Ports": "",
    }
    short = {"Command": f'"{cut}"', "ID": config["id"][:12], **shared}
    whole = {"Command": f'"{command}"', "ID": config["id"], **shared}
    cells = [
        config["id"],
        config["name"],
        f"{time.time():.3f}",
        f"\x1f{labels}\x1f",
        _open_json(short),
        _open_json(whole),
        config["image"],
        f'"{cut}"',
    ]
    return "\t".join(_one_line(cell) for cell in cells) + "\n"


def _open_json(row: dict) -> str:
    """Return an object in key order without its last brace: the awk program adds the rest."""
    return plain_json.write(dict(sorted(row.items())))[:-1]


def _one_line(text: str) -> str:
    return text.replace("\t", " ").replace("\n", " ")


def _check_devices(container: Container) -> None:
    """Refuse to start on a lost card or by fault; the created container stays, as in docker."""
    if _has_fault("start.half"):
        raise _runtime_refusal("nvidia-container-cli: initialization error: driver rpc error")
    health = {index: (uuid, state) for index, uuid, state in gpus()}
    for index in container.config["gpus"]:
        uuid, state = health.get(index, (str(index), "missing"))
        if state in ("lost", "missing"):
            raise _runtime_refusal(f"nvidia-container-cli: device error: {uuid}: unknown device")


def _has_fault(name: str) -> bool:
    rows = read_json(os.path.join(NODE_DIR, "faults.json"), [])
    return any(row.get("name") == name for row in rows)


def _runtime_refusal(text: str) -> Refusal:
    return _daemon_refusal(
        "failed to create task for container: failed to create shim task: OCI runtime create "
        "failed: runc create failed: unable to start container process: error during container "
        f"init: error running prestart hook #0: exit status 1, stdout: , stderr: {text}: unknown"
    )


def _start(container: Container) -> None:
    """Start the monitor in a session of its own, as a daemon's child: not of this client."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    attach.release_signals()
    try:
        null = os.open(os.devnull, os.O_RDWR)
        errors = os.open(
            os.path.join(container.directory, "monitor.err"), os.O_WRONLY | os.O_CREAT, 0o600
        )
        for target, source in ((0, null), (1, errors), (2, errors)):
            os.dup2(source, target)
        os.closerange(3, 256)
        os.chdir("/")
        entry = os.path.join(LAB, "lib", "engine", "__main__.py")
        python = os.environ["LAB_PYTHON"]
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SSH_", "FLOTILLA_SUBJECT"))
        }
        os.execve(python, [python, "-I", "-S", entry, container.directory], environment)
    finally:
        os._exit(127)


def _await_start(container: Container) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    while container.state().get("status") == "created" and time.monotonic() < deadline:
        time.sleep(0.005)
