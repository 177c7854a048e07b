"""Wiring: parts of the window that need nothing of it but its Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visformer.session import forcing, side_requests
from visformer.ui.term_tips import TermTip

if TYPE_CHECKING:
    from visformer.ui.window import MainWindow


def wire(window: MainWindow) -> None:
    """Connect what explains and what teaches with the window's State."""
    _wire_teaching(window)
    session = window.session
    window.candidates.chosen.connect(lambda id: session.do(forcing.force, id))
    window.candidates.failed.connect(lambda words: session.set(error=words))
    window.candidates.typed.connect(
        lambda text: session.do(side_requests.find_tokens, text)
    )
    for panel in (window.candidates, window.presentation.candidates):
        panel.unfolded.connect(lambda on: session.set(unfolded=on))
    strategy = window.strategy
    TermTip(strategy.limit, session, "limit")
    TermTip(strategy.temperature, session, "temperature")
    TermTip(strategy.top_k, session, "top_k")
    TermTip(strategy.top_p, session, "top_p")
    TermTip(strategy.seed, session, "seed")
    TermTip(window.candidates.summary, session, "entropy", "probability")


def _wire_teaching(window: MainWindow) -> None:
    """Let the bar, and an emptied reference box, change the window's run."""

    def teach(fed: bool) -> None:
        window.session.do(forcing.teach, fed=fed)

    def drop(text: str = "") -> None:
        if not text:
            window.session.do(forcing.drop_reference)

    window.candidates.teaching.chosen.connect(teach)
    window.candidates.teaching.dropped.connect(window.reference.clear)
    window.candidates.teaching.dropped.connect(drop)
    window.reference.textEdited.connect(drop)
