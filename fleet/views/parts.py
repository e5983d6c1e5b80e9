"""Answers a page as a whole, or the one live part of it that htmx asks for: same address, same template."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def render_page(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    parts: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    """Render the page, or only the part whose element id htmx names as its target."""
    target = request.htmx.target if getattr(request, "htmx", None) else None
    answer = render(request, (parts or {}).get(target or "", template), context, status=status)
    patch_vary_headers(answer, ("HX-Request", "HX-Target"))
    return answer
