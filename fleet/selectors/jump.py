"""Finds the page of an exact name or id, or of the title of a page. Upper apps add theirs: jump_add(), page_add()."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.urls import reverse
from django.utils.translation import gettext, gettext_noop

from fleet.models import (
    Evidence,
    GoldenProfile,
    GpuRecord,
    InventoryImport,
    NetMatrix,
    Node,
    Replica,
)
from fleet.selectors.acceptance import acceptance_named
from fleet.selectors.network import run_named

Finder = Callable[[re.Match[str]], str | None]
_FINDERS: list[tuple[re.Pattern[str], Finder]] = []
_PAGES: dict[str, str] = {}  # title in English -> name of its address
# Shorter beginnings of a title could mean too many pages. A Chinese title is short by nature.
LEAST_LETTERS, LEAST_IDEOGRAPHS = 3, 2


def jump_add(pattern: str, find: Finder) -> None:
    """Register an id pattern (matched whole, upper case) and how to find the address of its page."""
    _FINDERS.append((re.compile(pattern), find))


def page_add(title: str, name: str) -> None:
    """Let the title of a page, or how it begins, lead to it; `name` is that of its address."""
    _PAGES[title] = name


def page_of_name(wanted: str) -> str | None:
    """Return the address of the page of exactly this name or id, else of the page with this title, or None."""
    for pattern, find in _FINDERS:
        if (found := pattern.fullmatch(wanted.upper())) and (address := find(found)):
            return address
    if Node.objects.filter(host__name=wanted).exists():
        return reverse("node", args=[wanted])
    if Replica.objects.filter(name=wanted).exists():
        return reverse("replica", args=[wanted])
    return _titled(wanted.casefold())


def _titled(wanted: str) -> str | None:
    """Return the address of the page whose title is this, or begins like it: in English or the reader's language."""
    titles = [
        (word.casefold(), name)
        for title, name in _PAGES.items()
        for word in (title, gettext(title))
    ]
    for title, name in titles:
        if title == wanted:
            return reverse(name)
    if len(wanted) < (LEAST_LETTERS if wanted.isascii() else LEAST_IDEOGRAPHS):
        return None
    return next((reverse(name) for title, name in titles if title.startswith(wanted)), None)


def _evidence(found: re.Match[str]) -> str | None:
    pk = int(found[1])
    return reverse("evidence", args=[pk]) if Evidence.objects.filter(pk=pk).exists() else None


def _gpu(found: re.Match[str]) -> str | None:
    uuid = GpuRecord.objects.filter(uuid__iexact=found[0]).values_list("uuid", flat=True).first()
    return reverse("gpu", args=[uuid]) if uuid else None


def _import(found: re.Match[str]) -> str | None:
    pk = int(found[1])
    return reverse("import", args=[pk]) if InventoryImport.objects.filter(pk=pk).exists() else None


jump_add(r"IMP-?(\d{1,9})", _import)
jump_add(r"GPU-[0-9A-F-]{36}", _gpu)
jump_add(r"E-?(\d{1,9})", _evidence)


def _golden(found: re.Match[str]) -> str | None:
    profile = GoldenProfile.objects.filter(pk=int(found[1])).first()
    return reverse("golden", args=[profile.public_id]) if profile else None


jump_add(r"GP-?(\d{1,9})", _golden)


def _acceptance(found: re.Match[str]) -> str | None:
    run = acceptance_named(f"AC-{found[1]}")
    return reverse("acceptance", args=[run.public_id]) if run else None


jump_add(r"AC-?(\d{1,9})", _acceptance)


def _network(found: re.Match[str]) -> str | None:
    run = run_named(f"NET-{found[1]}")
    return reverse("network-run", args=[run.public_id]) if run else None


jump_add(r"NET-?(\d{1,9})", _network)


def _matrix(found: re.Match[str]) -> str | None:
    pk = int(found[1])
    known = NetMatrix.objects.filter(pk=pk).exists()
    return f"{reverse('network-matrix')}#m-{pk}" if known else None


jump_add(r"M-(\d{1,9})", _matrix)

page_add(gettext_noop("Fleet"), "fleet-map")
page_add(gettext_noop("Table"), "fleet-table")
page_add(gettext_noop("Facts"), "fact-list")
page_add(gettext_noop("Fleet settings"), "fleet-settings")
page_add(gettext_noop("Import"), "import-list")
page_add(gettext_noop("Acceptance"), "acceptance-list")
page_add(gettext_noop("Replicas"), "replica-list")
page_add(gettext_noop("Weights"), "weights")
page_add(gettext_noop("Golden profiles"), "golden-list")
page_add(gettext_noop("Network acceptance"), "network-list")
page_add(gettext_noop("Network matrix"), "network-matrix")
page_add(gettext_noop("Reader"), "reader")
page_add(gettext_noop("Audit log"), "audit")
