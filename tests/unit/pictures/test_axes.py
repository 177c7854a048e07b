"""What stands beside the attention maps: the words of the axes, and whose tokens."""

from __future__ import annotations

import pytest

from tests.existing import existing
from tests.states import showing
from tests.traces import fed, make_trace
from tests.unit.pictures.test_maps import looked
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.attention.maps import all_numbers, labels
from visformer.pictures.attention.reading import attention_map
from visformer.pictures.masks import cell_words as mask_words
from visformer.pictures.selection import AttentionCell, Look
from visformer.pictures.words.explanations import explanation
from visformer.ui.widgets.cell_value import pieces
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import Intervention, parse

READS = {  # query words, key words
    "encoder": ("query: source token that reads", "key: source token that is read"),
    "decoder": ("query: target token that reads", "key: target token that is read"),
    "cross": ("query: word being written", "key: source token that is read"),
}


@pytest.mark.parametrize("look", [Look(), Look(summary="mean", words=True)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_axes_say_whose_tokens_stand_there(kind: Kind, look: Look) -> None:
    trace = make_trace(5, 4)
    picture = existing(attention_map(*looked(showing(trace, look=look)), kind))
    assert (picture.row_axis, picture.column_axis) == READS[kind]
    of_rows = {"encoder": trace.source, "decoder": trace.target}
    written = of_rows.get(kind, tuple(step.token for step in trace.steps))
    keys = trace.target if kind == "decoder" else trace.source
    for found, tokens in ((picture.rows, written), (picture.columns, keys)):
        assert [*found] == [one.removeprefix("▁") for one in tokens]


def test_the_bubble_of_a_cell_says_what_was_read_and_what_is_written() -> None:
    trace = fed(make_trace(3, 3), {1: "forced"}, wrong=(1,))
    shown = showing(trace, locked=AttentionCell("cross", 0, 0))
    assert "“t0” after “<s>” reads “s0”: 0." in cell_words(*looked(shown))
    picture = existing(attention_map(*looked(shown), "cross"))
    said = "".join(text for text, _role in pieces(picture, (0, 1)))
    assert said == "“t0” after “<s>” reads s1"
    forced = "".join(text for text, _role in pieces(picture, (1, 1)))
    assert forced.startswith("w (forced; the model would say: “t1” 0.")
    assert forced.endswith("), after “t0” reads s1")
    own = existing(attention_map(*looked(shown), "decoder"))
    assert "".join(text for text, _role in pieces(own, (1, 0))) == "t0 reads <s>"


def test_the_best_next_token_of_a_pass_is_not_said_to_be_written() -> None:
    """A module's call reads a target; nothing was chosen after its last token."""
    trace = fed(make_trace(3, 3), {0: "reference", 1: "reference"})
    shown = showing(trace, kind="cross")
    rows = labels(trace, "cross")[0]
    assert [one.faint for one in rows] == [False, False, True]
    assert rows == ("⇢ t0", "⇢ t1", "t2")
    assert explanation(("attention",), shown.scene).startswith(
        "The best next token would be “t2”. There this head looks at “"
    )
    said = cell_words(*looked(showing(trace, locked=AttentionCell("cross", 2, 0))))
    assert "“t2”, the best next token after “t1” reads “s0”" in said
    before = showing(trace, kind="cross", locked=AttentionCell("cross", 1, 0))
    said = explanation(("attention",), before.scene)
    assert said.startswith("Where “t1” was fed, this head looks at “")


def test_every_head_is_exported_under_its_name() -> None:
    trace = make_trace(3, 2, layers=2, heads=4)
    table = existing(all_numbers(trace, "cross"))
    assert table.rows[0] == "layer 1, head 1: <s> → ▁t0"
    assert table.rows[5] == "layer 1, head 3: ▁t0 → ▁t1"
    assert (table.values[5] == trace.attention("cross", 0, 2)[1]).all()
    assert table.rows[-1].startswith("layer 2, head 4: ")
    assert (table.values[-1] == trace.attention("cross", 1, 3)[-1]).all()


def changed_cells(written: str, length: int) -> set[tuple[int, int]]:
    made: Intervention = parse([written])
    trace = make_trace(length, length)
    own = trace.mask("decoder", 0)
    changed = made.mask("decoder", 0, own, own)
    return {(int(q), int(k)) for q, k in zip(*(changed != own).nonzero(), strict=True)}


def test_what_the_screen_counts_is_what_change_counts() -> None:
    """The numbers of the words, written into ``--change``, change that cell."""
    trace = make_trace(6, 6)
    for query, key in ((4, 1), (5, 0), (3, 3)):
        words = mask_words(trace, "decoder", 1, query, key)
        tokens = [part.split(")")[0] for part in words.split("(token ")[1:]]
        assert changed_cells(f"cell decoder {' '.join(tokens)} off", 6) == {
            (query, key)
        }
