"""The command line by the version's flag list: what parses, what is refused, and with which words."""

import json
from pathlib import Path

import pytest

from fleet.lab.engine.flags import parse_flags
from fleet.lab.engine.plan import Refused, plan_from_flags


def refusal(argv: list[str], version: str = "0.23.0") -> str:
    with pytest.raises(Refused) as caught:
        parse_flags(argv, version)
    assert caught.value.code == 2
    return caught.value.text


def test_the_samples_parse_as_they_do_in_the_real_parsers(shared_dir: Path) -> None:
    facts = json.loads((shared_dir / "facts" / "vllm_flags.json").read_text())
    for version in ("0.23.0", "0.33.0"):
        for name, argv in facts["seed_command_argv"].items():
            real = facts["seed_command_parse_results"][version][name]
            try:
                parse_flags(argv, version)
                ours = "OK"
            except Refused as error:
                ours = "REJECTED: " + error.text.splitlines()[-1]
            assert ours == real, (version, name)


def test_both_spellings_and_the_equals_sign_are_one_flag() -> None:
    for argv in (["--max-model-len", "32768"], ["--max_model_len=32k".replace("32k", "32768")]):
        assert parse_flags(["/m", *argv], "0.23.0")["max_model_len"] == 32768
    assert parse_flags(["/m", "--max-model-len", "128k"], "0.23.0")["max_model_len"] == 128_000
    assert parse_flags(["/m", "--max-model-len", "1K"], "0.23.0")["max_model_len"] == 1024


def test_a_boolean_is_switched_off_by_its_versions_spelling() -> None:
    off = parse_flags(["/m", "--no-enable-prefix-caching"], "0.23.0")
    assert off["enable_prefix_caching"] is False
    later = parse_flags(["/m", "--disable-prefix-caching"], "0.33.0")
    assert later["enable_prefix_caching"] is False
    assert "--disable-prefix-caching" in refusal(["/m", "--disable-prefix-caching"])


def test_dotted_keys_build_an_object() -> None:
    argv = "/m --speculative-config.method mtp --speculative_config.num_speculative_tokens=3"
    plan = plan_from_flags(parse_flags(argv.split(), "0.23.0"), "0.23.0", {})
    assert (plan.spec_method, plan.spec_tokens) == ("mtp", 3)
    as_json = ["/m", "--speculative-config", '{"method":"mtp","num_speculative_tokens":3}']
    assert plan_from_flags(parse_flags(as_json, "0.23.0"), "0.23.0", {}).spec_tokens == 3


def test_a_value_that_is_missing_or_broken_is_named() -> None:
    assert "argument --port: expected one argument" in refusal(["/m", "--port"])
    assert "cannot be converted" in refusal(["/m", "--compilation-config", "{broken"])


def test_a_version_without_a_list_uses_the_built_in_one() -> None:
    flags = parse_flags(["/m", "-tp", "8", "--headless"], "9.9.9")
    assert flags == {"model_tag": "/m", "tensor_parallel_size": 8, "headless": True}
    assert "--moe-nothing" in refusal(["/m", "--moe-nothing"], "9.9.9")
