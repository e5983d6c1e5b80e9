"""The states of a release and what each allows: one table. Pure.

Source: RELIABILITY.md section 4 (Release); manual A 4.1, 13. A superseded release comes back into service when a
pool is rolled back to it, so that it stays launchable.
"""

DRAFT, SEALED, REVIEWED = "draft", "sealed", "reviewed"
IN_SERVICE, SUPERSEDED, WITHDRAWN = "in_service", "superseded", "withdrawn"

RELEASE_MOVES: dict[str, frozenset[str]] = {
    DRAFT: frozenset({SEALED}),
    SEALED: frozenset({REVIEWED, WITHDRAWN}),
    REVIEWED: frozenset({IN_SERVICE, WITHDRAWN}),
    IN_SERVICE: frozenset({SUPERSEDED, WITHDRAWN}),
    SUPERSEDED: frozenset({IN_SERVICE, WITHDRAWN}),
    WITHDRAWN: frozenset(),
}
# Law 2: nothing unsealed is launched into a pool. Only what two others signed is rolled out.
LAUNCHABLE = frozenset({SEALED, REVIEWED, IN_SERVICE, SUPERSEDED})
ROLLABLE = frozenset({REVIEWED, IN_SERVICE, SUPERSEDED})
SIGNATURES_NEEDED = 2
SIGNATURES_OF_REHEARSAL = 1  # its lab has one approver (RELIABILITY.md section 4)
