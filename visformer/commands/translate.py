"""``visformer translate``: translates standard input, one sentence per line."""

from __future__ import annotations

import argparse
import io
import json
import sys
import threading
from collections.abc import Iterator
from queue import Queue
from typing import BinaryIO

from visformer.commands.load_options import add_checkpoint, checkpoint_paths, overrides
from visformer.commands.shared import results
from visformer.errors import InputError
from visformer.language import _, ngettext
from visformer.text import clean, visible
from visformer.values.questions import location_and_keywords

MOST = 1024  # lines that are translated together


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
    groups, done = _lines(), 0
    told = sys.stderr if sys.stderr and sys.stderr.isatty() else None
    told = None if output.isatty() else told  # which shows the lines themselves
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
        done += len(lines)
        if told:
            said = ngettext("{n:,} line translated", "{n:,} lines translated", done)
            print(f"\r{said}", end="", file=told, flush=True)
    if told:
        print(file=told)
    return 0


def _lines() -> Iterator[list[str]]:
    """Begin to read standard input; yields its lines, as many at a time as are there.

    A slow pipe is so answered line by line, and the ``MOST`` lines of a file that are
    translated together are sorted by their length. Raises InputError at the first line
    that is not UTF-8, after those before it, and OSError where reading fails.
    """
    waiting: Queue[str | Exception | None] = Queue(MOST)
    threading.Thread(target=_read, args=(waiting,), daemon=True).start()
    return _groups(waiting)


def _groups(waiting: Queue[str | Exception | None]) -> Iterator[list[str]]:
    line: str | Exception | None = ""
    while isinstance(line, str):
        group = []
        while isinstance(line := waiting.get(), str):
            group.append(line)
            if len(group) == MOST or waiting.empty():
                break
        if group:
            yield group
    if line is not None:
        raise line


def _read(waiting: Queue[str | Exception | None]) -> None:
    try:
        for number, raw in enumerate(_bytes(), 1):
            waiting.put(_text(raw, number))
        waiting.put(None)
    except (InputError, OSError) as error:
        waiting.put(error)


def _bytes() -> BinaryIO:
    """Return standard input as a file of its own.

    Python cannot end while a thread reads the one that it closes.
    """
    assert sys.stdin is not None
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:
        return sys.stdin.buffer


def _text(raw: bytes, number: int) -> str:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        readable = 3 * raw.count(0) < len(raw)  # every second byte of UTF-16 is 0
    except UnicodeDecodeError:
        readable = False
    if not readable:
        raise InputError(
            "Line {n} of the input is not UTF-8. Convert the input, for "
            "example with “iconv -t utf-8”.",
            n=number,
        )
    return clean(text.rstrip("\r\n"))
