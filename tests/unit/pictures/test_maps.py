from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.existing import existing
from tests.states import showing
from tests.traces import make_trace
from visformer.pictures.attention.maps import Marks, marks, reserved
from visformer.pictures.attention.reading import UNDECODED, attention_map
from visformer.pictures.selection import AttentionCell, Look, Selection
from visformer.session.state import State
from visformer.values.facts import KINDS, Kind
from visformer.values.row_columns import Columns
from visformer.values.trace import Trace


def test_a_run_that_grows_has_room_for_tokens_to_come() -> None:
    def room(counts: tuple[int, int], kind: Kind, source: int = 9) -> tuple[int, int]:
        return reserved(counts, kind, grows=True, source=source)

    assert room((5, 9), "decoder", source=0) == (8, 16)  # nothing but a prompt
    assert room((17, 17), "decoder", source=3) == (32, 32)
    # a quarter longer than the source
    assert room((1, 20), "cross", 20) == room((25, 20), "cross", 20) == (25, 20)
    assert room((26, 20), "cross", 20) == (50, 20)
    assert room((5, 4096), "cross", 4096) == (80, 4096)  # its first rows are seen
    assert room((8, 9), "encoder") == (8, 9)
    assert room((0, 6), "cross", source=6) == (8, 6)
    assert reserved((5, 9), "decoder", grows=False, source=9) == (5, 9)


def looked(state: State) -> tuple[Trace | None, Selection, Look]:
    """Return what a State shows, as pictures take it."""
    return state.visible, state.selection, state.look


def by_hand() -> Trace:
    """Build one head of width 2 whose cross attention is ln 3 against 0."""
    trace = make_trace(source=2, target=1, layers=1, heads=1, d_model=2)
    layout = Columns(trace.model)
    decoder, memory = (
        np.zeros_like(trace.decoder_rows),
        np.zeros_like(trace.memory_rows),
    )
    decoder[0, layout.part("decoder", "cross queries", 0)] = [np.sqrt(2), 0]
    memory[:, layout.part("memory", "keys", 0)] = [[np.log(3), 7], [0, -7]]
    return replace(trace, decoder_rows=decoder, memory_rows=memory)


def test_no_trace_is_no_map() -> None:
    assert attention_map(*looked(State()), "cross") is None


def test_weights_are_those_computed_by_hand() -> None:
    picture = existing(attention_map(*looked(showing(by_hand())), "cross"))
    assert np.allclose(picture.values, [[0.75, 0.25]])
    assert np.allclose(picture.shade, [[0.75, 0.25]])
    assert picture.ends == ("0", "1")


def test_a_scale_changes_the_shade_and_never_the_values() -> None:
    picture = existing(
        attention_map(*looked(showing(by_hand(), scale="head")), "cross")
    )
    assert np.allclose(picture.values, [[0.75, 0.25]])
    assert np.allclose(picture.shade, [[1, 1 / 3]])
    assert picture.ends == ("0", "0.75")


def test_a_saved_cross_row_is_named_by_what_it_reads_and_writes() -> None:
    trace = make_trace(source=5, target=4)
    written = "<s> → ▁t0", "▁t0 → ▁t1", "▁t1 → ▁t2", "▁t2 → ▁t3"
    saved: dict[Kind, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "cross": (written, trace.source),
        "decoder": (trace.target, trace.target),
        "encoder": (trace.source, trace.source),
    }
    for kind, names in saved.items():
        table = existing(attention_map(*looked(showing(trace)), kind)).table
        assert (table.rows, table.columns) == names


def test_controls_in_tokens_are_spelt_out() -> None:
    trace = replace(make_trace(2, 1), source=("a\u202eb", "\n"))
    picture = existing(attention_map(*looked(showing(trace)), "cross"))
    assert picture.columns == ("a[U+202E]b", "[U+000A]")


def test_later_keys_are_hidden_in_the_decoder() -> None:
    picture = existing(attention_map(*looked(showing(make_trace(3, 2))), "decoder"))
    assert picture.masked is not None
    assert picture.masked.tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize("kind", ["decoder", "cross"])
def test_nothing_decoded_is_an_empty_map_with_a_hint(kind: Kind) -> None:
    picture = existing(attention_map(*looked(showing(make_trace(), step=0)), kind))
    assert picture.values.shape == (0, 0 if kind == "decoder" else 5)
    assert picture.note == UNDECODED


def test_a_layer_beyond_a_stack_is_its_last() -> None:
    trace = make_trace(layers=3, decoder_layers=1)
    shown = showing(trace, kind="encoder", layer=2)
    titles = [
        getattr(attention_map(*looked(shown), kind), "title", "") for kind in KINDS
    ]
    assert [title.split("layer ")[1][0] for title in titles] == ["3", "1", "1"]


def test_a_cell_marks_its_tokens_in_the_other_maps() -> None:
    shown = showing(make_trace(5, 4), hovered=AttentionCell("cross", 2, 3))
    assert marks(shown.cell, "cross") == Marks((2, 3), (2,), (3,))
    assert marks(shown.cell, "encoder") == Marks(None, (3,), (3,))
    assert marks(shown.cell, "decoder") == Marks(None, (2,), (2,))
    shown = showing(make_trace(5, 4), locked=AttentionCell("encoder", 1, 4))
    assert marks(shown.cell, "cross") == Marks(None, (), (1, 4))
    assert marks(shown.cell, "decoder") == Marks()
