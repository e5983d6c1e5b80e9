"""Tables of incidents and runs. Written only by runbooks/services."""

from runbooks.models.incident import Incident, IncidentNote
from runbooks.models.run import Run, RunStep

__all__ = ["Incident", "IncidentNote", "Run", "RunStep"]
