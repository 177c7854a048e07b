"""What a trace file holds, as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from visformer.text import clean
from visformer.trace_file.regular_file import RegularFile
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.trace_file import read_session


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
