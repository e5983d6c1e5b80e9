"""Fingerprints of SSH host keys as OpenSSH prints them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from fleet.rules.message import say

KEY_TYPES = frozenset(
    {
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "ssh-rsa",
    }
)
_NOT_BASE64 = say("the host key's second word is not base64")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{40,2000}={0,2}")


def key_problem(key: str) -> str:
    """Say what is wrong with a key 'type base64', as a stored sentence; empty when it is well formed."""
    parts = key.split(" ")
    if len(parts) != 2 or parts[0] not in KEY_TYPES:
        return say(
            "expected a host key 'type base64' of %(types)s", types=", ".join(sorted(KEY_TYPES))
        )
    if not _BASE64.fullmatch(parts[1]):
        return _NOT_BASE64
    try:
        blob = base64.b64decode(parts[1], validate=True)
    except binascii.Error:
        return _NOT_BASE64
    # the blob names its own type first: 4 bytes of length, then the word
    if blob[4 : 4 + len(parts[0])] != parts[0].encode():
        return say("the host key says it is %(type)s, and its bytes say otherwise", type=parts[0])
    return ""


def fingerprint(key: str) -> str:
    """Return `SHA256:...` of a key 'type base64'; empty for no key."""
    if not key:
        return ""
    try:
        blob = base64.b64decode(key.split(" ")[-1], validate=True)
    except binascii.Error:
        return ""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode()
    return f"SHA256:{digest.rstrip('=')}"
