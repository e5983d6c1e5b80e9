"""What docker tells about containers and images: inspect, images."""

import sys

from . import plain_json
from .node import Container, Refusal, find_container, find_image, images, note_unknown, say
from .options import parse

NEVER = "0001-01-01T00:00:00Z"
TEMPLATES = {
    "{{.Id}}": lambda row: row["Id"],
    "{{.State.Pid}}": lambda row: str(row["State"]["Pid"]),
    "{{.State.Status}}": lambda row: row["State"]["Status"],
    "{{.State.ExitCode}}": lambda row: str(row["State"]["ExitCode"]),
    "{{.State.StartedAt}}": lambda row: row["State"]["StartedAt"],
    "{{json .State}}": lambda row: plain_json.write(row["State"]),
    "{{json .Config.Labels}}": lambda row: plain_json.write(row["Config"]["Labels"]),
}


def inspect(argv: list[str], kind: str = "") -> int:
    """Print `docker inspect`; with `kind` image or container only of that kind."""
    flags = parse(argv, "inspect", {"format", "type"}, set(), {"f": "format"}, True)
    kind = kind or flags.last("type")
    rows, missing = [], []
    for name in flags.rest:
        row = describe(name, kind)
        if row is None:
            missing.append(name)
        else:
            rows.append(row)
    _print_rows(rows, flags.last("format", "json"), argv)
    for name in missing:
        noun = {"image": "No such image", "container": "No such container"}.get(kind)
        prefix = "Error response from daemon: " if kind == "image" else "Error: "
        sys.stderr.write(f"{prefix}{noun or 'No such object'}: {name}\n")
    return 1 if missing else 0


def describe(name: str, kind: str) -> dict | None:
    """Return the inspect object of a container or an image, None when there is none."""
    container = find_container(name) if kind != "image" else None
    if container is not None:
        return container_row(container)
    image = find_image(name) if kind != "container" else None
    return image_row(image) if image is not None else None


def _print_rows(rows: list[dict], form: str, argv: list[str]) -> None:
    if form == "json":
        say(plain_json.write(rows, indent=4))
    elif form == "{{json .}}":
        for row in rows:
            say(plain_json.write(row))
    elif form in TEMPLATES:
        for row in rows:
            say(TEMPLATES[form](row))
    else:
        note_unknown(["inspect", *argv])
        raise Refusal(f"template parsing error: this form is not rehearsed: {form}")


def container_row(container: Container) -> dict:
    """Return one container as `docker inspect` shows it."""
    config, state = container.config, container.state()
    labels = config["labels"]
    return {
        "Id": config["id"],
        "Created": config["created"],
        "Path": "vllm",
        "Args": ["serve", *config["argv"]],
        "State": _state_row(container, state),
        "Image": config["image_id"],
        "Name": f"/{config['name']}",
        "LogPath": container.log_path,
        "RestartCount": 0,
        "Driver": "overlay2",
        "HostConfig": _host_row(config),
        "Mounts": [
            {"Type": "bind", "Source": source, "Destination": target, "RW": mode != "ro"}
            for source, target, mode in config["binds"]
        ],
        "Config": {
            "Image": config["image"],
            "Env": [f"{key}={value}" for key, value in config["env"].items()],
            "Cmd": config["argv"],
            "Entrypoint": ["vllm", "serve"],
            "Labels": labels,
        },
    }


def _state_row(container: Container, state: dict) -> dict:
    is_running = container.is_running(state)
    status = state.get("status", "created")
    if status == "running" and not is_running:
        status = "exited"
    return {
        "Status": status,
        "Running": is_running,
        "Paused": False,
        "Restarting": False,
        "OOMKilled": bool(state.get("oom_killed")),
        "Dead": False,
        "Pid": state["pid"] if is_running else 0,
        "ExitCode": 0 if status in ("running", "created") else container.exit_code(),
        "Error": "",
        "StartedAt": state.get("started_at") or NEVER,
        "FinishedAt": state.get("finished_at") or NEVER,
    }


def _host_row(config: dict) -> dict:
    devices = [str(index) for index in config["gpus"]]
    return {
        "NetworkMode": config["network"],
        "IpcMode": config["ipc"],
        "Binds": [":".join(bind) for bind in config["binds"]],
        "Ulimits": [_ulimit(text) for text in config["ulimits"]],
        "RestartPolicy": {"Name": config["restart"], "MaximumRetryCount": 0},
        "ShmSize": 67108864,
        "DeviceRequests": [
            {"Driver": "", "Count": 0, "DeviceIDs": devices, "Capabilities": [["gpu"]]}
        ]
        if devices
        else [],
    }


def _ulimit(text: str) -> dict:
    name, _, limits = text.partition("=")
    soft, _, hard = limits.partition(":")
    return {"Name": name, "Soft": int(soft), "Hard": int(hard or soft)}


def image_row(image: dict) -> dict:
    """Return one image as `docker image inspect` shows it."""
    return {
        "Id": image["id"],
        "RepoTags": [f"{image['repository']}:{image['tag']}"],
        "RepoDigests": [f"{image['repository']}@{image['digest']}"],
        "Created": image["created"],
        "Architecture": "amd64",
        "Os": "linux",
        "Size": image["size_bytes"],
        "Config": {
            "Entrypoint": image["entrypoint"],
            "Cmd": None,
            "Env": [f"VLLM_VERSION={image['vllm_version']}", f"NCCL_VERSION={image['nccl']}"],
            "Labels": {
                "org.opencontainers.image.version": image["vllm_version"],
                "lab.torch": image["torch"],
            },
        },
    }


def list_images(argv: list[str]) -> int:
    """Print `docker images [--digests] [--no-trunc] --format json`."""
    flags = parse(argv, "images", {"format"}, {"digests", "no-trunc", "all", "quiet"},
                  {"a": "all", "q": "quiet"}, True)  # fmt: skip
    form = flags.last("format")
    if flags.rest or (form not in ("json", "{{json .}}") and not flags.has("quiet")):
        note_unknown(["images", *argv])
        raise Refusal("docker images: this form is not rehearsed; use --format json")
    for image in images():
        short = image["id"] if flags.has("no-trunc") else image["id"][7:19]
        row = {
            "Containers": "N/A",
            "CreatedAt": image["created"].replace("T", " ").replace("Z", " +0000 UTC"),
            "CreatedSince": "8 weeks ago",
            "Digest": image["digest"] if flags.has("digests") else "<none>",
            "ID": short,
            "Repository": image["repository"],
            "SharedSize": "N/A",
            "Size": f"{image['size_bytes'] / 1e9:.1f}GB",
            "Tag": image["tag"],
            "UniqueSize": "N/A",
            "VirtualSize": f"{image['size_bytes'] / 1e9:.1f}GB",
        }
        say(short if flags.has("quiet") else plain_json.write(row))
    return 0
