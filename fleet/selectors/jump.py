"""Finds the page of an exact name or id. Upper apps add their own ids (a launch) with jump_add()."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.urls import reverse

from fleet.models import Evidence, GoldenProfile, GpuRecord, InventoryImport, Node, Replica
from fleet.selectors.acceptance import acceptance_named

Finder = Callable[[re.Match[str]], str | None]
_FINDERS: list[tuple[re.Pattern[str], Finder]] = []


def jump_add(pattern: str, find: Finder) -> None:
    """Register an id pattern (matched whole, upper case) and how to find the address of its page."""
    _FINDERS.append((re.compile(pattern), find))


def page_of_name(wanted: str) -> str | None:
    """Return the address of the page of exactly this name or id, or None."""
    for pattern, find in _FINDERS:
        if (found := pattern.fullmatch(wanted.upper())) and (address := find(found)):
            return address
    if Node.objects.filter(host__name=wanted).exists():
        return reverse("node", args=[wanted])
    if Replica.objects.filter(name=wanted).exists():
        return reverse("replica", args=[wanted])
    return None


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
