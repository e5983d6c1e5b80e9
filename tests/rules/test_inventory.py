import pytest

from fleet.rules.hostkeys import fingerprint, key_problem
from fleet.rules.inventory import BadRow, check_address, check_row
from fleet.rules.message import said

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
ROW = {"name": "h100-001", "address": "10.40.0.1", "user": "fleet", "leaf": 1, "rack": "R01"}
CIDRS = ["10.40.0.0/16", "127.0.64.0/18", "fd00::/8"]


@pytest.mark.parametrize("address", ["10.40.255.254", "127.0.64.9", "fd00::12"])
def test_a_plain_address_inside_the_networks_is_taken(address):
    assert check_address(address, cidrs=CIDRS) == address


@pytest.mark.parametrize(
    "address",
    [
        "", "node.example", "127.1", "0x7f000001", "2130706433", "10.40.0.01", "10.40.0.1\n", "10.40.0.1 ",
        "169.254.169.254", "224.0.0.1", "0.0.0.0", "::", "fe80::1", "::ffff:10.40.0.1", "64:ff9b::a28:1",
        "2002:0a28:0001::", "[fd00::1]", "8.8.8.8", "127.0.0.1", "10.40.0.1/32",
    ],
)  # fmt: skip
def test_every_other_form_is_refused(address):
    with pytest.raises(BadRow, match="address"):
        check_address(address, cidrs=[*CIDRS, "fe80::/10", "64:ff9b::/96", "2002::/16"])


def test_loopback_needs_to_be_named():
    with pytest.raises(BadRow, match="NODE_CIDRS"):
        check_address("127.0.0.1", cidrs=["10.0.0.0/8"])


def test_the_console_is_no_node():
    with pytest.raises(BadRow, match="this console itself"):
        check_row({**ROW, "ssh_port": 8000}, cidrs=CIDRS, own=[("10.40.0.1", 8000)])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "a;b"), ("name", "-rf"), ("name", "h100-001\n"), ("name", "A"), ("name", "x" * 64),
        ("user", "root;id"), ("user", "-oProxyCommand=x"), ("ssh_port", 0), ("ssh_port", "22;"),
        ("leaf", -1), ("leaf", None), ("rack", "../x"), ("model_root", "models"),
        ("model_root", "/models/../etc"), ("model_root", "/m$(id)"), ("node_class", "x y"),
        ("host_key", "ssh-dss AAAA"), ("host_key", "ssh-ed25519 ????"), ("host_key", KEY + "\nssh-rsa A"),
        ("host_key", KEY.replace("ssh-ed25519 ", "ssh-rsa ")),
    ],
)  # fmt: skip
def test_a_hostile_or_broken_field_is_refused_by_name(field, value):
    with pytest.raises(BadRow, match=f"^{field}"):
        check_row({**ROW, field: value}, cidrs=CIDRS)


def test_a_refusal_is_a_sentence_for_readers_of_other_languages():
    german = {
        "%(field)s: expected %(what)s, found %(found)s": "%(field)s: statt %(found)s: %(what)s",
        "a login name": "ein Anmeldename",
    }
    with pytest.raises(BadRow) as refused:
        check_row({**ROW, "user": "root;id"}, cidrs=CIDRS)
    assert str(refused.value) == "user: expected a login name, found 'root;id'"
    told = said(refused.value.sentence, lambda words: german.get(words, words))
    assert told == "user: statt 'root;id': ein Anmeldename"


def test_a_good_row_gets_its_defaults():
    row = check_row({**ROW, "host_key": KEY}, cidrs=CIDRS)
    assert (row.port, row.model_root, row.host_key) == (22, "/models", KEY)


def test_a_fingerprint_is_what_ssh_keygen_prints():
    assert key_problem(KEY) == ""
    assert fingerprint(KEY) == "SHA256:RXm/ruZ0eTzRXKwi1AQEDynB0VgHQ2ac9KPSFdf/YnA"
