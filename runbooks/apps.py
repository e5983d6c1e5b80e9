"""The runbooks app: incidents, books, runs."""

from django.apps import AppConfig


class RunbooksConfig(AppConfig):
    name = "runbooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Tell the lower apps how incidents and runs are named, since they may not import this one, and listen."""
        from runbooks import marks, wiring  # noqa: F401
        from runbooks.selectors import names  # noqa: F401
