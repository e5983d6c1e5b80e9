"""Secrets that live as long as one process: made from a label when a start is sent, stored nowhere.

The row of a command names the label only, so neither the database nor Redis ever holds the secret.
"""

import hashlib
import hmac

from django.conf import settings


def one_time_secret(label: str) -> str:
    """Return the secret of a label, 64 hex digits; the same in every process of this console."""
    key = hashlib.sha256(b"one-time/" + settings.SECRET_KEY.encode()).digest()
    return hmac.new(key, label.encode(), "sha256").hexdigest()
