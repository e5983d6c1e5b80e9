"""The reader's page: what manage.py read says of an output, beside the text; nothing is kept of it."""

import io
import json
import re

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command

from fleet.readings.kinds import readable_kinds
from tests.factories import make_person

pytestmark = pytest.mark.django_db

XID = (
    "[12345.678901] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"
    "[12346.000001] usb 1-1: new device\n"
)


def read(client, text: str | bytes = "", kind: str = "auto", **fields):
    if isinstance(text, bytes):
        fields["file"] = SimpleUploadedFile("out.txt", text)
        text = ""
    return client.post("/reader/", {"text": text, "kind": kind, **fields})


def html(answer) -> str:
    return answer.content.decode()


def test_it_says_what_the_command_says(ana, tmp_path):
    (tmp_path / "dmesg.txt").write_text(XID)
    out = io.StringIO()
    call_command("read", "auto", str(tmp_path / "dmesg.txt"), stdout=out)
    told = json.loads(out.getvalue())
    answer = read(ana, XID)
    assert answer.status_code == 200
    assert json.loads(json.dumps(answer.context["report"].as_object())) == told
    assert told["verdict"] == "fail"
    assert "Failed" in html(answer)
    assert told["summary"] in html(answer)
    assert {row["text"] for row in answer.context["findings"]} == {
        found["text"] for found in told["findings"]
    }


def test_a_finding_links_to_its_line_and_marks_it(ana):
    page = html(read(ana, XID))
    assert 'href="#t1"' in page
    assert re.search(r'<div id="t1" class="crit"><span>1</span>', page)
    assert '<div id="t2"><span>2</span>' in page


def test_what_to_look_at_next_is_a_command_that_reads(ana):
    page = html(read(ana, XID))
    assert "nvidia-smi -q -d ECC,ROW_REMAPPER" in page
    assert "read only" in page


def test_a_file_is_read_as_its_text(ana):
    from_text, from_file = read(ana, XID), read(ana, XID.encode())
    assert from_text.context["report"] == from_file.context["report"]
    assert "out.txt" in html(from_file)


def test_line_feeds_that_a_browser_sends_are_those_of_the_text(ana):
    assert (
        read(ana, XID.replace("\n", "\r\n")).context["report"] == read(ana, XID).context["report"]
    )


def test_a_torn_output_is_incomplete_and_never_passed(ana, shared_dir):
    whole = (shared_dir / "corpus/nvidia-smi/001.txt").read_bytes()
    assert read(ana, whole).context["mark"].state == "pass"
    torn = read(ana, whole[: len(whole) // 2])
    assert torn.context["mark"].state == "incomplete"
    assert "Incomplete" in html(torn)
    assert "written to a file" in html(torn)


def test_what_no_tool_printed_is_not_recognised(ana):
    answer = read(ana, "a letter to a friend\n")
    assert answer.context["mark"].state == "unrecognised"
    assert "Not recognised" in html(answer)


def test_another_kind_than_the_recognised_one_can_be_asked_for(ana):
    assert read(ana, XID, kind="vllm-log").context["report"].kind == "vllm-log"


@pytest.mark.parametrize("kind", ["", "no-such", "TOPO"])
def test_an_unknown_kind_is_refused_with_those_there_are(ana, kind):
    answer = read(ana, XID, kind=kind)
    assert answer.status_code == 422
    assert ", ".join(readable_kinds()) in html(answer)


def test_nothing_to_read_is_said(ana):
    answer = read(ana, "")
    assert answer.status_code == 422
    assert "Paste an output or choose a file" in html(answer)


@pytest.mark.parametrize(
    "raw",
    [
        b"NVRM: Xid (PCI:0000:3b:00): 79 <script>alert(1)</script>\n",
        b"\0\0NVRM: \xff\xfe Xid\0 (PCI:0000:3b:00): 79, pid=1 \x1b]0;x\x07\x9b31m<img src=x onerror=a()>\n",
    ],
)
@pytest.mark.parametrize("by_file", [True, False])
def test_hostile_bytes_are_shown_as_text(ana, raw, by_file):
    page = html(read(ana, raw if by_file else raw.decode("utf-8", "replace"), kind="kernel-log"))
    shown = page[page.index('id="t1"') : page.index("followbar")]
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "\0" not in page
    assert "\x1b" not in shown


@pytest.mark.parametrize("raw", [b"\n" * 100_000, b"\r" * 70_000, b"x" * 5_000_000, b"\xff" * 9999])
@pytest.mark.parametrize("kind", readable_kinds())
def test_any_bytes_of_any_kind_are_answered(ana, kind, raw):
    answer = read(ana, raw, kind=kind)
    assert answer.status_code == 200
    assert answer.context["mark"].state != "pass"
    assert len(answer.content) < 2_000_000


def test_every_sample_is_drawn(ana, shared_dir):
    for path in sorted((shared_dir / "corpus").glob("*/*.txt")):
        answer = read(ana, path.read_bytes(), kind=path.parent.name)
        assert answer.status_code == 200, path
        for line in re.findall(r'href="#t(\d+)"', html(answer)):
            assert f'<div id="t{line}"' in html(answer), (path, line)


def test_too_much_is_refused_before_it_is_read(ana, settings):
    answer = read(ana, b"x" * (settings.READING_MAX_BYTES + 1))
    assert answer.status_code == 413
    assert "up to 16 MiB" in html(answer)
    much = read(ana, b"x" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1))
    assert much.status_code == 413
    assert "found more" in html(much)


def test_the_largest_paste_is_read(ana, settings):
    line = b"[12346.000001] usb 1-1: new device\n"
    text = line * (settings.READING_MAX_BYTES // len(line))
    answer = read(ana, text.decode(), kind="kernel-log")
    assert answer.context["total"] == text.count(b"\n")
    assert "lines are not drawn" in html(answer)
    assert len(answer.content) < 300_000


def test_other_forms_stay_short(ana, settings):
    body = b"a=" + b"x" * settings.FORM_MAX_BYTES
    answer = ana.post("/theme/", body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 413


@pytest.mark.parametrize("who", ["chen", "ana", "bo", "dana"])
def test_everybody_with_a_role_reads_and_no_row_is_written(signed_in, who):
    def counts():
        models = [model for model in apps.get_models() if model._meta.managed]
        return {model._meta.label: model.objects.count() for model in models}

    client = signed_in(who)
    client.get("/reader/")
    before = counts()
    assert read(client, XID).status_code == 200
    assert counts() == before


def test_without_a_role_nothing_is_read(client):
    client.force_login(make_person("eve", role=""))
    assert read(client, XID).status_code == 403


def test_the_page_of_the_form_names_each_kind(ana):
    page = html(ana.get("/reader/"))
    assert all(f"<option>{kind}</option>" in page for kind in readable_kinds() if kind != "auto")
    assert 'aria-current="page"' in page
