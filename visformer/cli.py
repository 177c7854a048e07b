"""The command line. Heavy modules are imported only once the command is known."""

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
from visformer.language import N_, _


class Command(NamedTuple):
    """A command: its module, which has ``add_options`` and ``run``, and what it does.

    ``add_options(parser)`` adds its options; ``run(options)`` returns the exit code.
    """

    module: str
    does: str  # marked with ``N_``


COMMANDS = {
    "translate": Command(
        "visformer.commands.translate",
        N_(
            "Translate standard input, one sentence per line, to standard output in "
            "the same order."
        ),
    ),
    "render": Command(
        "visformer.commands.render", N_("Draw the window as a PNG, without a screen.")
    ),
    "inspect": Command("visformer.commands.inspect", N_("Describe a checkpoint.")),
    "train": Command(
        "visformer.commands.train",
        N_(
            "Train a tokenizer and a model on tab-separated sentence pairs. The same "
            "command with the same --out continues where it stopped; under torchrun, "
            "it uses every process."
        ),
    ),
    "bench": Command(
        "visformer.bench.bench_command",
        N_(
            "Measure speed and memory on this computer, against named peers that take "
            "turns with Visformer. This takes some minutes and works best on an idle "
            "computer."
        ),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, or 2 with one line on standard error for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # spinning threads make a small step 100 times slower beside a busy process
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, in the window
    try:
        return _run(given)
    except VisformerError as error:
        print(f"visformer: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return 0
    except KeyboardInterrupt:
        print(f"visformer: {_('stopped')}", file=sys.stderr)
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
        raise InputError(
            _("{fault} (see “{command} --help”)", fault=message, command=self.prog)
        )


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return a command's parser; InputError for bad arguments."""
    command = COMMANDS[name]
    parser = _Parser(prog=f"visformer {name}", description=_(command.does))
    importlib.import_module(command.module).add_options(parser)
    return parser


def window_parser() -> argparse.ArgumentParser:
    """Return the parser for the window itself."""
    from visformer import __version__

    parser = _Parser(
        prog="visformer",
        description=_("Open a window that shows a Transformer while it works."),
        epilog=_(
            "Commands: {names}. Each has its own --help.", names=", ".join(COMMANDS)
        ),
    )
    parser.add_argument(
        "path",
        nargs="?",
        help=_("checkpoint folder or file, or a recorded trace (*.vis)"),
    )
    parser.add_argument("--text", default="", help=_("sentence to translate at once"))
    parser.add_argument("--version", action="version", version=__version__)
    add_overrides(parser)
    return parser


def _window(options: argparse.Namespace) -> int:
    if options.path is not None and not Path(options.path).exists():
        raise InputError(
            _(
                "{path} does not exist. Give a checkpoint or a trace.",
                path=options.path,
            )
        )
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in screens):
        raise InputError(
            _("There is no screen here. Set DISPLAY, or use “visformer render”.")
        )
    with explained_qt():
        from visformer import app

    return app.run(options.path, options.text, overrides(options))
