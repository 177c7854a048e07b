"""How the tokens of a run are named: as a person reads them, and as they are."""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from visformer.analysis.subwords import written
from visformer.pictures.picture import Label
from visformer.text import visible
from visformer.values.facts import Kind, SentenceSide
from visformer.values.pieces import WordMarks, listed, marks_of, plain
from visformer.values.step import chosen_tokens, step_origins
from visformer.values.trace import Trace
from visformer.words import token_words

FED_SIGN = "⇢"  # before a token that the user forced or a reference fed


def marks(trace: Trace, side: SentenceSide) -> WordMarks:
    """Return how a side's vocabulary marks words."""
    if side == "source":
        return marks_of(trace.source)
    if trace not in _MARKS:
        best = (token for step in trace.steps[:1] for token in step.candidates.tokens)
        _MARKS[trace] = marks_of((*best, *written(trace)))
    return _MARKS[trace]


_MARKS: WeakKeyDictionary[Trace, WordMarks] = WeakKeyDictionary()  # of the target


def names(trace: Trace, side: SentenceSide) -> tuple[Label, ...]:
    """Label the tokens of a side."""
    how = marks(trace, side)
    if side == "target":
        return tuple([name(token, how) for token in trace.target])
    tokens = trace.source  # the same at every step
    return trace.memo.made(
        (tokens,), "names", lambda: tuple([name(token, how) for token in tokens])
    )


@lru_cache(maxsize=4096)
def name(token: str, how: WordMarks) -> Label:
    """Label one token."""
    return Label(plain(token, how), raw=visible(token))


@lru_cache(maxsize=4096)
def candidate(token: str, how: WordMarks) -> Label:
    """Label a token in a list of next ones, where each differs from the others."""
    return Label(listed(token, how), raw=visible(token))


def chosen_name(trace: Trace, row: int = -1) -> Label:
    """Label a step's token as it stands in the list of next ones."""
    return candidate(trace.steps[row].token, marks(trace, "target"))


def word(trace: Trace, side: SentenceSide, at: int) -> str:
    """Return a token as sentences quote it."""
    tokens = trace.source if side == "source" else trace.target
    return plain(tokens[at], marks(trace, side))


def placed(trace: Trace, side: SentenceSide, at: int) -> str:
    """Name a token and its place in the sentence."""
    return token_words(word(trace, side, at), at)


def writes(trace: Trace, kind: Kind) -> bool:
    """Tell whether a kind's rows are named by what is written there.

    Else by what they read: in self-attention the diagonal would be misread.
    """
    return kind == "cross" and bool(trace.steps)


def row_word(trace: Trace, kind: Kind, row: int) -> str:
    """Return what names a row of attention in a sentence."""
    if writes(trace, kind):
        return plain(chosen_tokens(trace.steps)[row], marks(trace, "target"))
    return word(trace, "source" if kind == "encoder" else "target", row)


def row_placed(trace: Trace, kind: Kind, row: int) -> str:
    """Name a row of attention, and the place of its token in the sentence."""
    return token_words(row_word(trace, kind, row), row + writes(trace, kind))


def key_placed(trace: Trace, kind: Kind, key: int) -> str:
    """Name a key, and its place in the sentence."""
    return placed(trace, "target" if kind == "decoder" else "source", key)


def is_open(trace: Trace, row: int) -> bool:
    """Tell whether a row's next token is not chosen: the last one of a pass.

    Its step then has the best next token, all others what was read after them.
    """
    steps = trace.whole.steps
    if row != len(steps) - 1:
        return False
    *before, last = step_origins(steps)
    return set(before) == {"reference"} and last == "model"
