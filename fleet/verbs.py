"""How the verbs of the trail read on pages. The stored verb stays what it is: filters and exports use it.

Upper apps add the verbs of their own services with verbs_add(), as they do for their states (marks.py).
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from fleet.marks import has_machine, mark_of
from fleet.models import TrailEntry

_WORDS: dict[str, Any] = {
    "node.add": _("added it to the fleet"),
    "node.change": _("changed its row"),
    "node.move": _("moved it on"),
    "host.add": _("added the host"),
    "host.change": _("changed the host"),
    "pool.add": _("added the pool"),
    "pool.change": _("changed the pool"),
    "replica.add": _("added the unit"),
    "replica.change": _("changed the unit"),
    "replica.move": _("moved the unit on"),
    "replica.doubt": _("doubted the unit"),
    "probe.start": _("asked for a probe"),
    "probe.give_up": _("gave the probe up"),
    "hold.add": _("held it"),
    "hold.lift": _("lifted a hold"),
    "hold.override": _("lifted somebody else's hold"),
    "host_key.accept": _("pinned the host key"),
    "host_key.request": _("asked for a new host key"),
    "host_key.sign": _("signed the new host key"),
    "host_key.withdraw": _("withdrew the new host key"),
    "host_key.keep": _("kept the pinned host key"),
    "brake.pull": _("pulled the mass-change brake"),
    "brake.clear": _("cleared the mass-change brake"),
    "role.grant": _("gave a role"),
    "role.revoke": _("took a role"),
    "session.begin": _("signed in"),
    "sign_in.unlock": _("unlocked the sign-in"),
}
_NUMBERED = {"wave": _("wave %(n)s is now %(state)s"), "step": _("step %(n)s is now %(state)s")}


def verbs_add(words: dict[str, Any]) -> None:
    """Let an upper app say how its verbs read."""
    _WORDS.update(words)


def verb_words(verb: str, after: Any = None) -> str:
    """Say what was done. A move to a state reads as the state's word; a verb that no table knows stays as it is."""
    if verb in _WORDS:
        return str(_WORDS[verb])
    machine, _dot, state = verb.partition(".")
    if not state or not has_machine(machine):
        return verb
    word = str(mark_of(machine, state).word)
    said = {"state": word[:1].lower() + word[1:]}
    number = after.get(machine) if isinstance(after, dict) else None
    if machine in _NUMBERED and number is not None:
        return str(_NUMBERED[machine]) % {**said, "n": number}
    return gettext("is now %(state)s") % said


def entry_words(entry: TrailEntry) -> str:
    """Say what an entry of the trail did."""
    return verb_words(entry.verb, entry.after)
