"""The Celery application: conductors run short ticks that read and write Postgres, nothing else."""

import os
from typing import Any

from celery import Celery
from celery.app.amqp import AMQP
from kombu import Connection

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# Celery waits longer each time, up to 32 s, before it looks for a broker that went away. A trigger that fires
# meanwhile must halt its rollout within 10 s of the broker's return (NUMBERS.md).
BROKER_AGAIN_S = 2.0


class SoonAgain(Connection):
    """A connection to the broker that looks for it every two seconds while it is away."""

    def ensure_connection(self, *args: Any, **kwargs: Any) -> Connection:
        """Connect, trying again as long as the arguments say; they are those of kombu's Connection."""
        return super().ensure_connection(*args, **{"interval_max": BROKER_AGAIN_S, **kwargs})


class _Amqp(AMQP):
    Connection = SoonAgain


app = Celery("console", amqp=_Amqp)
app.set_default()  # the threads of a web process find it too
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
