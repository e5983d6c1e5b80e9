import itertools
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from fleet.execution.watch_lines import (
    LINE_CAP_BYTES,
    LineSplitter,
    RawLine,
    line_text,
    splice_fits,
    splice_proof,
)


def _keep(text: str) -> str:
    return text


def _split(*blocks: bytes, offset: int = 0) -> list[tuple[int, bytes]]:
    splitter = LineSplitter(offset)
    lines = [line for block in blocks for line in splitter.feed(block)]
    return [(line.end_offset, line.head) for line in lines + splitter.finish()]


def test_it_cuts_at_line_feeds_across_frames_and_says_where_each_line_ended() -> None:
    assert _split(b"one\ntw", b"o\n", b"\nthree", offset=100) == [
        (104, b"one"),
        (108, b"two"),
        (109, b""),
        (114, b"three"),
    ]


def test_a_progress_bar_gives_a_line_for_each_step_and_crlf_is_one_end() -> None:
    assert [text for _, text in _split(b"\r 0%\r 50%\r100%\r\nnext\r\r\nlast\r")] == [
        b" 0%",
        b" 50%",
        b"100%",
        b"next",
        b"last",
    ]


@given(
    st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n", b"\xff", b"\x00"]), max_size=40),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_the_framing_changes_nothing(parts: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(parts)
    edges = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    blocks = [whole[a:b] for a, b in itertools.pairwise(edges)]
    assert _split(*blocks) == _split(whole)


@given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"\r\n", b"bc"]), max_size=40), st.data())
def test_resuming_at_any_stored_offset_gives_the_same_lines(parts: list[bytes], data) -> None:  # type: ignore[no-untyped-def]
    whole = b"".join(parts)
    lines = _split(whole)
    if not lines:
        return
    done = data.draw(st.integers(0, len(lines) - 1))
    offset = lines[done][0]
    assert _split(whole[offset:], offset=offset) == lines[done + 1 :]


def test_a_line_of_200_mb_takes_constant_memory_and_says_what_was_cut() -> None:
    block = b"x" * 65536
    splitter = LineSplitter()
    tracemalloc.start()
    for _ in range(3200):
        assert splitter.feed(block) == []
    (line,) = splitter.feed(b"\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert line.end_offset == 65536 * 3200 + 1
    text = line_text(line, _keep)
    assert text.endswith(f" [{65536 * 3200 - LINE_CAP_BYTES} bytes of this line cut]")
    assert text.startswith("xxxx")


def test_a_secret_on_the_border_of_the_cut_is_masked_first() -> None:
    secret = "topsecretvalue42"
    for shift in range(len(secret) + 1):
        head = b"y" * (LINE_CAP_BYTES - shift) + secret.encode() + b"z" * 600
        raw = RawLine(len(head), head[: LINE_CAP_BYTES + 512], len(head))
        text = line_text(raw, lambda t: t.replace(secret, "***"))
        assert "tops" not in text


def test_nul_and_broken_utf8_become_visible_and_the_cut_keeps_whole_characters() -> None:
    assert line_text(RawLine(9, b"a\x00b\xff\xfec", 6), _keep) == "a\u2400b\ufffd\ufffdc"
    head = ("中" * 6000).encode()
    text = line_text(RawLine(0, head[: LINE_CAP_BYTES + 512], len(head)), _keep)
    assert "\ufffd" not in text
    assert text.endswith(f"[{len(head) - LINE_CAP_BYTES} bytes of this line cut]")


def test_a_resumed_reader_knows_the_file_by_its_last_stored_line() -> None:
    proof = splice_proof("n 4711")
    assert splice_fits(b"0\nn 4711\n", proof)
    assert splice_fits(b"\nn 4711\r\n", proof)
    assert not splice_fits(b"\nn 4712\n", proof)
    assert not splice_fits(b"\nn 4711", proof)
    for changed in ("token=***1234", "nul\u2400", "\ufffd", "xxx [9 bytes of this line cut]"):
        assert splice_proof(changed) == b""
    assert splice_fits(b"anything\n", b"")
