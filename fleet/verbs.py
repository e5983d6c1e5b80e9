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
    "node.add": _("added to the fleet"),
    "node.change": _("row changed"),
    "host.add": _("host added"),
    "host.change": _("host changed"),
    "pool.add": _("pool added"),
    "pool.change": _("pool changed"),
    "replica.add": _("unit added"),
    "replica.change": _("unit changed"),
    "replica.doubt": _("doubted"),
    "probe.start": _("probe asked for"),
    "probe.give_up": _("probe given up"),
    "acceptance.start": _("acceptance asked for"),
    "acceptance.cancel": _("acceptance cancelled"),
    "acceptance.accepted": _("accepted"),
    "acceptance.marginal": _("acceptance marginal"),
    "acceptance.rejected": _("rejected by acceptance"),
    "acceptance.not_measured": _("not measured by acceptance"),
    "acceptance.void": _("acceptance ended"),
    "hold.add": _("held"),
    "hold.lift": _("hold lifted"),
    "hold.override": _("another's hold lifted"),
    "host_key.accept": _("host key pinned"),
    "host_key.request": _("new host key asked for"),
    "host_key.sign": _("new host key signed"),
    "host_key.withdraw": _("new host key withdrawn"),
    "host_key.keep": _("pinned host key kept"),
    "artefact.add": _("weights made known"),
    "artefact.read": _("seed node to be read again"),
    "distribution.start": _("distribution asked for"),
    "distribution.pause": _("distribution paused"),
    "distribution.resume": _("distribution resumed"),
    "distribution.cancel": _("distribution stopped"),
    "holding.verify": _("weights to be verified"),
    "holding.heal": _("weights to be healed"),
    "golden.take": _("golden profile taken"),
    "golden.edit": _("golden profile edited"),
    "golden.current": _("golden profile made current"),
    "brake.pull": _("mass-change brake pulled"),
    "brake.clear": _("mass-change brake cleared"),
    "network.start": _("network test started"),
    "network.end": _("network test ended"),
    "network.cancel": _("network test cancelled"),
    "network_golden.choose": _("golden pair chosen"),
    "network_golden.bar": _("bar of the golden pair changed"),
    "network_matrix.write": _("network matrix written"),
    "network_matrix.sign": _("network matrix signed"),
    "import.read": _("dry run made"),
    "import.apply": _("import applied"),
    "import.discard": _("dry run discarded"),
    "node.miss": _("missing in an import"),
    "gpu.move": _("card moved"),
    "schedule.change": _("probe interval changed"),
    "role.grant": _("role given"),
    "role.revoke": _("role taken"),
    "session.begin": _("signed in"),
    "sign_in.unlock": _("sign-in unlocked"),
}
_NUMBERED = {"wave": _("wave %(n)s now %(state)s"), "step": _("step %(n)s now %(state)s")}


def verbs_add(words: dict[str, Any]) -> None:
    """Let an upper app say how its verbs read."""
    _WORDS.update(words)


def verb_words(verb: str, after: Any = None) -> str:
    """Say what was done. A move to a state reads as the state's word; a verb that no table knows stays as it is."""
    if verb in _WORDS:
        return str(_WORDS[verb])
    machine, _dot, state = verb.partition(".")
    if state == "move" and isinstance(after, dict):
        state = str(after.get("state", ""))
    if not state or not has_machine(machine):
        return verb
    word = str(mark_of(machine, state).word)
    said = {"state": word[:1].lower() + word[1:]}
    number = after.get(machine) if isinstance(after, dict) else None
    if machine == "wave" and number == 0:
        return gettext("canary now %(state)s") % said
    if machine in _NUMBERED and number is not None:
        return str(_NUMBERED[machine]) % {**said, "n": number}
    return gettext("now %(state)s") % said


def entry_words(entry: TrailEntry) -> str:
    """Say what an entry of the trail did; of what was refused there is only the name of the form."""
    if entry.outcome == "refused" and verb_words(entry.verb) == entry.verb:
        return gettext("refused: %(form)s") % {"form": entry.verb}
    return verb_words(entry.verb, entry.after)
