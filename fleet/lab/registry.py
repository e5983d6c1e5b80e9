"""The images of a node: the registry has all of them, a node may lack one until it is pulled.

What a node lacks is a file `docker/absent/TAG`; the docker stub takes it away when a pull came to its end.
"""

from . import releases
from .effects import Site
from .place import LabError

_ABSENT = "docker/absent"


def remove_image(site: Site, args: dict) -> None:
    """Take an image away from the node, as `docker image prune` does."""
    if args["tag"] not in releases.IMAGES:
        raise LabError(f"tag={args['tag']}: there are {', '.join(releases.IMAGES)}")
    directory = site.directory / _ABSENT
    directory.mkdir(parents=True, exist_ok=True)
    (directory / args["tag"]).touch()


def restore_image(site: Site, args: dict) -> None:
    """Give the image back, if nobody has pulled it."""
    (site.directory / _ABSENT / args["tag"]).unlink(missing_ok=True)
