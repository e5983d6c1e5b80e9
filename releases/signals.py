"""What this app's wiring listens to. Sent on commit with ids only: a listener reads the rows again."""

from django.dispatch import Signal

traffic_wanted = Signal()  # gateway_id: what is wanted of it changed
unit_troubled = (
    Signal()
)  # launch_id: its unit was judged to hang, or is being taken down for a cause
