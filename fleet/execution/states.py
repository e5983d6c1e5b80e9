"""State tables of the kernel: what a command, a subject and a host may become. Pure data that tests
iterate over.

Source: RELIABILITY.md section 4, with intent folded into queued (the row is the outbox) and
connecting and
started folded into running (they lasted milliseconds and nothing decided on them).
"""

QUEUED, CLAIMED, RUNNING, STOPPING = "queued", "claimed", "running", "stopping"
SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, UNKNOWN = (
    "succeeded",
    "failed",
    "timed_out",
    "cancelled",
    "unknown",
)

COMMAND_MOVES: dict[str, frozenset[str]] = {
    QUEUED: frozenset({CLAIMED, CANCELLED, FAILED}),
    CLAIMED: frozenset(
        {QUEUED, RUNNING, SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, UNKNOWN, STOPPING}
    ),
    RUNNING: frozenset({QUEUED, SUCCEEDED, FAILED, TIMED_OUT, STOPPING, CANCELLED, UNKNOWN}),
    STOPPING: frozenset({CANCELLED, SUCCEEDED, FAILED, UNKNOWN}),
    UNKNOWN: frozenset({QUEUED, CLAIMED, SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, STOPPING}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset(),
    TIMED_OUT: frozenset(),
    CANCELLED: frozenset(),
}
TERMINAL = frozenset(state for state, onward in COMMAND_MOVES.items() if not onward)

# A subject is the thing on the node that lasts: an engine, a copy, a loop.
SUBJECT_NEW, SUBJECT_LIVE, SUBJECT_DONE, SUBJECT_LOST, SUBJECT_GONE, SUBJECT_UNKNOWN = (
    "new",  # a row, nothing known on the node yet
    "live",  # the shim said STARTED, ADOPTED or RUNNING
    "done",  # ended by itself, rc known
    "lost",  # its process is not the one that was started (reboot, kill): rc will never be known
    "gone",  # stopped by us, proved
    "unknown",  # cannot be confirmed
)
SUBJECT_ENDED = frozenset({SUBJECT_DONE, SUBJECT_LOST, SUBJECT_GONE})

# exchange: text to a port of the node and what came back
# forget: a stop that also removes what the node keeps of a subject that has ended
VERBS = ("probe", "start", "stop", "collect", "http", "exchange", "forget")
QUEUES = ("stop", "start", "probe", "gate")  # in this order; stopping never waits behind other work
EFFECTS = (
    "probe",
    "ensure",
    "once",
)  # repeat freely; idempotent by the shim; never again by itself
