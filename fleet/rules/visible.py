"""Makes hostile node text safe to look at: every control and direction mark becomes a sign that can be seen. Pure.

Escaping HTML is the template's; here nothing may move a cursor, hide text or turn its direction.
"""

_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE = (0x00AD, 0x200B, 0x2060, 0xFEFF, 0x2028, 0x2029)
_SIGNS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)},
    0x7F: "\u2421",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{code: f"[U+{code:04X}]" for code in (*_BIDI, *_INVISIBLE)},
}


def visible(text: str) -> str:
    """Return the text with C0 and C1 controls, bidi marks and invisible spaces shown as signs; line feeds stay."""
    return text.replace("\r\n", "\n").translate(_SIGNS)


def visible_bytes(body: bytes) -> str:
    """Decode node output for a page: bytes that are no UTF-8 become U+FFFD, controls become signs."""
    return visible(body.decode("utf-8", "replace"))
