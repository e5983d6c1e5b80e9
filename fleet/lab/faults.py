"""The table of faults, and how one is put on a node and taken off again.

LAB.md section 6 is the list to grow into; a row enters with the first detector that needs it.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from . import effects, faults_gpu, faults_host, faults_network, registry, shelf, state, views
from .effects import Site
from .fault import BOOT_ID, BOOT_VIEWS, KERNEL_VIEWS, Fault, Sign, Value
from .place import LabError
from .sshd import NodeHost

GPU_LIST = ("view/smi.L", "view/smi.tsv", "view/topo.m", "view/docker.gpus")
LOST = r"Unable to determine the device handle for GPU\d: 0000:[0-9A-F]{2}:00\.0: Unknown Error"
ANY_HOST = ("node", "gateway")
TABLE = (
    Fault(
        name="rank.kill",
        about="one rank's process is killed; a two-node unit takes on=head or on=follower",
        apply=effects.kill_rank,
        arguments={"gpu": 0, "on": "head"},
        cannot_undo="rebuild the unit",
        is_lasting=False,
    ),
    Fault(
        name="rank.hang",
        about="one rank's process stops; it stays in the process list",
        apply=effects.stop_rank,
        undo=effects.continue_rank,
        arguments={"gpu": 0, "on": "head", "signature": "rpc"},
    ),
    Fault(
        name="engine.freeze",
        about="the engine accepts requests and answers none; health stays 200",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"unit": ""},
    ),
    Fault(
        name="answer.wrong",
        about="every answer has another text than this model revision gives; health stays 200",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"unit": ""},
    ),
    Fault(
        name="nccl.socket",
        about="containers that start find no InfiniBand device; NCCL goes over sockets",
        apply=effects.only_told,
        undo=effects.only_told,
    ),
    Fault(
        name="oom.load",
        about="a rank runs out of GPU memory while the weights load",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"gpu": 0, "on": "head"},
    ),
    Fault(
        name="launch.slow",
        about="a phase of the start takes `factor` times as long",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"phase": "load", "factor": 3.0},
    ),
    Fault(
        name="launch.stuck",
        about="a phase of the start never ends",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"phase": "load"},
    ),
    Fault(
        name="start.half",
        about="docker refuses to start containers on this node",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"on": "follower"},
    ),
    Fault(
        name="ssh.refused",
        about="connections are refused; open sessions live on",
        apply=effects.refuse_ssh,
        undo=effects.restore_ssh,
        kinds=ANY_HOST,
    ),
    Fault(
        name="ssh.silent",
        about="connections open and nothing answers; open sessions freeze",
        apply=effects.silence_ssh,
        undo=effects.restore_ssh,
        kinds=ANY_HOST,
    ),
    Fault(
        name="ssh.hostkey",
        about="the node shows another host key",
        apply=effects.change_host_key,
        undo=effects.restore_host_key,
        kinds=ANY_HOST,
    ),
    Fault(
        name="node.dead",
        about="every process is killed and nothing answers; clearing switches the node on",
        apply=effects.switch_off,
        undo=effects.switch_on,
        kinds=ANY_HOST,
    ),
    Fault(
        name="node.reboot",
        about="the node goes dark and comes back with a new boot id; containers exit with 255",
        apply=effects.reboot,
        arguments={"dark": 6.0},
        signs=(Sign(BOOT_ID, r"^[0-9a-f]{8}-[0-9a-f-]{27}$"),),
        also=BOOT_VIEWS,
        kinds=ANY_HOST,
        is_lasting=False,
    ),
    Fault(
        name="gateway.kill",
        about="the gateway's proxy is killed",
        apply=effects.kill_proxy,
        cannot_undo="start the gateway again",
        kinds=("gateway",),
        is_lasting=False,
    ),
    Fault(
        name="gateway.stop",
        about="the gateway's proxy stands still: connections open and nothing answers",
        apply=effects.stop_proxy,
        undo=effects.continue_proxy,
        kinds=("gateway",),
    ),
    Fault(
        name="docker.hung",
        about="every docker call blocks; engines live on",
        apply=effects.hang_docker,
        undo=effects.restore_docker,
        signs=(Sign("view/docker.state", "^hung$"),),
    ),
    Fault(
        name="docker.down",
        about="the docker daemon is gone; engines live on",
        apply=effects.drop_docker,
        undo=effects.restore_docker,
        signs=(
            Sign("view/docker.state", "^down$"),
            Sign("view/services", "^docker failed$"),
        ),
    ),
    Fault(
        name="shard.corrupt",
        about="one byte of a shard is turned; size, times and .ready stay",
        apply=shelf.corrupt_shard,
        undo=shelf.restore_shard,
        arguments={"model": "deepseek-v4-flash", "n": 1},
    ),
    Fault(
        name="shard.missing",
        about="a shard is gone; .ready stays",
        apply=shelf.remove_shard,
        undo=shelf.restore_shard,
        arguments={"model": "deepseek-v4-flash", "n": 1},
    ),
    Fault(
        name="copy.slow",
        about="copies to this node get `kbps` KiB/s",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"kbps": 64},
    ),
    Fault(
        name="disk.full",
        about="no file of more than 2 KiB can be copied to this node any more (ENOSPC)",
        apply=effects.only_told,
        undo=effects.only_told,
    ),
    Fault(
        name="image.absent",
        about="the node lacks an image until it is pulled; the registry has it",
        apply=registry.remove_image,
        undo=registry.restore_image,
        arguments={"tag": "v0.23.0"},
    ),
    Fault(
        name="registry.down",
        about="the image registry refuses connections of this node",
        apply=effects.only_told,
        undo=effects.only_told,
    ),
    Fault(
        name="pull.slow",
        about="a pull of an image takes `factor` times as long",
        apply=effects.only_told,
        undo=effects.only_told,
        arguments={"factor": 10.0},
    ),
    Fault(
        name="gpu.missing",
        about="the driver lists seven GPUs, renumbered",
        apply=effects.lose_gpu_at_boot,
        arguments={"gpu": 3, "sticky": 0},
        signs=(Sign("view/smi.L", r"(?s)^(?!.*GPU 7:).*GPU 6:"),),
        also=GPU_LIST,
        cannot_undo="reboot the node",
    ),
    Fault(
        name="gpu.xid79",
        about="a GPU falls off the bus; its rank dies",
        apply=effects.drop_gpu_off_bus,
        arguments={"gpu": 3, "sticky": 0},
        signs=(
            Sign("view/smi.L", LOST),
            Sign("view/smi.tsv", f"\t!{LOST}"),
            Sign("view/topo.m", f"^{LOST}$"),
            Sign("view/kernel.iso", r"kernel: NVRM: Xid \(PCI:0000:4e:00\): 79, pid="),
        ),
        also=(*GPU_LIST, *KERNEL_VIEWS, "view/smi.L.rc", "view/topo.m.rc"),
        cannot_undo="reboot the node",
    ),
    *faults_gpu.TABLE,
    *faults_network.TABLE,
    *faults_host.TABLE,
)
FAULTS = {fault.name: fault for fault in TABLE}


def find_fault(name: str) -> Fault:
    """Return a fault by name; LabError with the known names otherwise."""
    if name not in FAULTS:
        raise LabError(f"no fault {name}; there are {', '.join(sorted(FAULTS))}")
    return FAULTS[name]


def check_hosts(fault: Fault, hosts: list[NodeHost]) -> None:
    """Raise LabError unless all of these can have the fault."""
    if wrong := [host.name for host in hosts if host.kind not in fault.kinds]:
        raise LabError(f"{fault.name} is for a {' or '.join(fault.kinds)}; not for {wrong[0]}")


def read_arguments(fault: Fault, given: Mapping[str, Value]) -> dict:
    """Return the fault's arguments with defaults and types applied; LabError names what is wrong."""
    unknown = sorted(set(given) - set(fault.arguments))
    if unknown:
        known = ", ".join(fault.arguments) or "no arguments"
        raise LabError(f"{fault.name} does not know {', '.join(unknown)}; it takes {known}")
    arguments = dict(fault.arguments)
    for key, value in given.items():
        kind = type(fault.arguments[key])
        try:
            arguments[key] = kind(value)
        except ValueError as error:
            raise LabError(f"{fault.name}: {key}={value} is not {kind.__name__}") from error
    return arguments


def put_on(site: Site, fault: Fault, arguments: dict, fault_id: str) -> None:
    """Apply a fault to a node and keep its row in the state and in faults.json."""
    arguments = dict(arguments)
    row: dict = {
        "id": fault_id,
        "name": fault.name,
        "args": arguments,
        "since": state.time_text(site.now),
    }
    if fault.outlives_boot:
        row["outlives_boot"] = True
    fault.apply(site, arguments)
    if fault.is_lasting:
        site.state["faults"].append(row)
    save(site)


def take_off(site: Site, wanted: str | None) -> list[dict]:
    """Undo the faults that `wanted` (an id, a name, None for all) selects; tell about each."""
    told = []
    for row in reversed(list(site.state["faults"])):
        if wanted not in (None, row["id"], row["name"]):
            continue
        fault = FAULTS[row["name"]]
        answer = {"node": site.host.name, "id": row["id"], "name": row["name"]}
        if fault.undo is None:
            told.append({**answer, "is_cleared": False, "explanation": fault.cannot_undo})
            continue
        fault.undo(site, row["args"])
        site.state["faults"] = [other for other in site.state["faults"] if other is not row]
        told.append({**answer, "is_cleared": True, "explanation": ""})
    save(site)
    return told


def save(site: Site) -> None:
    """Write state, faults.json and the views that changed."""
    state.write_state(site.directory, site.state, site.now)
    rows = site.state["faults"]
    state.replace_text(site.directory / "faults.json", json.dumps(rows))
    views.write_views(site.directory, site.state)


def open_site(lab: Path, host: NodeHost, now: datetime, scales: Mapping[str, float]) -> Site:
    """Load one node for a change."""
    return Site(lab, host, state.read_state(host.directory), now, scales)
