"""One sequence, an encoder alone, captured weights: what the window says and offers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PySide6.QtWidgets import QComboBox
from pytestqt.qtbot import QtBot

from tests.general_traces import Shape, any_trace
from tests.opened import opened_model
from tests.traces import make_trace
from tests.window.any_traces import show_in, shown, view
from tests.window.parts import click, unwrap
from tests.window.windows import FakeEngine, Pair
from visformer.pictures.selection import AttentionCell, Look
from visformer.ui.views.architecture.architecture import ArchitectureView
from visformer.ui.views.attention.attention import AttentionView
from visformer.ui.views.computation.computation import ComputationView
from visformer.ui.views.positions.position_input import PositionInput
from visformer.ui.views.positions.positions import PositionLab, PositionsView
from visformer.ui.window.window import MainWindow
from visformer.values.facts import Description
from visformer.values.row_columns import Columns
from visformer.values.trace import Trace

# ---- one sequence, with a prompt ------------------------------------------------


def decoder_alone(prompt: int) -> Trace:
    trace = any_trace(Shape(kinds=("decoder",)), target=7, prompt=prompt)
    return replace(trace, target=("▁a", "▁b", "▁c", "▁d", "▁e", "▁f", "▁g"))


def test_a_prompt_is_the_source_and_what_follows_the_target(window: MainWindow) -> None:
    show_in(window, decoder_alone(prompt=3))
    assert window.source.text() == "a b c"
    texts = [chip.token for chip in window.strips.source.row.chips]
    assert texts == ["a", "b", "c"]
    window.session.set(step=0)
    assert window.session.state.step == 3  # what was given is not stepped through
    window.transport.last()
    window.transport.first()
    assert window.session.state.step == 3
    assert window.transport._where.text() == "step 3 of 7, prompt 3"
    first, *later = window.strips.target.row.chips
    assert all(chip.later for chip in later)
    assert "▁" + first.token == shown(window).steps[-1].token
    window.transport.forward()
    texts = [c.token for c in window.strips.target.row.chips if not c.later]
    assert texts == ["d", shown(window).steps[-1].token.removeprefix("▁")]
    window.strips.target.clicked.emit(0)
    assert window.session.state.step == 3


def test_both_strips_are_tinted_by_the_one_sequence(window: MainWindow) -> None:
    show_in(window, decoder_alone(prompt=3))
    strips = window.strips
    tints = [c.tint for c in (*strips.source.row.chips, *strips.target.row.chips)]
    row = shown(window).attention("decoder", 0, 0)[-1]
    assert np.allclose(tints[:-1], row, atol=1e-6)


def test_the_prompts_end_is_marked(window: MainWindow) -> None:
    show_in(window, decoder_alone(prompt=3))
    attention = view(window, AttentionView, "attention")
    canvas = attention.maps["decoder"].canvas
    assert canvas._border == (3, 3)
    with_line = window.grab().toImage()
    canvas.set_border(None)
    assert window.grab().toImage() != with_line
    window.session.set(look=Look(form="text"))
    pieces = attention.panels["decoder"].panel("text").canvas._tinted.keys
    assert [piece.text for piece in pieces if piece.after_prompt] == ["d"]
    show_in(window, decoder_alone(prompt=0))
    assert not any(
        piece.after_prompt
        for piece in attention.panels["decoder"].panel("text").canvas._tinted.keys
    )
    window.session.set(look=Look())
    assert canvas._border is None
    assert not window.strips.source.isVisibleTo(window)  # there is no prompt


def test_no_row_of_the_table_can_be_chosen(window: MainWindow, qtbot: QtBot) -> None:
    show_in(window, decoder_alone(prompt=3))
    assert "click" not in window.candidates.summary.text()
    with qtbot.assertNotEmitted(window.candidates.chosen):
        window.candidates.table.clicked.emit(
            window.candidates.table.model().index(1, 0)
        )


def test_steps_that_were_not_kept_are_not_made_up(window: MainWindow) -> None:
    show_in(window, any_trace(Shape(kinds=("decoder",)), steps=False))
    said = "This trace does not contain what the model predicted."
    assert window.candidates.table.accessibleDescription() == said
    chips = window.strips.target.row.chips
    assert [chip.token for chip in chips] == ["<s>", "t0", "t1", "t2"]
    matrix = view(window, AttentionView, "attention").maps["decoder"].matrix
    assert matrix.rows == ("<s>", "t0", "t1", "t2")
    assert matrix.row_axis == "query: target token that reads"


# ---- an encoder alone -----------------------------------------------------------


def masked() -> Trace:
    steps = any_trace().steps
    fills = {1: steps[0].candidates, 3: steps[1].candidates}
    return replace(any_trace(Shape(kinds=("encoder",))), fills=fills)


def test_a_masked_token_is_filled(window: MainWindow, qtbot: QtBot) -> None:
    trace = masked()
    show_in(window, trace)
    panel, row = window.candidates, window.strips.source.row
    assert panel.isVisibleTo(window)
    assert "(token 2)" in panel._title.text()
    assert not panel.field.isVisibleTo(window)  # there is no step to force
    assert [chip.current for chip in row.chips] == [False, True, False, False, False]
    click(qtbot, row, row.boxes[3].center())
    assert "(token 4)" in panel._title.text()
    got = [(c.token, c.probability) for c in panel.shown.rows]
    assert got == [(c.token[1:], c.probability) for c in trace.fills[3]]
    locked = unwrap(window.session.state.locked)
    assert locked.query == 3
    assert locked.key == int(trace.attention("encoder", 0, 0)[3].argmax())
    click(qtbot, row, row.boxes[0].center())
    asked = unwrap(
        window.session.state.locked
    )  # which head reads the first from the masked
    assert (asked.query, asked.key) == (3, 0)
    assert "(token 4)" in panel._title.text()
    window.session.set(locked=None)
    click(qtbot, row, row.boxes[0].center())
    assert panel.shown.rows == ()
    assert "Click a masked token" in panel.table.accessibleDescription()


def test_absent_kinds_are_named_by_their_keys(window: MainWindow) -> None:
    show_in(window, masked())
    window.choose_kind("cross")
    assert window.session.state.kind == "encoder"
    assert "encoder-only" in window.notice.text()


# ---- words ----------------------------------------------------------------------


def test_captured_weights_are_named(window: MainWindow) -> None:
    show_in(window, any_trace(captured=True))
    attention = view(window, AttentionView, "attention")
    said = "weights as captured from the model"
    assert said in attention.maps["cross"].heading.done.text()
    assert said in attention.maps["cross"].table().about
    assert said in attention.overview.export._table().about
    window.session.set(locked=AttentionCell("cross", 1, 2))
    assert window.status.words.text().endswith(", as captured from the model")
    window.session.set(tab="computation", stage="softmax", locked=None)
    computation = view(window, ComputationView, "computation")
    trace, picture = shown(window), computation._picture
    assert "captured" in computation._formula.text()
    assert np.array_equal(picture.table.values[-1], trace.captured["cross", 0][0][-1])
    show_in(window, any_trace())
    assert "captured" not in computation._formula.text()


def test_a_part_of_the_open_model_ran(window: MainWindow) -> None:
    """What the model knows is shown; nothing that would run all of it is offered."""
    whole = make_trace(target=4)
    part = Description.of(whole.model.config, ("decoder",))._asdict()
    columns = Columns(replace(whole.model, **part))
    alone = replace(
        whole,
        model=replace(whole.model, **part),
        source=(),
        source_ids=whole.source_ids[:0],
        encoder_rows=whole.encoder_rows[:0, :0],
        memory_rows=whole.memory_rows[:0, :0],
        decoder_rows=whole.decoder_rows[:, : columns.width("decoder")],
        masks={"decoder": whole.masks["decoder"]},
    )
    show_in(window, alone)
    window.receive(opened_model(whole.model))
    assert window.session.state.recorded
    positions = view(window, PositionsView, "positions")
    positions.turn("input")
    page = positions.page(PositionInput)
    assert _sides(page.side) == ["target"]
    assert np.array_equal(
        unwrap(page.maps[2].matrix).values, alone.hidden("decoder", 0)
    )
    positions.turn("lab")
    assert not positions.page(PositionLab).form.isEnabled()
    assert "only part of the model ran" in positions.page(PositionLab)._fixed.text()
    window.session.set(tab="architecture")
    drawing = view(window, ArchitectureView, "architecture").diagram.drawing
    ids = {box.id for box in drawing.boxes}
    assert {"decoder.0", "target_embedding", "output"} <= ids
    assert not any(id.startswith(("encoder", "source")) or "cross" in id for id in ids)


def _sides(box: QComboBox) -> list[str]:
    return [box.itemData(index) for index in range(box.count())]


def test_another_models_run_is_not_replaced(pair: Pair) -> None:
    window, engine = pair
    assert isinstance(engine, FakeEngine)
    show_in(window, decoder_alone(prompt=3))
    trace = window.session.state.trace
    window._choose_tokens(replace(window.session.state.wish.strategy, seed=3), 5)
    window.candidates.chosen.emit(4)
    assert engine.decodes == []
    assert window.session.state.trace is trace
