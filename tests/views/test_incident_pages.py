"""The pages of incidents and runs: what they show, and what each post does."""

import pytest
from django.utils import timezone

from fleet.rules.message import say
from runbooks.models import Incident
from runbooks.services.incidents import incident_open
from runbooks.services.library import book_for
from runbooks.services.runs import run_propose
from tests.factories import make_actor, make_nodes, make_replica

pytestmark = pytest.mark.django_db


@pytest.fixture
def incident() -> Incident:
    """A unit hangs; case C is proposed."""
    unit = make_replica(nodes=make_nodes(2))
    incident, _ = incident_open(
        signature="hang",
        pool=unit.pool,
        replica=unit,
        launch=None,
        title=say("%(unit)s hangs.", unit=unit.name),
        symptoms=[{"text": "no token", "source": "LN-0001", "at": timezone.now().isoformat()}],
        began_at=timezone.now(),
        actor=make_actor("rule:detector-hang"),
    )
    run_propose(
        incident=incident,
        shelved=book_for("hang"),
        params={"unit": unit.name, "incident": incident.public_id},
        actor=make_actor("rule:detector-hang"),
    )
    return incident


class TestReading:
    def test_the_list_names_it(self, ana, incident):
        page = ana.get("/incidents/").content.decode()
        assert incident.public_id in page
        assert "glm52-r1 hangs." in page

    def test_an_id_nobody_has_is_not_found(self, ana):
        assert ana.get("/incidents/INC-0009/").status_code == 404
        assert ana.get("/runs/RUN-0009/").status_code == 404

    def test_its_run_has_a_page(self, ana, incident):
        assert ana.get(f"/runs/{incident.runs.get()}/").status_code == 200
        assert "glm52-r1 hangs." in ana.get(f"/incidents/{incident}/").content.decode()
