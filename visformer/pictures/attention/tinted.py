"""A sentence as running text, tinted by a row or a column of a Reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from visformer.language import N_, _
from visformer.pictures.attention.maps import Marks
from visformer.pictures.attention.reading import Reading
from visformer.pictures.attention.token_groups import glued, side_tokens
from visformer.pictures.picture import Matrix
from visformer.pictures.selection import TokenRole
from visformer.pictures.token_names import marks, writes
from visformer.pictures.words.scene import telling_row
from visformer.values.arrays import Floats
from visformer.values.facts import SIDES
from visformer.values.pieces import begins_word
from visformer.values.trace import Trace

KEYS_READ = N_("keys, tinted by what “{query}” reads:")
QUERIES_READ_BY = N_("each query, tinted by how much it reads “{key}”:")
QUERIES, KEYS = N_("queries:"), N_("keys:")


@dataclass(frozen=True, slots=True)
class TintedPiece:
    """Some characters of the text."""

    text: str
    spaced: bool  # a space precedes it
    shade: float | None  # in [0, 1] or NaN; None: not tinted
    masked: bool
    chosen: bool
    after_prompt: bool = False  # the first piece after the prompt, drawn after a line


@dataclass(frozen=True, slots=True)
class Tinted:
    """Both sides of a kind: one has the chosen token, the other is tinted by it."""

    queries: tuple[TintedPiece, ...]
    keys: tuple[TintedPiece, ...]
    query_words: str  # a caption for the text of the queries
    key_words: str


def tinted(
    trace: Trace, shown: Reading, matrix: Matrix, marked: Marks, by: TokenRole
) -> Tinted:
    """Return the texts; by default the last target row, or a characteristic source row.

    ``by`` "query" tints the keys by what the chosen query reads; "key" tints the
    queries by how much each reads the chosen key.
    """
    rows, columns = len(matrix.rows), len(matrix.columns)
    if not matrix.values.size:
        return Tinted((), (), matrix.note, "")
    row = next(iter(marked.rows), rows - 1)
    if not marked.rows and shown.kind == "encoder":
        row = telling_row(matrix.values)
    column = next(iter(marked.columns), None)
    masks = matrix.masked
    if by == "key" and column is not None:
        masked = masks[:, column] if masks is not None else np.zeros(rows, bool)
        shades, label = matrix.shade[:, column], matrix.columns[column]
        return Tinted(
            _pieces(trace, shown, "query", shades, masked, None),
            _pieces(trace, shown, "key", None, None, column),
            _(QUERIES_READ_BY, key=label),
            _(KEYS),
        )
    masked = masks[row] if masks is not None else np.zeros(columns, bool)
    return Tinted(
        _pieces(trace, shown, "query", None, None, row),
        _pieces(trace, shown, "key", matrix.shade[row], masked, None),
        _(QUERIES),
        _(KEYS_READ, query=matrix.rows[row]),
    )


def _pieces(
    trace: Trace,
    shown: Reading,
    side: TokenRole,
    shades: Floats | None,
    masked: Sequence[bool] | np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None,
    chosen: int | None,
) -> tuple[TintedPiece, ...]:
    of = SIDES[shown.kind][side == "key"]
    tokens, how, joined = side_tokens(trace, of), marks(trace, of), glued(trace, of)
    skipped = side == "query" and writes(trace, shown.kind)
    groups = shown.queries if side == "query" else shown.keys
    labels = shown.rows if side == "query" else shown.columns
    end = (shown.border or (0, 0))[side == "key"]
    pieces: list[TintedPiece] = []
    loose = True  # a space precedes the next piece in any case
    for at, label in enumerate(labels):
        first = (groups[at][0] if groups is not None else at) + skipped
        special = label.startswith("<") and label.endswith(">") and len(label) > 2
        before = tokens[first - 1] if first else ""
        begins = first not in joined and begins_word(tokens[first], before, how)
        pieces.append(
            TintedPiece(
                text=label,
                spaced=bool(pieces) and (loose or begins or special or not how),
                shade=None if shades is None else float(shades[at]),
                masked=masked is not None and bool(masked[at]),
                chosen=at == chosen,
                after_prompt=at > 0 and at == end,
            )
        )
        loose = special
    return tuple(pieces)
