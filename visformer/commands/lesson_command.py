"""``visformer lesson``: checks what lessons say against their runs, or prints one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from visformer.commands.shared import explained_qt, results
from visformer.errors import InputError, VisformerError
from visformer.files import check_suffix, real_path, save_result, short
from visformer.language import _
from visformer.session.expectation import Expectation, found_words
from visformer.session.lesson import Lesson, Setting, read_lesson
from visformer.text import visible
from visformer.trace_file.trace_file import read_session
from visformer.values.trace import Trace

PRINTED = ".pdf", ".html"
if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.decoding import Decoding


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer lesson``."""
    parser.add_argument(
        "action",
        choices=["check", "print"],
        help=_(
            "check: compare every “expect” with the numbers of the run; print: make a "
            "plan and a hand-out with a picture of each stop"
        ),
    )
    parser.add_argument("file", nargs="+", help=_("a lesson (*.lesson.md)"))
    parser.add_argument(
        "--all", action="store_true", help=_("print also what holds, with its numbers")
    )
    parser.add_argument("-o", "--output", help=_("the file to print to: .pdf or .html"))


def run(options: argparse.Namespace) -> int:
    """Check lessons, or print one; returns 1 where something does not hold, else 0."""
    lessons = [read_lesson(Path(file)) for file in options.file]
    if options.action == "print":
        return _print(lessons, options.output)
    if options.output:
        raise InputError("--output is for “visformer lesson print”: leave it out.")
    output, failed = results(), 0
    for lesson in lessons:
        told = [*checked(lesson)]
        wrong = [line for line, holds in told if not holds]
        failed += len(wrong)
        for line in [line for line, _holds in told] if options.all else wrong:
            print(visible(line), file=output)
        words = _(
            "{file}: {right} of {n} expectations hold.",
            file=short(Path(lesson.path).name),
            right=len(told) - len(wrong),
            n=len(told),
        )
        print(words, file=output)
    return 1 if failed else 0


def _print(lessons: Sequence[Lesson], output: str | None) -> int:
    if output is None or len(lessons) != 1:
        raise InputError("Name one lesson, and with -o a file (.pdf or .html).")
    to = Path(output)
    check_suffix(to, *PRINTED)
    if to.suffix.lower() not in PRINTED or not real_path(to).parent.is_dir():
        raise InputError(
            "{path} cannot be written: name a .pdf or .html in a folder that exists.",
            path=short(output),
        )
    with explained_qt():
        from visformer.offscreen import print_lesson  # sets Qt's platform first
    save_result(to, print_lesson(lessons[0], pdf=to.suffix.lower() == ".pdf"))
    return 0


def checked(lesson: Lesson) -> Iterator[tuple[str, bool]]:
    """Check a lesson: for each expectation a sentence, and whether it holds.

    Raises InputError, with file and line, for a stop whose run cannot be made.
    """
    name, runs = short(Path(lesson.path).name), _StopRuns()
    for stop in lesson.stops:
        try:
            for one in stop.expects:
                yield _compared(name, one, runs.at(stop.setting, one.step))
        except VisformerError as error:
            raise InputError(
                "{file}, line {line}: {fault}",
                file=name,
                line=stop.line,
                fault=str(error),
            ) from error


def _compared(name: str, one: Expectation, trace: Trace) -> tuple[str, bool]:
    told = {"file": name, "line": one.line, "expected": one.text}
    try:
        found = one.found(trace)
    except InputError as error:  # the run has no such token or head
        fault = str(error)
        return _("{file}, line {line}: {expected}: {fault}", **told, fault=fault), False
    told["found"] = found_words(found)
    if one.holds(found):
        return _("{file}, line {line}: {expected} holds: it is {found}.", **told), True
    words = _("{file}, line {line}: {expected} does not hold: it is {found}.", **told)
    return words, False


class _StopRuns:
    """The runs of a lesson's stops: each is made once, if it is asked for."""

    def __init__(self) -> None:
        self._opened: dict[str, Checkpoint] = {}
        self._made: dict[bytes, Decoding] = {}  # by the path and what is wanted

    def at(self, setting: Setting, step: int | None) -> Trace:
        """Return a stop's run: whole, or as it was at a step.

        The latter where each step changes the rows before it.
        """
        if setting.recorded:
            return read_session(Path(setting.path)).shown.trace
        wanted, made = setting.run, self._decoding(setting)
        made.back(made.limit)
        alone = wanted.intervention.whole and not wanted.reference
        return made.step(step if alone and step is not None else made.limit)

    def _decoding(self, setting: Setting) -> Decoding:
        from visformer.core.decoding import Decoding
        from visformer.formats.loading import load

        path, wanted = setting.path, setting.run
        key = msgspec.json.encode((path, wanted))
        if path not in self._opened:
            self._opened[path] = load(path)
        if key not in self._made:
            made = Decoding(
                self._opened[path],
                wanted.sentence,
                strategy=wanted.strategy,
                intervention=wanted.intervention,
            )
            made.feed(wanted.reference) if wanted.reference else made.finish()
            self._made[key] = made
        return self._made[key]
