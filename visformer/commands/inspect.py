"""``visformer inspect``: describes a checkpoint or a trace file, as text or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from visformer.commands.shared import add_device, add_overrides, overrides
from visformer.errors import CheckpointError
from visformer.language import _
from visformer.values.storage.describe import describe_file
from visformer.values.trace_file import is_trace_file


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer inspect``."""
    parser.add_argument("path", help=_("checkpoint folder or file, or a trace (*.vis)"))
    parser.add_argument("--json", action="store_true", help=_("print JSON"))
    parser.add_argument(
        "--check",
        action="store_true",
        help=_("also compare cached decoding, the full pass and a row of a batch"),
    )
    add_device(parser)
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Print the report; returns 0, or 2 if it names a problem."""
    if is_trace_file(Path(options.path)) or options.path.endswith(".vis"):
        report = describe_file(Path(options.path))
    else:
        report = _checkpoint_report(options)
    if options.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        for line in _lines(report):
            print(line)
    return 2 if report["problem"] else 0


def _checkpoint_report(options: argparse.Namespace) -> dict[str, Any]:
    from visformer.formats.loading import inspect

    given: dict[str, Any] = dict(overrides(options))
    report = inspect(Path(options.path), **given)
    if report["problem"] and not report["tensors"]:
        raise CheckpointError(report["problem"])
    if options.check:
        from visformer.core.check import check
        from visformer.formats.loading import load

        checkpoint = load(Path(options.path), device=options.device, **given)
        report["check"] = check(checkpoint)
    return report


def _lines(report: dict[str, object], indent: str = "") -> Iterator[str]:
    """Yield a report as indented text; unknown values are left out."""
    for key, value in report.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, list | tuple):
            empty = _("{key}: none", key=key)
            yield indent + (f"{key}:" if value else empty)
            for item in value:
                if key == "runs":
                    yield ""
                    yield from _lines(item, indent + "  ")
                    continue
                parts = item.values() if isinstance(item, dict) else (item,)
                yield f"{indent}  {' '.join(map(str, parts))}"
        elif value is not None:
            yield f"{indent}{key}: {value}"
