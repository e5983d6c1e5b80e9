"""Waits until database and cache answer; makes the database of an embedded server. Runs once at each start.

A process of its own, so that the long-lived supervisor stays free of client libraries.
"""

import os
import sys

from console.embedded import postgres, redis

_TIMEOUT_S = 120.0  # a loaded machine needs ten times the usual


def main() -> int:
    """Wait until database and cache answer; makes the embedded database. Returns 0, or 3 when one does not in time."""
    database_url = os.environ["DATABASE_URL"]
    try:
        if os.environ.get("DATABASE_IS_EMBEDDED") == "1":
            server_url, _, name = database_url.rpartition("/")
            postgres.wait_until_it_answers(f"{server_url}/postgres", timeout_s=_TIMEOUT_S)
            postgres.create_database(f"{server_url}/postgres", name)
        postgres.wait_until_it_answers(database_url, timeout_s=_TIMEOUT_S)
        redis.wait_until_it_answers(os.environ["REDIS_URL"], timeout_s=_TIMEOUT_S)
    except (postgres.PostgresError, redis.RedisError) as problem:
        print(problem, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
