#!/usr/bin/env python
"""Entry point of every management command."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as problem:  # a variable of the environment
        sys.stderr.write(f"{problem}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
