import csv
import io

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from fleet.models import TrailEntry
from fleet.views.audit import csv_text
from tests.factories import make_person

pytestmark = pytest.mark.django_db


def entry(**fields) -> TrailEntry:
    defaults = {
        "actor": "ana",
        "verb": "hold.add",
        "object_kind": "node",
        "object_id": "h100-001",
        "source": "web",
    }
    return TrailEntry.objects.create(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?kind=people", {"ana-did", "chen-was"}),
        ("?kind=auto", {"rule-did"}),
        ("?kind=refused", {"chen-was"}),
        ("?actor=ana", {"ana-did"}),
        ("?verb=hold.lift", {"chen-was"}),
        ("?q=h100-009", {"rule-did"}),
        ("?since=2999-01-01T00:00", set()),
        ("?since=nonsense", {"ana-did", "rule-did", "chen-was"}),
    ],
)
def test_it_filters_by_the_address(ana, query, shown):
    entry(reason="ana-did")
    entry(actor="rule:probe", source="rule", object_id="h100-009", reason="rule-did")
    entry(actor="chen", verb="hold.lift", outcome="refused", source="api", reason="chen-was")
    page = ana.get(f"/audit/{query}").content.decode()
    found = {word for word in ("ana-did", "rule-did", "chen-was") if word in page}
    assert found == shown


def test_a_row_carries_its_before_and_after(ana):
    entry(before={"state": "acceptance"}, after={"state": "ready", "probe": 7})
    page = ana.get("/audit/").content.decode()
    assert '<span class="d">acceptance</span><span class="a">ready</span>' in page
    assert '<span>probe</span><span class="d">–</span><span class="a">7</span>' in page


def test_it_pages_by_entry_number_without_losing_or_repeating_one(ana):
    made = [entry(reason=f"no {n}.").pk for n in range(250)]
    seen, address = [], "/audit/"
    while address:
        page = ana.get(address)
        rows = [row["entry"].pk for row in page.context["rows"] if row["entry"].pk in made]
        seen += rows
        older = page.context["older"]
        address = f"/audit/?before={older}" if older else ""
    assert seen == sorted(made, reverse=True)


def test_it_shows_hostile_words_as_text(ana):
    entry(reason="<script>alert(1)</script>", object_id='"><img src=x>')
    page = ana.get("/audit/").content.decode()
    assert "<script>alert(1)" not in page
    assert "<img src=x>" not in page


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_an_exported_cell_is_never_a_formula(start):
    rows = list(csv.reader(io.StringIO(csv_text([[f"{start}cmd|' /C calc'!A0", "plain"]]))))
    assert rows[0][0].startswith("'")
    assert rows[0][1] == "plain"


@async_to_sync
async def export(person, address: str) -> tuple[str, dict[str, str]]:
    """Fetch a streamed answer as the asynchronous server sends it."""
    client = AsyncClient(headers={"host": "127.0.0.1"})
    await client.aforce_login(person)
    answer = await client.get(address)
    body = b"".join([part async for part in answer.streaming_content])
    return body.decode("utf-8-sig"), dict(answer.items())


def test_the_export_streams_every_entry_that_passes_the_filter(db):
    for n in range(5):
        entry(reason=f"=sum({n})")
    entry(actor="bo", reason="not this one")
    text, headers = export(make_person("ana"), "/audit/?actor=ana&format=csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["reason"] for row in rows] == [f"'=sum({n})" for n in reversed(range(5))]
    assert "attachment" in headers["Content-Disposition"]


def test_checking_the_chain_names_a_broken_row(ana, settings, tmp_path):
    from django.db import connection

    from fleet.services.seal import trail_seal

    # The consoles of other tests write anchors of other databases into the state directory of this run.
    settings.TRAIL_ANCHOR_FILE = str(tmp_path / "anchors")
    first = entry(reason="as it was")
    entry()
    trail_seal()
    assert "Chain whole to entry" in ana.get("/audit/?check=1").content.decode()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE fleet_trailentry DISABLE TRIGGER USER")
        cursor.execute("UPDATE fleet_trailentry SET reason = 'other' WHERE id = %s", [first.pk])
    assert "The chain is broken" in ana.get("/audit/?check=1").content.decode()
