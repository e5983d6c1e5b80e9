"""Tags that every template has: the two hidden fields of a form, and stored sentences. Times are in figures.py."""

import uuid
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from fleet.rules.message import said

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
