"""Regular expressions of readers on lines of nodes: neither may cost more than a moment.

Postgres matches, because its engine can be stopped by the clock; Python's cannot.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.db import DataError, OperationalError, connection, transaction

_CANCELED = "57014"  # query_canceled: the statement time-out
_LEAST_MS = 20

_MATCH = "SELECT at - 1 FROM unnest(%s::text[]) WITH ORDINALITY AS line(body, at) WHERE body ~ %s"
# A word border is \y there; a doubled backslash is a backslash and stays.
_WORD_BORDER = re.compile(r"(\\\\)|\\b")


class BadPattern(ValueError):
    """The expression cannot be read; the words say where."""


class SlowPattern(TimeoutError):
    """The expression took longer than it was given on one batch of lines."""


def match_lines(pattern: str, texts: Sequence[str], timeout_s: float) -> list[int]:
    """Return the indices of the texts that match.

    `timeout_s` is for the whole batch. Raises `BadPattern` or `SlowPattern`.
    """
    asked = _WORD_BORDER.sub(lambda m: m.group(1) or r"\y", pattern)
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {max(_LEAST_MS, int(timeout_s * 1000))}")
            cursor.execute(_MATCH, [list(texts), asked])
            return [row[0] for row in cursor.fetchall()]
    except DataError as error:
        raise BadPattern(str(error).splitlines()[0]) from error
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == _CANCELED:
            raise SlowPattern(f"no answer within {timeout_s:.1f} s") from error
        raise
