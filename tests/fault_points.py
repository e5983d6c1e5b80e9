"""The fault points at which tests kill or freeze a process, by who comes to them.

tests/test_fault_points.py holds them against the calls in the code.
"""

HAND_POINTS = [
    "claimed",
    "connected",
    "permitted",
    "start-sent",
    "answer-read",
    "before-settle-commit",
    "after-settle-commit",
]
DISPATCH_POINTS = ["after-commit-before-enqueue", "after-enqueue"]
CONDUCTOR_POINTS = [
    "launch-decided",
    "launch-preflight",
    "launch-starting",
    "launch-loading",
    "launch-warming",
    "launch-ready",
    *DISPATCH_POINTS,
]
WEB_POINT = "launch-created"
GATE_POINTS = ["gate-asked", "gate-row"]
ACCEPTANCE_POINTS = ["acceptance-asked"]
ROLLOUT_POINTS = ["rollout-decided", "rollout-applied"]
