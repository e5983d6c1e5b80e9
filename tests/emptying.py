"""Empties the tables that a committing test filled.

Django's flush truncates every table and fills the content types and permissions anew, which nothing here uses:
with some hundred tables that took longer than most of these tests.
"""

from __future__ import annotations

from django.db import connection
from django.test import TransactionTestCase

_KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission"})


def empty_what_was_filled(case: TransactionTestCase) -> None:
    """Truncate the tables that hold a row; stands in for TransactionTestCase._fixture_teardown."""
    quote = connection.ops.quote_name
    tables = [name for name in connection.introspection.table_names() if name not in _KEPT]
    looks = " UNION ALL ".join(
        f"(SELECT '{name}' FROM {quote(name)} LIMIT 1)" for name in sorted(tables)
    )
    with connection.cursor() as cursor:
        cursor.execute(looks)
        if filled := [quote(name) for (name,) in cursor.fetchall()]:
            cursor.execute(f"TRUNCATE {', '.join(filled)} CASCADE")
