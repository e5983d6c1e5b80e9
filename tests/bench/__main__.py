"""`make bench [ONLY=T1,T8]`: measures the registered targets, one line each; exit 1 only when one fails."""

import importlib
import json
import os
import pkgutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Before the settings of the bench's own ground replace it.
REPORT = Path(os.environ.get("STATE_DIR") or ROOT / ".state").absolute() / "bench.json"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    chosen = [name for name in os.environ.get("ONLY", "").replace(" ", "").split(",") if name]
    targets = _discover()
    if unknown := sorted(set(chosen) - set(targets)):
        print(f"ONLY={','.join(unknown)}: expected {', '.join(targets)}", file=sys.stderr)
        return 2
    from tests.bench.ground import open_ground, open_servers

    rows = []
    with open_servers():
        for name in chosen or targets:
            with open_ground() as ground:
                rows.append(_measure(name, targets[name], ground))
            print(_line(rows[-1]), flush=True)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps({"at": time.time(), "targets": rows}, indent=1) + "\n")
    return 1 if any(row["result"] == "FAIL" for row in rows) else 0


def _discover() -> dict[str, Any]:
    """Load Django with the settings of tests, then every module beside this one."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    os.environ.setdefault("TIME_SCALE", "1")
    os.environ["LAB"] = "1"  # the seed fills the console only from a rehearsal lab
    import django

    import tests.bench
    from tests.bench.targets import TARGETS

    django.setup()
    for module in pkgutil.iter_modules(tests.bench.__path__):
        if module.name[:1] == "t" and module.name[1:2].isdigit():
            importlib.import_module(f"tests.bench.{module.name}")
    return dict(sorted(TARGETS.items(), key=lambda item: int(item[0].lstrip("T"))))


def _measure(name: str, measure: Any, ground: Any) -> dict[str, Any]:
    from tests.bench.targets import Skip

    row: dict[str, Any] = {"id": name, "values": {}}
    try:
        outcome = measure(ground)
    except Skip as reason:
        row |= {"result": "skip", "reason": str(reason)}
    except Exception as problem:  # one broken target must not hide the others
        traceback.print_exc()
        row |= {"result": "FAIL", "reason": f"{type(problem).__name__}: {problem}"}
    else:
        row |= {"result": "ok" if outcome.is_met else "FAIL", "values": outcome.values}
    row["load"] = round(os.getloadavg()[0], 1)
    row["printed"] = {key: _text(value) for key, value in row["values"].items()}
    row["values"] = {key: getattr(v, "value", v) for key, v in row["values"].items()}
    return row


def _text(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _line(row: dict[str, Any]) -> str:
    pairs = " ".join(f"{key}={value}" for key, value in row.pop("printed").items())
    reason = " ".join(row.get("reason", "").split())
    return " ".join(
        part for part in (row["id"], row["result"], pairs, reason, f"load={row['load']}") if part
    )


if __name__ == "__main__":
    sys.exit(main())
