from __future__ import annotations

import numpy as np

from tests.existing import existing
from tests.states import showing
from tests.unit.pictures.test_maps import looked
from tests.unit.pictures.test_reading import ALL, sentence
from visformer.pictures.attention.reading import attention_map, reading, shown_marks
from visformer.pictures.attention.tinted import Tinted, TintedPiece, tinted
from visformer.pictures.selection import DEFAULT_LOOK, AttentionCell, Look, TokenRole
from visformer.pictures.words.scene import reads
from visformer.values.facts import Kind


def made(
    kind: Kind,
    cell: AttentionCell | None = None,
    by: TokenRole = "query",
    look: Look = DEFAULT_LOOK,
) -> Tinted:
    shown = showing(sentence(), locked=cell, look=look)
    read, picture = (
        existing(reading(*looked(shown), kind)),
        existing(attention_map(*looked(shown), kind)),
    )
    return tinted(sentence(), read, picture, shown_marks(read, shown.cell), by)


def text(pieces: tuple[TintedPiece, ...]) -> str:
    return "".join(" " * piece.spaced + piece.text for piece in pieces)


def test_pieces_are_a_running_text() -> None:
    both = made("cross")
    assert text(both.keys) == "the tired cat. </s>"
    assert text(both.queries) == "chat, las ."
    assert text(made("cross", look=ALL).keys) == "the tired cat"


def test_the_keys_are_tinted_by_the_chosen_row() -> None:
    both = made("cross", AttentionCell("cross", 1, 3))
    weights = sentence().attention("cross", 0, 0)
    shades = [piece.shade for piece in both.keys]
    assert np.allclose(np.array(shades, float), weights[1], atol=1e-6)
    assert [piece.chosen for piece in both.queries] == [False, True, *[False] * 3]
    assert both.queries[0].shade is None
    assert "“t” reads" in both.key_words


def test_the_queries_are_tinted_by_the_chosen_column() -> None:
    both = made("cross", AttentionCell("cross", 1, 3), "key")
    weights = sentence().attention("cross", 0, 0)
    shades = [piece.shade for piece in both.queries]
    assert np.allclose(np.array(shades, float), weights[:, 3], atol=1e-6)
    assert [piece.chosen for piece in both.keys].index(True) == 3
    assert "reads “cat”" in both.query_words


def test_without_a_cell_the_last_target_row_and_the_row_spoken_of_read() -> None:
    assert made("decoder").queries[-1].chosen
    shown = showing(sentence(), kind="encoder")
    spoken = existing(reads(shown.scene))
    chosen = [piece.chosen for piece in made("encoder").queries]
    assert chosen.index(True) == spoken.row


def test_masked_keys_are_told() -> None:
    masked = [
        piece.masked for piece in made("decoder", AttentionCell("decoder", 1, 0)).keys
    ]
    assert masked == [False, False, True, True, True]


def test_queries_that_may_not_read_the_chosen_key_are_told() -> None:
    both = made("decoder", AttentionCell("decoder", 3, 2), "key")
    masked = [piece.masked for piece in both.queries]
    assert masked == [True, True, False, False, False]
