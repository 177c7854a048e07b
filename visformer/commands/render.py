"""``visformer render``: the window, without a screen, to a PNG."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from visformer.commands.shared import add_checkpoint, checkpoint_path, explained_qt
from visformer.pictures.look import FORMS, ORDERS, SUMMARIES, TOKEN_GROUPS
from visformer.values.facts import KINDS


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what ``visformer render`` takes; the tables of the window name it."""
    with explained_qt():
        from visformer.ui import views
        from visformer.ui.theme import THEMES
    add_checkpoint(parser)
    parser.add_argument("--text", required=True, help="the source sentence")
    parser.add_argument("--steps", type=int, help="steps shown (all)")
    parser.add_argument(
        "--view",
        default="attention",
        help=", ".join(view.name for view in views.VIEWS),
    )
    parser.add_argument("--stage", default="softmax", help="of computation (softmax)")
    pages = (
        f"{view.name}: {', '.join(page.name for page in view.pages)}"
        for view in views.VIEWS
        if view.pages
    )
    parser.add_argument("--page", help=f"of {'; '.join(pages)}")
    parser.add_argument("--kind", default="cross", help=_one_of(KINDS))
    parser.add_argument("--layer", type=int, default=None, help="from 1 (the last)")
    parser.add_argument("--head", type=int, default=1, help="from 1 (1)")
    parser.add_argument("--form", default="map", help=f"attention as {_one_of(FORMS)}")
    parser.add_argument(
        "--summary", default="head", help=f"{_one_of(SUMMARIES)} (head)"
    )
    parser.add_argument(
        "--hide",
        default="",
        help=f"of {','.join(TOKEN_GROUPS)}, and renormalise (none)",
    )
    parser.add_argument(
        "--words", action="store_true", help="merge subwords into words"
    )
    parser.add_argument(
        "--order", default="place", help=f"heads by {', '.join(ORDERS)}"
    )
    parser.add_argument(
        "--change",
        action="append",
        default=[],
        help="alter the run: “causal off”, “hide 3”, “positions none” … (see README)",
    )
    parser.add_argument("--theme", default="light", help=_one_of(THEMES))
    parser.add_argument("--zoom", type=int, default=100, help="text size in percent")
    parser.add_argument("--size", default="1280x800", help="pixels, WxH (1280x800)")
    parser.add_argument("-o", "--output", required=True, help="the PNG to write")


def run(options: argparse.Namespace) -> int:
    """Draw the picture; returns 0."""
    with explained_qt():
        from visformer.offscreen import render  # sets Qt's platform first

    render(options, checkpoint_path(options))
    return 0


def _one_of(names: Iterable[str]) -> str:
    """Say a choice: “a, b or c”."""
    *others, last = names
    return f"{', '.join(others)} or {last}"
