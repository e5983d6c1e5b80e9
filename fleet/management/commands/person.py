"""`manage.py person NAME --role ROLE`: make an account, set its password, give it a role."""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from fleet.models import Pool, RoleGrant
from fleet.rules.refusals import Conflict
from fleet.services.people import role_grant
from fleet.services.trail import command_actor

ACTOR = command_actor("person")


class Command(BaseCommand):
    help = "Make an account or set its password, and give it a role for the fleet or one pool."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=[role for role, _word in RoleGrant.ROLES])
        parser.add_argument("--pool", help="slug; without it the role is for the whole fleet")
        parser.add_argument(
            "--no-password", action="store_true", help="leave the password as it is"
        )

    def handle(self, *args: Any, name: str, **options: Any) -> None:
        person, is_new = get_user_model().objects.get_or_create(username=name)
        if is_new or not options["no_password"]:
            person.set_password(_password(person))
            person.save(update_fields=["password"])
        if options["role"]:
            self._grant(person, options["role"], options["pool"])
        self.stdout.write(f"{name}: {'made' if is_new else 'changed'}")

    def _grant(self, person: Any, role: str, slug: str | None) -> None:
        pool = Pool.objects.filter(slug=slug).first() if slug else None
        if slug and pool is None:
            known = ", ".join(Pool.objects.values_list("slug", flat=True)) or "none"
            raise CommandError(f"expected a pool of {known}, found {slug}")
        try:
            role_grant(person=person, role=role, pool=pool, actor=ACTOR)
        except Conflict:
            self.stderr.write(f"{person} is {role} already")


def _password(person: Any) -> str:
    """Ask twice at a terminal, else read one line from stdin; never an argument, which others see."""
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if password != getpass.getpass("Again: "):
            raise CommandError("the two passwords differ; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\n")
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from None
    return password
