"""Options that several commands share, and the message for a missing library."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from visformer import paths
from visformer.errors import InputError
from visformer.language import _
from visformer.values.questions import Overrides


@contextlib.contextmanager
def explained_qt() -> Iterator[None]:
    """Turn the failure to load a system library into one sentence."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            _(
                "Qt cannot start: {reason}. The README lists the packages to install.",
                reason=error,
            )
        ) from error


def complain(sentence: str) -> None:
    """Write one line on standard error, if there is one."""
    if sys.stderr is not None:  # print would take standard output instead
        with contextlib.suppress(OSError):
            print(f"visformer: {sentence}", file=sys.stderr, flush=True)


def results() -> TextIO:
    """Return standard output, as UTF-8; InputError where it is closed."""
    if sys.stdout is None:
        raise InputError(_("Standard output is closed: give it a file or a pipe."))
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    return sys.stdout


def check_text(text: str) -> None:
    """Raise InputError for a sentence of nothing but blanks."""
    if not text.strip():
        raise InputError(_("--text is empty: give a sentence to translate."))


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the options for the model and its device."""
    parser.add_argument(
        "--checkpoint",
        help=_("checkpoint folder or file (default: the bundled English-French model)"),
    )
    add_device(parser)


def add_device(parser: argparse.ArgumentParser) -> None:
    """Add the option for the device."""
    parser.add_argument(
        "--device", help=_("cpu, cuda or mps (default: the best available)")
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add the keywords of ``load`` for a model that another program has trained."""
    group = parser.add_argument_group(
        _("what the checkpoint of another program may not say")
    )
    group.add_argument(
        "--layout", help=_("layout (default: recognised by the tensors)")
    )
    group.add_argument("--heads", type=int, help=_("number of heads of each attention"))
    group.add_argument("--pad", type=int, help=_("id of the padding token"))
    group.add_argument("--bos", type=int, help=_("id that starts the target"))
    group.add_argument("--eos", type=int, help=_("id that ends a sentence"))
    group.add_argument("--tokenizer", help=_("sentencepiece model or vocab.json"))


def overrides(options: argparse.Namespace) -> Overrides:
    """Return the keywords of ``load`` that were given."""
    names = ("layout", "heads", "pad", "bos", "eos", "tokenizer")
    pairs = ((name, getattr(options, name)) for name in names)
    return tuple((name, value) for name, value in pairs if value is not None)


def checkpoint_path(options: argparse.Namespace) -> Path:
    """Return the given checkpoint, else the bundled one."""
    return Path(options.checkpoint) if options.checkpoint else paths.checkpoint()
