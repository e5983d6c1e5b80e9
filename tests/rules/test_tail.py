import pytest

from releases.views.tail import message_of


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "(Worker_PP1_TP6 pid=9262) INFO 11-30 02:12:55 [gpu_model_runner.py:5172] Starting to load model",
            "Starting to load model",
        ),
        ("INFO 11-30 02:12:55 [api_server.py:12] Started", "Started"),
        ("Loading shards: 49% | 70/141", "Loading shards: 49% | 70/141"),
        ("(a remark) stays", "(a remark) stays"),
        ("h100-003:77:77 [0] NCCL INFO Connected", "h100-003:77:77 [0] NCCL INFO Connected"),
        ("\x1b[31mred\x1b[0m \x07", "red \u2407"),
    ],
)
def test_it_keeps_what_was_said(line, said):
    assert message_of(line) == said


def test_a_line_of_any_length_is_cut():
    assert len(message_of("x" * 100_000)) == 300
