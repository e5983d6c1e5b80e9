"""The commands that bring real nodes and real people in."""

import io
import json

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from fleet.execution.models import Host
from fleet.models import Node, RoleGrant
from fleet.rules.redact import redact_text

pytestmark = pytest.mark.django_db

ROW = {
    "name": "gpu01",
    "address": "127.0.0.9",
    "ssh_port": 22,
    "user": "fleet",
    "leaf": 1,
    "rack": "R01",
    "model_root": "/models",
    "node_class": "hgx-h100",
}


@pytest.fixture
def typed(monkeypatch):
    def type_password(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text + "\n"))

    return type_password


def test_an_imported_node_is_registered_and_its_key_is_not_trusted(tmp_path):
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps([ROW]))
    call_command("inventory_import", str(file))
    node = Node.objects.get()
    assert (node.state, node.origin) == ("registered", "real")
    assert node.host.key_state == Host.Key.UNSET


def test_a_bad_row_is_refused_and_blocks_no_other(tmp_path):
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps([{**ROW, "name": "x", "address": "169.254.169.254"}, ROW]))
    with pytest.raises(CommandError, match="refused"):
        call_command("inventory_import", str(file))
    assert list(Node.objects.values_list("host__name", flat=True)) == ["gpu01"]


def test_a_person_gets_an_account_and_a_role(typed):
    typed("correct horse battery")
    call_command("person", "eve", role="operator")
    person = get_user_model().objects.get(username="eve")
    assert person.check_password("correct horse battery")
    assert RoleGrant.objects.get(user=person).role == "operator"


def test_a_short_password_is_refused(typed):
    typed("short")
    with pytest.raises(CommandError):
        call_command("person", "eve")


def test_secrets_in_a_whole_output_are_masked():
    assert "hunter2hunter2" not in redact_text("a\nHF_TOKEN=hunter2hunter2\nb")
