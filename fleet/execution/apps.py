"""Durable execution over SSH: the kernel that every other room stands on."""

from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    name = "fleet.execution"
    label = "execution"
