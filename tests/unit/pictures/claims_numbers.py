"""What sentences claim about norms, positions, lenses, NaN, ties and ranks.

A claim is a template, and a predicate over the arrays of the run that it is said of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.pictures.sweep import Claims, Said, reads_as
from visformer.pictures.attention.maps import layer_and_head
from visformer.values.arrays import Bools, Floats
from visformer.values.changes.run_change import ActingPoint
from visformer.values.changes.stream_changes import Embedding
from visformer.values.facts import Kind
from visformer.values.step import Origin


def number(text: object) -> float:
    """Read a number as people read it."""
    written = str(text).replace("−", "-").replace("∞", "inf").replace(",", "")
    return float(written)


def is_near(said: Said, field: str, wanted: float, most: float = 6e-3) -> bool:
    """Whether a field is a number, to the digits that are written; NaN is NaN."""
    told = number(said.fields[field])
    if math.isnan(wanted) or math.isnan(told):
        return math.isnan(wanted) and math.isnan(told)
    return abs(told - wanted) <= most + 6e-4 * abs(wanted)


# ---- attention ---------------------------------------------------------------------


def place(said: Said) -> tuple[Kind, int, int]:
    """Return the kind, the layer and the head that are looked at."""
    at = said.scene.selection
    return at.kind, *layer_and_head(said.trace, at, at.kind)


def head(said: Said) -> Floats:
    """Return the weights of the head that is looked at, [Q, K]."""
    return said.read.attention(*place(said))


def layer_heads(said: Said) -> Floats:
    """Return the weights of all heads of its layer, [H, Q, K]."""
    return said.trace.attention(*place(said)[:2])


def mask(said: Said) -> Bools:
    return said.read.mask(*place(said)[:2])


def row(said: Said) -> int:
    """Return the query in focus, or the last one."""
    at, cell = said.scene.selection, said.scene.selection.cell
    return len(said.trace.tokens(at.kind)[0]) - 1 if cell is None else cell.query


def rows_named(said: Said) -> Iterator[Floats]:
    """Yield the rows that have the name that is said."""
    kind = said.scene.selection.kind
    names = said.read.tokens(kind)[0]
    if kind == "cross" and said.trace.steps:
        names = tuple(step.token for step in said.trace.steps)
    for name, weights in zip(names, head(said), strict=True):
        if reads_as(name) == str(said.fields["query"]):
            yield weights


def written_next(said: Said, *origins: Origin) -> bool:
    """Whether the row in focus reads most, and the token named was chosen there so."""
    at, whole = row(said), said.trace.whole
    step = said.trace.steps[at]
    follows = at + 1 == len(whole) or whole.target[at + 1] == step.token
    named = reads_as(step.token) == str(said.fields["query"])
    return reads_most(said) and named and follows and step.origin in origins


def is_written(said: Said) -> bool:
    return written_next(said, "model", "drawn", "rule", "beam") and not is_next(said)


def is_next(said: Said) -> bool:
    """Whether the row in focus is the last of a pass: nothing was chosen there."""
    steps, at = said.trace.whole.steps, row(said)
    fed = [step.origin == "reference" for step in steps]
    passed = len(steps) > 1 and fed == [*[True] * (len(steps) - 1), False]
    best = steps[at].candidates[0].id == steps[at].id
    return passed and at == len(steps) - 1 and best and written_next(said, "model")


def most_read(weights: Floats) -> int:
    """Return how many keys have a row's largest weight, to rounding."""
    return int((weights >= weights.max() * (1 - 1e-6)).sum())


def reads_most(said: Said) -> bool:
    """Whether a row named reads one key with the weight said, and no other as much."""
    keys = [reads_as(key) for key in said.read.tokens(said.scene.selection.kind)[1]]
    return any(
        most_read(weights) == 1
        and keys[int(weights.argmax())] == str(said.fields["key"])
        and is_near(said, "weight", float(weights.max()))
        for weights in rows_named(said)
    )


def reads_alike(said: Said) -> bool:
    return any(
        most_read(weights) == said.fields["n"]
        and is_near(said, "weight", float(weights.max()))
        for weights in rows_named(said)
    )


def sums_to_one(weights: Floats) -> bool:
    return bool((np.abs(weights.sum(-1) - 1) < 1e-3).all())


def log_softmax(scores: Floats) -> NDArray[np.float64]:
    wide = scores - scores.max(-1, keepdims=True).astype(np.float64)
    return np.asarray(wide - np.log(np.exp(wide).sum(-1, keepdims=True)))


def row_bits(shares: NDArray[Any]) -> NDArray[Any]:
    """Return the entropy of each row in bits; of a row with NaN, NaN."""
    logs = np.log2(np.where(shares > 0, shares, 1))
    return np.asarray(-(shares * logs).sum(-1))


def mean_bits(weights: Floats) -> float:
    """Return the mean entropy in bits of the rows that are numbers."""
    known = weights[~np.isnan(weights).any(-1)].astype(np.float64)
    if not len(known):
        return math.nan
    return float(row_bits(known / known.sum(-1, keepdims=True)).mean())


def masked_weights(said: Said) -> Floats:
    return head(said)[~said.read.mask(*place(said))]


def scale(said: Said) -> float:
    """Return the scale times the root of the head's width: 1 in the paper."""
    kind, layer, _head = place(said)
    known = said.trace.scale(kind, layer) * math.sqrt(said.trace.head_size(kind))
    return float(known)


def inputs_are_finite(said: Said) -> bool:
    read, at = said.read, place(said)
    query, keys = read.queries(*at)[row(said)], read.keys(*at)
    return bool(np.isfinite(query).all() and np.isfinite(keys).all())


def even(said: Said) -> float:
    """Return the mean largest weight if each row read its open keys alike."""
    allowed = mask(said)
    counts = np.where(allowed.any(-1), allowed.sum(-1), allowed.shape[1])
    return float((1 / counts).mean())


# ---- the stream, the output --------------------------------------------------------


def is_pre_norm(said: Said) -> bool:
    return bool(said.trace.model.config.norm_first)


def positions_added(said: Said) -> Floats:
    """Return what enters the encoder beside the embeddings, [S, D]."""
    assert said.run.checkpoint is not None
    model = said.run.checkpoint.model
    table = model.source_embedding.weight.detach().numpy()
    factor = math.sqrt(table.shape[1]) if model.config.embedding_scale else 1.0
    entered = said.trace.hidden("encoder", 0)
    scaled: Floats = (factor * table).astype(np.float32)
    ids = said.trace.source_ids.copy()
    for change in said.trace.intervention.of(Embedding, side="source"):
        ids[change.row] = said.run.checkpoint.tokenizer.id_of("source", change.word)
    made: Floats = entered - scaled[ids]
    return made


def is_scaled(said: Said) -> bool:
    return bool(said.trace.model.config.embedding_scale)


def changed_at(said: Said, point: ActingPoint) -> bool:
    kind, layer, _head = place(said)
    return said.trace.intervention.at(kind, layer).acts(point)


def adds(said: Said) -> bool:
    if said.run.checkpoint is None:  # its embeddings are not at hand
        return bool(said.trace.model.config.positions != "none")
    found = positions_added(said)
    return bool(np.isnan(found).any() or np.abs(found).max() > 1e-4)


def positions_are_changed(said: Said) -> bool:
    return said.trace.intervention.positions is not None


def adds_own(said: Said) -> bool:
    if said.run.table is None:
        return adds(said)
    found = positions_added(said)
    own = said.run.table[: len(found)]
    return bool(np.isnan(found).any() or np.allclose(found, own, atol=1e-4))


def lens_row(said: Said) -> Any:
    lens = said.scene.lens
    return None if lens is None else lens.rows.get(len(said.trace) - 1)


def settled(said: Said) -> bool:
    """Whether the step's token is the best from the layer said on, and not before."""
    look, at = lens_row(said), int(said.fields["layer"])
    best = look.chosen_probabilities >= look.probabilities.max(-1) * (1 - 1e-6)
    return bool(best[at:].all() and (at == 0 or not best[at - 1]))


def ranks_are_known(said: Said) -> bool:
    """Whether a rank stands where there is a probability, and nowhere else."""
    ranks = str(said.fields["ranks"]).split(" → ")
    known = ~np.isnan(lens_row(said).chosen_probabilities)
    return bool(([rank != "–" for rank in ranks] == known).all())


def others(said: Said) -> bool:
    """Whether what the best three leave is what is said; NaN of NaN."""
    candidates = said.trace.steps[-1].candidates[:3]
    rest = 1 - math.fsum(one.probability for one in candidates)
    return is_near(said, "probability", rest)


def is_nan(said: Said) -> bool:
    return bool(np.isnan(head(said)[row(said)]).any())


CLAIMS: Claims = {
    # attention
    "“{query}” reads “{key}” most ({weight}): rows are source words; {strong} show "
    "what they read.": reads_most,
    "After “{query}” it looks at “{key}” most ({weight}): rows are words being "
    "written; {strong} show where they look.": lambda s: (
        reads_most(s) and not s.trace.steps
    ),
    "Writing “{query}”, this head looks at “{key}” most ({weight}): rows are words "
    "being written; {strong} show where they look.": is_written,
    "Where “{query}” was fed, this head looks at “{key}” most ({weight}): rows are "
    "words being written; {strong} show where they look.": (
        lambda s: written_next(s, "forced", "reference")
    ),
    "The best next token would be “{query}”. There this head looks at “{key}” most "
    "({weight}); {strong} show where rows look.": is_next,
    "“{query}” reads {n:,} tokens alike ({weight} each) and no other more.": (
        reads_alike
    ),
    "The weights of “{query}” are NaN: what it reads most is unknown.": lambda s: any(
        np.isnan(weights).any() for weights in rows_named(s)
    ),
    "Entropy of a row: H = −Σ w log₂ w, in bits: 0 reads one token, log₂ n reads n "
    "tokens alike. Mean over the rows of {head}: {value}.": lambda s: is_near(
        s, "value", mean_bits(head(s))
    ),
    "Rows that do not sum to 1 are divided by their sum.": lambda s: (
        not sums_to_one(np.nan_to_num(head(s), nan=1 / head(s).shape[1]))
    ),
    "Rows of NaN are left out.": lambda s: bool(np.isnan(head(s)).any()),
    "The largest weight of a row, mean over the rows: {weight}. If every row read the "
    "keys that are open to it alike it would be {even}; these words are shown below "
    "{most}.": lambda s: is_near(s, "even", even(s)),
    "{shape} weights changed": lambda s: changed_at(s, "weights"),
    "softmax over each row, then changed by {changes}": lambda s: changed_at(
        s, "weights"
    ),
    "Then z is changed by {changes}.": lambda s: changed_at(s, "heads"),
    "{shape} rows sum to 1": lambda s: sums_to_one(layer_heads(s)),
    "{shape} later keys cut off": lambda s: not sums_to_one(layer_heads(s)),
    "{shape} some rows are NaN": lambda s: bool(np.isnan(layer_heads(s)).any()),
    "Rollout (Abnar and Zuidema 2020): each layer's mean of {heads} heads becomes "
    "½ A + ½ I, for the residual, with rows that sum to 1; the layers 1 to {layer} "
    "are multiplied.": lambda s: place(s)[0] != "cross",
    "One head: weights A as captured from the model. On screen: {head} of {heads} "
    "heads.": lambda s: place(s)[:2] in s.trace.captured,
    "One head: weights A = softmax of its masked scores. On screen: {head} of {heads} "
    "heads.": lambda s: place(s)[:2] not in s.trace.captured,
    # computation
    " · rows read later tokens, so those of the whole pass are shown": lambda s: (
        s.read is not s.trace
    ),
    "Softmax turns a row of scores into weights: those of “{query}” are NaN.": is_nan,
    "The query or a key is not finite (NaN or infinity), so that the row's weights are "
    "NaN.": lambda s: is_nan(s) and not inputs_are_finite(s),
    "The scores of this query overflow float32: the row's weights are NaN.": lambda s: (
        is_nan(s) and inputs_are_finite(s)
    ),
    "This query may attend to nothing, so that its weights are NaN.": lambda s: (
        is_nan(s) and not mask(s)[row(s)].any()
    ),
    "Scores times {scale}: 1 / √{d}, as sums of {d} independent products spread √{d} "
    "times as wide as one.": lambda s: math.isclose(scale(s), 1, rel_tol=1e-5),
    "Scores times {scale}: in the paper it would be 1 / √{d}.": lambda s: (
        not math.isclose(scale(s), 1, rel_tol=1e-5)
    ),
    "Where the mask is False, the score is replaced by {value}; here it is False "
    "nowhere": lambda s: bool(s.trace.mask(*place(s)).all()),
    "Where the mask is False, the score is replaced by {value}; the largest weight of "
    "a masked key is {most}": lambda s: is_near(
        s, "most", float(masked_weights(s).max()), 6e-5
    ),
    "Where the mask is False, the score is replaced by {value}; some rows of weights "
    "are NaN": lambda s: bool(np.isnan(masked_weights(s)).any()),
    # norms
    "What “{query}” read is added to what it was: the residual. Then comes the norm.": (
        lambda s: not is_pre_norm(s)
    ),
    "What “{query}” read is added to what it was: the residual. No norm follows: in a "
    "pre-norm model it comes before.": is_pre_norm,
    "x + Sublayer(norm(x)): the norm comes before the sublayer (pre-norm)": is_pre_norm,
    "The sum, of size {size}, is passed on without a norm.": is_pre_norm,
    # positions
    "{embedding}, plus its position's row, is what enters layer 1.": adds_own,
    "{embedding}, plus a row of the table of positions, is what enters layer 1.": adds,
    "{embedding} is what enters layer 1: no position is added.": lambda s: not adds(s),
    "{token}: x is embedding + position (x − position is the scaled embedding).": (
        lambda s: adds(s) and is_scaled(s)
    ),
    "{token}: x is the scaled embedding; no position is added.": lambda s: (
        not adds(s) and is_scaled(s)
    ),
    "A token's embedding times √{width} = {scale}": lambda s: (
        is_scaled(s) and is_near(s, "scale", math.sqrt(s.fields["width"]))
    ),
    "Changed in this run: {change}": positions_are_changed,
    "Changed in this run: {change}.": positions_are_changed,
    "no positional encoding": lambda s: not adds(s),
    # the output
    "A longer bar is a likelier next token; “{token}” is the best from layer {layer} "
    "of {layers} on.": settled,
    "A longer bar is a likelier next token: {choice}. The maps show what each layer "
    "would have said.": lambda s: lens_row(s) is not None,
    "A longer bar is a likelier next token: {choice}.": lambda s: lens_row(s) is None,
    "“{token}” through the layers: rank {ranks}; p {shares}.": ranks_are_known,
    "The best token has {p} now.": lambda s: is_near(
        s, "p", max(one.probability for one in s.trace.steps[-1].candidates)
    ),
    "{n:,} others  {probability}": others,
    "The run keeps the best {kept} of {vocabulary:,} tokens of each step. Type any "
    "other one to force it.": lambda s: (
        s.fields["kept"] == len(s.trace.steps[-1].candidates)
    ),
}
