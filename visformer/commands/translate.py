"""``visformer translate``: standard input, a sentence a line, to standard output."""

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
from visformer.text import clean

GROUP = 64  # lines translated together


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``visformer translate`` takes."""
    add_checkpoint(parser)
    parser.add_argument(
        "--beam", type=int, help="beams, 1 is greedy (the checkpoint's own, else 1)"
    )
    add_overrides(parser)


def run(options: argparse.Namespace) -> int:
    """Translate to the end of the input; returns 0."""
    if options.beam is not None and options.beam < 1:
        raise InputError(f"--beam is {options.beam}: it must be 1 or more.")
    from visformer.core.search import translate
    from visformer.formats.loading import load

    given: dict[str, Any] = dict(overrides(options))
    checkpoint = load(checkpoint_path(options), device=options.device, **given)
    for lines in _groups():
        for text in translate(checkpoint, lines, beam=options.beam):
            # one line out for one line in, whatever the model makes
            sys.stdout.write(" ".join(text.split()) + "\n")
        sys.stdout.flush()
    return 0


def _groups() -> Iterator[list[str]]:
    """Yield the lines of standard input, some at a time; alone where a person types."""
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
