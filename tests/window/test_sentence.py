"""The sentence of the translation, compared with another one."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QGuiApplication, QImage
from pytestqt.qtbot import QtBot

from tests.states import ran
from tests.traces import fed, make_trace
from tests.window.painted import painted
from tests.window.parts import settle
from tests.window.windows import Pair, answer, translate
from visformer.pictures.words.translation_text import TextPart
from visformer.session import runs
from visformer.ui.bars.status import MarkedLabel
from visformer.ui.look.theme import fed_colour
from visformer.ui.window.window import MainWindow
from visformer.values.trace import Trace


def saying(trace: Trace, text: str) -> Trace:
    return replace(trace, steps=tuple(replace(s, text=text) for s in trace.steps))


def test_a_forced_run_stands_beside_the_models_own(pair: Pair) -> None:
    window, engine = pair
    translate(window, engine, "one two", saying(make_trace(target=4), "un chat noir"))
    window.session.set(step=2)
    sentence = window.sentence
    assert sentence.words.text() == "un chat noir"
    assert not sentence.other.isVisible()
    window.session.do(runs.force, 7)
    forced = fed(make_trace(target=4), {1: "forced"}, wrong=(1,))
    answer(window, engine, saying(forced, "un chien noir"))
    assert sentence.other.isVisible()
    assert sentence.other.text() == "run before: un chat noir"
    assert [part.text for part in sentence.words.parts if part.differs] == [" chien"]
    sentence.copy.click()
    assert QGuiApplication.clipboard().text() == "un chien noir"


def test_what_is_copied_is_what_is_shown(pair: Pair) -> None:
    """The whole sentence, or what is written yet where the rest is hidden."""
    window, engine = pair
    window.translate("one two")
    trace, texts = make_trace(target=3), ("un", "un chat", "un chat noir")
    steps = zip(trace.steps, texts, strict=True)
    said = tuple(replace(step, text=text) for step, text in steps)
    answer(window, engine, replace(trace, steps=said))
    for ahead, text in ((True, "un chat noir"), (False, "un chat")):
        look = replace(window.session.state.look, ahead=ahead)
        window.session.set(step=2, look=look)
        window.sentence.copy.click()
        assert window.sentence.words.text() == text
        assert QGuiApplication.clipboard().text() == text


def inked(image: QImage, colour: QColor) -> set[int]:
    """Return the columns in which a colour was painted."""
    places = ((x, y) for x in range(image.width()) for y in range(image.height()))
    return {x for x, y in places if image.pixelColor(x, y) == colour}


def test_only_the_words_that_differ_are_underlined(qtbot: QtBot) -> None:
    label = MarkedLabel()
    qtbot.addWidget(label)
    label.resize(400, 30)
    parts = TextPart("un", differs=False), TextPart(" chien", differs=True)
    label.set_parts((*parts, TextPart(" noir", differs=False)))
    columns = inked(label.grab().toImage(), fed_colour(label.palette()))
    metrics = label.fontMetrics()
    assert metrics.horizontalAdvance("un ") - 1 <= min(columns)
    assert max(columns) <= metrics.horizontalAdvance("un chien") + 1
    assert len(columns) > (max(columns) - min(columns)) * 0.8
    label.set_parts((TextPart("un chien", differs=False),))
    assert not inked(label.grab().toImage(), fed_colour(label.palette()))


def test_where_there_is_little_room_the_sentence_itself_is_read(pair: Pair) -> None:
    window, engine = pair
    window.translate("one two")
    text = "a sentence of some length"
    answer(window, engine, saying(make_trace(target=4), text + " before"))
    window.session.set(step=2)
    window.session.do(runs.force, 7)
    forced = fed(make_trace(target=4), {1: "forced"}, wrong=(1,))
    answer(window, engine, saying(forced, text))
    window.resize(window.minimumSizeHint().width(), 700)
    QGuiApplication.processEvents()
    sentence = window.sentence
    wanted = sentence.words.fontMetrics().horizontalAdvance(text)
    assert sentence.words.width() >= min(wanted, sentence.width() - 60)


def test_the_transport_stands_beside_the_target_and_the_sentence_below(
    window: MainWindow,
) -> None:
    window.session.set(**ran(make_trace(6, 5)), step=3)
    words, target, play = window.sentence.words, window.strips.target, window.transport
    for zoom in (100, 150):
        window.appearance.zoom_by(zoom - window.appearance.zoom)
        settle(10)  # the font, then the rows, then what stands in them
        middle = target.mapTo(window, target.rect().center()).y()
        assert abs(play.mapTo(window, play.rect().center()).y() - middle) < 20
        wanted = words.fontMetrics().horizontalAdvance(words.text())
        assert words.visibleRegion().boundingRect().width() >= wanted > 0
        assert words.mapTo(window, words.rect().center()).y() > window.large.y()
        assert window.sentence.copy.isVisible()


def test_the_translation_follows_the_size_of_text_wherever_it_stands(
    window: MainWindow,
) -> None:
    window.session.set(**ran(make_trace(6, 5)), step=3)
    for zoom in (200, 100, 150, 90, 100):
        window.appearance.zoom_by(zoom - window.appearance.zoom)
        settle(3)
        assert window.sentence.words.fontMetrics() == window.fontMetrics(), zoom


def test_texts_of_the_status_line_stand_apart(window: MainWindow) -> None:
    window.session.set(**ran(make_trace(6, 5)), step=5)
    for zoom in (100, 200):
        window.appearance.zoom_by(zoom - window.appearance.zoom)
        settle(3)
        line = sorted(painted(window, window.status).words, key=lambda word: word.x)
        assert len(line) >= 2
        ends = [w.x + window.fontMetrics().horizontalAdvance(w.text) for w in line]
        least = window.fontMetrics().height() * 0.8
        for end, word in zip(ends, line[1:], strict=False):
            assert word.x - end >= least, (zoom, [word.text for word in line])


def test_folded_tokens_leave_the_transport_and_give_pictures_room(
    window: MainWindow,
) -> None:
    window.session.set(**ran(make_trace(6, 5)), step=3)
    for zoom in (100, 150):
        window.appearance.zoom_by(zoom - window.appearance.zoom)
        heights = []
        for shown in (True, False):
            window.appearance.show_tokens(shown)
            settle(20)
            assert window.transport.isVisible()
            heights.append(window.large.height())
        assert heights[1] > heights[0], zoom
    window.appearance.show_tokens(True)


def test_the_transport_has_its_own_row_where_there_is_little_width(
    window: MainWindow,
) -> None:
    window.session.set(**ran(make_trace(6, 5)), step=3)
    window.appearance.zoom_by(100)
    window.resize(1000, 700)
    settle(3)
    assert window.width() == 1000
    target = window.strips.target
    beside = target.mapTo(window, target.rect().bottomLeft()).y()
    assert window.transport.mapTo(window, QPoint()).y() > beside
