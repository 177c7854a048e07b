"""Options that several commands share, and the message for a missing library."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

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
