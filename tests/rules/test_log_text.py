import pytest

from fleet.rules.log_text import Piece, show_pieces, show_text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text\twith a tab, 中文, naïve", "plain text\twith a tab, 中文, naïve"),
        ("\x1b[32mINFO\x1b[0m:     started", "INFO:     started"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil/\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x1b]52;c;cm0gLXJm\x07copy", "copy"),
        ("\x1b[2J\x1b[1;1Hcursor", "cursor"),
        ("a\x00b\x07c\x1bz", "a␀b␇c"),
        ("broken \x1b[", "broken ␛["),
        ("open \x1b]0;never ends", "open ␛]0;never ends"),
        ("del \x7f nel \x85 csi \x9b31m", "del ␡ nel ⟨U+0085⟩ csi ⟨U+009B⟩31m"),
        ("user\u202etxt.exe", "user⟨U+202E⟩txt.exe"),
        ("zero\u200bwidth\ufeff", "zero⟨U+200B⟩width⟨U+FEFF⟩"),
        ("line\u2028sep", "line⟨U+2028⟩sep"),
        ("<script>alert(1)</script>&amp;", "<script>alert(1)</script>&amp;"),
    ],
)
def test_it_shows_controls_and_drops_whole_sequences(raw: str, shown: str) -> None:
    assert show_text(raw) == shown
    assert "".join(piece.text for piece in show_pieces(raw)) == shown


def test_only_bold_survives_of_the_styles() -> None:
    assert show_pieces("a \x1b[1;31mbold red\x1b[22m thin \x1b[1mb\x1b[m c") == [
        Piece("a ", False),
        Piece("bold red", True),
        Piece(" thin ", False),
        Piece("b", True),
        Piece(" c", False),
    ]
    assert show_pieces("") == [Piece("", False)]
    assert show_pieces("\x1b[0m") == [Piece("", False)]


def test_it_takes_linear_time_on_a_line_of_escapes() -> None:
    for raw in ("\x1b" * 16384, "\x1b[" * 8192, "\x1b]" * 8192, "\x1b[1m" * 4096):
        show_pieces(raw)
