"""One piece of evidence: where it came from, its hash, and its bytes as text that can do nothing."""

from __future__ import annotations

import hashlib

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from fleet.models import Evidence
from fleet.views.parts import render_page
from fleet.views.raw_text import raw_text

SHOWN_BYTES = 256 * 1024


@require_safe
def evidence(request: HttpRequest, pk: int) -> HttpResponse:
    """Show frozen evidence as text and whether its hash still holds, or send its bytes."""
    found = get_object_or_404(Evidence, pk=pk)
    body = bytes(found.body)
    if request.GET.get("download"):
        answer = HttpResponse(body, content_type="application/octet-stream")
        answer["Content-Disposition"] = f'attachment; filename="evidence-{found.pk}.txt"'
        return answer
    context = {
        "section": "replicas",
        "evidence": found,
        "is_whole": hashlib.sha256(body).hexdigest() == found.sha256,
        "text": raw_text(body[:SHOWN_BYTES]),
        "is_cut": len(body) > SHOWN_BYTES,
    }
    return render_page(request, "fleet/evidence.html", context)
