"""Options that several commands share, and the message for a missing library."""

import contextlib
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import TextIO

from visformer.errors import InputError
from visformer.language import END_ISOLATE, ISOLATE
from visformer.text import visible


@contextlib.contextmanager
def explained_qt() -> Iterator[None]:
    """Turn the failure to load a system library into one sentence."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            "Qt cannot start: {reason}. The README lists the packages to install.",
            reason=error,
        ) from error


def complain(sentence: str) -> None:
    """Write one line on standard error, if there is one."""
    for mark in (ISOLATE, END_ISOLATE):  # of a window's sentences
        sentence = sentence.replace(mark, "")
    if sys.stderr is not None:  # print would take standard output instead
        with contextlib.suppress(OSError):
            print(f"visformer: {visible(sentence)}", file=sys.stderr, flush=True)


def results() -> TextIO:
    """Return standard output, as UTF-8; InputError where it is closed."""
    if sys.stdout is None:
        raise InputError("Standard output is closed: give it a file or a pipe.")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def check_text(text: str) -> None:
    """Raise InputError for a sentence of nothing but blanks."""
    if not text.strip():
        raise InputError("--text is empty: give a sentence to translate.")
