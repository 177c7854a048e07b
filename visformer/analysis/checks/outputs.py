"""Checks of what a model predicts, and of calls that ought to agree."""

from __future__ import annotations

import numpy as np

from visformer.analysis.checks.observation import Observation
from visformer.language import _
from visformer.values.arrays import Bools, Ids
from visformer.values.finding import Finding

MOST = 0.9  # of labels, from which on they all count as the same
FEWEST = 8  # tokens from which is told what a model predicts
SURE = 0.5  # probability of the token given, from which on it was learned


def not_shifted(seen: Observation) -> Finding | None:
    """Report labels that are the very tokens that a decoder is given."""
    ids, wanted = seen.given, seen.labels
    if ids is None or wanted is None or not seen.target:
        return None
    real = _predicting(wanted, seen.pad)
    same = (ids == wanted) & real
    # a model that fills in or tags sees its labels; one with a target does not
    if not real.any() or same.sum() < MOST * real.sum():
        return None
    if ids.shape[1] == 1 or predicts_next(ids, wanted, seen.pad):  # one token again
        return None
    return Finding(
        "not-shifted",
        _("labels"),
        _(
            "The target is not shifted: {n:,} of {all:,} labels are the very token "
            "that their row is given, so there is nothing to predict.",
            n=int(same.sum()),
            all=int(real.sum()),
        ),
        _("Give the decoder target[:, :-1] and compare with target[:, 1:]."),
    )


def predicts_next(ids: Ids, wanted: Ids, pad: int | None) -> bool:
    """Whether each row is to predict the token that the next one is given, [B, T]."""
    real = _predicting(wanted, pad)
    same = (ids[:, 1:] == wanted[:, :-1])[real[:, :-1]]
    return bool(same.mean() > MOST) if same.size else False


def _predicting(wanted: Ids, pad: int | None) -> Bools:
    real: Bools = wanted >= 0
    return real if pad is None else real & (wanted != pad)


def predicts_given(seen: Observation) -> Finding | None:
    """Report a decoder whose best prediction is always the token it was given."""
    ids, best, chances = seen.given, seen.best, seen.chances
    if ids is None or best is None or chances is None or seen.state.tied:
        return None
    if not any(place.attention.kind == "decoder" for place in seen.places):
        return None
    # neither padding, nor a token that comes again: predicting it may be right
    counts = np.ones(ids.shape, bool) if seen.pad is None else ids != seen.pad
    counts[:, :-1] &= ids[:, 1:] != ids[:, :-1]
    number = int(counts.sum())
    if number < FEWEST or len(np.unique(ids[counts])) < 3:
        return None
    same = int((best == ids)[counts].sum())
    if same < MOST * number or float(np.median(chances[counts])) < SURE:
        return None
    given = {"n": same, "all": number}
    told = _(
        "In {n:,} of {all:,} rows the likeliest token is the very one that the row is "
        "given, as after training with labels that were not shifted.",
        **given,
    )
    if not seen.next_token:
        told = _(
            "If this is a decoder, it learned nothing: in {n:,} of {all:,} rows the "
            "likeliest token is the very one that the row is given.",
            **given,
        )
    return Finding(
        "predicts-given",
        _("output"),
        told,
        _("Train it with labels that are the tokens after those that it is given."),
        "fault" if seen.next_token else "note",
    )


def along_batch(seen: Observation) -> Finding | None:
    """Report equal rows of a batch that give different numbers."""
    compared = seen.compared
    if compared is None or max(compared.alike, default=0.0) <= compared.limit:
        return None
    row = max(range(len(compared.alike)), key=compared.alike.__getitem__)
    return Finding(
        "positions-along-batch",
        _("batch"),
        _(
            "The same sentence gives other numbers in row {row} of a batch than alone: "
            "they differ by {worst:.3g}, while row 1 differs by {first:.2g}. Positions "
            "run along the batch, or rows are mixed.",
            row=row + 1,
            worst=compared.alike[row],
            first=compared.alike[0],
        ),
        _("Add the position of each token along its own sentence."),
    )


def row_differs(seen: Observation) -> Finding | None:
    """Report rows of the batch that give other numbers alone."""
    compared = seen.compared
    if compared is None or not compared.rows:
        return None
    row = max(compared.rows, key=compared.rows.__getitem__)
    if compared.rows[row] <= compared.limit:
        return None
    return Finding(
        "batch-row-differs",
        _("batch"),
        _(
            "Row {row} of this batch gives other numbers than alone: they differ by "
            "{worst:.3g}, so it depends on what else is in the batch.",
            row=row + 1,
            worst=compared.rows[row],
        ),
        _("See that every row is given its own source, and that no row is mixed in."),
    )


def later_tokens(seen: Observation) -> Finding | None:
    """Report rows that change when a later token is left out."""
    compared = seen.compared
    if compared is None or (compared.prefix or 0.0) <= compared.limit:
        return None
    return Finding(
        "later-tokens-count",
        _("target"),
        _(
            "The rows before the last token change by {worst:.3g} when it is left out, "
            "so they depend on what comes after them.",
            worst=compared.prefix,
        ),
        _("Look for a norm, a shift or a mask that runs over the tokens."),
    )


_CROSS = ("cross", "src", "enc", "encdec", "multihead", "memory")  # in a module's name


def cross_reads_decoder(seen: Observation) -> Finding | None:
    """Report a second attention of each decoder layer that does not read the source."""
    kinds = [one.kind for one in seen.attentions]
    if not (seen.source and seen.target) or "cross" in kinds:
        return None
    compared = seen.compared
    unused = compared is not None and "source" in compared.unused
    layers: dict[str, list[str]] = {}
    for place in seen.places:
        module = place.attention.module
        if place.attention.kind == "decoder" and module:
            known = layers.setdefault(module.rpartition(".")[0], [])
            known += [module] if module not in known else []
    for place in seen.places:
        module = place.attention.module
        layer, _dot, name = module.rpartition(".")
        named = any(word in name.lower().split("_") for word in _CROSS)
        second = unused and layers.get(layer, [module])[0] != module
        if place.attention.kind == "decoder" and (named or second):
            return Finding(
                "cross-reads-decoder",
                place.words,
                _(
                    "“{module}” reads the keys of the decoder itself, and no attention "
                    "reads the source from the target.",
                    module=module,
                ),
                _("Give the cross attention the encoder's output as keys and values."),
            )
    return None


def source_not_used(seen: Observation) -> Finding | None:
    """Report a source without effect."""
    return _not_used(seen, "source")


def target_not_used(seen: Observation) -> Finding | None:
    """Report a target without effect."""
    return _not_used(seen, "target")


def _not_used(seen: Observation, side: str) -> Finding | None:
    if seen.compared is None or side not in seen.compared.unused:
        return None
    source = side == "source"
    return Finding(
        "source-not-used" if source else "target-not-used",
        _("source") if source else _("target"),
        _("With other tokens in the source, the output is exactly the same.")
        if source
        else _("With other tokens in the target, the output is exactly the same."),
        _("See what the decoder reads: its result must be added to what follows."),
        "note" if seen.state.gated else "fault",
    )


def cached_steps(seen: Observation) -> Finding | None:
    """Report cached steps that give other numbers than one full pass."""
    compared = seen.compared
    if compared is None or compared.cached is None:
        return None
    module, row, apart = compared.cached
    if apart <= compared.limit:
        return None
    if compared.restarts:
        return Finding(
            "positions-restart",
            module,
            _(
                "Positions begin again in the cached steps: the queries of row {row} "
                "are those of the same token in the first place.",
                row=row + 1,
            ),
            _("Add the number of the tokens in the cache to the positions."),
        )
    return Finding(
        "cached-steps-differ",
        module,
        _(
            "Row {row} of the cached steps differs from one full pass over the same "
            "tokens, by {apart:.3g}.",
            row=row + 1,
            apart=apart,
        ),
        _("Compare what the cache keeps with the keys of a full pass: order, places."),
    )
