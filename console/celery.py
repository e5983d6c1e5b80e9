"""The Celery application: conductors run short ticks that read and write Postgres, nothing else."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("console")
app.set_default()  # the threads of a web process find it too
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
