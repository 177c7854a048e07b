"""``visformer inspect``: describes a checkpoint or a trace file, as text or JSON."""

import argparse
import json
import math
from collections.abc import Iterator
from typing import Any

from visformer.api import inspect
from visformer.commands.load_options import (
    add_device,
    add_overrides,
    checkpoint_paths,
    overrides,
)
from visformer.commands.shared import complain, results
from visformer.errors import CheckpointError
from visformer.language import _
from visformer.text import visible
from visformer.values.finding import VERDICTS
from visformer.values.questions import location_and_keywords


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer inspect``."""
    parser.add_argument(
        "path",
        nargs="+",
        help=_(
            "checkpoint folder or file, an encoder's and a decoder's file, or a trace "
            "(*.vis)"
        ),
    )
    parser.add_argument("--json", action="store_true", help=_("print JSON"))
    parser.add_argument(
        "--check",
        action="store_true",
        help=_("also run the model, and look for what is wrong by a table of checks"),
    )
    parser.add_argument(
        "--text", help=_("the sentence that --check runs (default: ids that are drawn)")
    )
    add_device(parser)
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Print the report; returns 0, 1 if a check failed, or 2 if there is a problem."""
    output = results()
    first = checkpoint_paths(options.path)[0]
    path, given = location_and_keywords(first, overrides(options))
    asked = {"check": options.check, "text": options.text, "device": options.device}
    report = inspect(path, **asked, **given)
    if report["problem"] and not report.get("tensors", True):
        raise CheckpointError(report["problem"])
    if options.json:
        text = json.dumps(strict(report), ensure_ascii=False, indent=2, allow_nan=False)
        print(text, file=output)
    else:
        for line in _lines({**report, "problem": None}):
            print(visible(line), file=output)
    if report["problem"]:
        complain(report["problem"])
        return 2
    return 0 if report.get("check", {"passed": True})["passed"] else 1


def strict(value: Any) -> Any:
    """Return plain data as JSON can say it: what is no number is null."""
    if isinstance(value, dict):
        return {key: strict(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [strict(part) for part in value]
    broken = isinstance(value, float) and not math.isfinite(value)
    return None if broken else value


def _check_lines(check: Any) -> Iterator[str]:
    """Yield what every check says, what is wrong first."""
    width = max(map(len, map(_, VERDICTS.values())))
    for verdict, word in VERDICTS.items():
        for one in check["checks"]:
            if one["verdict"] == verdict:
                said = filter(None, (one["where"], one["what"]))
                words = ": ".join((one["title"], *said))
                line = f"  {_(word):{width}}  {words} {one['remedy']}"
                yield line.rstrip()


def _lines(report: dict[str, object], indent: str = "") -> Iterator[str]:
    """Yield a report as indented text; unknown values are left out."""
    for key, value in report.items():
        if key == "check":
            yield f"{key}:"
            yield from _check_lines(value)
        elif isinstance(value, dict):
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
