"""A sequential read of the model disk at the rate of the node's state: `read_disk.py fio|dd BYTES SECONDS`.

It takes as long as the read would, at most two seconds, divided by the lab's launch scale.
"""

import json
import os
import sys
import time

LONGEST_S = 2.0


def main(tool: str, size: int, limit_s: float) -> int:
    """Wait as long as the read lasts, then print what the tool prints."""
    with open(os.path.join(os.environ["NODE_DIR"], "view", "rates"), encoding="utf-8") as file:
        rate_gbs = float(file.read().split()[1])
    seconds = min(size / rate_gbs / 1e9, limit_s)
    read = int(seconds * rate_gbs * 1e9)
    with open(os.path.join(os.environ["LAB"], "lab.json"), encoding="utf-8") as file:
        scale = float(json.load(file).get("scales", {}).get("launch", 1.0))
    time.sleep(min(seconds, LONGEST_S) / scale)
    if tool == "dd":
        blocks = read // (4 << 20)
        sys.stderr.write(
            f"{blocks}+0 records in\n{blocks}+0 records out\n"
            f"{read} bytes ({read / 1e9:.1f} GB, {read / 2**30:.1f} GiB) copied, "
            f"{seconds:.6g} s, {rate_gbs:.1f} GB/s\n"
        )
        return 0
    cells = {"io_bytes": read, "bw_bytes": int(rate_gbs * 1e9), "runtime": round(seconds * 1000)}
    job = {"jobname": "read", "error": 0, "read": cells}
    sys.stdout.write(json.dumps({"fio version": "fio-3.36", "jobs": [job]}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
