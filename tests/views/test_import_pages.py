"""Reading a file by hand: nothing is written before its dry run is applied, and what is wrong is said with its line."""

import csv
import io
import uuid

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from fleet.models import InventoryImport, Node
from fleet.rules.inventory_file import BYTES_MAX
from tests.factories import make_node
from tests.views.test_every_write import ONE_NODE

pytestmark = pytest.mark.django_db
CSV = b"name,address,user,leaf,rack\ngpu01,127.0.9.1,fleet,1,R01\ngpu02,127.0.9.300,fleet,1,R01\n"


def post(client, where: str, /, **fields):
    return client.post(where, {"idempotency_key": str(uuid.uuid4()), **fields})


@pytest.fixture
def dana(signed_in):
    return signed_in("dana")


def read(client, **fields) -> InventoryImport:
    answer = post(client, "/nodes/import/", **{"whole": "1", **fields})
    assert answer.status_code == 302, answer.content.decode()[:3000]
    found = InventoryImport.objects.first()
    assert answer.url == f"/nodes/import/{found.pk}/"
    return found


def test_a_file_is_read_shown_and_applied(dana):
    found = read(dana, file=SimpleUploadedFile("fleet.csv", CSV))
    page = dana.get(f"/nodes/import/{found.pk}/")
    html = page.content.decode()
    assert "fleet.csv" in html
    assert "1 added" in html
    assert "expected an IP address" in html
    assert "line 3" in html
    assert [line for line in page.context["drawn"]["lines"] if line.get("is_refused")] == [
        {"number": 3, "text": "gpu02,127.0.9.300,fleet,1,R01", "is_refused": True}
    ]
    assert not Node.objects.exists()
    fields = {"act": "apply", "digest": found.digest, "reason": "a new rack"}
    assert post(dana, f"/nodes/import/{found.pk}/act/", **fields).status_code == 302
    assert Node.objects.get().name == "gpu01"
    html = dana.get(f"/nodes/import/{found.pk}/").content.decode()
    assert "a new rack" in html
    assert 'value="apply"' not in html


def test_what_cannot_be_read_comes_back_with_what_was_typed(dana):
    answer = post(dana, "/nodes/import/", inventory="nodes: [", whole="1")
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "The file is no inventory: line 2" in html
    assert "nodes: [</textarea>" in html
    assert not InventoryImport.objects.exists()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"inventory": " "}, "Choose a file or paste"),
        ({"file": SimpleUploadedFile("a.yaml", b"\xff\xfea")}, "UTF-8 text, found byte 0xff"),
        ({"file": SimpleUploadedFile("a.yaml", b"#" * 2_200_000)}, "2200000 bytes"),
        ({"file": SimpleUploadedFile("a.yaml", b"a\0b")}, "NUL"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(dana, fields, told):
    answer = post(dana, "/nodes/import/", **fields)
    assert answer.status_code == 422
    assert told in answer.content.decode()


def test_equal_rows_are_folded_and_can_be_asked_for(dana):
    for number in (1, 2, 3):
        make_node(f"h100-00{number}", model_root="/models")
    text = "\n".join(
        f"- {{name: h100-00{n}, address: 127.0.64.{n}, ssh_port: 2222, user: fleet, leaf: 1, rack: R01}}"
        for n in (1, 2, 3)
    )
    found = read(dana, inventory=text.replace("user: fleet", "user: ops", 1))
    page = dana.get(f"/nodes/import/{found.pk}/")
    assert [(row.name, row.field, row.now, row.file) for row in page.context["drawn"]["rows"]] == [
        ("h100-001", "user", "fleet", "ops")
    ]
    assert "Equal: h100-[002-003]." in page.content.decode()
    assert len(dana.get(f"/nodes/import/{found.pk}/?show=all").context["drawn"]["rows"]) == 3


def test_a_fleet_that_changed_is_said_on_the_page_and_refused_by_apply(dana):
    found = read(dana, inventory=ONE_NODE)
    make_node("h100-009")
    html = dana.get(f"/nodes/import/{found.pk}/").content.decode()
    assert "The fleet changed after this dry run" in html
    fields = {"act": "apply", "digest": found.digest, "reason": "a new rack"}
    assert post(dana, f"/nodes/import/{found.pk}/act/", **fields).status_code == 409
    assert post(dana, f"/nodes/import/{found.pk}/act/", act="again").status_code == 302
    found.refresh_from_db()
    fields["digest"] = found.digest
    assert post(dana, f"/nodes/import/{found.pk}/act/", **fields).status_code == 302


def test_a_missing_node_is_offered_only_the_second_time(dana):
    make_node("h100-009")
    offered = []
    for _ in range(2):
        found = read(dana, inventory=ONE_NODE)
        page = dana.get(f"/nodes/import/{found.pk}/").content.decode()
        offered.append('name="remove" value="h100-009"' in page)
        fields = {"act": "apply", "digest": found.digest, "reason": "sync"}
        post(dana, f"/nodes/import/{found.pk}/act/", **fields)
    assert offered == [False, True]


def test_a_dry_run_is_discarded_and_an_unknown_act_refused(dana):
    found = read(dana, inventory=ONE_NODE)
    assert post(dana, f"/nodes/import/{found.pk}/act/", act="dance").status_code == 422
    assert post(dana, f"/nodes/import/{found.pk}/act/", act="discard").url == "/nodes/import/"
    assert "Discarded" in dana.get("/nodes/import/").content.decode()


def test_a_node_is_added_by_the_form_and_what_is_wrong_keeps_what_was_typed(dana):
    fields = {"name": "gpu01", "address": "127.0.9.1", "user": "fleet", "leaf": "x", "rack": "R01"}
    answer = post(dana, "/nodes/add/", **fields)
    assert answer.status_code == 422
    assert "leaf: expected a number" in answer.content.decode()
    assert 'value="127.0.9.1"' in answer.content.decode()
    assert post(dana, "/nodes/add/", **{**fields, "leaf": "1"}).url == "/nodes/gpu01/"
    for name in ("import", "add", "export"):
        refused = post(dana, "/nodes/add/", **{**fields, "leaf": "1", "name": name})
        assert "is an address of this console" in refused.content.decode()


def test_the_fleet_is_saved_as_a_file_that_comes_back_without_a_difference(signed_in, dana):
    make_node("h100-001")
    chen = signed_in("chen")
    saved = chen.get("/nodes/export/")
    assert saved["Content-Disposition"] == 'attachment; filename="inventory.yaml"'
    table = chen.get("/nodes/export/?form=csv")
    assert table["Content-Type"].startswith("text/csv")
    for body in (saved.content, table.content):
        found = read(dana, file=SimpleUploadedFile("inventory", body))
        assert [change["outcome"] for change in found.changes] == ["equal"]


def test_a_viewer_sees_why_the_forms_are_not_for_them(signed_in):
    page = signed_in("chen").get("/nodes/import/").content.decode()
    assert page.count("Needs role admin") == 2
    assert signed_in("chen").get("/nodes/import/77/").status_code == 404


def test_the_page_asks_as_often_for_many_rows_as_for_few(dana, django_assert_max_num_queries):
    rows = "\n".join(
        f"- {{name: 'gpu{n:03d}', address: 127.1.9.{n}, user: fleet, leaf: 1, rack: R01}}"
        for n in range(1, 100)
    )
    found = read(dana, inventory=rows)
    with django_assert_max_num_queries(20):
        assert "99 added" in dana.get(f"/nodes/import/{found.pk}/").content.decode()


def test_the_differences_are_a_file_in_the_words_of_the_page(dana, signed_in):
    make_node("gpu02", host={"address": "127.0.9.2"}, origin="real")
    text = (
        "name,address,user,leaf,rack\ngpu01,127.0.9.1,fleet,1,R01\n=cmd,127.0.9.300,fleet,1,R01\n"
    )
    found = read(dana, file=SimpleUploadedFile("fleet.csv", text.encode()))
    address = f"/nodes/import/{found.pk}/diff/"
    assert f'href="{address}"' in dana.get(f"/nodes/import/{found.pk}/").content.decode()
    answer = signed_in("chen").get(address)
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert f'filename="{found.public_id}-diff.csv"' in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    told = [(row["row"], row["name"], row["line"]) for row in rows]
    assert told == [
        ("Refused", "'=cmd", "3"), ("Added", "gpu01", ""), ("Missing, kept", "gpu02", ""),
    ]  # fmt: skip
    assert all(row["result"] for row in rows)
    assert dana.get("/nodes/import/999999/diff/").status_code == 404


def test_the_field_of_a_pasted_inventory_takes_all_that_may_be_read(dana):
    page = dana.get("/nodes/import/").content.decode()
    assert f'maxlength="{BYTES_MAX}"' in page
