"""Tables of the kernel. Rows are moved only by dispatch.py, hands.py, adopt.py and the watch."""

from fleet.execution.command import Command, CommandOutput, Subject
from fleet.execution.host import Host, Lease
from fleet.execution.orphan import Orphan
from fleet.execution.stream import LogChunk, LogStream, Scrape

__all__ = [
    "Command",
    "CommandOutput",
    "Host",
    "Lease",
    "LogChunk",
    "LogStream",
    "Orphan",
    "Scrape",
    "Subject",
]
