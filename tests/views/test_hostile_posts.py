"""Forms of the fleet's pages under hostile use: each refuses in words, as text, and leaves nothing behind."""

from __future__ import annotations

import re
import uuid

import pytest
from django.urls import reverse

from fleet.models import TrailEntry
from tests.factories import make_person, make_pool
from tests.golden_profiles import make_facts, make_golden
from tests.views.test_every_write import WRITES, Write

pytestmark = pytest.mark.django_db

FORMS = sorted(
    name
    for name in WRITES
    if name.startswith(("acceptance", "artefact", "distribution", "golden", "holding", "network"))
    or name in {"fleet-settings", "import-act", "import-list", "node-add", "probe-start"}
)
SCRIPT = "<script>alert(1)</script>"
DRAWN = (
    SCRIPT,
    "\u202egnp.exe\u2066",
    "\x1b]52;c;aGVsbG8=\x07",
)  # also looked at on the page that follows
HOSTILE = (
    *DRAWN,
    "../../etc/passwd",
    "https://elsewhere.example/a",
    "nan",
    "1e999",
    "9" * 190,
    "\u00b2",
    "%s %(n)d {0} {{ x }}",
)
# The long set has these too.
MORE_HOSTILE = ("-1", "\u0663", "=cmd|' /C calc'!A0", "' OR 1=1 --", "all", " ")
# What a form may carry beside the fields of the post that is right.
MORE = {
    "artefact-add": ("checksums", "index", "store", "seed_node"),
    "distribution-start": (
        "at_once", "per_leaf", "per_parent", "seeds_per_leaf", "link_mbps", "leaf_mbps",
    ),
    "holding-act": ("distribution",),
    "golden-take": ("name", "left_out"),
    "golden-edit": ("name", "value:gpu_count", "ratio:gpu_count", "tolerance:nobody"),
    "network-start": ("loop_min", "rounds", "per_leaf"),
    "network-matrix-write": ("leaf", "gid_index", "traffic_class", "note"),
    "import-act": ("remove",),
    "node-add": ("port", "class", "root", "tags", "host_key"),
}  # fmt: skip


def post(client, name: str, row: Write, /, who: str = "", **fields: str):
    client.force_login(make_person(who or row.who))
    sent = {"idempotency_key": str(uuid.uuid4()), "reason": "the fans are loud"}
    if row.subject is not None:
        row.subject.refresh_from_db()
        sent["base_version"] = str(row.subject.version)
    return client.post(reverse(name, kwargs=row.kwargs), {**sent, **row.fields, **fields})


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(HOSTILE, id="some"),
        pytest.param(MORE_HOSTILE, id="more", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("name", FORMS)
def test_no_field_breaks_a_form_or_comes_back_as_markup(client, name, hostile):
    row = WRITES[name]()
    found = []
    for field in sorted({*row.fields, *MORE.get(name, ()), "reason", "base_version"}):
        for words in hostile:
            answer = post(client, name, row, **{field: words})
            if answer.status_code >= 500 or SCRIPT in answer.content.decode():
                found.append((field, words, answer.status_code))
            if answer.status_code == 302:
                assert answer["Location"].startswith("/")
                if words not in DRAWN:
                    continue
                page = client.get(answer["Location"])
                if page.status_code != 200 or SCRIPT in page.content.decode():
                    found.append((field, words, f"then {page.status_code}"))
    assert found == []


@pytest.mark.parametrize("name", FORMS)
def test_it_is_refused_in_words_and_nothing_is_told_as_done(client, signed_in, name):
    row = WRITES[name]()
    before = TrailEntry.objects.filter(outcome="done").count()
    field = next(iter(row.fields), "reason")
    answers = {
        "nul": (post(client, name, row, **{field: "a\0b"}), 400),
        "a viewer": (post(client, name, row, who="chen"), 403),
        "much": (post(client, name, row, **{field: "x" * 10_000_000}), 413),
        "twice as long": (post(client, name, row, reason="x" * 1000), 422),
    }
    make_person("pat", role="operator", pool=make_pool("elsewhere"))
    answers["of another pool"] = (post(client, name, row, who="pat"), 403)
    assert [
        (what, answer.status_code)
        for what, (answer, wanted) in answers.items()
        if answer.status_code != wanted or 'id="refusal"' not in answer.content.decode()
    ] == []
    assert TrailEntry.objects.filter(outcome="done").count() == before


@pytest.mark.parametrize("name", FORMS)
def test_its_address_is_read_as_a_page_or_says_that_it_is_a_form(client, name):
    row = WRITES[name]()
    client.force_login(make_person("ana"))
    answer = client.get(reverse(name, kwargs=row.kwargs))
    if answer.status_code != 200:
        assert answer.status_code == 405
        assert answer["Allow"] == "POST"
        assert "takes a form" in answer.content.decode()
        assert "<nav" in answer.content.decode()


@pytest.mark.parametrize("name", FORMS)
def test_a_double_click_makes_one_effect(client, name):
    row = WRITES[name]()
    key = {"idempotency_key": str(uuid.uuid4())}
    first = post(client, name, row, **key)
    told = TrailEntry.objects.filter(outcome="done").count()
    client.force_login(make_person(row.who))
    fields = {"reason": "the fans are loud", **row.fields, **key}
    second = client.post(reverse(name, kwargs=row.kwargs), fields)
    assert (first.status_code, second.status_code) == (302, 302)
    assert first["Location"] == second["Location"]
    assert TrailEntry.objects.filter(outcome="done").count() == told


PAGES = (
    "/acceptance/{}/",
    "/distributions/{}/",
    "/fleet/?color={}",
    "/fleet/?group={}",
    "/fleet/?q={}",
    "/fleet/facts/?key={}",
    "/fleet/facts/?nodes={}",
    "/fleet/table/?q={}",
    "/golden/?node={}",
    "/golden/{}/",
    "/gpus/{}/",
    "/network/{}/",
    "/network/{}/pairs/1/",
    "/nodes/h100-001/?gpu={}",
    "/nodes/{}/",
    "/weights/{}/",
)


@pytest.mark.parametrize("path", PAGES)
def test_no_address_breaks_a_page(ana, path):
    WRITES["probe-start"]()
    found = []
    for words in (*HOSTILE, "x" * 5000, "AC-99999999999999999999", "GP-\u0661", "NET-00", "\0"):
        url = path.format(words.replace("%", "%25").replace("?", "%3F").replace("\0", "%00"))
        answer = ana.get(url)
        if answer.status_code not in {200, 400, 404} or SCRIPT in answer.content.decode():
            found.append((words[:40], answer.status_code))
    assert found == []


@pytest.mark.parametrize(
    "path", ["/nodes/import/99999999999999999999/", "/network/NET-0001/pairs/99999999999999999999/"]
)
def test_a_number_that_no_row_has_is_not_found(ana, path):
    assert ana.get(path).status_code == 404


def test_every_page_of_the_navigation_is_within_reach_of_a_phone(ana):
    page = ana.get("/fleet/settings/").content.decode()
    nav, bar = (
        re.search(rf'<nav class="{name}".*?</nav>', page, re.S)[0] for name in ("nav", "tabbar")
    )
    links = set(re.findall(r'<a [^>]*href="(/[^"]*)"', nav))
    assert {"/golden/", "/network/", "/audit/"} <= links
    assert links - set(re.findall(r'href="(/[^"]*)"', bar)) == set()


def test_a_port_that_an_older_probe_read_is_drawn_without_what_it_lacks(ana):
    node = WRITES["hold-add"]().subject
    ports = [{"device": "mlx5_0", "port": 1, "state": "Active", "rate_gbps": 400}]
    make_facts(node, rdma_ports=ports)
    page = ana.get("/nodes/h100-001/").content.decode()
    row = page[page.index('id="ports"') :].split("</tr>")[1]
    assert "mlx5_0" in row
    assert "t-crit" not in row


def test_facts_that_were_never_read_are_not_said_to_differ(ana):
    node = WRITES["hold-add"]().subject
    keys = dict.fromkeys(("gpu_count", "power_limit_w", "kernel", "vbios", "os"), (8, "equal"))
    make_golden(keys)
    make_facts(node, gpu_count=8)
    card = ana.get("/nodes/h100-001/").content.decode()
    card = card[card.index('id="gold"') :].split("</section>")[0]
    assert "4 facts without a reading" in card
    assert "differ" not in card
    assert "all equal" not in card
