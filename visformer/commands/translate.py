"""``visformer translate``: translates standard input, one sentence per line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

from visformer.commands.shared import (
    add_checkpoint,
    add_overrides,
    checkpoint_path,
    overrides,
)
from visformer.errors import InputError
from visformer.language import _
from visformer.text import clean

GROUP = 64  # lines translated together


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer translate``."""
    add_checkpoint(parser)
    parser.add_argument(
        "--beam",
        type=int,
        help=_("number of beams; 1 is greedy (default: the checkpoint's own, else 1)"),
    )
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Translate to the end of the input; returns 0."""
    if options.beam is not None and options.beam < 1:
        raise InputError(_("--beam is {n}, but must be at least 1.", n=options.beam))
    from visformer.core.translation import translate
    from visformer.formats.loading import load

    given: dict[str, Any] = dict(overrides(options))
    checkpoint = load(checkpoint_path(options), device=options.device, **given)
    for lines in _groups():
        for text in translate(checkpoint, lines, beam=options.beam):
            # exactly one line per input line, whatever the model returns
            sys.stdout.write(" ".join(text.split()) + "\n")
        sys.stdout.flush()
    return 0


def _groups() -> Iterator[list[str]]:
    """Yield the lines of standard input in groups; one by one when a person types."""
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    size = 1 if sys.stdin.isatty() else GROUP
    group: list[str] = []
    for raw in sys.stdin.buffer:
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        group.append(clean(text))
        if len(group) >= size:
            yield group
            group = []
    if group:
        yield group
