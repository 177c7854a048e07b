"""Two runs side by side, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from visformer.analysis.run_comparison import (
    ReferenceToken,
    RunComparison,
    TokenAlignment,
)
from visformer.language import _, ngettext
from visformer.text import visible
from visformer.values.facts import Kind
from visformer.values.pieces import running_text
from visformer.words import KIND_NAMES, decimals, head_words, number

LONGEST = 60  # characters of a name, or of what a run wrote, in a sentence


def comparison_words(found: RunComparison) -> list[str]:
    """Say in sentences how two runs differ, and what cannot be compared."""
    if found.equal:
        return [_("The runs are equal, but for rounding: tokens, weights and log p.")]
    said = [parted_words(found), reference_words(found)]
    said += [head_line(found, kind) for kind in found.divergences]
    return [sentence for sentence in (*said, *lacking_words(found)) if sentence]


def parted_words(found: RunComparison) -> str:
    """Say at which step the runs part; "" where no token is known of one."""
    one, other = (visible(name)[:LONGEST] for name in found.names)
    if not found.steps:
        return ""
    if found.parted is None:
        if found.texts[0] == found.texts[1]:
            return _("“{one}” and “{other}” write the same.", one=one, other=other)
        return _(
            "“{one}” and “{other}” write the same as far as the shorter one goes.",
            one=one,
            other=other,
        )
    last = found.steps[-1]
    tokens = [_piece(token) for token in last.tokens]
    if found.parted[0] == found.parted[1]:
        return _(
            "They part at step {step}: “{one}” writes “{token}”, “{other}” writes "
            "“{instead}”.",
            step=found.parted[0],
            one=one,
            other=other,
            token=tokens[0],
            instead=tokens[1],
        )
    return _(
        "They part at step {step} of “{one}”, which writes “{token}”, and step {there} "
        "of “{other}”, which writes “{instead}”.",
        step=found.parted[0],
        there=found.parted[1],
        one=one,
        other=other,
        token=tokens[0],
        instead=tokens[1],
    )


def _piece(token: str) -> str:
    return visible(running_text([token]).strip() or token)[:LONGEST]


def reference_words(found: RunComparison) -> str:
    """Say how likely the common reference is in both, as far as that is known."""
    known = [token.log_p for token in found.reference if not _unknown(token)]
    if not known:
        return ""
    sums = [math.fsum(side) for side in zip(*known, strict=True)]
    return ngettext(
        "Log p of {n:,} token of the reference: {one} and {other} nats.",
        "Log p of {n:,} tokens of the reference: {one} and {other} nats.",
        len(known),
        one=decimals(sums[0], 3),
        other=decimals(sums[1], 3),
    )


def _unknown(token: ReferenceToken) -> bool:
    return any(map(math.isnan, token.log_p))


def head_line(found: RunComparison, kind: Kind) -> str:
    """Say which head of a kind differs most, or that none does."""
    grid, name = found.divergences[kind], _(KIND_NAMES[kind])
    broken = int(np.isnan(grid).sum())
    if broken:
        return ngettext(
            "{kind} attention: {n} head is NaN, and is not compared.",
            "{kind} attention: {n} heads are NaN, and are not compared.",
            broken,
            kind=name,
        )
    if found.same_heads(kind):
        return _("{kind} attention: the same in every head compared.", kind=name)
    at = np.unravel_index(int(grid.argmax()), grid.shape)
    return _(
        "{kind} attention differs most in {head}: {bits} of 1 bit.",
        kind=name,
        head=head_words(int(at[0]), int(at[1])),
        bits=number(float(grid[at]), 3),
    )


def lacking_words(found: RunComparison) -> Iterator[str]:
    """Say what cannot be compared, one sentence each."""
    one, other = (visible(name)[:LONGEST] for name in found.names)
    for kind, sizes in found.sizes.items():
        name = _(KIND_NAMES[kind])
        if (0, 0) in sizes:
            has = other if sizes[0] == (0, 0) else one
            yield _("Only “{run}” has {kind} attention.", run=has, kind=name)
        elif sizes[0] != sizes[1]:
            yield _(
                "{kind} attention has {layers} layers of {heads} heads in “{one}”, "
                "{others} of {more} in “{other}”: what both have is compared.",
                kind=name,
                one=one,
                other=other,
                layers=sizes[0][0],
                heads=sizes[0][1],
                others=sizes[1][0],
                more=sizes[1][1],
            )
    yield from filter(None, (aligned_words(found), _rows_words(found)))


def aligned_words(found: RunComparison) -> str:
    """Say how source tokens are aligned, where they are not the same."""
    source = found.source
    if source.one_to_one:
        return ""
    fields = {"n": len(source.groups), "left": sum(map(len, source.rest))}
    if found.sources[0] == found.sources[1]:
        return _(
            "Their tokenizers differ: source pieces that cover the same characters are "
            "compared as one ({n:,} groups, {left:,} pieces left over).",
            **fields,
        )
    return _(
        "They read different sentences: {n:,} groups of source tokens are aligned, "
        "{left:,} tokens have no counterpart.",
        **fields,
    )


def _rows_words(found: RunComparison) -> str:
    rows = _rows(found.target)
    left = [len(side) for side in found.target.rest]
    if not any(left) or "decoder" not in found.sizes:
        return ""
    return ngettext(
        "The decoder's attention is compared up to where they part: {n:,} row.",
        "The decoder's attention is compared up to where they part: {n:,} rows.",
        rows,
    )


def _rows(target: TokenAlignment) -> int:
    return sum(len(one) for one, _other in target.groups)
