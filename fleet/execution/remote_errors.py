"""Why a node could not be asked, by whose problem it is. Messages name the node first."""

from fleet.execution.message import SentenceError, say

# Words of the operating system and of the SSH library that people see most.
FOREIGN_WORDS = (
    say("Connection refused"),
    say("Connection reset by peer"),
    say("Connection timed out"),
    say("Network is unreachable"),
    say("No route to host"),
    say("timed out"),
    say("Socket is closed"),
    say("Error reading SSH protocol banner"),
)


class RemoteError(SentenceError):
    """A node could not be asked. `may_have_run`: the shim may have received the call."""

    may_have_run = False
    is_lasting = False  # true when trying again cannot help until a person acts

    def __init__(self, why: str, *, node: str = "", may_have_run: bool = False) -> None:
        super().__init__(say("%(node)s: %(why)s", node=node, why=why) if node else why)
        self.may_have_run = may_have_run


class Unreachable(RemoteError):
    """No connection, or it broke."""


class Deadline(RemoteError):
    """The node did not answer in time."""


class AuthFailed(RemoteError):
    """The node does not accept the console's key."""

    is_lasting = True


class ShimRefused(RemoteError):
    """The node answers, but not as the shim: no sh, another forced command, no place to write, noise."""


class PortFailed(RemoteError):
    """The node is there, but what should answer on one of its ports refuses, breaks off or takes too long."""


class HostKeyError(RemoteError):
    """The node's host key is not the pinned one; nothing was sent to it. `offered` is what it showed."""

    is_lasting = True

    def __init__(self, why: str, offered: str, *, node: str = "") -> None:
        super().__init__(why, node=node)
        self.offered = offered


class HostKeyUnset(HostKeyError):
    """No key is pinned yet; a person has to accept the offered one."""


class HostKeyChanged(HostKeyError):
    """Another key than the pinned one."""
