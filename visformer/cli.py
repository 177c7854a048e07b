"""The command line. Heavy modules are imported only once the command is known."""

import argparse
import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

from visformer.commands.load_options import add_overrides, checkpoint_paths, overrides
from visformer.commands.shared import check_text, complain, explained_qt
from visformer.errors import InputError, VisformerError, is_memory
from visformer.files import exists, real_path, short
from visformer.formats.foreign import remote_words
from visformer.language import LANGUAGES, N_, _, sentences, use
from visformer.screen import check_screen
from visformer.values.questions import OPTIONS


class Command(NamedTuple):
    """A command: its module, which has ``add_options`` and ``run``, and what it does.

    ``add_options(parser)`` adds its options; ``run(options)`` returns the exit code.
    """

    module: str
    does: str  # in one line; both are marked with ``N_``
    more: str = ""  # what its own help adds


COMMANDS = {
    "translate": Command(
        "visformer.commands.translate",
        N_("Translate standard input to standard output, one sentence per line."),
    ),
    "render": Command(
        "visformer.commands.render", N_("Draw the window as a PNG, without a screen.")
    ),
    "inspect": Command(
        "visformer.commands.inspect",
        N_("Describe a checkpoint or a trace, and check that it computes right."),
    ),
    "compare": Command(
        "visformer.commands.compare",
        N_("Compare two checkpoints on a sentence, or two recorded runs."),
        N_("The exit code is 0 where they are equal, 1 where they differ."),
    ),
    "scan": Command(
        "visformer.commands.scan",
        N_("Scan pairs of sentences: which ones a model finds unlikely, and why."),
        N_("The exit code is 1 where a condition of --fail-if is true of a pair."),
    ),
    "lesson": Command(
        "visformer.commands.lesson_command",
        N_("Check what a lesson says against the numbers of its runs, or print it."),
        N_("The exit code is 1 where an expectation does not hold."),
    ),
    "train": Command(
        "visformer.commands.train",
        N_("Train a tokenizer and a model on tab-separated sentence pairs."),
        N_("The same command with the same --out continues where it stopped."),
    ),
    "desktop": Command(
        "visformer.program.desktop",
        N_("Put Visformer into the menu of a Linux desktop, or take it out."),
    ),
}

# what was a command once -> where it is now
FORMER_COMMANDS = {
    "bench": N_(
        "“visformer bench” has left the program. Run “python -m tests.bench” in a copy "
        "of the project's repository."
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: done; 1: a check failed; 2: bad input, or a computer that will not do it, which
    one line on standard error explains; 130: stopped. A reader that closes its end of
    the output has seen enough: 0.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _fill_closed()
    # spinning threads make a small step 100 times slower beside a busy process
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy's, in the window
    try:
        try:
            return _run(_spoken(given))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # what cannot be written is found out now
    except VisformerError as error:
        return _refused(str(error))
    except BrokenPipeError:  # the reader of the output has closed it
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        return _refused(_system_words(error))
    except (MemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # they hold what was too much
        return _refused(_("There is not enough memory: close other programs."))
    except KeyboardInterrupt:
        complain(_("stopped"))
        return 130


def _refused(sentence: str) -> int:
    complain(sentence)
    return 2


def _system_words(error: OSError) -> str:
    """Say what the system refused: a file that it names, or else the output."""
    reason = error.strerror or type(error).__name__
    if error.filename is None:
        return _("The output cannot be written ({reason}).", reason=reason)
    return _(
        "{file} cannot be used ({reason}).",
        file=short(str(error.filename), 90),
        reason=reason,
    )


def _fill_closed() -> None:
    """Open what the shell has closed (``<&-``), or a file would take its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _drop_output() -> None:
    """Leave nothing to write when Python ends: it would fail again, and say so."""
    with contextlib.suppress(OSError):
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _spoken(given: list[str]) -> list[str]:
    """Speak the language asked for, before help is made in it; return the rest."""
    parser = _Parser(prog="visformer", add_help=False, allow_abbrev=False)
    parser.add_argument("--language", choices=tuple(LANGUAGES))
    known, rest = parser.parse_known_args(given)
    if known.language:
        use(known.language)
    return rest


def _run(given: list[str]) -> int:
    if given and given[0] in COMMANDS:
        options = command_parser(given[0]).parse_args(given[1:])
        module = importlib.import_module(COMMANDS[given[0]].module)
        os.environ[OPTIONS] = "1"  # refusals name what is to be typed as options
        try:
            return int(module.run(options))
        finally:
            del os.environ[OPTIONS]
    if given and given[0] in FORMER_COMMANDS and not exists(Path(given[0])):
        raise InputError(FORMER_COMMANDS[given[0]])
    return _window(window_parser().parse_args(given))


ARGPARSE = (  # its words
    *(N_("usage: "), N_("positional arguments"), N_("options")),
    N_("show this help message and exit"),
    N_("unrecognized arguments: %s"),
    N_("the following arguments are required: %s"),
    N_("argument %(argument_name)s: %(message)s"),
    N_("invalid choice: %(value)r (choose from %(choices)s)"),
    N_("invalid %(type)s value: %(value)r"),
    *(N_("expected one argument"), N_("expected at least one argument")),
    N_("not allowed with argument %s"),
    N_("one of the arguments %s is required"),
)
vars(argparse)["_"] = _  # it would ask a catalogue of the system's


class _Parser(argparse.ArgumentParser):
    """Bad arguments are bad input: one line, exit code 2."""

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:  # argparse itself says nothing where this cannot be written
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        raise InputError(
            "{fault} (see “{command} --help”)", fault=message, command=self.prog
        )


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return a command's parser; InputError for bad arguments."""
    command = COMMANDS[name]
    words = sentences(_(part) for part in (command.does, command.more) if part)
    parser = _Parser(prog=f"visformer {name}", description=words)
    importlib.import_module(command.module).add_options(parser)
    return parser


def window_parser() -> argparse.ArgumentParser:
    """Return the parser for the window itself."""
    from visformer import __version__

    parser = _Parser(
        prog="visformer",
        usage="visformer [PATH] [--text TEXT] | visformer COMMAND …",
        description=_("Open a window that shows a Transformer while it works."),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_commands_words(),
    )
    parser.add_argument(
        "path",
        nargs="*",
        help=_(
            "checkpoint folder or file, a bundled model's name, an encoder's and a "
            "decoder's file, a recorded trace (*.vis) or a lesson (*.lesson.md)"
        ),
    )
    parser.add_argument("--text", help=_("sentence to translate at once"))
    parser.add_argument(
        "--language",
        choices=tuple(LANGUAGES),
        help=_("language of the program, with any command; else the system's"),
    )
    said = _("show program's version number and exit")
    parser.add_argument("--version", action="version", version=__version__, help=said)
    add_overrides(parser)
    return parser


def _commands_words() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {_(c.does)}" for name, c in COMMANDS.items()]
    title = _("Commands, each with its own --help:")
    return "\n".join([title, *lines])


def _window(options: argparse.Namespace) -> int:
    text = options.text
    places = checkpoint_paths(options.path) if options.path else ()
    for given, place in zip(options.path, places, strict=True):
        if not exists(place):
            real_path(Path(place))
            raise InputError(
                remote_words(given)
                or _(
                    "{path} does not exist. Give a checkpoint, a trace or a command "
                    "({names}).",
                    path=short(given, 90),
                    names=", ".join(COMMANDS),
                )
            )
    if text is not None:
        check_text(text)
    check_screen()
    before = signal.signal(signal.SIGINT, _end_at_once)
    try:
        gc.disable()  # collections take a tenth of an import; the window collects
        with explained_qt():
            from visformer.program.plain_imports import import_plainly

            import_plainly()
            from visformer import app

        return app.run(next(iter(places), None), text or "", overrides(options))
    finally:
        signal.signal(signal.SIGINT, before)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End the process: while Qt is imported, an exception would be raised in there."""
    complain(_("stopped"))
    os._exit(130)
