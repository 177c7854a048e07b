"""Checks of what a model predicts, and of calls that ought to agree."""

from collections import Counter
from collections.abc import Callable

import numpy as np

from visformer.analysis.checks.observation import Observation, stack_of
from visformer.language import _
from visformer.values.arrays import Bools, Ids
from visformer.values.finding import EvidencePlace, Finding

MOST = 0.9  # of labels, from which on they all count as the same
FEWEST = 8  # tokens that a statement about predictions needs
SURE = 0.5  # probability of the likeliest token, from which on it was learned


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
    ids, best = seen.given, _sure(seen)
    if ids is None or best is None or seen.state.tied:
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
    if same < MOST * number:
        return None
    given = {"n": same, "all": number}
    what = _(
        "In {n:,} of {all:,} rows the likeliest token is the very one that the row is "
        "given, as after training with labels that were not shifted.",
        **given,
    )
    if not seen.next_token:
        what = _(
            "If this is a decoder, it learned nothing: in {n:,} of {all:,} rows the "
            "likeliest token is the very one that the row is given.",
            **given,
        )
    return Finding(
        "predicts-given",
        _("output"),
        what,
        _("Train it with labels that are the tokens after those that it is given."),
        "fault" if seen.next_token else "note",
    )


def _sure(seen: Observation) -> Ids | None:
    """Return the likeliest tokens, [B, T], of a model that has learned to be sure."""
    surest, best = seen.surest, seen.best
    if best is None or surest is None or not float(np.median(surest)) >= SURE:
        return None
    return best


def predicts_after_next(seen: Observation) -> Finding | None:
    """Report a decoder that predicts the token after the one it is to predict."""
    best, wanted = _sure(seen), seen.labels
    if best is None or wanted is None or not seen.next_token or seen.given is None:
        return None
    real = _predicting(wanted, seen.pad)
    both = real[:, :-1] & real[:, 1:] & (wanted[:, 1:] != wanted[:, :-1])
    others = wanted[:, 1:], wanted[:, :-1], seen.given[:, :-1]
    after, right, own = (int((best[:, :-1] == x)[both].sum()) for x in others)
    number = int(both.sum())
    if number < FEWEST or after < number / 2 or after < 2 * max(right, own):
        return None
    return Finding(
        "shifted-twice",
        _("output"),
        _(
            "In {n:,} of {all:,} rows the likeliest token is the one after the label, "
            "and in {right:,} the label: as after training with labels shifted twice.",
            n=after,
            all=number,
            right=right,
        ),
        _("Shift labels once: a loss that does so wants them as they are given."),
    )


def permuted(seen: Observation) -> Finding | None:
    """Report a decoder that always predicts the same other word for a word."""
    best, wanted, given = _sure(seen), seen.labels, seen.given
    if best is None or wanted is None or not seen.next_token or given is None:
        return None
    real = _predicting(wanted, seen.pad)
    n, number, words = _repeated(wanted[real], best[real])
    other = all(word != said for word, said in words.items())
    if len(words) < 3 or len(set(words.values())) < len(words) or not other:
        return None
    # what follows from the token given alone is not learned, or of a simple text
    if n < number / 2 or _repeated(given[real], best[real])[0] > n / 2:
        return None
    word, said = next(iter(words.items()))
    return Finding(
        "vocabulary-permuted",
        _("output"),
        _(
            "Where the label comes again, the likeliest token does so too in {n:,} of "
            "{all:,} rows, but it is another one: {said} for {word}, say.",
            n=n,
            all=number,
            said=said,
            word=word,
        ),
        _("See that vocabulary and weights, the output's too, are of one training."),
    )


def _repeated(words: Ids, said: Ids) -> tuple[int, int, dict[int, int]]:
    """Count where what is said of a word is said again, of how many, and list both."""
    pairs = Counter(zip(words.tolist(), said.tolist(), strict=True))
    most: dict[int, int] = {}
    for (word, other), n in pairs.most_common():
        if n > 1:
            most.setdefault(word, other)
    again = sum(pairs[pair] - 1 for pair in most.items())
    return again, len(words) - len(set(words.tolist())), most


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
            "The rows before the last token change by {worst:.3g} when it is another "
            "one, so they depend on what comes after them.",
            worst=compared.prefix,
        ),
        _("Look for a norm, a shift or a mask that runs over the tokens."),
        "note" if compared.moved else "fault",
    )


def _is_cross(name: str) -> bool:
    words = {"cross", "src", "enc", "encdec", "multihead", "memory"}
    return bool(words & {*name.lower().split("_")})


def cross_reads_decoder(seen: Observation) -> Finding | None:
    """Report a second attention of a decoder layer that does not read the source."""
    cross = {stack_of(p.attention) for p in seen.places if p.attention.kind == "cross"}
    if not (seen.source and seen.target):
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
        second = layers.get(layer, [module])[0] != module
        if cross:  # of other layers
            wrong = second and stack_of(place.attention) in cross
        else:
            wrong = (unused and second) or _is_cross(name)
        if place.attention.kind == "decoder" and wrong:
            return Finding(
                "cross-reads-decoder",
                place.words,
                _(
                    "“{module}” reads the keys of the decoder itself, not the source "
                    "(attentions that read the source: {n}).",
                    module=module,
                    n=sum(one.kind == "cross" for one in seen.attentions),
                ),
                _("Give the cross attention the encoder's output as keys and values."),
                at=place.at(),
            )
    return None


def source_not_used(seen: Observation) -> Finding | None:
    """Report a source without effect."""
    return _not_used(seen, "source")


def target_not_used(seen: Observation) -> Finding | None:
    """Report a target without effect."""
    return _not_used(seen, "target")


def _not_used(seen: Observation, side: str) -> Finding | None:
    compared = seen.compared
    if compared is None:
        return None
    if side not in compared.unused and not (side == "source" and compared.used == 0):
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
        at=EvidencePlace(row=row),
    )


def positions_restart(seen: Observation) -> Finding | None:
    """Report cached steps each of which has the first position."""
    compared = seen.compared
    if compared is None or not compared.restarts or cached_steps(seen) is None:
        return None
    module, row, _apart = compared.cached or ("", 0, 0.0)
    return Finding(
        "positions-restart",
        module,
        _(
            "Positions begin again in the cached steps: the queries of row {row} are "
            "those of the same token in the first place.",
            row=row + 1,
        ),
        _("Add the number of the tokens in the cache to the positions."),
        at=EvidencePlace(row=row),
    )


def strange_cache(seen: Observation) -> Finding | None:
    """Report a cache whose rows are of other tokens than the loop's hypotheses."""
    strange = None if seen.compared is None else seen.compared.strange
    if strange is None:
        return None
    return Finding(
        "cache-of-other-tokens",
        _("cache"),
        _(
            "Row {row} of the cache is of other tokens than the loop goes on with: "
            "token {at} was read as {cached}, and is {now} in the ids.",
            row=strange.row + 1,
            at=strange.at + 1,
            cached=strange.cached,
            now=strange.now,
        ),
        _("Choose rows of the cache as those of the ids: keys[parents], say."),
    )


def apart(name: str) -> Callable[[Observation], tuple[str, float] | None]:
    """Return what says how far the outputs of a comparison are apart."""

    def words(seen: Observation) -> tuple[str, float] | None:
        found = getattr(seen.compared, name, None)
        if name == "cached" and found is not None:
            found = found[2]
        elif name == "rows" and found is not None:
            found = max(found.values())
        elif name == "alike":
            found = max(found or (), default=None)
        if seen.compared is None or found is None:
            return None
        if name in ("used", "reordered"):
            return _("The output changes by {apart:.2g}.", apart=found), float(found)
        return _(
            "They differ by {apart:.2g}; rounding is {limit:.0e} at most.",
            apart=found,
            limit=seen.compared.limit,
        ), float(found)

    return words


def no_residual(seen: Observation) -> Finding | None:
    """Report attention in a layer whose result is added to nothing, unlike others."""
    lone = [
        place
        for place in seen.places
        if place.attention.module in seen.state.alone
        and any(part.isdigit() for part in place.attention.module.split("."))
    ]
    n = len(seen.places) - len(lone)
    if not lone or not n:
        return None
    return Finding(
        "no-residual",
        lone[0].words,
        _(
            "If this layer is to have a residual connection, it is missing: what the "
            "attention gives is added to nothing, while that of {n} of {all} is.",
            n=n,
            all=len(seen.places),
        ),
        _("Add what a part of the layer reads to what it gives: x + attention(x)."),
        "note",
        lone[0].at(),
    )
