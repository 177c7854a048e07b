"""What several commands take, and how a missing library is explained."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

from visformer import paths
from visformer.errors import InputError
from visformer.values.questions import Overrides


@contextlib.contextmanager
def explained_qt() -> Iterator[None]:
    """Say in one sentence that a system library is missing."""
    try:
        yield
    except ImportError as error:
        sentence = f"Qt cannot start: {error}. The README names the packages."
        raise InputError(sentence) from error


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add which model to use, and where."""
    parser.add_argument("--checkpoint", help="folder or file (the bundled en-fr model)")
    parser.add_argument("--device", help="cpu, cuda or mps (the best there is)")


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add what ``load`` takes for a model that another program has trained."""
    group = parser.add_argument_group("what a foreign checkpoint may not tell")
    group.add_argument("--layout", help="its layout (recognised by its tensors)")
    group.add_argument("--heads", type=int, help="heads of every attention")
    group.add_argument("--pad", type=int, help="id of the padding token")
    group.add_argument("--bos", type=int, help="id that the target begins with")
    group.add_argument("--eos", type=int, help="id that ends a sentence")
    group.add_argument("--tokenizer", help="a sentencepiece model or vocab.json")


def overrides(options: argparse.Namespace) -> Overrides:
    """Return the keywords of ``load`` that were given."""
    names = ("layout", "heads", "pad", "bos", "eos", "tokenizer")
    pairs = ((name, getattr(options, name)) for name in names)
    return tuple((name, value) for name, value in pairs if value is not None)


def checkpoint_path(options: argparse.Namespace) -> Path:
    """Return the checkpoint that was asked for, else the bundled one."""
    return Path(options.checkpoint) if options.checkpoint else paths.checkpoint()
