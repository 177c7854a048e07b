"""The names of a run's tokens: as people read them, and as the vocabulary has them."""

from functools import lru_cache
from weakref import WeakKeyDictionary

from visformer.analysis.attention_summary import written
from visformer.pictures.picture import Label
from visformer.text import visible
from visformer.values.facts import Kind, SentenceSide
from visformer.values.pieces import WordMarks, listed, marks_of, plain
from visformer.values.step import chosen_tokens, step_origins
from visformer.values.trace import Trace
from visformer.words import token_words

FED_SIGN = "⇢"  # before a token that was forced or teacher-forced


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
    tokens = trace.source  # constant over all steps
    return trace.memo.made(
        (tokens,), "names", lambda: tuple([name(token, how) for token in tokens])
    )


@lru_cache(maxsize=1024)
def name(token: str, how: WordMarks) -> Label:
    """Label one token."""
    return Label(plain(token, how), raw=visible(token))


@lru_cache(maxsize=1024)
def candidate(token: str, how: WordMarks) -> Label:
    """Label a token in a list of next tokens, where all labels must differ."""
    return Label(listed(token, how), raw=visible(token))


def chosen_name(trace: Trace, row: int = -1) -> Label:
    """Label a step's token as in the list of next tokens."""
    return candidate(trace.steps[row].token, marks(trace, "target"))


def word(trace: Trace, side: SentenceSide, at: int) -> str:
    """Return a token as sentences quote it."""
    tokens = trace.source if side == "source" else trace.target
    return plain(tokens[at], marks(trace, side))


def placed(trace: Trace, side: SentenceSide, at: int) -> str:
    """Name a token and its place in the sentence."""
    return token_words(word(trace, side, at), at)


def writes(trace: Trace, kind: Kind) -> bool:
    """Whether a kind's rows are named by the token written there, not the one read.

    In self-attention they are named by the token read, or the diagonal would mislead.
    """
    return kind == "cross" and bool(trace.steps)


def row_word(trace: Trace, kind: Kind, row: int) -> str:
    """Return the name of an attention row in a sentence."""
    if writes(trace, kind):
        return plain(chosen_tokens(trace.steps)[row], marks(trace, "target"))
    return word(trace, "source" if kind == "encoder" else "target", row)


def row_placed(trace: Trace, kind: Kind, row: int) -> str:
    """Name an attention row and the place of its token in the sentence."""
    return token_words(row_word(trace, kind, row), row + writes(trace, kind))


def key_placed(trace: Trace, kind: Kind, key: int) -> str:
    """Name a key and its place in the sentence."""
    return placed(trace, "target" if kind == "decoder" else "source", key)


def is_open(trace: Trace, row: int) -> bool:
    """Whether a row's next token is not chosen: true of the last row of a pass.

    Its step holds the most probable next token; other steps hold the token read next.
    """
    steps = trace.whole.steps
    if row != len(steps) - 1:
        return False
    *before, last = step_origins(steps)
    return set(before) == {"reference"} and last == "model"
