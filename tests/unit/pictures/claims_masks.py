"""What sentences claim about masks, leaks, padding, order and who chose a token.

Everything is asked of the arrays anew: none of the facts of the package is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from tests.unit.pictures.claims_numbers import mask, number, place, reads_most, row
from tests.unit.pictures.sweep import Claims, Said, listed_as, reads_as
from visformer.values.arrays import Bools, Floats
from visformer.values.facts import Kind
from visformer.values.step import Step
from visformer.values.trace import Trace

SMALL = 1e-6  # weights up to it are rounding


def pads(trace: Trace, side: str) -> Bools:
    """Where tokens are padding: by their ids, but not the token that starts a target.

    Marian and T5 start each target with their pad; it is read as a word.
    """
    model = trace.model
    if side == "source":
        pad = model.pad if model.source_pad is None else model.source_pad
        return np.asarray(trace.source_ids == pad)
    found = np.asarray(trace.target_ids == model.pad)
    found[:1] = False
    return found


def key_pads(trace: Trace, kind: Kind) -> Bools:
    return pads(trace, "target" if kind == "decoder" else "source")


def query_pads(trace: Trace, kind: Kind) -> Bools:
    return pads(trace, "source" if kind == "encoder" else "target")


def weights(trace: Trace, kind: Kind, layer: int) -> Floats:
    """Return what every head reads, [H, Q, K]; NaN reads nothing."""
    return np.nan_to_num(trace.attention(kind, layer))


def above(cells: Floats | Bools) -> Floats | Bools:
    """Return what stands above the diagonal of [..., T, T]."""
    return np.triu(cells, 1)


def reads_later(trace: Trace, layer: int | None = None) -> bool:
    """Whether any row of a layer, or of all, gives a later token any weight."""
    return _reads_later(trace.whole, layer)


@cache
def _reads_later(whole: Trace, layer: int | None) -> bool:
    if "decoder" not in whole.kinds:
        return False
    layers = range(whole.layers("decoder")) if layer is None else [layer]
    return any(
        bool((above(weights(whole, "decoder", n)) > SMALL).any()) for n in layers
    )


def reads_steps(trace: Trace) -> bool:
    """Whether a row gives a token that a later step wrote any weight."""
    first = max(1, trace.prompt)
    layers = range(trace.layers("decoder"))
    read = (above(weights(trace, "decoder", one))[..., first:] for one in layers)
    return any(bool((one > 0).any()) for one in read)


def most_later(said: Said) -> float:
    """Return the most that a row shown gives all later tokens of its pass."""
    whole, rows = said.trace.whole, len(said.trace)
    layers = range(whole.layers("decoder"))
    read = (above(weights(whole, "decoder", n))[:, :rows].sum(-1) for n in layers)
    return max(float(one.max(initial=0)) for one in read)


@cache
def depends(whole: Trace) -> Bools:
    """Return which rows' tokens each row depends on through all layers, [T, T]."""
    reach: Bools = np.eye(len(whole), dtype=bool)
    for layer in range(whole.layers("decoder") if "decoder" in whole.kinds else 0):
        reads = weights(whole, "decoder", layer).max(0) > SMALL
        reach = (reads | np.eye(len(whole), dtype=bool)) @ reach
    return reach


def ahead(trace: Trace, row: int) -> bool:
    """Whether a row depends on a later token."""
    return bool(depends(trace.whole)[row, row + 1 :].any())


@cache
def leaking(trace: Trace) -> bool:
    """Whether any real query gives a pad, or a token still to come, any weight."""
    for kind in trace.kinds:
        hidden = np.broadcast_to(key_pads(trace, kind), _shape(trace, kind)).copy()
        if kind == "decoder":
            later = ~np.tri(len(trace), dtype=bool)
            later[:, : trace.prompt] = False
            hidden |= later
        hidden[query_pads(trace, kind)] = False
        for layer in range(trace.layers(kind)):
            if (np.where(hidden, weights(trace, kind, layer), 0) > SMALL).any():
                return True
    return False


@cache
def reads_pad(trace: Trace) -> bool:
    for kind in trace.kinds:
        hidden = key_pads(trace, kind) & ~query_pads(trace, kind)[:, None]
        for layer in range(trace.layers(kind)):
            if (np.where(hidden, weights(trace, kind, layer), 0) > SMALL).any():
                return True
    return False


def _shape(trace: Trace, kind: Kind) -> tuple[int, int]:
    queries, keys = trace.tokens(kind)
    return len(queries), len(keys)


def cell_of(said: Said) -> tuple[bool, bool, bool]:
    """Return of the cell in focus: may it attend, is its key a pad, is it later.

    Of a model whose rules are not known only the first is said.
    """
    cell = said.scene.selection.cell
    assert cell is not None
    allowed = bool(said.trace.mask(cell.kind, said.scene.selection.layer)[cell[1:]])
    if said.trace.model.known is None:
        return allowed, False, False
    pad = bool(key_pads(said.trace, cell.kind)[cell.key])
    return allowed, pad, cell.kind == "decoder" and cell.key > cell.query


def is_read_most(said: Said) -> bool:
    """Whether the row named is the one in focus, and reads most what is said."""
    names = said.trace.tokens(said.scene.selection.kind)[0]
    return reads_most(said) and reads_as(names[row(said)]) == said.fields["query"]


def changed_cells(said: Said) -> Bools:
    """Return where a layer's mask is not what padding and order make it, [Q, K]."""
    at, trace = said.scene.selection, said.trace
    queries, keys = _shape(trace, at.kind)
    usual = np.broadcast_to(~key_pads(trace, at.kind), (queries, keys))
    if at.kind == "decoder":
        usual = usual & np.tri(queries, keys, dtype=bool)
    return np.asarray(mask(said) != usual)


def is_first_difference(said: Said, *, allowed: bool, pad: bool) -> bool:
    found = np.argwhere(changed_cells(said))
    if not len(found):
        return False
    query, key = map(int, found[0])
    at = said.scene.selection
    if allowed != mask(said)[query, key]:
        return False
    return not allowed or pad == key_pads(said.trace, at.kind)[key]


def is_empty(said: Said) -> bool:
    """Whether any query of the run may attend to nothing."""
    trace = said.trace
    masks = (trace.mask(k, n) for k in trace.kinds for n in range(trace.layers(k)))
    return any(bool((~one.any(-1)).any()) for one in masks)


def no_leak(said: Said) -> bool:
    return not reads_later(said.trace) and not reads_pad(said.trace)


def is_share(said: Said, field: str, wanted: float) -> bool:
    told = number(said.fields[field])
    if abs(wanted) < 1.5e-4:  # it may be written with an exponent and two digits
        return math.isclose(told, wanted, rel_tol=6e-2, abs_tol=6e-5 * (told > 9e-5))
    return math.isclose(told, wanted, rel_tol=1e-2, abs_tol=6e-5)


def some_step(said: Said, test: Callable[[Step], bool]) -> bool:
    """Whether it holds of a step that chose the token named."""
    steps = list(said.trace.whole.steps)
    named = listed_as(str(said.fields["token"])).removeprefix("▁")
    return any(test(one) for one in steps if reads_as(one.token) == named)


def was_drawn(said: Said, step: Step) -> bool:
    return said.run.strategy.name == "sample" and step.origin == "drawn"


def drawn_share(said: Said, row: int) -> float:
    """Return with what probability a row's token is drawn, from its logits."""
    way = said.run.strategy
    logits = said.trace.logits[row].astype(np.float64) / way.temperature
    order = np.argsort(-logits, kind="stable")
    shares = np.exp(logits[order] - logits.max())
    shares /= shares.sum()
    shares[way.top_k or len(shares) :] = 0
    shares[np.cumsum(shares) - shares >= way.top_p * shares.sum()] = 0
    kept = dict(zip(order.tolist(), (shares / shares.sum()).tolist(), strict=True))
    return float(kept[said.trace.steps[row].id])


def is_draw(said: Said) -> bool:
    """Whether a step was drawn with what is said; its row may have changed since."""
    changed = said.run.trace.intervention.reaches_back
    return any(
        (was_drawn(said, step) or step.origin == "rule")
        and step.drawn is not None
        and is_share(said, "p", step.drawn.probability)
        and (
            changed
            or step.origin == "rule"
            or said.run.checkpoint.generation.restricts  # type: ignore[union-attr]
            or is_share(said, "p", drawn_share(said, at))
        )
        for at, step in enumerate(said.trace.steps)
    )


def is_said_drawn(said: Said, *, best: bool) -> bool:
    """Whether a step with the token and the probability of its row was drawn."""
    return some_step(
        said,
        lambda one: (
            was_drawn(said, one)
            and best == (one.rank == 1)
            and is_share(said, "p", one.probability)
        ),
    )


def was_chosen_before(said: Said) -> bool:
    """Whether a best token is its row's best no more, since the row may change."""
    opened = said.run.trace.intervention.reaches_back
    greedy = said.run.strategy.name == "greedy"
    return opened and greedy and some_step(said, lambda one: one.rank > 1)


def counted(said: Said, what: Bools, field: str) -> bool:
    return bool(np.count_nonzero(what) == said.fields[field])


CLAIMS: Claims = {
    # explanations
    "“{query}” reads “{key}” most ({weight}): rows are target words; {strong} show "
    "what they read, never later ones.": lambda s: (
        is_read_most(s)
        and not above(weights(s.trace.whole, "decoder", place(s)[1])).any()
    ),
    "Which columns each row may read: a causal mask hides later target tokens, "
    "a padding mask hides padding.": no_leak,
    "A framed cell is a token that the row reads but must not: padding, or a later "
    "word, which is not known yet when the row's own word is written.": (
        lambda s: leaking(s.trace)
    ),
    "Which columns each row may read: those where the mask is True.": (
        lambda s: reads_later(s.trace) and not leaking(s.trace)
    ),
    "“{query}” reads “{key}” most ({weight}): rows are target words; {strong} show "
    "what they read, in this layer also later ones.": lambda s: (
        is_read_most(s) and reads_later(s.trace, s.scene.selection.layer)
    ),
    "{open} of {keys} keys are open to “{query}”; the scores of the others become "
    "{masked}.": lambda s: (
        counted(s, mask(s)[row(s)], "open") and not mask(s)[row(s)].all()
    ),
    "All {keys} keys are open to “{query}”: no score is masked in this row.": (
        lambda s: bool(mask(s)[row(s)].all())
    ),
    # the diagram
    "Causal: no row reads a later token here, which it has to predict.": (
        lambda s: not reads_later(s.trace, s.scene.selection.layer)
    ),
    "tokens 1 to {last}": lambda s: (
        s.fields["last"] > len(s.trace) or not ahead(s.trace, s.fields["last"] - 1)
    ),
    "Not causal here: rows read later tokens.": lambda s: reads_later(
        s.trace, s.scene.selection.layer
    ),
    "possibly all": lambda s: reads_later(s.trace),
    # output
    "Z [{rows}, {width}]: row t read tokens 1..t, predicts t + 1": lambda s: (
        not reads_later(s.trace)
    ),
    "Z [{rows}, {width}]: some rows of this run read later tokens": lambda s: (
        reads_later(s.trace)
    ),
    "Row {row} of Z depends on the source and on {tokens} only.": lambda s: (
        not ahead(s.trace, s.fields["row"] - 1)
    ),
    "Row {row} of Z depends on the source, on {tokens} and possibly on later tokens.": (
        lambda s: reads_later(s.trace)
    ),
    "Row {row} of Z depends on {tokens}.": lambda s: (
        not ahead(s.trace, s.fields["row"] - 1)
    ),
    "Row {row} of Z may depend on later tokens too.": lambda s: reads_later(s.trace),
    "Each step of this run may change the rows before it: its file has those of the "
    "last step, {n:,}, and earlier steps show them, too.": lambda s: (
        s.fields["n"] == len(s.trace) and reads_steps(s.trace)
    ),
    # leaks
    "There is no later token to read yet: step forward to see what leaks.": (
        lambda s: len(s.trace) < 2 and not leaking(s.trace)
    ),
    "No leak up to this step: only rows of later steps read later tokens.": lambda s: (
        not leaking(s.trace) and reads_later(s.trace) and most_later(s) <= SMALL
    ),
    "Rows read later tokens, which are not shown, with up to {share} of their "
    "weight.": lambda s: (
        not leaking(s.trace)
        and abs(float(str(s.fields["share"]).rstrip("%")) / 100 - most_later(s)) < 6e-4
    ),
    "No leak: only tokens of the prompt read later ones, which are given with "
    "them, and none reads a pad.": lambda s: (
        not leaking(s.trace) and s.trace.prompt > 1
    ),
    "No leak: only padding reads later tokens, and nothing else reads a pad.": (
        lambda s: not leaking(s.trace) and bool(pads(s.trace.whole, "target").any())
    ),
    "No leak: no target token reads a later one, and none reads a pad.": no_leak,
    "no row has read it yet": lambda s: (
        not reads_later(s.trace) or len(s.trace) == len(s.trace.whole)
    ),
    "No leak: no token reads a pad.": lambda s: not reads_pad(s.trace),
    "{n:,} leaks, at most one for each layer and query.": lambda s: leaking(s.trace),
    # masks
    "No key is padding.": lambda s: not key_pads(s.trace, s.scene.selection.kind).any(),
    "{n:,} keys are padding.": lambda s: counted(
        s, key_pads(s.trace, s.scene.selection.kind), "n"
    ),
    "{kind}: no key is padding, so nothing is hidden ({rows} × {columns} cells).": (
        lambda s: not key_pads(s.trace, s.scene.selection.kind).any()
    ),
    "{kind}: nothing is hidden. Every query may attend to every key ({rows} × "
    "{columns} cells).": lambda s: s.door == "masks" or bool(mask(s).all()),
    "{kind}: there is no causal mask. Every query may attend to every key ({rows} × "
    "{columns} cells).": lambda s: s.scene.selection.kind != "decoder",
    "It is True exactly where both other masks are.": lambda s: (
        not changed_cells(s).any()
    ),
    "{n:,} queries, {first} first, may attend to nothing.": is_empty,
    "the mask that was used also hides {key} from query {query}.": lambda s: (
        is_first_difference(s, allowed=False, pad=False)
    ),
    "the mask that was used also lets query {query} attend to pad {key}.": lambda s: (
        is_first_difference(s, allowed=True, pad=True)
    ),
    "the mask that was used also lets query {query} attend to {key}, a later token.": (
        lambda s: is_first_difference(s, allowed=True, pad=False)
    ),
    "source {rows} × {length}: no token is padding": lambda s: (
        not pads(s.trace, "source").any()
    ),
    "target {rows} × {length}: no token is padding": lambda s: (
        not pads(s.trace, "target").any()
    ),
    "source {rows} × {length}: {pads:,} of {tokens:,} tokens are padding (hatched)": (
        lambda s: counted(s, pads(s.trace, "source"), "pads")
    ),
    "target {rows} × {length}: {pads:,} of {tokens:,} tokens are padding (hatched)": (
        lambda s: counted(s, pads(s.trace, "target"), "pads")
    ),
    "{row}: {text} ({n:,} pads in the source)": lambda s: counted(
        s, pads(s.trace, "source"), "n"
    ),
    # who chose
    "chosen": lambda s: s.trace.steps[-1].origin == "model",
    "drawn": lambda s: was_drawn(s, s.trace.steps[-1]),
    "drawn: “{token}”, the most probable; softmax {p}": lambda s: is_said_drawn(
        s, best=True
    ),
    "drawn: “{token}”, softmax {p}; most probable: “{best}” {best_p}": lambda s: (
        is_said_drawn(s, best=False)
    ),
    "“{token}” was drawn; it is also the most probable token by the softmax of the "
    "row's logits ({p}).": lambda s: is_said_drawn(s, best=True),
    "“{token}” was drawn; the softmax of the row's logits gives it {p}, rank {rank:,}; "
    "the most probable token is “{best}” ({best_p}).": lambda s: is_said_drawn(
        s, best=False
    ),
    "It was drawn with {p} ({ways}).": is_draw,
    "chosen with what was read by then: “{token}”, now {p}; most probable now: "
    "“{best}” {best_p}": was_chosen_before,
    "“{token}” was chosen with the tokens that were read by then. In the row as it is "
    "now it has {p}, rank {rank:,}; the most probable token is “{best}” ({best_p}).": (
        was_chosen_before
    ),
    "The softmax of the row's logits predicts “{token}” ({p}).": lambda s: some_step(
        s, lambda one: one.rank == 1 and is_share(s, "p", one.probability)
    ),
}
CELLS = {
    "{kind}, {layer}: query {query} may attend to key {key}.": (True, False, False),
    "{kind}, {layer}: query {query} may attend to key {key}, although the key is "
    "padding.": (True, True, False),
    "{kind}, {layer}: query {query} may attend to key {key}, although the key "
    "comes after the query.": (True, False, True),
    "{kind}, {layer}: query {query} may attend to key {key}, although the key is "
    "padding and comes after the query.": (True, True, True),
    "{kind}, {layer}: query {query} may not attend to key {key}: it is "
    "hidden, although padding and causal mask would not hide it.": (
        False,
        False,
        False,
    ),
    "{kind}, {layer}: query {query} may not attend to key {key}: the key is padding.": (
        False,
        True,
        False,
    ),
    "{kind}, {layer}: query {query} may not attend to key {key}: the key comes "
    "after the query.": (False, False, True),
    "{kind}, {layer}: query {query} may not attend to key {key}: the key is "
    "padding and comes after the query.": (False, True, True),
}
CLAIMS |= {
    words: lambda s, cell=cell: cell_of(s) == cell  # type: ignore[misc]
    for words, cell in CELLS.items()
}
