"""Reports about a communicator from outside it: NCCL's RAS client and the flight recorder's table."""

from __future__ import annotations

import re
from typing import Any

_GROUP = re.compile(
    r"^\s*\d{1,6}\s+\d{1,6}\s+\d{1,6}\s+[\d-]{1,12}\s+[\d-]{1,12}\s+(\d{1,8})\s+"
    r"(RUNNING|INIT|FINALIZE|ABORT|MIXED|UNKNOWN)\s+(\S{1,32})\s*$"
)
_PROCESS = re.compile(r"Process (\d{1,10}) on node (\S{1,64}) managing GPUs? ([\d,]{1,64})")
_MISSING = re.compile(r"The missing ranks?: ([\d, -]{1,400})")
_TIMEOUTS = re.compile(r"Encountered (\d{1,8}) communication timeouts?")
_DEAD = re.compile(r"\bPEER_DEAD\b")
_CAP = 512


class RasLog:
    """Collects what RAS and flight-recorder lines tell."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.missing: list[dict[str, Any]] = []
        self.lines: list[int] = []
        self._is_recorder = False

    def take(self, text: str, line: int) -> bool:
        """Take one line; return whether it told anything."""
        told = self._take_recorder(text) or self._take_ras(text)
        if told and len(self.lines) < _CAP:
            self.lines.append(line)
        return told

    def _take_recorder(self, text: str) -> bool:
        if text.startswith("PGID") and "Missing Ranks" in text:
            self._is_recorder = True
            return True
        cells = [cell.strip() for cell in text.split("|")] if self._is_recorder else []
        if len(cells) != 6 or not cells[0].isdigit() or len(self.missing) >= _CAP:
            return False
        ranks = [int(r) for r in re.findall(r"\d{1,6}", cells[5])]
        op = cells[2].removeprefix("nccl:")
        self.missing.append({"pgid": int(cells[0][:9]), "ranks": ranks, "op": op, "size": cells[3]})
        return True

    def _take_ras(self, text: str) -> bool:
        told = False
        if row := _GROUP.match(text):
            error = None if row[3] == "OK" else row[3]
            self.values |= {"nranks": int(row[1]), "status": row[2], "error": error}
            told = True
        if process := _PROCESS.search(text):
            gpu = process[3].split(",")[0]
            pid = int(process[1])
            self.values |= {"process": pid, "pid": pid, "node": process[2], "gpu": int(gpu or 0)}
            told = True
        if _DEAD.search(text):
            self.values["event"] = "PEER_DEAD"
            told = True
        if (missing := _MISSING.search(text)) and (ranks := re.findall(r"\d{1,6}", missing[1])):
            self.values["missing_rank"] = int(ranks[0])
            self.values["missing_ranks"] = [int(r) for r in ranks]
            told = True
        if timeouts := _TIMEOUTS.search(text):
            self.values["timeouts"] = int(timeouts[1])
            told = True
        return told
