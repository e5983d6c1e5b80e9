"""The sentences of the kernel, under the name that rules, services and pages know them by."""

from fleet.execution.message import foreign, said, say, say_all

__all__ = ["foreign", "said", "say", "say_all"]
