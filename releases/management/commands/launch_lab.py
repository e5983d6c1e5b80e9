"""`manage.py launch_lab POOL|none|all`: launch the lab's units through the console's own service."""

from django.core.management.base import BaseCommand, CommandError

from fleet.models import Pool, Replica
from fleet.rules.message import said
from fleet.services.trail import command_actor
from releases.models import Launch, Release
from releases.services.launches import LAUNCHABLE, LaunchRefused, launch_create


class Command(BaseCommand):
    help = "Launch every unit of the named pools that has no live launch."

    def add_arguments(self, parser) -> None:
        parser.add_argument("pools", help="pool slugs with commas, or none, or all")

    def handle(self, *args, pools: str, **options) -> None:
        refused = 0
        for replica in _units(pools):
            try:
                launch = _launch(replica)
            except LaunchRefused as error:
                refused += 1
                self.stderr.write(f"{replica}: {'; '.join(map(said, error.reasons))}")
            else:
                self.stdout.write(f"{replica}: {launch.public_id}")
        if refused:
            raise CommandError(f"{refused} units were not launched; the reasons stand above")


def _units(pools: str) -> list[Replica]:
    if pools == "none":
        return []
    known = set(Pool.objects.filter(is_spare=False).values_list("slug", flat=True))
    wanted = known if pools == "all" else set(pools.split(","))
    if unknown := wanted - known:
        raise CommandError(
            f"expected pools of {', '.join(sorted(known))}, found {', '.join(sorted(unknown))}"
        )
    live = Launch.objects.filter(state__in=Launch.LIVE).values("replica")
    return list(
        Replica.objects.filter(pool__slug__in=wanted, state__in=LAUNCHABLE)
        .exclude(pk__in=live)
        .select_related("pool")
    )


def _launch(replica: Replica) -> Launch:
    release = Release.objects.filter(
        pool=replica.pool,
        state__in=[Release.State.SEALED, Release.State.REVIEWED, Release.State.IN_SERVICE],
    ).first()
    if release is None:
        raise LaunchRefused([f"pool {replica.pool.slug} has no sealed release"])
    return launch_create(replica=replica, release=release, actor=command_actor("launch_lab"))
