"""Tags that every template has: the two hidden fields of a form, and stored sentences. Times are in figures.py."""

import uuid
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from fleet.models import TrailEntry
from fleet.rules.message import said
from fleet.verbs import entry_words, verb_words

register = template.Library()


@register.simple_tag
def idempotency_key() -> SafeString:
    """Hidden field with a fresh key: the same form sent twice has one effect and one answer."""
    return format_html('<input type="hidden" name="idempotency_key" value="{}">', str(uuid.uuid4()))


@register.simple_tag
def base_version(subject: Any) -> SafeString:
    """Hidden field with the version of the object that the page shows; an older one is answered by 409."""
    return format_html('<input type="hidden" name="base_version" value="{}">', subject.version)


@register.filter(name="said")
def said_words(text: str | None) -> str:
    """A stored sentence in the reader's language; plain text passes unchanged."""
    return said(text or "", gettext)


@register.filter
def did(entry: TrailEntry) -> str:
    """What an entry of the trail did, in the reader's language."""
    return entry_words(entry)


@register.filter
def verb_said(verb: str) -> str:
    """A verb of the trail in the reader's language."""
    return verb_words(verb)


@register.filter
def who(actor: str) -> str:
    """An actor of the trail as a page names it: a person, a command of this machine, or `auto` for a rule."""
    kind, _colon, name = actor.partition(":")
    if not name:
        return actor
    return gettext("auto") if kind == "rule" else name
