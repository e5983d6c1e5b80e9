"""Golden profiles as the pictures show them: one in force, one to be decided, and a few nodes that differ."""

from __future__ import annotations

from copy import deepcopy
from datetime import timedelta
from typing import Any

from django.utils import timezone

from fleet.execution.models import Command
from fleet.models import CardSample, Fact, Node
from fleet.rules.golden_edit import KeyEdit
from fleet.services.golden import profile_edit, profile_make_current, profile_take
from fleet.services.trail import Actor
from tests.factories import make_person

UNITS = {"shm_total": "B", "clock_offset": "s", "power_limit_w": "W"}


def draw(nodes: list[Node], topo: dict[str, Any]) -> None:
    """Give every node but the new one its readings, then take, put in force and edit a profile."""
    now = timezone.now()
    command = Command.objects.filter(host=nodes[0].host, verb="probe").latest("pk")
    rows = []
    for number, node in enumerate(nodes, 1):
        if number == 45:
            continue
        ago = timedelta(seconds=20 + number)
        for key, value in _readings(number, topo).items():
            rows.append(
                Fact(
                    node=node,
                    key=key,
                    value=value,
                    unit=UNITS.get(key, ""),
                    observed_at=now - ago,
                    expires_at=now + timedelta(days=-1 if number == 12 else 1),
                    source=command if number == 1 else None,
                    section="gpu-list" if number == 1 else "",
                )
            )
    Fact.objects.bulk_create(rows, ignore_conflicts=True)
    CardSample.objects.bulk_create(_history(nodes[27]))
    first = profile_take(
        node=nodes[0],
        name="HGX H100, RoCE",
        left_out=["docker_version"],
        reason="accepted after the burn-in",
        actor=Actor("ana"),
        user=make_person("ana"),
    )
    profile_make_current(
        profile=first, reason="read it with Ana", actor=Actor("bo"), user=make_person("bo")
    )
    profile_edit(
        profile=first,
        edits={"driver_version": KeyEdit("equal", value="575.57.08")},
        reason="new driver from Monday on",
        actor=Actor("ana"),
        user=make_person("ana"),
    )


def _history(node: Node) -> list[CardSample]:
    """Five hours of probes: GPU 3 grows hot, slows down, and is gone."""
    now = timezone.now()
    return [
        CardSample(
            node=node,
            at=now - timedelta(minutes=5 * (60 - turn)),
            sm_clock_mhz=[
                (None if turn > 50 else 1980 - 15 * max(0, turn - 25))
                if n == 3
                else 1980 - 15 * (n + turn) % 60
                for n in range(8)
            ],
            temperature_c=[
                (None if turn > 50 else 48 + max(0, turn - 20))
                if n == 3
                else 44 + (n * 3 + turn) % 7
                for n in range(8)
            ],
        )
        for turn in range(60)
    ]


def _readings(number: int, topo: dict[str, Any]) -> dict[str, Any]:
    cards = [f"GPU{n}" for n in range(8)]
    nvlink = [["X" if a == b else "NV18" for b in range(8)] for a in range(8)]
    ports = [
        {"device": f"mlx5_{n}", "port": 1, "state": "Active", "rate_gbps": 400, "firmware": "28.43.2026"}
        for n in range(8)
    ]  # fmt: skip
    found: dict[str, Any] = {
        "driver_version": "570.172.08",
        "gpu_count": 8,
        "gpu_name": "NVIDIA H100 80GB HBM3",
        "vbios": "96.00.89.00.01",
        "power_limit_w": 700,
        "kernel": "6.8.0-52-generic",
        "retired_pages": 0,
        "shm_total": 1_081_101_176_832,
        "topo": deepcopy(topo),
        "nvlink_matrix": {"devices": cards, "cells": nvlink},
        "rdma_ports": ports,
        "clock_offset": 0.00004 * (number % 7 - 3),
        "allreduce_busbw_gbs": 471.0 - number % 9,
        "boot_id": f"boot-{number}",
    }
    if number == 21:
        ports[6]["rate_gbps"] = 200
    if number == 33:
        for port in ports:
            port["firmware"] = "28.39.1002"
    if number == 28:
        for n in range(8):
            if n != 3:
                nvlink[3][n] = nvlink[n][3] = "SYS"
    if number in (17, 18, 19):
        found["kernel"] = "6.8.0-47-generic"
    return found
