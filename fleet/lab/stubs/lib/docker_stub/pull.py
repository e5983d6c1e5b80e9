"""`docker pull REF`: layers that take their time, and the words of a daemon that cannot get them."""

import os
import time

from .node import (
    LAB,
    Refusal,
    absent_path,
    faults,
    find_image,
    note_unknown,
    read_json,
    registry,
    say,
)

LAYERS = 6
NOMINAL_BYTES_PER_S = 250e6  # what one node gets of a registry; unpacking is the most of it


def pull(argv: list[str]) -> int:
    """Pull one image; what is here already is compared with the registry only."""
    words = [word for word in argv if word not in ("-q", "--quiet")]
    if len(words) != 1 or words[0].startswith("-"):
        note_unknown(["pull", *argv])
        raise Refusal('"docker pull" requires exactly 1 argument.')
    ref = words[0]
    name = ref.partition("@")[0]
    server = name.partition("/")[0]
    if faults("registry.down"):
        raise Refusal(
            f'Error response from daemon: Get "https://{server}/v2/": dial tcp: '
            f"connect: connection refused"
        )
    image = find_image(ref, registry())
    if image is None:
        raise Refusal(
            f"Error response from daemon: manifest for {ref} not found: "
            "manifest unknown: manifest unknown"
        )
    say(f"{name}@{image['digest']}: Pulling from {name.partition('/')[2].partition(':')[0]}")
    is_new = os.path.exists(absent_path(image))
    if is_new:
        _fetch(image)
    say(f"Digest: {image['digest']}")
    status = "Downloaded newer image for" if is_new else "Image is up to date for"
    say(f"Status: {status} {ref}\n{ref}")
    return 0


def _fetch(image: dict) -> None:
    layers = [image["id"][7 + 12 * place : 19 + 12 * place] for place in range(LAYERS - 1)]
    scale = read_json(os.path.join(LAB, "lab.json"), {}).get("scales", {}).get("launch", 1.0)
    factor = max([float(args.get("factor", 1.0)) for args in faults("pull.slow")], default=1.0)
    pause_s = image["size_bytes"] / NOMINAL_BYTES_PER_S / scale * factor / len(layers)
    for layer in layers:
        say(f"{layer}: Pulling fs layer")
    for layer in layers:
        time.sleep(pause_s)
        say(f"{layer}: Download complete")
        say(f"{layer}: Pull complete")
    os.unlink(absent_path(image))
