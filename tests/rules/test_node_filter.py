import pytest

from fleet.rules.node_filter import Named, parse_filter
from fleet.rules.nodeset import NodesetError

NODE = Named(
    "gpu012",
    leaf="2",
    rack="R03",
    pool="glm52",
    unit="glm52-r4",
    state="ready",
    reach="ok",
    node_class="h100",
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu012",
        "gpu[010-013]",
        "gpu[001,012]",
        "gpu01*",
        "rack:R03",
        "leaf:2 state:ready",
        "pool:glm5?",
        "r4",
        "nothing,gpu012",
        "class:h100 reach:ok",
    ],
)
def test_it_lets_a_node_pass(text):
    assert parse_filter(text)(NODE)


@pytest.mark.parametrize(
    "text", ["gpu013", "gpu[001-011]", "rack:R04", "ready R04", "state:failed", "gpu02*"]
)
def test_it_keeps_a_node_out(text):
    assert not parse_filter(text)(NODE)


@pytest.mark.parametrize("text", ["gpu[9-1]", "gpu[1", "gpu[a-b]"])
def test_it_says_what_cannot_be_read(text):
    with pytest.raises(NodesetError):
        parse_filter(text)
