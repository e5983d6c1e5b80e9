import hashlib
import io
import json
import zipfile
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fleet.models import RoleGrant
from releases.models import Launch
from tests import factories
from tests.live import log_scene

pytestmark = pytest.mark.django_db(transaction=True)

HOSTILE = "<script>alert(1)</script> \x1b]52;c;aGk=\x07 \u202etxt \x1b[1mbold\x1b[0m \x07"


@pytest.fixture
def launch(transactional_db: None) -> Launch:
    return log_scene.make_launch()


@pytest.fixture
def night(launch: Launch) -> dict[str, Any]:
    return log_scene.night(launch, log_scene.hold_lease())


@pytest.fixture
def chen() -> Client:
    return _signed_in("chen")


def _signed_in(name: str) -> Client:
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(factories.make_person(name))
    return client


def _url(part: str = "") -> str:
    return f"/replicas/glm52-r1/gen/1/log/{part}"


def _lines(client: Client, **query: str) -> list[tuple[int, int]]:
    page = json.loads(client.get(_url("lines"), query).content)
    return [(line[0], line[1]) for line in page["lines"]]


def test_the_page_shows_the_newest_lines_and_folds_what_ranks_say_alike(
    night: dict[str, Any], chen: Client
) -> None:
    text = chen.get(_url()).content.decode()
    assert "Watchdog caught collective operation timeout" in text
    assert "6 more ranks say the same within 1 s: r09 r10 r12 r13 r14 r15" in text
    assert "rank 11 is behind" in text
    assert text.count('data-s="') == 500
    assert "<b>engine</b> core" in text
    assert "?before=" in text, "older lines are a link, also without script"


def test_a_line_opens_marked_with_its_facts_wherever_it_is(
    night: dict[str, Any], chen: Client
) -> None:
    text = chen.get(_url("?at=1.1904")).content.decode()
    assert 'class="ln err at" id="L1.1904"' in text
    assert "Line 1.1904" in text
    assert "A collective did not end in time." in text
    assert "ALLREDUCE 1848213" in text
    early = chen.get(_url("?at=0.7-0.9")).content.decode()
    assert early.count(' at" id="L0.') == 3
    assert chen.get(_url("?at=0.999999")).status_code == 404
    assert chen.get(_url("?at=7.1")).status_code == 404


def test_a_moment_can_be_asked_for(night: dict[str, Any], chen: Client) -> None:
    at_ms = night["start_ms"] + 60_000
    page = json.loads(chen.get(_url("lines"), {"t": str(at_ms), "limit": "40"}).content)
    times = [line[2] for line in page["lines"]]
    assert times == sorted(times)
    assert times[0] <= at_ms <= times[-1]


def test_filters_live_in_the_address(night: dict[str, Any], chen: Client) -> None:
    text = chen.get(_url("?level=error&rank=9")).content.decode()
    assert text.count('data-s="') == 1
    empty = chen.get(_url("?q=absent&rank=3")).content.decode()
    assert "No lines match rank 3, absent." in empty
    assert "Clear filters" in empty
    broken = chen.get(_url("?q=/(/")).content.decode()
    assert "This expression cannot be read" in broken
    assert chen.get(_url("lines?q=/(/")).status_code == 400


def test_lines_are_paged_without_gap_or_repeat(night: dict[str, Any], chen: Client) -> None:
    newest = json.loads(chen.get(_url("lines"), {"limit": "300"}).content)
    older = json.loads(
        chen.get(_url("lines"), {"limit": "300", "before": newest["before"]}).content
    )
    both = json.loads(chen.get(_url("lines"), {"limit": "600"}).content)
    assert older["lines"] + newest["lines"] == both["lines"]
    after = json.loads(chen.get(_url("lines"), {"after": older["after"]}).content)
    assert after["lines"] == newest["lines"]
    assert not after["has_newer"]


def test_hostile_text_is_text_in_every_view(launch: Launch, chen: Client) -> None:
    said = [(0, 0, "E", "OTHER", HOSTILE)]
    log_scene.say(log_scene.stream_of(launch, 0), said, log_scene.hold_lease())
    for path in ("", "?at=0.1", "?q=script", "lines?format=html", "lines?side=0.1"):
        text = chen.get(_url(path)).content.decode()
        assert "<script>alert" not in text, path
        assert not {"\x1b", "\x07", "\u202e"} & set(text), path
    shown = "&lt;script&gt;alert(1)&lt;/script&gt;  ⟨U+202E⟩txt <b>bold</b> ␇"
    assert shown in chen.get(_url()).content.decode()
    line = json.loads(chen.get(_url("lines")).content)["lines"][0]
    assert line[6] == [
        ["<script>alert(1)</script>  ⟨U+202E⟩txt ", False],
        ["bold", True],
        [" ␇", False],
    ]


def test_a_download_is_an_attachment_of_plain_text(launch: Launch, chen: Client) -> None:
    said = [(0, 3, "W", "NET", "one"), (5, None, "I", "", HOSTILE)]
    log_scene.say(log_scene.stream_of(launch, 1), said, log_scene.hold_lease())
    answer = chen.get(_url("download?position=1"))
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Disposition"].startswith('attachment; filename="glm52-r1-gen1-')
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].endswith(" r03 W NET one")
    assert "\x1b" not in lines[1]
    assert chen.get(_url("download?position=9")).status_code == 404


def test_the_bundle_holds_every_rank_with_its_checksum(night: dict[str, Any], chen: Client) -> None:
    answer = chen.get(_url("download"))
    assert answer["Content-Disposition"].endswith('.zip"')
    bundle = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content)))
    names = set(bundle.namelist())
    assert {f"ranks/r{n:02d}.log" for n in range(16)} < names
    assert {"nodes/glm52-r1-001.log", "nodes/glm52-r1-002.log"} < names
    sums = bundle.read("SHA256SUMS").decode().splitlines()
    assert len(sums) == 18
    for line in sums:
        digest, name = line.split("  ")
        assert hashlib.sha256(bundle.read(name)).hexdigest() == digest
    assert all(" r11 " in line for line in bundle.read("ranks/r11.log").decode().splitlines())


def test_only_people_who_may_read_the_unit_see_its_log(launch: Launch) -> None:
    assert Client(headers={"host": "127.0.0.1"}).get(_url()).status_code == 302
    other = factories.make_pool("dsv4", name="DeepSeek", tone="pds")
    eve = factories.make_person("eve", role="")
    RoleGrant.objects.create(user=eve, role="viewer", pool=other)
    client = _signed_in("eve")
    for path in ("", "lines", "download"):
        assert client.get(_url(path)).status_code == 403, path
    RoleGrant.objects.create(user=eve, role="viewer", pool=launch.replica.pool)
    assert client.get(_url()).status_code == 200


def test_a_launch_without_a_started_node_has_an_empty_log(launch: Launch, chen: Client) -> None:
    launch.positions.update(subject=None)
    assert "No node was started yet" in chen.get(_url()).content.decode()
    assert _lines(chen) == []


def test_the_number_of_queries_does_not_grow_with_the_log(launch: Launch, chen: Client) -> None:
    fence = log_scene.hold_lease()
    stream = log_scene.stream_of(launch, 0)
    counts = []
    for upto in (1000, 20_000):
        said = [(n, n % 8, "I", "NET", f"line {n} " + "x" * 80) for n in range(upto)]
        log_scene.say(stream, said, fence)
        chen.get(_url())
        with CaptureQueriesContext(
            connection,
        ) as queries:
            chen.get(_url())
        counts.append(len(queries))
    assert counts[1] <= counts[0] + 2
    assert counts[1] < 45
