"""The real window on a fake engine: models and recorded traces that are opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent

from tests.opened import opened_model
from tests.traces import make_trace
from tests.ui.windows import Pair, answer
from visformer.engine.messages import Opened
from visformer.session.runs import show_trace
from visformer.values.finding import Finding
from visformer.values.trace_file import write_trace


def test_a_dropped_folder_is_opened(pair: Pair, tmp_path: Path) -> None:
    window, engine = pair
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    window.dropEvent(
        QDropEvent(
            QPointF(5, 5),
            Qt.DropAction.CopyAction,
            data,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )
    assert engine.opened == [(str(tmp_path), "")]


def test_an_opened_model_is_named_and_remembered(pair: Pair, tmp_path: Path) -> None:
    window, _ = pair
    trace = make_trace(layers=2, decoder_layers=3)
    opened = Opened(
        number=1,
        path=str(tmp_path),
        model=trace.model,
        positions=trace.encoder_rows[:, :8],
        devices=("cuda:0", "cpu"),
        findings=(Finding("nan", "Output", "3 are NaN.", "Reload."),),
    )
    window.receive(opened)
    assert "model: random, 2+3 layers, 2 heads" in window._header.model.text()
    assert window._header.device.currentText() == "cpu"
    assert window.recent_menu.actions()[0].text() == str(tmp_path)
    assert window._notice.text() == "nan: Output: 3 are NaN. Reload."


def test_a_trace_file_opens_without_the_engine(pair: Pair, tmp_path: Path) -> None:
    window, engine = pair
    write_trace(make_trace(target=3), tmp_path / "a.vis")
    window.open(str(tmp_path / "a.vis"))
    assert engine.opened == []
    assert window.session.state.step == 3
    assert "recorded" in window.status.labels[0].text()
    (tmp_path / "b.vis").write_bytes(b"<html>")
    window.open(str(tmp_path / "b.vis"))
    assert "is not a Visformer trace" in window._notice.text()
    assert window.session.state.step == 3


def test_a_recorded_trace_is_handed_over(pair: Pair) -> None:
    window, engine = pair
    trace = make_trace(target=3)
    window.session.do(show_trace, trace)
    window.receive(
        Opened(
            number=1,
            path="p",
            model=trace.model,
            positions=trace.encoder_rows[:, :8],
            devices=("cpu",),
            findings=(),
        )
    )
    assert [id for id, _ in engine.decodes[-1].prefix] == [s.id for s in trace.steps]
    answer(window, engine, trace)
    assert not window.session.state.recorded
    assert window.session.state.step == 3


def test_a_trace_of_another_model_keeps_its_own_name(pair: Pair) -> None:
    window, engine = pair
    trace = make_trace(target=3)
    window.session.do(show_trace, trace)
    other = replace(trace.model, name="other", digest="1")
    window.receive(
        Opened(
            number=1,
            path="p",
            model=other,
            positions=trace.encoder_rows[:, :8],
            devices=("cpu",),
            findings=(),
        )
    )
    assert engine.decodes == []
    assert "model: random" in window._header.model.text()
    assert window.session.state.positions is None
    window.translate("more")
    answer(window, engine, replace(trace, model=other))
    assert "model: other" in window._header.model.text()
    assert window.session.state.positions is not None


def test_the_device_chosen_is_sent(pair: Pair) -> None:
    window, engine = pair
    chooser = window._header.device
    chooser.activated.emit(0)
    assert engine.opened == []  # nothing is open that could run there
    model = make_trace().model
    window.receive(opened_model(model, path="/m", devices=("cuda:0", "cpu")))
    assert chooser.currentText() == "cpu"
    chooser.setCurrentIndex(0)
    chooser.activated.emit(0)
    assert engine.opened == [("/m", "cuda:0")]
