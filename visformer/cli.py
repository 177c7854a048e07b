"""The command line. Nothing heavy is imported before it is known what to do."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from visformer.commands.shared import add_overrides, explained_qt, overrides
from visformer.errors import InputError, VisformerError


class Command(NamedTuple):
    """A command: its module, which has ``add_options`` and ``run``, and what it does.

    ``add_options(parser)`` adds what it takes; ``run(options)`` returns the exit code.
    """

    module: str
    does: str


COMMANDS = {
    "translate": Command(
        "visformer.commands.translate",
        "Translate standard input, a sentence a line, to standard output.",
    ),
    "render": Command(
        "visformer.commands.render", "Draw the window, without a screen, to a PNG."
    ),
    "inspect": Command("visformer.commands.inspect", "Say what a checkpoint is."),
    "train": Command(
        "visformer.commands.train",
        "Train a tokenizer and a model from tab-separated pairs. The same command on "
        "the same --out goes on where it stopped; under torchrun it uses every "
        "process.",
    ),
    "bench": Command(
        "visformer.bench.bench_command",
        "Measure speed and memory on this computer, against named peers that take "
        "turns with Visformer. Some minutes; best on an idle computer.",
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, or 2 with one line on standard error for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # a spinning thread pool slows a small step a hundredfold beside a busy process
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, in the window
    try:
        return _run(given)
    except VisformerError as error:
        print(f"visformer: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read the output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except KeyboardInterrupt:
        print("visformer: stopped", file=sys.stderr)
        return 130


def _run(given: list[str]) -> int:
    if given and given[0] in COMMANDS:
        options = command_parser(given[0]).parse_args(given[1:])
        module = importlib.import_module(COMMANDS[given[0]].module)
        return int(module.run(options))
    return _window(window_parser().parse_args(given))


class _Parser(argparse.ArgumentParser):
    """Bad arguments are bad input: one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message} (see {self.prog} --help)")


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return what reads a command's arguments; InputError for bad ones."""
    command = COMMANDS[name]
    parser = _Parser(prog=f"visformer {name}", description=command.does)
    importlib.import_module(command.module).add_options(parser)
    return parser


def window_parser() -> argparse.ArgumentParser:
    """Return what reads the arguments of the window itself."""
    from visformer import __version__

    parser = _Parser(
        prog="visformer",
        description="Show an encoder-decoder Transformer while it works.",
        epilog=f"Commands: {', '.join(COMMANDS)}; each has --help.",
    )
    parser.add_argument(
        "path", nargs="?", help="a checkpoint folder or file, or a trace (*.vis)"
    )
    parser.add_argument("--text", default="", help="translate this sentence at once")
    parser.add_argument("--version", action="version", version=__version__)
    add_overrides(parser)
    return parser


def _window(options: argparse.Namespace) -> int:
    if options.path is not None and not Path(options.path).exists():
        raise InputError(
            f"{options.path} does not exist: give a checkpoint or a trace."
        )
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in screens):
        raise InputError("no screen here: set DISPLAY, or use visformer render.")
    with explained_qt():
        from visformer import app

    return app.run(options.path, options.text, overrides(options))
