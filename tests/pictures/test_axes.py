"""What stands beside the attention maps: the words of the axes, and whose tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pictures.test_maps import looked, state
from tests.traces import make_trace
from visformer.analysis.subwords import bare
from visformer.pictures.attention.attention import attention_map
from visformer.pictures.attention.cell_words import cell_words
from visformer.pictures.attention.maps import all_numbers
from visformer.pictures.look import Look
from visformer.pictures.masks import cell_words as mask_words
from visformer.pictures.picture import TokenPair, read_token
from visformer.pictures.selection import AttentionCell
from visformer.values.change_text import parse
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import Intervention

READS = {  # query words, key words
    "encoder": ("query: source token that reads", "key: source token that is read"),
    "decoder": ("query: target read → chosen", "key: target token that is read"),
    "cross": ("query: target read → chosen", "key: source token that is read"),
}


@pytest.mark.parametrize("look", [Look(), Look(summary="mean", words=True)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_axes_say_whose_tokens_stand_there(kind: Kind, look: Look) -> None:
    trace = make_trace(5, 4)
    picture = attention_map(*looked(state(trace, look=look)), kind)
    assert picture is not None
    assert (picture.row_axis, picture.column_axis) == READS[kind]
    sides = {"source": trace.source, "target": trace.target}
    of_rows = sides["source" if "source" in picture.row_axis else "target"]
    of_columns = sides["source" if "source" in picture.column_axis else "target"]
    labels = tuple(map(read_token, picture.rows)), picture.columns
    for written, tokens in zip(labels, (of_rows, of_columns), strict=True):
        # words are written without their mark of a space
        assert [bare(one) for one in written] == [bare(one) for one in tokens]


def test_a_target_row_is_a_pair_whatever_its_tokens_look_like() -> None:
    trace = make_trace(3, 2)
    steps = (replace(trace.steps[0], token="b → c"), trace.steps[1])
    trace = replace(trace, target=("a → b", "b → c"), steps=steps)
    shown = state(trace, locked=AttentionCell("cross", 0, 0), look=Look(summary="mean"))
    picture = attention_map(*looked(shown), "cross")
    assert picture is not None
    first = picture.rows[0]
    assert isinstance(first, TokenPair)
    assert (first.read, first.next) == ("a → b", "b → c")
    assert first == "a → b → b → c"
    assert "“a → b” reads “▁s0”" in cell_words(*looked(shown))


def test_every_head_is_exported_under_its_name() -> None:
    trace = make_trace(3, 2, layers=2, heads=4)
    table = all_numbers(trace, "cross")
    assert table is not None
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
