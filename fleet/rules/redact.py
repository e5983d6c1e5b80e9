"""What must not be stored: secrets in the output of nodes become *** and their last four characters.

Pure and without a clock. Lines are whole when they come here, so a secret can never hide on a border
of two frames; a key block over several lines is remembered from line to line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MASK = "***"
KEY_BLOCK = "*** private key, not stored ***"
KEY_BLOCK_OPEN = "*** private key, not stored, continues ***"
# The longest key block in use has about 200 lines; a block without an end must not hide a whole log.
_KEY_LINES_CAP = 256
_SHORTEST_KNOWN = 6
_SHOWS_TAIL_FROM = 12

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
# Cheap words first: most lines hold none of them and no pattern is tried. Checked in lower case.
_HINTS = (
    "hf_",
    "bearer",
    "akia",
    "asia",
    "sk-",
    "ghp_",
    "github_pat_",
    "glpat-",
    "nvapi-",
    "xox",
    "basic ",
    "://",
    "-----",
)
# "tokens/s" stands in half of an engine's lines; only a name with a sign of giving is worth a look.
_NAMES = ("token", "key", "secret", "passw")
_NAME_GIVEN = re.compile(r"(?:token|key|secret|passw(?:or)?d)[\"']?\s{0,4}[=:]")
_WHOLE = re.compile(
    r"\bhf_[A-Za-z0-9]{6,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{12,}"
    r"|\bsk-[A-Za-z0-9_-]{16,}"
    r"|\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{16,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{16,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bnvapi-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{8,}"
)
# The name stays, the value goes: token=..., "api_key": ["..."], Authorization: Bearer ...
_VALUE = re.compile(
    r"(?P<name>(?:\b|_)(?:token|secret|secret[_-]?access[_-]?key|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|passw(?:or)?d)[\"']?\s{0,4}[=:]\s{0,4}[\[(]?[\"']?"
    r"|\bbearer\s{1,4}|\bbasic\s{1,4}(?=[A-Za-z0-9+/]{8,}=*\b)"
    r"|://[^\s:/@]{1,64}:(?=[^\s/@]{1,256}@))"
    r"(?P<value>[^\s,;&\"'\])}@]{6,})",
    re.IGNORECASE,
)


def mask(secret: str) -> str:
    """Return what is shown instead of a secret: its last four characters when it is long enough."""
    return MASK + (secret[-4:] if len(secret) >= _SHOWS_TAIL_FROM else "")


class Redactor:
    """Redacts the lines of one stream in order; give it every line, once.

    `known` are values that are secret whatever they look like (shorter than six characters are ignored:
    they would blot out ordinary words). `is_in_key` resumes a stream inside a key block.
    """

    def __init__(self, known: Iterable[str] = (), *, is_in_key: bool = False):
        self._known = known_pattern(known)
        self.is_in_key = is_in_key
        self._key_lines = 0

    def line(self, text: str) -> str:
        """Return the line as it may be stored."""
        if self.is_in_key:
            return self._inside_key(text)
        if self._known:
            text = self._known.sub(_mask_match, text)
        if not _is_suspicious(text.lower()):
            return text
        text = _VALUE.sub(_mask_value, _WHOLE.sub(_mask_match, text))
        return self._without_keys(text) if "-----BEGIN" in text else text

    def _without_keys(self, text: str) -> str:
        """A loop, because a hostile line holds thousands of key blocks."""
        parts, at = [], 0
        while begin := _BEGIN.search(text, at):
            parts.append(text[at : begin.start()])
            end = _END.search(text, begin.end())
            if not end:
                self.is_in_key, self._key_lines = True, 0
                return "".join([*parts, KEY_BLOCK_OPEN])
            parts.append(KEY_BLOCK)
            at = end.end()
        return "".join([*parts, text[at:]])

    def _inside_key(self, text: str) -> str:
        end = _END.search(text)
        if end:
            self.is_in_key = False
            return KEY_BLOCK + self.line(text[end.end() :])
        self._key_lines += 1
        if self._key_lines >= _KEY_LINES_CAP:
            self.is_in_key = False
        return KEY_BLOCK_OPEN


def ends_in_key(last_line: str) -> bool:
    """Tell from the last stored line whether a stream stopped inside a key block."""
    return last_line.endswith(KEY_BLOCK_OPEN)


def redact_text(text: str, known: Iterable[str] = ()) -> str:
    """Redact a whole output at once, line by line; line feeds are kept."""
    if not known and not _is_suspicious(text.lower()):
        return text  # as most outputs: a line can only be suspicious where the whole is
    redactor = Redactor(known)
    return "\n".join(redactor.line(line) for line in text.split("\n"))


def known_pattern(known: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of all known values, the longest first, or None without any."""
    values = sorted({v for v in known if len(v) >= _SHORTEST_KNOWN}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, values))) if values else None


def _is_suspicious(low: str) -> bool:
    if any(hint in low for hint in _HINTS):
        return True
    return any(name in low for name in _NAMES) and _NAME_GIVEN.search(low) is not None


def _mask_match(match: re.Match[str]) -> str:
    return mask(match.group())


def _mask_value(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    is_count = value.isdigit() and "token" in name.lower()  # max_token: 131072
    return match.group() if is_count or value.startswith(MASK) else name + mask(value)
