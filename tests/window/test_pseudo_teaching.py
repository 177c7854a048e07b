"""Teacher forcing, forced tokens, tips and the first card in the pseudo-language."""

from __future__ import annotations

import pytest

from tests.pseudo import Unmarked
from tests.traces import fed
from tests.window.pseudo_reader import Reader
from visformer.core.decoding import Decoding
from visformer.pictures.selection import ORDERS, SUMMARIES, Look
from visformer.pictures.words.run_notices import end_notice, source_notice
from visformer.session import runs
from visformer.ui.bars.first_steps import FirstSteps
from visformer.ui.bars.strips import chip_words
from visformer.ui.widgets.term_tips import TermTip
from visformer.values.facts import KINDS
from visformer.values.step import Origin
from visformer.values.trace import Trace


def of(reader: Reader, origin: Origin, wrong: tuple[int, ...]) -> Trace:
    trace = Decoding(reader.checkpoint, "abcde", limit=6).finish()
    return fed(trace, dict.fromkeys(range(len(trace)), origin), wrong, id=1)


@pytest.mark.parametrize("origin", ["reference", "forced"])
def test_tokens_that_were_not_chosen(
    running: Reader, missing: Unmarked, origin: Origin
) -> None:
    window = running.window
    window.reference.setText("abcde")
    window.reference.submit()
    running.give(of(running, origin, (1, 2)))
    for step in (1, 2, 3):  # as the model says, and not
        window.session.set(step=step)
        running.every_tab(paint=step == 3)
        for chip in window.strips.target.row.chips:
            running.note(chip_words(chip))
    window.session.do(runs.teach, fed=False)
    running.decoded()
    running.every_tab(paint=False)
    running.check(missing)


def test_what_terms_mean(running: Reader, missing: Unmarked) -> None:
    session = running.window.session
    for tab in ("attention", "output"):
        session.set(tab=tab)
        running.answer()
    for kind in KINDS:
        looks = [Look(order=order) for order in ORDERS]
        looks += [Look(summary=summary) for summary in SUMMARIES]
        for look in looks:
            session.set(kind=kind, look=look)
            for tip in running.window.findChildren(TermTip):
                running.note(tip.words)
    running.check(missing)


def test_the_first_card_and_notices(running: Reader, missing: Unmarked) -> None:
    running.read(FirstSteps(running.window))
    trace = running.window.session.state.trace
    assert trace is not None
    running.note(source_notice(trace))
    running.note(end_notice(trace, len(trace)))
    running.check(missing)
