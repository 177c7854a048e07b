"""``visformer translate``: translates standard input, one sentence per line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from visformer.commands.load_options import add_checkpoint, checkpoint_paths, overrides
from visformer.commands.shared import results
from visformer.errors import InputError
from visformer.language import _
from visformer.text import clean, visible
from visformer.values.questions import location_and_keywords

GROUP = 64  # lines translated together


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer translate``."""
    add_checkpoint(parser)
    parser.add_argument(
        "--beam",
        type=int,
        help=_("number of beams; 1 is greedy (default: the checkpoint's own, else 1)"),
    )
    parser.add_argument(
        "--n-best",
        type=int,
        metavar="N",
        help=_("hypotheses of each sentence, at most as many as beams; with --json"),
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help=_(
            "print a line of JSON per sentence, with its hypotheses, best first: score "
            "= sum of natural log p / length^penalty, the end token counted; the "
            "penalty is the checkpoint's own, else 1"
        ),
    )


def run(options: argparse.Namespace) -> int:
    """Translate to the end of the input; returns 0."""
    beam, n_best = options.beam, options.n_best
    if beam is not None and beam < 1:
        raise InputError("--beam is {n}, but must be at least 1.", n=beam)
    if n_best is not None and not 1 <= n_best <= (beam or n_best):
        raise InputError(
            "--n-best is {n}, but must be from 1 to the number of beams (--beam).",
            n=n_best,
        )
    if n_best is not None and not options.json:
        raise InputError("--n-best needs --json: a line of text has one translation.")
    if sys.stdin is None:
        raise InputError("Standard input is closed: give it one sentence per line.")
    output = results()
    groups = _groups(1 if sys.stdin.isatty() else GROUP)  # one by one to a person
    from visformer.core.translation import search, translate
    from visformer.formats.loading import load

    first = checkpoint_paths(options.checkpoint)[0]
    path, given = location_and_keywords(first, overrides(options))
    checkpoint = load(path, device=options.device, **given)
    for lines in groups:
        if options.json:
            found = search(checkpoint, lines, beam=beam, n_best=n_best or 1)
            texts = [json.dumps(one, ensure_ascii=False) for one in found]
        else:
            texts = translate(checkpoint, lines, beam=beam)
        for text in texts:
            # exactly one line per input line, whatever the model returns
            line = " ".join(text.splitlines())
            # control characters of an untrusted vocabulary are shown, not obeyed
            output.write((visible(line) if output.isatty() else line) + "\n")
        output.flush()
    return 0


def _groups(size: int) -> Iterator[list[str]]:
    """Yield the lines of standard input in groups.

    Raises InputError at the first line that is not UTF-8, after those before it.
    """
    group: list[str] = []
    for number, raw in enumerate(sys.stdin.buffer, 1):
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            readable = 3 * raw.count(0) < len(raw)  # every second byte of UTF-16 is 0
        except UnicodeDecodeError:
            readable = False
        if not readable:
            yield group
            raise InputError(
                "Line {n} of the input is not UTF-8. Convert the input, for "
                "example with “iconv -t utf-8”.",
                n=number,
            )
        group.append(clean(text.rstrip("\r\n")))
        if len(group) >= size:
            yield group
            group = []
    if group:
        yield group
