"""What else sentences state of norms, steps, rows without keys, leaks and positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.pictures.claims_masks import (
    above,
    changed_cells,
    counted,
    is_share,
    key_pads,
    some_step,
    weights,
)
from tests.unit.pictures.claims_numbers import (
    adds_own,
    head,
    is_near,
    is_pre_norm,
    mask,
    row,
    scale,
)
from tests.unit.pictures.sweep import Claims, Predicate, Said


def is_step(origin: str, *, best: bool) -> Predicate:
    """Ask who chose a token, and whether it is the best of its row."""
    return lambda said: some_step(
        said,
        lambda one: (
            one.origin == origin
            and is_share(said, "p", one.probability)
            and best == (one.rank == 1)
        ),
    )


def is_layered(*, pre: bool, final: bool) -> Predicate:
    return lambda said: (
        (is_pre_norm(said), said.trace.model.config.final_norm)
        == (
            pre,
            final,
        )
    )


def is_alike(said: Said) -> bool:
    """Whether the row in focus may read nothing, and reads all keys alike."""
    read = head(said)[row(said)]
    return not mask(said)[row(said)].any() and bool(np.ptp(read) < 1e-6)


def sums_to(said: Said) -> bool:
    return is_near(said, "total", float(head(said)[row(said)].sum()))


def is_leak(said: Said, *, later: bool) -> bool:
    """Whether some weight on what must not be read is the one that is said."""
    trace = said.trace
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            read = weights(trace, kind, layer)
            if later and kind == "decoder":
                found = above(read)
            else:
                found = np.zeros_like(read) if later else read * key_pads(trace, kind)
            if any(is_share(said, "weight", float(one)) for one in found[found > 0]):
                return True
    return False


def no_number(said: Said) -> bool:
    return any(np.isnan(step.probability) for step in said.trace.steps)


def table(said: Said) -> Any:
    assert said.run.table is not None
    return said.run.table


def is_sinusoid(said: Said, *, halves: bool) -> bool:
    """Whether the model's table is the paper's formula, in this order."""
    length, width = table(said).shape
    each = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    waves = np.stack([np.sin(each), np.cos(each)], axis=1 if halves else 2)
    return bool(np.allclose(table(said), waves.reshape(length, width), atol=1e-4))


CLAIMS: Claims = {
    # who chose
    **{
        f"“{{token}}” ({{p}}) {words}; the softmax of the row's logits predicts it "
        "too.": is_step(origin, best=True)
        for origin, words in (
            ("forced", "was forced by you"),
            ("reference", "is fed from the reference"),
        )
    },
    **{
        f"“{{token}}” ({{p}}, rank {{rank:,}}) {words}; the softmax of the row's "
        "logits predicts “{best}” ({best_p}).": is_step(origin, best=False)
        for origin, words in (
            ("forced", "was forced by you"),
            ("reference", "is fed from the reference"),
        )
    },
    "All its probabilities are NaN: it predicts nothing; the step's token is "
    "“{token}”.": no_number,
    "“{token}”; all probabilities are NaN": no_number,
    "{origin}: “{token}”\nall probabilities are NaN:\nno rank, no entropy": no_number,
    "Nothing is decoded yet: step forward to see the first row.": lambda s: (
        not len(s.trace)
    ),
    "Nothing is decoded yet: step forward to see what the decoder predicts.": (
        lambda s: not len(s.trace)
    ),
    "This model has no decoder: it predicts no next token.": lambda s: (
        "decoder" not in s.trace.kinds
    ),
    "Step {n}: the decoder reads {n:,} tokens; its newest row is “{row}”.": lambda s: (
        s.fields["n"] == len(s.trace)
    ),
    # masks
    "{value}, masked; this query may attend to nothing, so all keys get equal "
    "weights": is_alike,
    "{kind}: {query} reads the pad {key} with weight {weight} ({head}).": lambda s: (
        is_leak(s, later=False)
    ),
    "{kind}: {query} reads the later token {key} with weight {weight} ({head}).": (
        lambda s: is_leak(s, later=True)
    ),
    "Differs from padding and causal mask in {n:,} cells: {cell}": lambda s: counted(
        s, changed_cells(s), "n"
    ),
    "Query {query}: a hidden score is replaced by {value} before the softmax. The "
    "weights add up to {total}.": sums_to,
    "Query {query}: score × mask makes a hidden score 0, and e⁰ = 1 still gets a "
    "weight. The weights add up to {total}.": sums_to,
    "QKᵀ / √d_k with d_k = {width}: sums of {width} independent products spread "
    "√{width} times as wide as one product, which the division undoes": lambda s: (
        abs(scale(s) - 1) < 1e-5
    ),
    # norms
    "{encoder} + {decoder} layers, pre-norm (a norm before each sublayer), with final "
    "norms": is_layered(pre=True, final=True),
    "{encoder} + {decoder} layers, pre-norm (a norm before each sublayer), without "
    "final norms": is_layered(pre=True, final=False),
    "{encoder} + {decoder} layers, post-norm (Add & Norm: a norm after each +), with "
    "final norms": is_layered(pre=False, final=True),
    "{encoder} + {decoder} layers, post-norm (Add & Norm: a norm after each +), "
    "without final norms": is_layered(pre=False, final=False),
    "Pre-norm: it comes before the sublayer, and the residual connection bypasses "
    "it.": is_pre_norm,
    "Post-norm: it comes after the +, so the whole stream passes through it.": (
        lambda s: not is_pre_norm(s)
    ),
    "norm(x + Sublayer(x)): the norm comes after the sum (post-norm); {norm}": (
        lambda s: not is_pre_norm(s)
    ),
    "Queries, keys and values are projected from X, the normalised stream ({norm}).": (
        is_pre_norm
    ),
    "The queries are projected from X, the normalised stream ({norm}); the keys and "
    "values from M, the encoder's output.": is_pre_norm,
    "X = norm(x) of the query": is_pre_norm,
    "Logit lens: the final norm of each layer's stream, then {projection}, then "
    "softmax.": lambda s: s.trace.model.config.final_norm,
    "Logit lens: each layer's stream as it is (there is no final norm), then "
    "{projection}, then softmax.": lambda s: not s.trace.model.config.final_norm,
    "Logit lens: each layer's stream, which ends with the layer's own norm, then "
    "{projection}, then softmax.": lambda s: (
        not is_pre_norm(s) and not s.trace.model.config.final_norm
    ),
    "positions {positions}, at most {most:,}; norms before each sublayer; activation "
    "{activation}": is_pre_norm,
    "positions {positions}, at most {most:,}; norms after each sublayer; activation "
    "{activation}": lambda s: not is_pre_norm(s),
    # positions
    "Each row is a position: fast waves in some dimensions, slow ones in others, so "
    "that no two rows are alike.": lambda s: (
        s.run.table is None or len(np.unique(table(s), axis=0)) == len(table(s))
    ),
    "The row of pos p is added to the token at that position.": adds_own,
    "The positional encodings of “{model}” are not known: only its attention is.": (
        lambda s: s.trace.model.known is None
    ),
    "{count:,} positions × {width:,} dimensions: the paper's sinusoids, sin(pos / "
    "10000^(2i/{width})) in dim 2i, cos in dim 2i+1 (the model's table equals the "
    "formula).": lambda s: is_sinusoid(s, halves=False),
    "{count:,} positions × {width:,} dimensions: the paper's sinusoids, sin(pos / "
    "10000^(2i/{width})) in dim i, cos in dim {half}+i (halves: all sines first, i < "
    "{half}; the model's table equals the formula).": lambda s: is_sinusoid(
        s, halves=True
    ),
    "{count:,} positions × {width:,} dimensions: not the paper's sinusoids; every "
    "figure is measured from the table.": lambda s: (
        not (is_sinusoid(s, halves=False) or is_sinusoid(s, halves=True))
    ),
}
