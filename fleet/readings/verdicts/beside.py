"""What a capture that holds several tools' outputs says beside the one asked for: Xid of the driver."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.readings.kernel_log.classes import xid_class, xid_words
from fleet.readings.kernel_log.stamps import read_stamp
from fleet.readings.kernel_log.xid import XidLog
from fleet.readings.report import Finding, Severity
from fleet.readings.text import number_lines
from fleet.readings.told import tell

_KERNEL_FORMS = frozenset({"decoded", "kmsg", "journal"})
_SEVERITY: dict[str, Severity] = {"hardware": "error", "reset": "error", "info": "info"}


class KernelBeside:
    """The driver's lines in a capture; `lines` is 0 when the capture holds no kernel log."""

    def __init__(self, text: str) -> None:
        self.xids = XidLog()
        self.lines = 0
        for line in number_lines(text):
            stamped = read_stamp(line.text[:2048])
            took = self.xids.take(stamped.text, line.number)
            self.lines += took or stamped.form in _KERNEL_FORMS

    @property
    def xid_count(self) -> int | None:
        """Number of Xid lines; None when no line of a kernel log was there to count in."""
        if not self.lines:
            return None
        return sum(group.lines for group in self.xids.groups.values())

    def findings(self) -> Iterator[Finding]:
        """Tell each code of each card, and each switch fault once."""
        for group in self.xids.groups.values():
            severity = _SEVERITY.get(xid_class(group.code), "warn")
            text = tell(
                "Xid %(code)s on %(bus)s: %(name)s",
                code=group.code,
                bus=group.bus,
                name=xid_words(group.code),
            )
            yield Finding(f"xid_{group.code}", severity, text, (group.first_line,))
        for fault in self.xids.switches[:1]:
            severity = "error" if fault.severity == "Fatal" else "warn"
            text = tell("%(switch)s: SXid %(code)s", switch=fault.switch, code=fault.code)
            yield Finding("sxid", severity, text, (fault.line,))
