"""Tables of releases, launches, gates, rollouts and traffic. Written only by releases/services."""

from releases.models.gate import GateRow, GateRun
from releases.models.launch import Launch, LaunchPhase, LaunchPosition
from releases.models.release import Release
from releases.models.rollout import Approval, Rollout, Signature, Wave
from releases.models.traffic import Drain, Endpoint, Gateway

__all__ = [
    "Approval",
    "Drain",
    "Endpoint",
    "GateRow",
    "GateRun",
    "Gateway",
    "Launch",
    "LaunchPhase",
    "LaunchPosition",
    "Release",
    "Rollout",
    "Signature",
    "Wave",
]
