"""Imports of an inventory: reading a file, its dry run, its apply; one node by a form; the fleet as a file."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from fleet.marks import mark_of
from fleet.models import InventoryImport, Node
from fleet.rules.inventory import DEFAULT_CLASS, DEFAULT_ROOT
from fleet.rules.inventory_csv import COLUMNS
from fleet.rules.inventory_export import write_csv, write_yaml
from fleet.rules.inventory_file import BYTES_MAX
from fleet.rules.policy import may
from fleet.rules.refusals import Refused
from fleet.selectors.inventory import (
    fleet_digest,
    import_seen,
    imports_listed,
    inventory_now,
)
from fleet.services import imports
from fleet.services.trail import actor_of
from fleet.views.import_drawn import diff_text, draw
from fleet.views.pager import pager
from fleet.views.parts import render_page


@require_http_methods(["GET", "HEAD", "POST"])
def import_list(request: HttpRequest) -> HttpResponse:
    """The imports that were read, and the forms: a file or a text to try, one node to add."""
    if request.method != "POST":
        return _list(request)
    try:
        text, name = _text(request)
        found = imports.import_read(
            text=text,
            file_name=name,
            is_whole=request.POST.get("whole") == "1",
            actor=actor_of(request),
            user=request.user,
        )
    except Refused as refusal:
        if refusal.status != Refused.status:
            raise
        return _list(request, problem=str(refusal), status=refusal.status)
    return redirect("import", found.pk)


@require_GET
def import_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One import: what it would do or did, row by row, and its apply."""
    found = import_seen(pk)
    if found is None:
        raise Http404(_("No import has this number."))
    is_dry = found.state == InventoryImport.State.DRY
    context = {
        "section": "fleet",
        "topics": [found.topic, "fleet"],
        "found": found,
        "pager": pager(InventoryImport.objects.only("pk"), pk, "import", by="pk"),
        "mark": mark_of("import", found.state),
        "is_dry": is_dry,
        "is_old": is_dry and fleet_digest() != found.fleet_digest,
        "shown_all": request.GET.get("show") == "all",
        "may_import": may(request.user, "import-act"),
        "drawn": draw(found, _known(), show_all=request.GET.get("show") == "all"),
    }
    return render_page(
        request, "fleet/import.html", context, parts={"import-live": "fleet/_import_live.html"}
    )


@require_GET
def import_diff(request: HttpRequest, pk: int) -> HttpResponse:
    """The differences of an import as a file, CSV; with `show=all` the equal rows too."""
    found = import_seen(pk)
    if found is None:
        raise Http404(_("No import has this number."))
    text = diff_text(found, with_equal=request.GET.get("show") == "all")
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{found.public_id}-diff.csv"'
    return answer


@require_POST
def import_act(request: HttpRequest, pk: int) -> HttpResponse:
    """Apply a dry run, try it again on the fleet as it is now, or discard it: the word `act` of the form."""
    found = import_seen(pk)
    if found is None:
        raise Http404(_("No import has this number."))
    who = {"found": found, "actor": actor_of(request), "user": request.user}
    act = request.POST.get("act", "")
    if act == "apply":
        imports.import_apply(
            digest=request.POST.get("digest", ""),
            removals=request.POST.getlist("remove"),
            reason=request.POST.get("reason", ""),
            **who,
        )
    elif act == "again":
        imports.import_again(**who)
    elif act == "discard":
        imports.import_discard(**who)
        return redirect("import-list")
    else:
        raise Refused(_("Expected apply, again or discard. Reload the page and send again."))
    return redirect("import", pk)


@require_POST
def node_add(request: HttpRequest) -> HttpResponse:
    """Add one node by its fields; what is wrong comes back beside what was typed."""
    row = {name: request.POST.get(name, "").strip() for name in COLUMNS}
    try:
        node = imports.node_add(row=row, actor=actor_of(request), user=request.user)
    except Refused as refusal:
        if refusal.status != Refused.status:
            raise
        return _list(request, node_problem=str(refusal), fields=row, status=refusal.status)
    messages.info(
        request, _("%(node)s was added. Pin its host key, then probe it.") % {"node": node}
    )
    return redirect("node", node.name)


@require_GET
def inventory_export(request: HttpRequest) -> HttpResponse:
    """The fleet as a file that imports without a difference: all of it as YAML, or its nodes as CSV."""
    now = inventory_now()
    if request.GET.get("form") == "csv":
        answer = HttpResponse(write_csv(now.nodes), content_type="text/csv; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="inventory.csv"'
    else:
        answer = HttpResponse(write_yaml(now), content_type="application/yaml; charset=utf-8")
        answer["Content-Disposition"] = 'attachment; filename="inventory.yaml"'
    return answer


def _text(request: HttpRequest) -> tuple[str, str]:
    """Return the text of the chosen file, or the pasted one, and how it is called. Raises Refused."""
    file = request.FILES.get("file")
    if file is None:
        text = request.POST.get("inventory", "")
        if not text.strip():
            raise Refused(_("Choose a file or paste an inventory; both are empty."))
        return text, _("pasted text")
    if file.size > BYTES_MAX:
        raise Refused(
            _("The file has %(found)d bytes; expected at most %(max)d. Split the inventory.")
            % {"found": file.size, "max": BYTES_MAX}
        )
    try:
        return file.read().decode(), str(file.name)
    except UnicodeDecodeError as error:
        raise Refused(
            _(
                "Expected UTF-8 text, found byte 0x%(byte)02x at position %(at)d. Save the file as UTF-8."
            )
            % {"byte": error.object[error.start], "at": error.start}
        ) from None


def _list(
    request: HttpRequest,
    *,
    problem: str = "",
    node_problem: str = "",
    fields: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "section": "fleet",
        "topics": ["imports"],
        "imports": [(row, mark_of("import", row.state)) for row in imports_listed()],
        "known": _known(),
        "problem": problem,
        "node_problem": node_problem,
        "fields": fields or {},
        "pasted": request.POST.get("inventory", ""),
        "is_whole": request.method != "POST" or request.POST.get("whole") == "1",
        "bytes_max": BYTES_MAX,
        "default_class": DEFAULT_CLASS,
        "default_root": DEFAULT_ROOT,
        "may_import": may(request.user, "import-act"),
    }
    return render_page(
        request,
        "fleet/import_list.html",
        context,
        parts={"imports-live": "fleet/_import_rows.html"},
        status=status,
    )


def _known() -> int:
    return Node.objects.exclude(state=Node.State.RETIRED).count()
