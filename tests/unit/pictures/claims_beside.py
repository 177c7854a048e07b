"""What sentences claim of two runs side by side, of a change's effect, of a model.

``said.run.beside`` is the first of the two runs, called "one"; the run on screen is the
second. Divergences and sums are made here again, from the arrays of both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from tests.existing import existing
from tests.unit.pictures.claims_numbers import is_near, log_softmax, number, row_bits
from tests.unit.pictures.sweep import Claims, Predicate, Said, reads_as
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import KIND_NAMES

ROUNDING = 1e-4  # in bits, and of log p


# ---- two runs ----------------------------------------------------------------------


def both(said: Said) -> tuple[Trace, Trace]:
    assert said.run.beside is not None
    return said.run.beside, said.trace


def kind_of(said: Said) -> Kind:
    return next(
        kind for kind, name in KIND_NAMES.items() if name == said.fields["kind"]
    )


def alike(one: Trace, other: Trace) -> int:
    """Return how many rows have read the same tokens; the first starts a target."""
    tokens = zip(one.target[1:], other.target[1:], strict=False)
    same = [a == b for a, b in tokens]
    most = min(len(one), len(other))
    return min(most, 1 + (same.index(False) if False in same else len(same)))


@cache
def divergences(one: Trace, other: Trace, kind: Kind) -> Floats:
    """Return of each head how far its rows are apart on average, in bits, [L, H].

    It is the entropy of the mean of two rows less the mean of their entropies. Rows and
    keys are those that both have, and in the decoder as far as both read the same.
    """
    rows = len(one.source) if kind == "encoder" else alike(one, other)
    keys = rows if kind == "decoder" else len(one.source)
    layers = min(one.layers(kind), other.layers(kind))
    heads = min(one.heads(kind), other.heads(kind))
    p, q = (
        trace.attention(kind)[:layers, :heads, :rows].astype(np.float64)
        for trace in (one, other)
    )
    # what is read beyond these keys counts as one
    p, q = (
        np.concatenate([x[..., :keys], x[..., keys:].sum(-1, keepdims=True)], -1)
        for x in (p, q)
    )
    apart = row_bits((p + q) / 2) - (row_bits(p) + row_bits(q)) / 2
    apart[np.isnan(p).any(-1) | np.isnan(q).any(-1)] = np.nan
    return np.asarray(apart.mean(-1))


def comparable(said: Said) -> bool:
    """Whether tokens are paired one by one, as ``divergences`` has them."""
    one, other = both(said)
    at = alike(one, other) - 1
    a, b = (
        trace.steps[at].text if 0 <= at < len(trace.steps) else ""
        for trace in (one, other)
    )
    cut = a != b and (a.startswith(b) or b.startswith(a)) and bool(a and b)
    return one.source == other.source and not cut


def is_head_apart(said: Said) -> bool:
    """Whether the head named differs most, by as much as is said."""
    if not comparable(said):
        return True
    found = divergences(*both(said), kind_of(said))
    layer, head = (int(x) - 1 for x in re.findall(r"\d+", str(said.fields["head"])))
    most = float(found[layer, head])
    bits = is_near(said, "bits", most, 1e-4 + 6e-3 * most)
    return bits and most >= float(found.max()) - 1e-6


def heads_are_same(said: Said) -> bool:
    if not comparable(said):
        return True
    return bool((divergences(*both(said), kind_of(said)) < ROUNDING).all())


def heads_are_nan(said: Said) -> bool:
    found = divergences(*both(said), kind_of(said))
    rows = kind_of(said) == "encoder" or alike(*both(said))
    return bool(rows) and int(np.isnan(found).sum()) == said.fields["n"]


def part_at(said: Said) -> bool:
    """Whether both wrote the same before the steps named, and these tokens there."""
    (one, other), told = both(said), said.fields
    steps = int(told["step"]), int(told.get("there", told["step"]))
    a, b = one.steps[steps[0] - 1], other.steps[steps[1] - 1]
    before = (
        "" if at < 2 else trace.steps[at - 2].text
        for trace, at in zip((one, other), steps, strict=True)
    )
    names = tuple(reads_as(step.token).strip() for step in (a, b))
    same = next(before) == next(before) and a.token != b.token
    return same and (told["token"], told["instead"]) == names


def never_parts(said: Said) -> bool:
    one, other = both(said)
    shared = min(len(one.steps), len(other.steps))
    pairs = zip(one.steps[:shared], other.steps[:shared], strict=True)
    return all(a.token == b.token for a, b in pairs)


def is_log_p(said: Said) -> bool:
    """Whether log p of what the first run wrote is that of so many tokens in both."""
    one, other = both(said)
    known = []
    for a, b in list(zip(one.steps, other.steps, strict=False))[: alike(one, other)]:
        found = [c.probability for c in b.candidates if c.token == a.token]
        p = [b.probability] if b.token == a.token else found
        if p and not math.isnan(a.probability + p[0]):
            known.append((a.probability, p[0]))
    if not known:  # pieces that cover the same characters are added up
        return True
    sums = (math.fsum(map(math.log, side)) for side in zip(*known, strict=True))
    told = (number(said.fields[name]) for name in ("one", "other"))
    near = all(
        abs(x - y) < 6e-4 + 1e-4 * abs(y) for x, y in zip(told, sums, strict=True)
    )
    return near and said.fields["n"] == len(known)


def are_equal(said: Said) -> bool:
    one, other = both(said)
    same = one.source == other.source and one.text == other.text
    heads = (divergences(one, other, kind) for kind in one.kinds)
    return (
        same
        and one.kinds == other.kinds
        and never_parts(said)
        and all(bool((found < ROUNDING).all()) for found in heads)
    )


def compares_rows(said: Said) -> bool:
    return not comparable(said) or int(said.fields["n"]) == alike(*both(said))


def has_alone(said: Said) -> bool:
    """Whether only the run named has a kind of attention."""
    runs = dict(zip(("one", "other"), both(said), strict=True))
    named = said.fields["run"]
    return [name for name, trace in runs.items() if kind_of(said) in trace.kinds] == [
        named
    ]


def sizes_are(said: Said) -> bool:
    kind = kind_of(said)
    found = [(trace.layers(kind), trace.heads(kind)) for trace in both(said)]
    names = ("layers", "heads"), ("others", "more")
    told = [tuple(said.fields[name] for name in pair) for pair in names]
    return told == found and found[0] != found[1]


def are_other_sentences(said: Said) -> bool:
    """Whether the sentences differ, and each group leaves one token less of both."""
    one, other = both(said)
    counts = len(one.source) + len(other.source) - 2 * int(said.fields["n"])
    return one.source_text != other.source_text and said.fields["left"] == counts


# ---- what a change did -------------------------------------------------------------


def passes(said: Said) -> tuple[Trace, Trace]:
    """Return the passes without the change and with it, over the same tokens."""
    return existing(said.run.both_ways)


def ways(said: Said) -> Iterator[Floats]:
    for trace in passes(said):
        yield trace.logits[len(said.trace) - 1]


def is_told(said: Said, name: str, wanted: float) -> bool:
    return is_near(said, name, wanted, 2e-3)


def is_effect(said: Said) -> bool:
    """Whether log p and ranks of the step's token are those of both passes."""
    id = passes(said)[1].steps[len(said.trace) - 1].id
    before, after = ways(said)
    was, now = (float(log_softmax(one)[id]) for one in (before, after))
    ranks = [1 + int((one > one[id]).sum()) for one in (before, after)]
    told = [said.fields[name] for name in ("before", "after")]
    return (
        is_told(said, "was", was)
        and is_told(said, "now", now)
        and is_near(said, "effect", now - was, 2e-3 + 6e-3 * abs(now - was))
        and told == ranks
    )


def is_margin(said: Said) -> bool:
    """Whether the token's logit is so much above that of the original's other best."""
    id = passes(said)[1].steps[len(said.trace) - 1].id
    before, after = ways(said)
    best = next(int(at) for at in np.argsort(-before, kind="stable") if at != id)
    pairs = zip(("was", "now"), (before, after), strict=True)
    return all(is_told(said, name, float(one[id] - one[best])) for name, one in pairs)


def is_divergence(said: Said) -> bool:
    was, now = map(log_softmax, ways(said))
    return is_told(said, "divergence", float((np.exp(was) * (was - now)).sum()))


def are_to_the_bit(said: Said) -> bool:
    """Whether no more rows are equal than there are, and all of them where it is so."""
    original, changed = passes(said)
    rows = [
        (a == b).all(-1)
        for stack, facts in original.model.stacks.items()
        for layer in range(facts.hidden)
        for a, b in [(original.hidden(stack, layer), changed.hidden(stack, layer))]
    ]
    equal = int(sum(one.sum() for one in rows))
    return int(said.fields["equal"]) <= min(equal, int(said.fields["n"]))


def sums(said: Said) -> float:
    changed = passes(said)[1]
    far = [
        np.abs(changed.attention(kind, layer).sum(-1) - 1).max(initial=0)
        for kind in changed.kinds
        for layer in range(changed.layers(kind))
        if changed.intervention.at(kind, layer).changes
    ]
    return float(np.max(far, initial=0))


def nothing_moved(said: Said) -> bool:
    before, after = ways(said)
    return bool((before == after).all())


# ---- a model -----------------------------------------------------------------------


def config_is(**wanted: str) -> Predicate:
    """Ask whether fields are those of the open checkpoint's own weights."""

    def test(said: Said) -> bool:
        checkpoint = existing(said.run.checkpoint)
        return all(
            said.fields[field] == getattr(checkpoint.config, name)
            for field, name in wanted.items()
        )

    return test


def sizes_of_model(said: Said) -> bool:
    """Whether layers, heads, widths and parameters are those of the modules."""
    assert said.run.checkpoint is not None
    model: Any = said.run.checkpoint.model
    weights = {id(one): one.numel() for one in model.parameters()}
    first = model.encoder.layers[0]
    told, heads = said.fields, str(said.fields["heads"]).split()[0]
    return (
        (told["encoder"], told["decoder"])
        == (len(model.encoder.layers), len(model.decoder.layers))
        and told["width"] == model.source_embedding.weight.shape[1]
        and told["inner"] == len(first.feed_forward.w1.weight)
        and told["parameters"] == sum(weights.values())
        and int(heads) == said.trace.heads("encoder")
    )


CLAIMS: Claims = {
    # two runs
    "The runs are equal, but for rounding: tokens, weights and log p.": are_equal,
    "They part at step {step}: “{one}” writes “{token}”, “{other}” writes "
    "“{instead}”.": part_at,
    "They part at step {step} of “{one}”, which writes “{token}”, and step {there} of "
    "“{other}”, which writes “{instead}”.": part_at,
    "“{one}” and “{other}” write the same.": lambda s: (
        never_parts(s)
        and s.run.beside is not None
        and s.run.beside.text == s.trace.text
    ),
    "“{one}” and “{other}” write the same as far as the shorter one goes.": lambda s: (
        never_parts(s) and len(both(s)[0].steps) != len(both(s)[1].steps)
    ),
    "Log p of {n:,} tokens of the reference: {one} and {other} nats.": is_log_p,
    "{kind} attention differs most in {head}: {bits} of 1 bit.": is_head_apart,
    "{kind} attention: the same in every head compared.": heads_are_same,
    "{kind} attention: {n} heads are NaN, and are not compared.": heads_are_nan,
    "Only “{run}” has {kind} attention.": has_alone,
    "{kind} attention has {layers} layers of {heads} heads in “{one}”, {others} of "
    "{more} in “{other}”: what both have is compared.": sizes_are,
    "They read different sentences: {n:,} groups of source tokens are aligned, "
    "{left:,} tokens have no counterpart.": are_other_sentences,
    "Their tokenizers differ: source pieces that cover the same characters are "
    "compared as one ({n:,} groups, {left:,} pieces left over).": lambda s: (
        not comparable(s) and both(s)[0].source_text == s.trace.source_text
    ),
    "The decoder's attention is compared up to where they part: {n:,} rows.": (
        compares_rows
    ),
    # a change
    "log p of “{token}”: {was} → {now}, {effect} nats; rank {before} → {after}": (
        is_effect
    ),
    "its logit less that of “{other}”, the original's best other token: {was} → "
    "{now}": is_margin,
    "KL(original || changed): {divergence} nats": is_divergence,
    "{equal:,} of {n:,} rows that cannot depend on the change are equal to the last "
    "bit": are_to_the_bit,
    "rows of weights sum to 1": lambda s: sums(s) < 1e-3,
    "some rows of weights are NaN": lambda s: math.isnan(sums(s)),
    "rows of weights do not sum to 1: one is off by {far}": lambda s: is_near(
        s, "far", sums(s)
    ),
    "no row of the run is another": nothing_moved,
    # a model
    "{encoder} + {decoder} layers, {heads}, width {width:,}, feed-forward {inner:,}, "
    "{parameters:,} parameters": sizes_of_model,
    "{source:,} source tokens and {target:,} target tokens, from the tokenizer": (
        config_is(source="source_vocabulary", target="target_vocabulary")
    ),
    "{source:,} source tokens and {target:,} target tokens: numbers, because no "
    "tokenizer was given": config_is(
        source="source_vocabulary", target="target_vocabulary"
    ),
}
