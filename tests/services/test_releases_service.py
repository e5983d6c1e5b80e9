import pytest

from fleet.models import TrailEntry
from releases.models import Release
from releases.services.releases import release_in_service
from releases.services.seed import releases_seed
from tests.factories import make_actor, make_pool

pytestmark = pytest.mark.django_db


@pytest.fixture
def reviewed() -> Release:
    pool = make_pool("glm52")
    releases_seed()
    return Release.objects.filter(pool=pool).earliest("id")


class TestInService:
    def test_a_reviewed_release_enters_service_once(self, reviewed):
        for _ in range(2):
            release_in_service(release=reviewed, actor=make_actor())
        reviewed.refresh_from_db()
        assert (reviewed.state, reviewed.version) == ("in_service", 2)
        assert TrailEntry.objects.filter(verb="release.in_service").count() == 1

    def test_a_superseded_one_comes_back_when_a_pool_is_rolled_back(self, reviewed):
        Release.objects.update(state="superseded")
        assert release_in_service(release=reviewed, actor=make_actor()).state == "in_service"

    @pytest.mark.parametrize("state", ["sealed", "withdrawn"])
    def test_what_nobody_signed_or_somebody_withdrew_stays_what_it_is(self, reviewed, state):
        Release.objects.update(state=state)
        assert release_in_service(release=reviewed, actor=make_actor()).state == state
