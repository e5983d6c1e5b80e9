"""What a strict content policy demands of templates and answers."""

import re

import pytest

from tests.views.conftest import ROOT

TEMPLATES = sorted((ROOT / "templates").rglob("*.*"))
_BANNED = {
    "an inline style": re.compile(r"\sstyle\s*=|<style"),
    "a handler in an attribute": re.compile(r"\son[a-z]+\s*="),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)"),
    "a script address": re.compile(r"javascript:"),
    "something from elsewhere": re.compile(r"(?:src|href)=\"(?:https?:)?//"),
    "text taken for safe": re.compile(r"\|\s*safe\b|autoescape off|safeseq"),
}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_it_needs_nothing_that_the_policy_forbids(path):
    text = path.read_text(encoding="utf-8")
    assert [what for what, pattern in _BANNED.items() if pattern.search(text)] == []


@pytest.mark.parametrize("address", ["/login/", "/fleet/", "/audit/", "/nodes/nobody/"])
def test_it_sends_the_headers_with_every_answer(ana, address):
    answer = ana.get(address)
    policy = answer["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
