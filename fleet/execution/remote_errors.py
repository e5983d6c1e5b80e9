"""Why a node could not be asked, by whose problem it is. Messages name the node first."""


class RemoteError(Exception):
    """A node could not be asked. `may_have_run`: the shim may have received the call."""

    may_have_run = False
    is_lasting = False  # true when trying again cannot help until a person acts

    def __init__(self, message: str, *, may_have_run: bool = False) -> None:
        super().__init__(message)
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


class HttpFailed(RemoteError):
    """The node is there, but what should answer HTTP on it refuses, breaks off or takes too long."""


class HostKeyError(RemoteError):
    """The node's host key is not the pinned one; nothing was sent to it. `offered` is what it showed."""

    is_lasting = True

    def __init__(self, message: str, offered: str) -> None:
        super().__init__(message)
        self.offered = offered


class HostKeyUnset(HostKeyError):
    """No key is pinned yet; a person has to accept the offered one."""


class HostKeyChanged(HostKeyError):
    """Another key than the pinned one."""
