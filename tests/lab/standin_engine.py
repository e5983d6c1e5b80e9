"""A stand-in for the rehearsed engine: two workers, a few log lines, TERM ends it with 0.

It keeps the container contract (state.json, workers.json, log) so that docker's stub and the
faults are tested without the engine. Run as `python -I -S standin_engine.py CONTAINER_DIR`.
"""

import json
import os
import signal
import subprocess
import sys
import time

directory = sys.argv[1]
with open(f"{directory}/config.json") as file:
    config = json.load(file)
stopping = []


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[19])


def write(name, value):
    with open(f"{directory}/{name}.new", "w") as file:
        json.dump(value, file)
    os.replace(f"{directory}/{name}.new", f"{directory}/{name}")


def stamp():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() % 10**9:09d}Z"


def log(kind, text):
    with open(f"{directory}/log", "a") as file:
        file.write(f"{stamp()} {kind} {text}\n")


signal.signal(signal.SIGTERM, lambda *_: stopping.append(1))
state = {
    "status": "running",
    "pid": os.getpid(),
    "start_ticks": ticks(os.getpid()),
    "exit_code": None,
    "oom_killed": False,
    "started_at": stamp(),
    "finished_at": None,
    "phase": "load",
}
workers = [subprocess.Popen(["/bin/sleep", "600"]) for _ in range(2)]
write(
    "workers.json",
    [
        {
            "rank": n,
            "local_rank": n,
            "pid": w.pid,
            "start_ticks": ticks(w.pid),
            "argv0": f"VLLM::Worker_TP{n}",
        }
        for n, w in enumerate(workers)
    ],
)
write("state.json", state)
log("O", "argv " + json.dumps(config["argv"]))
log("E", "a line for stderr")
log("O", "waiting")
code = 3 if "--fail" in config["argv"] else 0
while not stopping and code == 0 and all(w.poll() is None for w in workers):
    time.sleep(0.02)
for worker in workers:
    worker.kill()
    worker.wait()
log("O", "bye")
write("state.json", {**state, "status": "exited", "exit_code": code, "finished_at": stamp()})
