"""Traces and sessions on disk (``*.vis``): numpy only, so that the window reads them.

resources/vis-format.md describes them: version 4 is written, version 3 is read, too.
Readers skip blocks they do not know and refuse another major version.
"""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from visformer.errors import InputError
from visformer.file_kinds import recognised
from visformer.files import check_suffix, saving, written_whole
from visformer.text import clean
from visformer.trace_file.file_blocks import (
    MAGIC,
    OLDEST,
    START,
    VERSION,
    BlockFile,
    InMemory,
    RegularFile,
)
from visformer.trace_file.run_arrays import read_session_file, write_runs
from visformer.trace_file.saved_session import SavedRun, SavedSession
from visformer.values.trace import Trace

MOST_PAGE = 1 << 30  # bytes of a web page


def write_trace(trace: Trace, path: Path) -> None:
    """Write a Trace, whole or not at all; InputError where it cannot be written."""
    write_session([SavedRun(trace=trace)], path)


def trace_bytes(trace: Trace) -> bytes:
    """Return the file of a Trace."""
    file = io.BytesIO()
    write_runs(file, [SavedRun(trace=trace)], 0)
    return file.getvalue()


def write_session(
    runs: Sequence[SavedRun],
    path: Path,
    shown: int = 0,
    *,
    baseline: int | None = None,
    work: bytes = b"",
    private: bool = False,
) -> None:
    """Write runs, whole or not at all; ``shown`` is the one that is shown.

    With ``baseline`` others are compared. ``work`` is what a window needs to go on. A
    private file is its user's alone; a link stays one. Raises InputError where they
    cannot be written, or could not be read again.
    """
    check_suffix(path, ".vis")
    for number in (shown, *(run.parent for run in runs if run.parent is not None)):
        if not 0 <= number < len(runs):
            raise InputError(
                "Run {number} cannot be shown, or be the parent of another: there are "
                "{count} runs.",
                number=number,
                count=len(runs),
            )
    with saving(path) as target, written_whole(target, private=private) as file:
        write_runs(file, runs, shown, baseline, work)


def read_trace(path: Path) -> Trace:
    """Read the Trace that was shown; InputError names what is wrong with the file."""
    return read_session(path).shown.trace


def read_session(path: Path) -> SavedSession:
    """Read the runs of a file; InputError names what is wrong with it.

    A web page of ours has them where it was saved with its run.
    """
    file = RegularFile(path)
    if recognised(path).kind == "page":
        file = _attached(file)
    start = file.read(0, START)
    if start[: len(MAGIC)] != MAGIC:
        raise InputError("{file} is not a Visformer trace (*.vis).", file=file.name)
    version = tuple(start[len(MAGIC) :])
    if len(version) < 2 or not version[0]:
        raise InputError(
            "{file} is cut off: copy or download it again.", file=file.name
        )
    major, minor = version
    if major > VERSION[0]:
        raise InputError(
            "{file} was written by a newer Visformer: update to open it.",
            file=file.name,
        )
    if major < OLDEST:
        raise InputError(
            "{file} was written before Visformer was released, and is no longer "
            "read: run its sentence again.",
            file=file.name,
        )
    return read_session_file(BlockFile(file), (major, minor))


def _attached(page: RegularFile) -> RegularFile:
    """Return the file that is attached to a web page of ours."""
    data = page.read(0, page.size if page.size <= MOST_PAGE else 0)
    _before, _mark, after = data.rpartition(b'id="file">')
    try:
        found = base64.b64decode(after.partition(b"<")[0], validate=True)
    except ValueError:
        found = b""
    if not found:
        raise InputError(
            "{file} is a web page that Visformer wrote, without its run: look at it in "
            "a browser, or open the .vis file of the run.",
            file=page.name,
        )
    return InMemory(page.name, found)


def describe_file(path: Path) -> dict[str, Any]:
    """Describe a trace file; InputError where it cannot be opened at all.

    ``problem`` is the sentence about what it no longer holds, or None. Layers, heads
    and sizes of a run are given per kind of attention.
    """
    session = read_session(path)
    major, minor = session.version
    return {
        "path": clean(str(path)),
        "problem": session.missing or None,
        "version": f"{major}.{minor}",
        "bytes": RegularFile(path).size,
        "shown": session.at + 1,
        "runs": [_described(run) for run in session.runs],
    }


def _described(run: SavedRun) -> dict[str, Any]:
    trace, model = run.trace, run.trace.model
    return {
        "name": run.name,
        "note": run.note,
        "model": model.name,
        "layout": model.layout,
        "digest": model.digest,
        "parameters": model.parameters,
        "attention": {
            kind: {
                "layers": trace.layers(kind),
                "heads": trace.heads(kind),
                "key_heads": trace.key_heads(kind),
                "head_size": trace.head_size(kind),
                "captured_layers": [
                    layer + 1
                    for layer in range(trace.layers(kind))
                    if trace.is_captured(kind, layer)
                ],
            }
            for kind in trace.kinds
        },
        "source": trace.source_text,
        "source_tokens": len(trace.source),
        "target_tokens": len(trace),
        "prompt_tokens": trace.prompt,
        "steps": len(trace.steps),
        "text": trace.text,
        "change": str(trace.intervention),
        "certificate": None
        if trace.certificate is None
        else {
            "passed": trace.certificate.passed,
            "ok": trace.certificate.ok,
            "sentence": trace.certificate.sentence,
            "missed": list(trace.certificate.missed),
            "findings": list(map(str, trace.certificate.findings)),
            "checks": list(trace.certificate.checks),
        },
    }
