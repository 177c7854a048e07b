"""A beam search as a tree: columns are steps, lines beams by rank, then the rest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from visformer.language import N_, _, sentences
from visformer.pictures.picture import Label, Table
from visformer.pictures.token_names import candidate, marks
from visformer.values.beam_search import BeamSearch, EndedBeam
from visformer.values.pieces import WordMarks
from visformer.values.trace import Trace
from visformer.words import decimals, number, probability

Fate = Literal["kept", "dead", "left", "dropped", "outranked", "late", "ended"]
_FATES: dict[Fate, str] = {
    "kept": N_("It is beam {rank} of {beams}."),
    "dead": N_(
        "It is beam {rank} of {beams}; all that went on from it was dropped at step "
        "{next}."
    ),
    "left": N_("It is beam {rank} of {beams}, unfinished when the search stopped."),
    "dropped": N_("It was dropped at step {step}, {gap} behind the last kept."),
    "outranked": N_(
        "It was dropped at step {step}: by the generation rules others come first."
    ),
    "late": N_(
        "It ends here, but is not among the best {beams} of step {step}: it was "
        "dropped."
    ),
    "ended": N_(
        "It ends here: sum {sum}, length {length} with what ends it, score {score}."
    ),
}


GREY: tuple[Fate, ...] = "dropped", "outranked", "late"  # in the picture


class Node(NamedTuple):
    """A candidate of a step, in a column of the tree."""

    step: int  # of the search, from 0
    line: int  # from the top: beams by rank, then what ended and what was dropped
    beam: int  # the line in the column before that it follows
    id: int
    p: float  # of its token after that beam, as the search had it
    logprob: float  # the sum of natural logarithms, its own included
    fate: Fate
    gap: float = 0.0  # of a dropped one: how far it is behind the last kept


@dataclass(frozen=True, slots=True, eq=False)
class BeamTree:
    """The candidates of all steps, [step][line], and how their tokens are named."""

    search: BeamSearch
    columns: tuple[tuple[Node, ...], ...]
    how: WordMarks

    @property
    def lines(self) -> int:
        """How many candidates a step has at most."""
        return int(self.search.ids.shape[1])

    @property
    def first(self) -> int:
        """How many steps of the run come before the first of the search."""
        return len(self.search.given) - 1

    def name(self, id: int) -> Label:
        """Label a token."""
        return candidate(self.search.pieces.get(id, str(id)), self.how)

    def history(self, node: Node) -> list[int]:
        """Return the tokens that led to a node, its own included."""
        before = self.search.line(node.step - 1, node.beam)
        return [*before.ids, node.id]

    def along(self, ids: Sequence[int]) -> tuple[Node, ...]:
        """Return the nodes of a history, as far as the search has them."""
        found: list[Node] = []
        for column, id in zip(self.columns, ids, strict=False):
            line = found[-1].line if found else 0
            here = (node for node in column if (node.beam, node.id) == (line, id))
            node = next(here, None)
            if node is None:
                break
            found.append(node)
        return tuple(found)


def beam_tree(search: BeamSearch, trace: Trace) -> BeamTree:
    """Return the tree of a search; tokens are named as those of a run of the model."""
    return _tree(search, marks(trace, "target"))


@lru_cache(maxsize=2)
def _tree(search: BeamSearch, how: WordMarks) -> BeamTree:
    columns = [_column(search, step) for step in range(len(search))]
    for at, after in enumerate(columns[1:]):
        lead = {node.beam for node in after if node.fate not in GREY}
        columns[at] = tuple(
            node._replace(fate="dead")
            if node.fate == "kept" and node.line not in lead
            else node
            for node in columns[at]
        )
    return BeamTree(search, tuple(columns), how)


def _column(search: BeamSearch, step: int) -> tuple[Node, ...]:
    """Return a step's candidates: beams by rank, then what ended, then the dropped."""
    beams, last = search.beams, step == len(search) - 1
    before = [0.0] if step == 0 else search.sums[step - 1, :beams].tolist()
    arrays = search.ids, search.parents, search.sums
    rows = [array[step].tolist() for array in arrays]
    made = [
        Node(step, line, beam, id, math.exp(total - before[beam]), total, "kept")
        for line, (id, beam, total) in enumerate(zip(*rows, strict=True))
        if total > -math.inf
    ]
    kept = [node for node in made if node.line < beams]
    ended = [
        Node(step, 0, beam, id, math.exp(total - before[beam]), total, "ended")
        for at, beam, id, total, _score in search.finished
        if at == step
    ]
    ends = rows[0] if step + 1 == search.limit else search.ends
    dropped = [
        _dropped(node, kept, ended, beams if node.id in ends else None)
        for node in made[len(kept) :]
    ]
    behind = [*ended, *sorted(dropped, key=lambda node: -node.logprob)]
    below = (node._replace(line=beams + at) for at, node in enumerate(behind))
    return (*(node._replace(fate="left" if last else "kept") for node in kept), *below)


def _dropped(
    node: Node, kept: list[Node], ended: list[Node], beams: int | None
) -> Node:
    """Say why a candidate was dropped; ``beams``: how many come before one that ends.

    Greedy search is by logits, which rules may have changed.
    """
    if beams is not None:
        before = sum(x.logprob >= node.logprob for x in (*kept, *ended))
        return node._replace(fate="late" if before >= beams else "outranked")
    gap = kept[-1].logprob - node.logprob
    return node._replace(fate="dropped" if gap >= 0 else "outranked", gap=gap)


def node_words(tree: BeamTree, node: Node) -> str:
    """Say what a node is, and what became of it."""
    search = tree.search
    step = tree.first + node.step + 1
    what = _(
        "Step {step}: “{token}”, p {p}; log p so far {sum}.",
        step=step,
        token=tree.name(node.id),
        p=probability(node.p),
        sum=decimals(node.logprob, 2),
    )
    length = node.step + 1
    fate = _(
        _FATES[node.fate],
        rank=node.line + 1,
        beams=search.beams,
        step=step,
        next=step + 1,
        gap=decimals(node.gap, 2),
        sum=decimals(node.logprob, 2),
        length=length,
        score=number(node.logprob / math.pow(length, search.length_penalty)),
    )
    return sentences((what, fate))


def step_words(tree: BeamTree, step: int) -> str:
    """Count what became of the candidates of a step of the run, from 1."""
    at = step - tree.first - 1
    if not 0 <= at < len(tree.columns):
        return _(
            "Each column is a step, each line a beam; the wider an edge, the likelier "
            "its token."
        )
    fates = [node.fate for node in tree.columns[at]]
    gone, ended = sum(x in GREY for x in fates), fates.count("ended")
    return _(
        "The wider an edge, the likelier its token. Step {step}: {going} kept, {gone} "
        "dropped, {ended} ended.",
        step=step,
        going=len(fates) - gone - ended,
        gone=gone,
        ended=ended,
    )


class Hypothesis(NamedTuple):
    """A finished hypothesis in the list: what is written of it."""

    one: EndedBeam
    text: str
    words: tuple[str, str, str]  # score, sum, length


def hypotheses(search: BeamSearch) -> tuple[Hypothesis, ...]:
    """Rank the hypotheses that have finished, best first."""
    texts = dict(zip((o[:3] for o in search.finished), search.texts, strict=False))
    return tuple(
        Hypothesis(
            one,
            texts.get(one[:3], ""),
            (number(one.score), number(one.logprob), f"{one.step + 1:,}"),
        )
        for one in search.ranked()
    )


def hypotheses_table(lines: Sequence[Hypothesis]) -> Table:
    """Return the list as it is copied and saved."""
    numbers = [(o.score, o.logprob, o.step + 1) for o, _text, _words in lines]
    return Table(
        rows=tuple(line.text for line in lines),
        columns=(_("score"), _("sum of log p"), _("length")),
        values=np.array(numbers, np.float32),
    )


def score_words(search: BeamSearch) -> str:
    """Say what a score is."""
    said = _(
        "score = sum of log p / length^{penalty}; log is natural, and what ends the "
        "sentence counts.",
        penalty=number(search.length_penalty),
    )
    if len(search.given) > search.prompt:
        said = sentences((said, _("What was forced before does not count.")))
    return said
