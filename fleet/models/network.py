"""Network acceptance: runs over pairs of nodes, what each pair measured, golden pairs, and the network matrix."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Command, Subject
from fleet.models.inventory import Leaf, Node
from fleet.rules import netpairs, netrun, netverdict

VERDICTS = [
    (netverdict.PASS, _("Passed")),
    (netverdict.FAIL, _("Failed")),
    (netverdict.UNKNOWN, _("Unknown")),
]


class NetMatrix(models.Model):
    """What the network team found right for a node class on a leaf: one version, never edited in place.

    It fills the launch environment once a person other than its author has signed it (manual A 4.5).
    """

    node_class = models.CharField(max_length=40)
    leaf = models.ForeignKey(
        Leaf, null=True, on_delete=models.PROTECT, related_name="+", help_text="null: every leaf"
    )
    version = models.PositiveIntegerField()
    hcas = models.JSONField(help_text="names of the RDMA cards in the order of the rails")
    interface = models.CharField(max_length=15, help_text="of sockets: NCCL, Gloo")
    mtu = models.PositiveIntegerField(help_text="bytes of an IP packet")
    gid_index = models.PositiveSmallIntegerField(null=True, help_text="null: InfiniBand")
    traffic_class = models.PositiveSmallIntegerField(null=True)
    note = models.TextField(blank=True)
    written_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    signed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    signed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["node_class", "leaf__number", "-version"]
        constraints = [
            models.UniqueConstraint(
                fields=["node_class", "leaf", "version"],
                nulls_distinct=False,
                name="net_matrix_version_once",
            ),
            models.CheckConstraint(
                condition=Q(signed_by=None) | Q(written_by=None) | ~Q(signed_by=F("written_by")),
                name="net_matrix_signed_by_another",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"M-{self.pk:04d}"


class NetRun(models.Model):
    """One network acceptance over some nodes."""

    class State(models.TextChoices):
        PAIRING = netrun.PAIRING, _("Testing pairs")
        REPAIRING = netrun.REPAIRING, _("Pairing suspects again")
        LOADING = netrun.LOADING, _("All pairs at once")
        DONE = netrun.DONE, _("Done")
        CANCELLED = netrun.CANCELLED, _("Cancelled")

    scope = models.CharField(max_length=200)
    layers = models.JSONField(help_text="names of the layers that are judged")
    loop_s = models.PositiveIntegerField(default=1800)
    bar = models.FloatField(default=netverdict.BAR, help_text="ratio to the golden pair")
    pairs_per_leaf = models.PositiveIntegerField(default=4)
    golden = models.JSONField(default=dict, help_text="topology to the golden pair's numbers")
    wiring = models.JSONField(default=dict, help_text="node name to its values of the matrix")
    state = models.CharField(max_length=10, choices=State, default=State.PAIRING)
    verdict = models.CharField(max_length=8, choices=VERDICTS, blank=True)
    explanation = models.TextField(blank=True)
    suspects = models.JSONField(default=list)
    repairs = models.PositiveIntegerField(default=0, help_text="passes of re-pairing so far")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    state_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"NET-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"network-{self.public_id}"


class NetSeat(models.Model):
    """A node of an open run: a node is tested by one run at a time."""

    run = models.ForeignKey(NetRun, on_delete=models.CASCADE, related_name="seats")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="net_seats")
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node"], condition=Q(released_at=None), name="node_in_one_net_run"
            )
        ]


class NetPair(models.Model):
    """Two nodes tested together once. `layers` holds each layer's verdict with its sentences and numbers."""

    run = models.ForeignKey(NetRun, on_delete=models.CASCADE, related_name="pairs")
    round = models.PositiveIntegerField()
    kind = models.CharField(max_length=8, default=netrun.FIRST)
    a = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    b = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    topology = models.CharField(max_length=12, choices=[(t, t) for t in netpairs.TOPOLOGIES])
    step = models.CharField(max_length=8, default=netrun.WAITING)
    step_at = models.DateTimeField(null=True)
    verdict = models.CharField(max_length=8, choices=VERDICTS, blank=True)
    layers = models.JSONField(default=dict)
    rails = models.JSONField(default=dict, help_text="card to Gb/s one way and two ways")
    busbw_gbs = models.FloatField(null=True)
    loaded_gbs = models.FloatField(null=True, help_text="with all other pairs at once")
    p99_us = models.FloatField(null=True)
    curve = models.JSONField(default=list, help_text="[bytes, GB/s, us] a size")
    ratio = models.FloatField(null=True, help_text="of the bus bandwidth to the golden pair's")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["run", "round", "id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "round", "a"], name="net_a_once_a_round"),
            models.UniqueConstraint(fields=["run", "round", "b"], name="net_b_once_a_round"),
        ]

    def __str__(self) -> str:
        return f"{self.a} + {self.b}"


class NetStep(models.Model):
    """What one node of a pair was asked in one step: a probe, or a subject and the collecting of its output."""

    pair = models.ForeignKey(NetPair, on_delete=models.CASCADE, related_name="steps")
    step = models.CharField(max_length=8)
    side = models.CharField(max_length=1, choices=[("a", "a"), ("b", "b")])
    command = models.ForeignKey(Command, on_delete=models.PROTECT, related_name="+")
    subject = models.ForeignKey(Subject, null=True, on_delete=models.PROTECT, related_name="+")
    stop = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    collect = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["pair", "step", "side"], name="net_step_once")
        ]


class NetGolden(models.Model):
    """One version of the golden pair of a class and topology: the pair, and the share of it that others must reach.

    Never edited in place: another pair or another bar is the next version; at most one is current.
    """

    node_class = models.CharField(max_length=40)
    topology = models.CharField(max_length=12)
    pair = models.ForeignKey(NetPair, on_delete=models.PROTECT, related_name="golden_for")
    bar = models.FloatField(default=netverdict.BAR, help_text="least ratio to this pair")
    note = models.TextField(blank=True, help_text="why this version was made")
    is_current = models.BooleanField(default=True)
    chosen_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node_class", "topology"],
                condition=Q(is_current=True),
                name="one_golden_pair",
            )
        ]
