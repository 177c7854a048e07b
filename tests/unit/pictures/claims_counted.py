"""What sentences claim of counts, sizes and shares: of units, heads, cells and layers.

Each is counted anew, by the model's own modules or from the arrays of the Trace.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.unit.pictures.claims_computed import added, by, fed, layer_of, size
from tests.unit.pictures.claims_figures import keeps
from tests.unit.pictures.claims_masks import is_share
from tests.unit.pictures.claims_numbers import (
    is_pre_norm,
    lens_row,
    log_softmax,
    number,
    place,
    row_bits,
)
from tests.unit.pictures.claims_read import at, rests
from tests.unit.pictures.claims_shown import (
    is_entropy,
    is_tied,
    same_text,
    some_shuffle,
)
from tests.unit.pictures.claims_stated import table
from tests.unit.pictures.sweep import Claims, Predicate, Said
from visformer.pictures.masks import part_mask, parts_of
from visformer.values.arrays import Bools
from visformer.values.facts import Kind

ACTIVATIONS: dict[str, Any] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}


def near(told: object, wanted: float) -> bool:
    """Whether a number is written to three digits or more; NaN is NaN."""
    found = number(str(told).rstrip("%"))
    if math.isnan(found) or math.isnan(wanted):
        return math.isnan(found) and math.isnan(wanted)
    return math.isclose(found, wanted, rel_tol=6e-3, abs_tol=6e-3)


def is_percent(told: object, wanted: float) -> bool:
    return abs(number(str(told).rstrip("%")) - 100 * wanted) < 0.6


# ---- units -------------------------------------------------------------------------


def zeros(said: Said) -> Bools:
    """Return which units the activation makes exactly 0, of all rows, [T, F]."""
    module, x = layer_of(said).feed_forward, fed(said)[0]
    if is_pre_norm(said):
        x = by(layer_of(said).feed_forward_norm, x)
    activation = ACTIVATIONS[said.trace.model.config.activation]
    return np.asarray(activation(torch.from_numpy(by(module.w1, x))).numpy() == 0)


def is_inactive(said: Said) -> bool:
    found = zeros(said)[at(said)[0]]
    share = is_percent(said.fields["share"], float(found.mean()))
    return share and (said.fields["n"], said.fields["units"]) == (
        int(found.sum()),
        len(found),
    )


def are_always_inactive(said: Said) -> bool:
    found = zeros(said)
    always = said.fields["always"] == int(found.all(0).sum())
    return always and int(said.fields.get("n", 1)) == len(found)


# ---- heads -------------------------------------------------------------------------


def is_largest_head(said: Said) -> bool:
    """Whether z of the head, and the largest of all heads, have the sizes said."""
    (kind, layer, head), query = place(said), at(said)[0]
    heads = range(said.trace.heads(kind))
    rows = slice(query, query + 1)
    sizes = [size(said.read.z(kind, layer, one, rows)) for one in heads]
    largest = int(said.fields["largest"]) - 1
    own = near(said.fields["size"], sizes[head]) and said.fields["head"] == head + 1
    most = near(said.fields["most"], sizes[largest])
    return (
        own and most and (math.isnan(max(sizes)) or sizes[largest] > 0.999 * max(sizes))
    )


def adds_size(said: Said) -> bool:
    """Whether some sublayer of the layer adds rows of this size."""
    (kind, layer, _head), query = place(said), at(said)[0]
    kinds: tuple[Kind, ...] = (
        ("encoder",) if kind == "encoder" else ("decoder", "cross")
    )
    rows = [
        added(said.run, one, layer)[query] for one in kinds if one in said.trace.kinds
    ]
    x, both = fed(said)
    rows.append((both - x)[query])
    return any(near(said.fields["size"], size(row)) for row in rows)


def is_output_size(said: Said) -> bool:
    kind, layer, _head = place(said)
    return near(said.fields["size"], size(added(said.run, kind, layer)[at(said)[0]]))


def share_keys(said: Said) -> bool:
    """Whether the heads named share their keys with the head that is shown."""
    kind, _layer, head = place(said)
    each = said.trace.heads(kind) // said.trace.key_heads(kind)
    if "heads" in said.fields:
        return bool(said.fields["heads"] == each == said.trace.heads(kind))
    first, last = int(said.fields["first"]) - 1, int(said.fields["last"]) - 1
    return first <= head <= last and last - first + 1 == each and first % each == 0


def has_heads(*kinds: Kind) -> Predicate:
    """Ask whether some of these kinds has the layers, heads and sizes that are said."""

    def test(said: Said) -> bool:
        numbers = {
            name: int(re.findall(r"\d+", str(said.fields[name]))[0])
            for name in said.fields
            if f"{{{name}}}" in said.template
        }
        trace = said.trace
        sizes = (
            {
                "layers": trace.layers(kind),
                "heads": trace.heads(kind),
                "size": trace.head_size(kind),
                "keys": trace.key_heads(kind),
            }
            for kind in kinds
            if kind in trace.kinds
        )
        return any(numbers.items() <= one.items() for one in sizes)

    return test


def has_layers(*kinds: Kind) -> Predicate:
    return lambda said: (
        said.fields["n"]
        in [said.trace.layers(kind) for kind in kinds if kind in said.trace.kinds]
    )


# ---- scores ------------------------------------------------------------------------


def is_scale_effect(said: Said) -> bool:
    """Whether a row's scores and weights, with the scale and without, are as said."""
    (kind, layer, head), query = place(said), at(said)[0]
    q, k = said.read.queries(kind, layer, head), said.read.keys(kind, layer, head)
    heads = said.read.attention_heads(kind, layer, head)
    products = (q[query] @ k.T).astype(np.float64)
    own = float(said.read.scale(kind, layer))
    other = 1.0 if "root" not in shown_fields(said) else 1 / math.sqrt(q.shape[1])
    bias = heads.scores(slice(query, query + 1))[0, 0] - products * own
    allowed = said.read.mask(kind, layer, head)[query]
    for name, scale in (("", own), ("other_", other)):
        scores = products * scale + bias
        weights = np.exp(log_softmax(np.where(allowed, scores, heads.masked_value)))
        found = {
            "low": scores[allowed].min(),
            "high": scores[allowed].max(),
            "largest": weights.max(),
            "entropy": row_bits(weights),
        }
        if not all(near(said.fields[name + at], float(x)) for at, x in found.items()):
            return False
    return near(said.fields["even"], math.log2(allowed.sum()))


def shown_fields(said: Said) -> set[str]:
    return set(re.findall(r"{(\w+)", said.template))


def is_biased(said: Said) -> bool:
    """Whether bias and product add up to the head's score."""
    (kind, layer, head), (query, key) = place(said), at(said)
    heads = said.read.attention_heads(kind, layer, head)
    score = float(heads.scores(slice(query, query + 1))[0, 0, key])
    q, k = said.read.queries(kind, layer, head), said.read.keys(kind, layer, head)
    product = float(q[query] @ k[key]) * said.read.scale(kind, layer)
    distance = number(said.fields.get("distance", key - query)) == key - query
    told = near(said.fields["score"], score)
    return told and distance and near(said.fields["bias"], score - product)


# ---- masks, positions --------------------------------------------------------------


def counts_cells(said: Said) -> bool:
    """Whether so many cells are open in one of the masks that can be shown."""
    kind, layer, _head = place(said)
    shown = [part_mask(said.trace, kind, p, layer) for p in parts_of(said.trace)]
    told = said.fields["allowed"], said.fields["n"]
    return told in [(int(one.sum()), one.size) for one in shown]


def is_pair(said: Said) -> bool:
    """Whether it is the product or the cosine of the first two positions."""
    one, other = table(said)[:2].astype(np.float64)
    dot = float(one @ other)
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    values = dot, dot / lengths if lengths else math.nan
    return any(near(said.fields["value"], value) for value in values)


def is_difference(said: Said) -> bool:
    """Whether outputs of some shuffled run differ by as much as is said."""

    def test(own: Any, moved: Any, _apart: float) -> bool:
        order = next(o for o, a, b in said.run.shuffles if (a, b) == (own, moved))
        pairs = {
            "encoder": (own.encoder_output[list(order)], moved.encoder_output),
            "decoder": (own.decoder_output, moved.decoder_output),
        }
        return all(
            math.isclose(
                number(said.fields[name]),
                np.abs(a - b).max(),
                rel_tol=6e-2,
                abs_tol=1e-6,
            )
            or bool(np.isnan(a - b).any())
            for name, (a, b) in pairs.items()
        )

    return some_shuffle(test)(said)


# ---- the output and the model ------------------------------------------------------


def is_logit(said: Said) -> bool:
    """Whether logit, their log-sum-exp and the probability fit together."""
    total, logit = (number(said.fields[name]) for name in ("total", "logit"))
    own = float(lens_row(said).chosen_probabilities[-1])
    if math.isnan(own):
        return math.isnan(number(said.fields["p"]))
    logits = said.trace.logits[len(said.trace) - 1]
    made = log_softmax(logits).max()
    inside = (
        said.trace.model.config.softmax_output
    )  # then z is what enters the model's own
    sums = inside or abs(total - (logits.max() - made)) < 6e-3
    return (
        sums and is_share(said, "p", own) and abs(math.log(own) - logit + total) < 2e-2
    )


def parameters(said: Said) -> bool:
    """Whether the parts add up to all, and all to those of the modules."""
    named = ("embeddings", "encoder", "decoder", "output")
    values = [
        int(re.findall(r"[\d,]+", str(said.fields[one]))[0].replace(",", ""))
        for one in named
        if re.search(r"\d", str(said.fields[one]))
    ]
    if said.run.checkpoint is None:
        return True
    model = said.run.checkpoint.model
    every = sum({id(one): one.numel() for one in model.parameters()}.values())
    return sum(values) == every == int(said.fields["n"])


def width(said: Said) -> bool:
    told, config = said.fields, said.trace.model.config
    sizes = int(told["width"]) == told["n"] * told["size"] == config.d_model
    return sizes and int(told["inner"]) == config.feed_forward


def of_config(**wanted: str) -> Predicate:
    return lambda said: all(
        said.fields[field] == getattr(said.trace.model.config, name)
        for field, name in wanted.items()
    )


def is_goal(said: Said) -> bool:
    smoothing, words = said.run.smoothing, said.trace.model.config.target_vocabulary
    assert smoothing
    return near(said.fields["goal"], 1 - smoothing + smoothing / words)


def ends(said: Said) -> bool:
    assert said.run.baseline is not None
    return said.run.baseline.steps[-1].id == said.trace.model.eos


CLAIMS: Claims = {
    # units
    "{token}: {n:,} of {units:,} units are exactly 0 ({share}).": is_inactive,
    "Units that are 0 for all {n:,} tokens here: {always:,} ({share}).": (
        are_always_inactive
    ),
    "On average, {share} of a token's units are 0.": lambda s: is_percent(
        s.fields["share"], float(zeros(s).mean())
    ),
    "{token}: {element} = {value} is kept: in training {value} / {left} = {result}.": (
        lambda s: near(
            s.fields["result"], number(s.fields["value"]) / number(s.fields["left"])
        )
    ),
    "{sublayer} adds size {size}, cosine {cosine}": adds_size,
    # heads
    "{token}: head {head} fills {columns}. Its z has size {size}; the largest z is "
    "that of head {largest}, of size {most}.": is_largest_head,
    "{token}: output[{dimension}] = {sum} = {result}. The output has size {size}.": (
        is_output_size
    ),
    "All {heads} heads share these keys and values.": share_keys,
    "Heads {first} to {last} share these keys and values.": share_keys,
    "Heads {first} and {last} share these keys and values.": share_keys,
    "rests on “{token}”: {weight}": rests,
    "Encoder self-attention: {layers}, {heads} × {size}.": has_heads("encoder"),
    "Encoder self-attention: {layers}, {heads} × {size}, {keys}.": has_heads("encoder"),
    "Decoder self-attention: {layers}, {heads} × {size}.": has_heads("decoder"),
    "Decoder self-attention: {layers}, {heads} × {size}, {keys}.": has_heads("decoder"),
    "Cross-attention: {layers}, {heads} × {size}.": has_heads("cross"),
    "Cross-attention: {layers}, {heads} × {size}, {keys}.": has_heads("cross"),
    "Self-attention  {heads} × {size}": has_heads("encoder", "decoder"),
    "Self-attention  {heads} × {size}, {keys}": has_heads("encoder", "decoder"),
    "Cross-attention  {heads} × {size}": has_heads("cross"),
    "Cross-attention  {heads} × {size}, {keys}": has_heads("cross"),
    "The encoder has {n} such layers.": has_layers("encoder"),
    "The decoder has {n} such layers.": has_layers("decoder", "cross"),
    # scores
    "Without the scale this row's scores would range from {other_low} to {other_high} "
    "instead of {low} to {high}: its largest weight would be {other_largest} instead "
    "of {largest}, its entropy {other_entropy} bits instead of {entropy} (equal "
    "weights: {even}). Mean entropy of the rows: {other_mean} bits without, {mean} "
    "with the scale.": is_scale_effect,
    "Divided by √d_k = {root}, this row's scores would range from {other_low} to "
    "{other_high} instead of {low} to {high}: its largest weight would be "
    "{other_largest} instead of {largest}, its entropy {other_entropy} bits instead of "
    "{entropy} (equal weights: {even}). Mean entropy of the rows: {mean} bits without, "
    "{other_mean} with the scale.": is_scale_effect,
    "{product} The bias of this cell is {bias}, so the score is {score}.": is_biased,
    "{product} At distance {distance} (key − query) the bias is {bias}, so the score "
    "is {score}.": is_biased,
    # masks, positions, what is kept
    "{allowed:,} of {n:,} cells may attend.": counts_cells,
    "{one} and {other}: {measure} {value}": is_pair,
    "Largest difference: {encoder} in a token's encoder output, {decoder} in the "
    "decoder's output (largest magnitude {size}).": is_difference,
    "Step 1 makes the first key and value, which are kept.": lambda s: (
        keeps(s) and len(s.trace) == 1
    ),
    "The keys and values of cross-attention are computed once, from the encoder's "
    "output, and used at every step.": lambda s: "cross" in s.trace.kinds and keeps(s),
    # the output and the model
    "z(“{token}”) = {terms} = {logit}.  LSE = ln Σ exp(z) over all {count:,} logits = "
    "{total}.  p = exp({logit} − {total}) = exp({difference}) = {p}.": is_logit,
    "Entropy H = −Σ p log₂ p over all tokens: now {bits} bits, as uncertain as between "
    "{alike} equally likely tokens. 0 is certain.": is_entropy,
    "{n:,} parameters: embeddings {embeddings:,}, encoder {encoder:,}, decoder "
    "{decoder:,}, output {output}": parameters,
    **dict.fromkeys(
        (
            "{n:,} parameters and those shared with the {block}",
            "parameters shared with the {block}",
            "The output projection uses the same table.",
        ),
        lambda s: bool(
            s.trace.model.config.shared_embedding or s.trace.model.config.tied_output
        ),
    ),
    "{n:,} parameters; the file does not say how many each block has": lambda s: (
        not s.trace.model.blocks
    ),
    "width {width:,} = {n} heads × {size}; feed-forward {inner:,}, {activation}": width,
    "width {width:,} = {n} heads × {size}; feed-forward {inner:,}, {activation}, "
    "gated": width,
    "{formula}, from {width} to {inner} numbers per token": of_config(
        width="d_model", inner="feed_forward"
    ),
    "{formula}, from {inner} back to {width} numbers per token": of_config(
        width="d_model", inner="feed_forward"
    ),
    "one embedding table for both sides; output projection tied to the {block}": (
        lambda s: is_tied(s, both=True, output=True)
    ),
    "The softmax is part of the model. Each row of Z gives a distribution over the "
    "next token:": lambda s: bool(s.trace.model.config.softmax_output),
    "The softmax is outside the model. Each row of Z gives a distribution over the "
    "next token:": lambda s: not s.trace.model.config.softmax_output,
    "With S = {length:,}, 2 S + 50 = {sum:,}.": lambda s: (
        s.fields["length"] == (len(s.trace.source) or s.trace.whole.prompt)
        and s.fields["sum"] == 2 * s.fields["length"] + 50
    ),
    "This model was trained with label smoothing ε = {share}: even where it is sure, "
    "the right token's target was 1 − ε + ε/{tokens:,} = {goal}, and {share} was "
    "spread over all tokens. So p near 1 is rare.": is_goal,
    "This model was trained without label smoothing: p may come near 1.": lambda s: (
        s.run.smoothing == 0
    ),
    "Modified run: {changes}. Original text: “{text}”": lambda s: (
        not same_text(s) and ends(s)
    ),
    "Modified run: {changes}. Original text, without its end: “{text}”": lambda s: (
        not same_text(s) and not ends(s)
    ),
    "{n:,} of {tokens:,} source tokens ({share}) are unknown to this model.": (
        lambda s: s.fields["n"] == sum("<unk" in one for one in s.trace.source)
    ),
    "There is no logit lens: this trace has no steps.": lambda s: not s.trace.steps,
}
