"""Words of the launch pages that several of them share."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from releases.rules.phases import GOLDEN, PREFLIGHT

ROW_WORDS = {
    PREFLIGHT: _("Pre-flight"),
    "start": _("Start"),
    "rendezvous": _("Rendezvous"),
    "load": _("Load"),
    "compile": _("Compile"),
    "capture": _("Capture"),
    GOLDEN: _("Golden"),
}
