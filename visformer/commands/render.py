"""``visformer render``: draws the window without a screen, or makes a web page."""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from visformer.commands.load_options import add_checkpoint, checkpoint_paths, overrides
from visformer.commands.shared import check_text, explained_qt
from visformer.errors import InputError, VisformerError
from visformer.file_kinds import holds_runs
from visformer.files import short
from visformer.language import _
from visformer.pictures.selection import FORMS, ORDERS, SUMMARIES, TOKEN_GROUPS
from visformer.session.looked import PAGES
from visformer.values.facts import KINDS
from visformer.values.intervention import examples


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``visformer render``, from the tables of the window."""
    with explained_qt():
        from visformer.ui.look.theme import THEMES
    add_checkpoint(parser)
    parser.add_argument(
        "file", nargs="?", help=_("a recorded run (.vis), or a checkpoint")
    )
    parser.add_argument(
        "--text", default="", help=_("the source sentence, which a checkpoint needs")
    )
    parser.add_argument(
        "--reference",
        default="",
        help=_("a translation that is fed to the decoder: teacher forcing"),
    )
    parser.add_argument(
        "--steps",
        type=int,
        help=_("steps to show (default: the one at which the window opens)"),
    )
    parser.add_argument("--view", default="attention", help=_choice(PAGES))
    parser.add_argument(
        "--stage",
        default="softmax",
        help=_("stage of the computation view (default: softmax)"),
    )
    pages = (f"{view}: {', '.join(of)}" for view, of in PAGES.items() if of)
    parser.add_argument(
        "--page", help=_("page of the view ({pages})", pages="; ".join(pages))
    )
    parser.add_argument(
        "--over",
        metavar="PATH",
        help=_(
            "what the page of the diagnosis view measures besides the sentence: a file "
            "of pairs (sentences, importance, heads), or a training's folder (training)"
        ),
    )
    _add_selection(parser)
    _add_changes(parser)
    _add_page(parser, THEMES)


def _add_page(parser: argparse.ArgumentParser, themes: Iterable[str]) -> None:
    """Add how large, in which colours and where it is drawn."""
    parser.add_argument("--theme", default="light", help=_choice(themes))
    parser.add_argument(
        "--zoom", type=int, default=100, help=_("text size in percent (default: 100)")
    )
    parser.add_argument(
        "--size",
        default="1280x800",
        help=_("width x height in pixels (default: 1280x800)"),
    )
    parser.add_argument(
        "--scale", type=int, default=1, help=_("pixels of the file per pixel, 1 to 4")
    )
    parser.add_argument(
        "--figure",
        action="store_true",
        help=_("draw the view's largest picture alone, with its title and a caption"),
    )
    parser.add_argument(
        "--animate",
        action="store_true",
        help=_(
            "draw every step up to the one shown, into a .webp; a .gif always is so"
        ),
    )
    parser.add_argument(
        "--width", metavar="CM", help=_("width of the figure, such as 8.5cm")
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        help=_(
            "file to write: .png, .svg, .pdf or .webp; .gif: every step; .html: one "
            "web page of the run"
        ),
    )
    parser.add_argument(
        "--attach",
        action="store_true",
        help=_("let the web page offer the run's file (.vis), too"),
    )


def _add_changes(parser: argparse.ArgumentParser) -> None:
    """Add what makes another run of the sentence."""
    parser.add_argument(
        "--change",
        action="append",
        default=[],
        help=_(
            "modify the run; may be repeated. Examples: {examples}. “@ L2”, “@ L2H5” "
            "or “@ L2H1,L2H5” says in which layers and heads; all count from 1",
            examples=", ".join(examples()),
        ),
    )
    parser.add_argument(
        "--force",
        action="append",
        default=[],
        metavar="STEP=ID",
        help=_(
            "force a token, by its id, at a step, from 1; may be repeated: the last "
            "step comes last"
        ),
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    """Add which attention is shown, and how."""
    parser.add_argument(
        "--kind",
        help=_(
            "one of {choices} (default, without a layer and a head: the head that the "
            "window opens on)",
            choices=", ".join(KINDS),
        ),
    )
    parser.add_argument(
        "--layer",
        type=int,
        help=_("layer, from 1 (default, with a kind or a head: the last)"),
    )
    parser.add_argument(
        "--head", type=int, help=_("head, from 1 (default, with a kind or a layer: 1)")
    )
    parser.set_defaults(first=1)
    parser.add_argument("--form", default="map", help=_choice(FORMS))
    parser.add_argument("--summary", default="head", help=_choice(SUMMARIES))
    parser.add_argument(
        "--hide",
        default="",
        help=_(
            "comma-separated groups of tokens to hide ({groups}), and “renormalise”",
            groups=", ".join(TOKEN_GROUPS),
        ),
    )
    parser.add_argument(
        "--words", action="store_true", help=_("merge subwords into words")
    )
    parser.add_argument(
        "--raw-pieces",
        action="store_true",
        help=_("show tokens as the vocabulary has them"),
    )
    parser.add_argument(
        "--order",
        default="place",
        help=_("order of the heads: {choices}", choices=", ".join(ORDERS)),
    )


def run(options: argparse.Namespace) -> int:
    """Draw the picture; returns 0."""
    with explained_qt():
        from visformer.offscreen import close  # sets Qt's platform first
    try:
        draw(options)
    finally:
        close()
    return 0


def serve() -> int:
    """Draw for ``visformer.render``, line by line, until there is no more.

    A line is a list of arguments in JSON, and its answer a sentence about what is wrong
    with them, or "".
    """
    from visformer.cli import command_parser  # which knows commands by name alone

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints is no answer
    for line in sys.stdin:
        said = ""
        try:
            options = argparse.Namespace(first=0)  # of layers and heads in Python
            draw(command_parser("render").parse_args(json.loads(line), options))
        except (VisformerError, OSError) as error:
            said = str(error)
        print(json.dumps(said), file=answers, flush=True)
    from visformer.offscreen import close

    close()
    return 0


def draw(options: argparse.Namespace) -> None:
    """Draw the picture that is asked for, in a window that can draw the next one."""
    if options.file and options.checkpoint:
        raise InputError("Give the checkpoint once: as a file, or with --checkpoint.")
    given = [options.file] if options.file else options.checkpoint
    first = checkpoint_paths(given)[0]
    if not holds_runs(Path(first)):
        check_text(options.text)
    elif options.text or options.reference or options.change or options.force:
        raise InputError(
            "{file} is a recorded run, which is drawn as it is: leave --text, "
            "--reference, --change and --force out, or give a model's checkpoint.",
            file=short(Path(first).name),
        )
    from visformer.offscreen import render

    render(options, first, overrides(options))


def _choice(names: Iterable[str]) -> str:
    return _("one of {choices} (default: %(default)s)", choices=", ".join(names))
