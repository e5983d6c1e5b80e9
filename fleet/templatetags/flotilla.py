"""Tags that every template has: the two hidden fields of a form, and the sign of a state.

Times and numbers are in figures.py.
"""

import uuid
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from fleet.rules import signs

register = template.Library()


@register.simple_tag
def idempotency_key() -> SafeString:
    """Hidden field with a fresh key: the same form sent twice has one effect and one answer."""
    return format_html(
        '<input type="hidden" name="idempotency_key" value="{}">', str(uuid.uuid4())
    )


@register.simple_tag
def base_version(subject: Any) -> SafeString:
    """Hidden field with the version of the object that the page shows; an older one is answered by 409."""
    return format_html('<input type="hidden" name="base_version" value="{}">', subject.version)


@register.filter
def sign(state: str | None) -> str:
    """Shape of a state: ok, run, hold, warn, crit, idle, cordon, unk or skip."""
    return signs.sign_of(state or "")


@register.filter
def tone(state: str | None) -> str:
    """Tone class of a state: ok, run, hold, warn, crit or idle."""
    return signs.tone_of(state or "")
