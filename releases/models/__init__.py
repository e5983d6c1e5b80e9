"""Tables of releases and launches. Written only by releases/services."""

from releases.models.launch import Launch, LaunchPhase, LaunchPosition
from releases.models.release import Release

__all__ = ["Launch", "LaunchPhase", "LaunchPosition", "Release"]
