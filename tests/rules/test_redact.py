from fleet.rules import redact
from fleet.rules.redact import KEY_BLOCK, KEY_BLOCK_OPEN, Redactor, redact_text

HF = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"


def _clean(text: str, *known: str) -> str:
    return Redactor(known).line(text)


def test_it_masks_every_pattern_and_keeps_the_last_four() -> None:
    for text, secret in (
        (f"downloading with {HF} now", HF),
        ("GET /x?token=abcdefgh12345678&a=1", "abcdefgh12345678"),
        ("HF_TOKEN=supersecretvalue123", "supersecretvalue123"),
        ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc", "eyJhbGciOiJIUzI1NiJ9.e30.abc"),
        ("aws AKIAIOSFODNN7EXAMPLE ok", "AKIAIOSFODNN7EXAMPLE"),
        ("'api_key': ['sk-local-0123456789abcdef']", "sk-local-0123456789abcdef"),
        ("password: 'correct horse'", "correct"),
        ("pull https://bot:p4ssw0rd!long@registry/x", "p4ssw0rd!long"),
        ("key nvapi-0123456789abcdefghij end", "nvapi-0123456789abcdefghij"),
    ):
        found = _clean(text)
        assert secret not in found, text
        assert redact.MASK in found
        if len(secret) >= 12:
            assert secret[-4:] in found


def test_it_leaves_the_ordinary_words_of_an_engine_alone() -> None:
    for text in (
        "Engine 000: Avg prompt throughput: 9000.1 tokens/s, Running: 3 reqs",
        "max_num_batched_tokens=32768, max_token: 131072, api_key=None",
        "GPU KV cache size: 660,016 tokens",
        "via NET/IB/3/GDRDMA key 0x12 asian basic test",
        "http://127.0.13.5:8000/v1/models",
        "tcp://127.0.13.27:29500 backend=nccl",
    ):
        assert _clean(text) == text


def test_it_masks_known_values_whatever_they_look_like() -> None:
    assert _clean("x=plainwords y", "plainwords") == "x=*** y"
    assert _clean("ab abc", "abc") == "ab abc"  # too short to be told from words
    assert _clean("longer-secret-value", "secret", "longer-secret-value") == "***alue"


def test_it_hides_a_key_block_over_several_lines_and_shows_what_follows() -> None:
    lines = [
        "before -----BEGIN OPENSSH PRIVATE KEY-----",
        "b3BlbnNzaC1rZXktdjEAAAAA",
        "-----END OPENSSH PRIVATE KEY----- after",
        "plain",
    ]
    redactor = Redactor()
    assert [redactor.line(line) for line in lines] == [
        f"before {KEY_BLOCK_OPEN}",
        KEY_BLOCK_OPEN,
        f"{KEY_BLOCK} after",
        "plain",
    ]


def test_a_resumed_stream_knows_that_it_is_inside_a_key_block() -> None:
    redactor = Redactor()
    first = redactor.line("-----BEGIN RSA PRIVATE KEY-----")
    resumed = Redactor(is_in_key=redact.ends_in_key(first))
    assert resumed.line("MIIEowIBAAKCAQEA") == KEY_BLOCK_OPEN
    closed = resumed.line("-----END RSA PRIVATE KEY-----")
    assert not redact.ends_in_key(closed)


def test_a_key_block_without_an_end_does_not_hide_a_whole_log() -> None:
    redactor = Redactor()
    redactor.line("-----BEGIN PRIVATE KEY-----")
    shown = [redactor.line(f"line {n}") for n in range(400)]
    assert shown[0] == KEY_BLOCK_OPEN
    assert shown[-1] == "line 399"


def test_a_whole_text_keeps_its_line_feeds() -> None:
    text = f"a\n{HF}\n\n-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nz"
    assert redact_text(text).split("\n") == [
        "a",
        "***2345",
        "",
        KEY_BLOCK_OPEN,
        KEY_BLOCK_OPEN,
        KEY_BLOCK,
        "z",
    ]


def test_it_hides_any_number_of_key_blocks_of_one_line() -> None:
    block = f"-----BEGIN PRIVATE KEY-----MII-----END PRIVATE KEY----- {HF} "
    assert _clean(block * 3000) == f"{KEY_BLOCK} ***2345 " * 3000
    redactor = Redactor(is_in_key=True)
    found = redactor.line(f"MII-----END PRIVATE KEY----- {block}-----BEGIN PRIVATE KEY-----MII")
    assert found == f"{KEY_BLOCK} {KEY_BLOCK} ***2345 {KEY_BLOCK_OPEN}"
    assert redactor.is_in_key


def test_it_takes_linear_time_on_hostile_lines() -> None:
    for text in (
        "token=" * 3000,
        "://" * 5000,
        "-----BEGIN " * 1500,
        "bearer " * 2000,
        "_" * 16384,
    ):
        assert len(_clean(text)) <= len(text) + 10 * len(text)
