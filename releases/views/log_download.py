"""What of a log can be taken away: one node's lines, or all ranks in an archive with checksums. Text only.

Node text is written as it is shown, controls made visible, so that a terminal that prints it stays itself.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections.abc import Iterator
from typing import IO

from django.http import FileResponse, Http404, HttpRequest, HttpResponseBase, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.execution import streams
from fleet.execution.streams import StoredLine
from fleet.rules.log_text import show_text
from fleet.selectors.logs import LogSource
from releases.models import Launch
from releases.selectors.launch_page import launch_of
from releases.selectors.logs import launch_sources

_SPOOL_BYTES = 8 * 1024 * 1024


@require_safe
def log_download(request: HttpRequest, name: str, generation: int) -> HttpResponseBase:
    """The log of one node (`position=`), or of all ranks."""
    launch = launch_of(name, generation)
    if launch is None:
        raise Http404(_("%(name)s has no generation %(n)d.") % {"name": name, "n": generation})
    sources = launch_sources(launch)
    wanted = request.GET.get("position")
    if wanted is None:
        return _attach(FileResponse(_bundle(launch, sources)), _stem(launch), "zip")
    source = next((one for one in sources if str(one.position) == wanted), None)
    if source is None:
        raise Http404(_("This launch has no node at that position."))
    answer = StreamingHttpResponse(text_of(source), content_type="text/plain; charset=utf-8")
    return _attach(answer, f"{_stem(launch)}-{source.node}", "log")


def _attach(answer: HttpResponseBase, stem: str, ending: str) -> HttpResponseBase:
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in stem)
    answer["Content-Disposition"] = f'attachment; filename="{safe}.{ending}"'
    answer["X-Content-Type-Options"] = "nosniff"
    if ending == "zip":
        answer["Content-Type"] = "application/zip"
    return answer


def _stem(launch: Launch) -> str:
    return f"{launch.replica.name}-gen{launch.generation}-{launch.public_id}"


def text_of(source: LogSource) -> Iterator[bytes]:
    """Yield a node's log as text, a chunk at a time."""
    for chunk in streams.chunks_after(source.stream_id, 0):
        yield "".join(map(_text_line, streams.chunk_lines(chunk))).encode()


def _text_line(line: StoredLine) -> str:
    rank = "-" if line.rank is None else f"r{line.rank:02d}"
    at = line.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return (
        f"{line.number} {at} {rank} {line.level} {line.subsystem or '-'} {show_text(line.text)}\n"
    )


def _bundle(launch: Launch, sources: list[LogSource]) -> IO[bytes]:
    """Write nodes/<node>.log, ranks/rNN.log and SHA256SUMS into an archive on disk."""
    archive = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 -- the response closes it
    sums: list[str] = []
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
        for source in sources:
            with _Ranks(source) as ranks:
                with bundle.open(f"nodes/{source.node}.log", "w", force_zip64=True) as node:
                    digest = ranks.split_into(node)
                sums.append(f"{digest}  nodes/{source.node}.log")
                sums += ranks.add_to(bundle)
        bundle.writestr("SHA256SUMS", "".join(f"{line}\n" for line in sums))
    archive.seek(0)
    return archive


class _Ranks:
    """One pass over a node's lines that also cuts them by rank, into files on disk."""

    def __init__(self, source: LogSource):
        self._source = source
        self._files: dict[int, IO[bytes]] = {}

    def __enter__(self) -> _Ranks:
        for rank in self._source.ranks:
            self._files[rank] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)
        return self

    def __exit__(self, *error: object) -> None:
        for file in self._files.values():
            file.close()

    def split_into(self, node: IO[bytes]) -> str:
        """Write all lines to `node` and each to its rank's file; return the sha256 of all lines."""
        digest = hashlib.sha256()
        for chunk in streams.chunks_after(self._source.stream_id, 0):
            by_rank: dict[int | None, list[str]] = {}
            whole: list[str] = []
            for line in streams.chunk_lines(chunk):
                text = _text_line(line)
                whole.append(text)
                by_rank.setdefault(line.rank, []).append(text)
            block = "".join(whole).encode()
            digest.update(block)
            node.write(block)
            for rank, texts in by_rank.items():
                if rank in self._files:
                    self._files[rank].write("".join(texts).encode())
        return digest.hexdigest()

    def add_to(self, bundle: zipfile.ZipFile) -> list[str]:
        """Move the ranks' files into the archive; return their lines for SHA256SUMS."""
        sums = []
        for rank, file in self._files.items():
            name = f"ranks/r{rank:02d}.log"
            file.seek(0)
            digest = hashlib.sha256()
            with bundle.open(name, "w", force_zip64=True) as entry:
                while block := file.read(1 << 20):
                    digest.update(block)
                    entry.write(block)
            sums.append(f"{digest.hexdigest()}  {name}")
        return sums
