"""What findings claim, by their template: a predicate over what was observed.

The places and numbers that they name are asked of the weights themselves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from tests.unit.pictures.sweep import listening
from visformer.analysis.checks.observation import Comparisons, Observation
from visformer.analysis.checks.table import findings_of
from visformer.values.arrays import Ids
from visformer.values.finding import Certificate
from visformer.values.watched_attention import WatchedAttention
from visformer.watching import certifying, certifying_watched
from visformer.watching.watcher import Watched

Found = Callable[[dict[str, Any], Observation], bool]


class Pass(NamedTuple):
    """One pass, as it was watched, and what the checks were told of it."""

    watched: Watched
    seen: Observation


class Heard(NamedTuple):
    """A sentence that a certificate contains, and the passes that it speaks of."""

    template: str
    fields: dict[str, Any]
    text: str
    passes: list[Pass]


@contextmanager
def certificates_heard() -> Iterator[list[Heard]]:
    """Let every sentence of a certificate be heard, with what it was found in."""
    heard: list[Heard] = []
    passes: list[Pass] = []
    seen_last: list[Observation] = []
    one_pass, several = certifying_watched.certificate_of, certifying.certified

    def shown(told: list[Heard], of: Certificate) -> None:
        parts = (*of.checks, *of.missed)
        parts += tuple(x for f in of.findings for x in (f.where, f.what, f.remedy))
        heard.extend(one for one in told if any(one.text in part for part in parts))

    @contextmanager
    def collected(of: list[Pass]) -> Iterator[list[Heard]]:
        told: list[Heard] = []
        with listening(lambda *said: told.append(Heard(said[0], said[1], said[2], of))):
            yield told

    def found(seen: Observation) -> Any:
        seen_last.append(seen)
        return findings_of(seen)

    def certificate_of(watched: Watched, seen: Observation | None = None) -> Any:
        own: list[Pass] = []
        with collected(own) as told:
            certificate = one_pass(watched, seen)
        own.append(Pass(watched, seen_last[-1]))
        passes.extend(own)
        shown(told, certificate)
        return certificate

    def certified(*given: Any) -> Any:
        passes.clear()
        own: list[Pass] = []
        with collected(own) as told:
            certificate = several(*given)
        own.extend(passes)
        shown(told, certificate)
        return certificate

    with (
        patch.object(certifying_watched, "findings_of", found),
        patch.object(certifying_watched, "certificate_of", certificate_of),
        patch.object(certifying, "certificate_of", certificate_of),
        patch.object(certifying, "certified", certified),
    ):
        yield heard


def is_read(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether some attention gives the key named the weight that is said."""
    row, head, key = (int(fields[name]) - 1 for name in ("row", "head", "key"))
    batches: slice | list[int] = slice(None)
    if "batch" in fields:
        batches = [int(fields["batch"]) - 1]
    return any(
        bool(np.isclose(one.weights[batches, head, row, key], weight, rtol=1e-5).any())
        for one in _fitting(seen, head, row, key)
        for weight in [fields["weight"]]
    )


def _fitting(
    seen: Observation, head: int, row: int, key: int = 0
) -> Iterator[WatchedAttention]:
    """Yield the attentions that have such a place."""
    for one in seen.attentions:
        heads, queries, keys = one.weights.shape[1:]
        if head < heads and row < queries and key < keys:
            yield one


def is_later(fields: dict[str, Any], seen: Observation) -> bool:
    return fields["key"] > fields["row"] and is_read(fields, seen)


def is_pad(fields: dict[str, Any], seen: Observation) -> bool:
    batch, key = int(fields["batch"]) - 1, int(fields["key"]) - 1
    return is_read(fields, seen) and any(
        one.key_ids is not None
        and key < one.key_ids.shape[1]
        and one.key_ids[batch, key] == seen.pad
        for one in seen.attentions
    )


def is_one_ahead(fields: dict[str, Any], seen: Observation) -> bool:
    row, head, key = (int(fields[name]) - 1 for name in ("row", "head", "key"))
    return key == row + 1 and any(
        bool((one.weights[:, head, row, key] > 0).any())
        for one in _fitting(seen, head, row, key)
    )


def sums_to(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether the row named of some attention sums to what is said, and not to 1."""
    row, head = int(fields["row"]) - 1, int(fields["head"]) - 1
    told = float(fields["sum"])
    return not math.isclose(told, 1, abs_tol=1e-3) and any(
        bool(np.isclose(np.nan_to_num(one.weights[:, head, row]).sum(-1), told).any())
        for one in _fitting(seen, head, row)
    )


def reads_nothing(fields: dict[str, Any], seen: Observation) -> bool:
    batch, head, row = (int(fields[name]) - 1 for name in ("batch", "head", "row"))
    return any(
        bool(one.masked[batch, head, row].all()) for one in _fitting(seen, head, row)
    )


def is_scale(fields: dict[str, Any], seen: Observation) -> bool:
    return any(
        math.isclose(one.scale, fields["scale"], rel_tol=1e-6)
        and one.queries.shape[3] == fields["d"]
        for one in seen.attentions
    )


def counts_labels(fields: dict[str, Any], seen: Observation) -> bool:
    given, labels = seen.given, seen.labels
    assert given is not None
    assert labels is not None
    real = (labels >= 0) & (labels != (-1 if seen.pad is None else seen.pad))
    same = int(((given == labels) & real).sum())
    return (fields["n"], fields["all"]) == (same, int(real.sum()))


def counted(attentions: Iterable[bool], fields: dict[str, Any]) -> bool:
    """Whether as many attentions as are said, of all, may be what is said of them."""
    several = [*attentions]
    n, number = int(fields["n"]), int(fields["all"])
    return 1 <= n <= sum(several) and number == len(several)


def is_place(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether that layer, counted among its kind, is the module's."""
    for several in (seen.attentions, seen.run):
        named = [x.module or "forward" for x in several if x.kind == fields["kind"]]
        if named[fields["layer"] - 1 : fields["layer"]] == [fields["module"]]:
            return True
    return False


def is_inverted(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether queries that may read a key read what they must not, and no more."""
    batch = int(fields["batch"]) - 1
    amiss = [_reads_amiss(one, batch, seen.pad) for one in seen.attentions]
    return any(amiss) and 1 <= fields["n"] <= fields["all"] == len(amiss)


def _reads_amiss(one: WatchedAttention, batch: int, pad: int | None) -> bool:
    _rows, _heads, queries, keys = one.weights.shape
    read = np.nan_to_num(one.weights[batch]) > 1e-6  # [H, Q, K]
    read &= ~one.masked[batch].all(-1, keepdims=True)
    pads = np.zeros(keys, bool)
    if one.key_ids is not None and pad is not None:
        pads = one.key_ids[batch] == pad
    real = np.ones(queries, bool)
    if one.query_ids is not None and pad is not None:
        real = one.query_ids[batch] != pad
    rules = [np.broadcast_to(pads, (queries, keys))]
    if queries == keys:
        rules.append(rules[0] | (np.arange(keys) > np.arange(queries)[:, None]))
    return any(
        bool(read[:, real].any()) and not bool((read & ~rule)[:, real].any())
        for rule in rules
    )


def gives_nan(fields: dict[str, Any], seen: Observation) -> bool:
    batch, head, row = (int(fields[name]) - 1 for name in ("batch", "head", "row"))
    return reads_nothing(fields, seen) and any(
        bool(np.isnan(one.weights[batch, head, row]).any())
        for one in _fitting(seen, head, row)
    )


def gives_zero(fields: dict[str, Any], seen: Observation) -> bool:
    batch, head, row = (int(fields[name]) - 1 for name in ("batch", "head", "row"))
    return any(
        one.masked[batch, head, row].all() and not one.weights[batch, head, row].any()
        for one in _fitting(seen, head, row)
    )


def reads_all(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether a row that may read no key gives all of them a weight."""
    batch, head, row = (int(fields[name]) - 1 for name in ("batch", "head", "row"))
    return any(
        one.masked[batch, head, row].all()
        and bool((one.weights[batch, head, row] > 0).all())
        and math.isclose(one.weights[batch, head, row].max(), fields["weight"])
        for one in _fitting(seen, head, row)
    )


def is_nan(fields: dict[str, Any], seen: Observation) -> bool:
    row, head = int(fields["row"]) - 1, int(fields["head"]) - 1
    return any(
        bool(np.isnan(one.weights[:, head, row]).any())
        for one in _fitting(seen, head, row)
    )


def is_unscaled(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether scores are not divided, and the row named gives a key the weight."""
    row, head = int(fields["row"]) - 1, int(fields["head"]) - 1
    return math.isclose(fields["root"] ** 2, fields["d"]) and any(
        _is_of_scale_1(one, fields["d"])
        and bool(np.isclose(one.weights[:, head, row], fields["weight"]).any())
        for one in _fitting(seen, head, row)
    )


def _is_of_scale_1(one: WatchedAttention, width: int) -> bool:
    return math.isclose(one.scale, 1, rel_tol=1e-3) and one.queries.shape[3] == width


def is_perhaps_unscaled(fields: dict[str, Any], seen: Observation) -> bool:
    wide = {one.queries.shape[3] for one in seen.attentions}
    return fields["d"] in wide and counted(
        (math.isclose(x.scale, 1, rel_tol=1e-3) for x in seen.attentions), fields
    )


def is_wrong_scale(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether an attention has that scale, and the formula gives it."""
    value = eval(fields["found"], {"sqrt": math.sqrt})
    right = float(fields["right"])
    return (
        is_scale(fields, seen)
        and math.isclose(value, fields["scale"], rel_tol=6e-3)
        and math.isclose(right, fields["d"] ** -0.5)
        and not math.isclose(right, fields["scale"], rel_tol=1e-4)
        and counted((not math.isclose(x.scale, right) for x in seen.attentions), fields)
    )


def is_all_zero(part: str) -> Found:
    """Whether a part of the head's is 0; without it, keys are read alike."""

    def is_zero(fields: dict[str, Any], seen: Observation) -> bool:
        head = int(fields["head"]) - 1
        heads = sum(one.weights.shape[1] for one in seen.attentions)
        return fields["all"] == heads > fields["n"] and any(
            not numbers[:, head * numbers.shape[1] // one.weights.shape[1]].any()
            and (part == "values" or _is_alike(one, head))
            for one in _fitting(seen, head, 0)
            for numbers in [getattr(one, part)]
        )

    return is_zero


def _is_alike(one: WatchedAttention, head: int) -> bool:
    """Whether a head gives all the keys that a row may read one weight."""
    weights, hidden = one.weights[:, head], one.masked[:, head]
    least = np.where(hidden, np.inf, weights).min(-1)
    most = np.where(hidden, -np.inf, weights).max(-1)
    return bool(np.allclose(least, most) or hidden.all())


def drops(fields: dict[str, Any], seen: Observation) -> bool:
    row, head = int(fields["row"]) - 1, int(fields["head"]) - 1
    return counted((x.dropout for x in seen.attentions), fields) and any(
        one.dropout and bool(np.isclose(one.weights[:, head, row].sum(-1), told).any())
        for one in _fitting(seen, head, row)
        for told in [fields["sum"]]
    )


def is_too_large(fields: dict[str, Any], seen: Observation) -> bool:
    several = (getattr(one, fields["name"]) for one in seen.run)
    told = fields["bad"], fields["total"]
    return any((int((~np.isfinite(x)).sum()), x.size) == told for x in several)


def predicts_what_is_given(fields: dict[str, Any], seen: Observation) -> bool:
    """Count the rows: of padding, and of a token that comes again, none."""
    assert seen.given is not None
    assert seen.best is not None
    rows = [
        (own, best)
        for ids, several in zip(seen.given.tolist(), seen.best.tolist(), strict=True)
        for own, best, then in zip(ids, several, [*ids[1:], None], strict=True)
        if own not in (seen.pad, then)
    ]
    same = sum(own == best for own, best in rows)
    return (fields["n"], fields["all"]) == (same, len(rows))


def _labelled(seen: Observation) -> Iterator[list[tuple[int, int]]]:
    """Yield the labels of each row of a batch that are some, with what is said."""
    assert seen.labels is not None
    assert seen.best is not None
    for wanted, best in zip(seen.labels.tolist(), seen.best.tolist(), strict=True):
        yield [*zip(wanted, best, strict=True)]


def predicts_the_next(fields: dict[str, Any], seen: Observation) -> bool:
    after = right = number = 0
    for row in _labelled(seen):
        for (label, said), (then, _said) in pairwise(row):
            if min(label, then) < 0 or seen.pad in (label, then) or label == then:
                continue
            number += 1
            after, right = after + (said == then), right + (said == label)
    return (fields["n"], fields["all"], fields["right"]) == (after, number, right)


def says_another(fields: dict[str, Any], seen: Observation) -> bool:
    """Count how often of a word that comes again the same other word is said again."""
    said: dict[int, Counter[int]] = {}
    for row in _labelled(seen):
        for label, best in row:
            if label >= 0 and label != seen.pad:
                said.setdefault(label, Counter())[best] += 1
    most = {word: max(several.values()) for word, several in said.items()}
    number = sum(several.total() - 1 for several in said.values())
    example = said[fields["word"]]
    return (
        (fields["n"], fields["all"]) == (sum(n - 1 for n in most.values()), number)
        and fields["word"] != fields["said"]
        and example[fields["said"]] == max(example.values()) > 1
    )


def _compared(seen: Observation) -> Comparisons:
    assert seen.compared is not None
    return seen.compared


def differs_among_alike(fields: dict[str, Any], seen: Observation) -> bool:
    alike, row = _compared(seen).alike, int(fields["row"]) - 1
    told = float(fields["worst"]), float(fields["first"])
    return told == (max(alike), alike[0]) and alike[0] < alike[row] == told[0]


def differs_from_alone(fields: dict[str, Any], seen: Observation) -> bool:
    rows = _compared(seen).rows or {}
    return bool(fields["worst"] == rows[fields["row"] - 1] > _compared(seen).limit)


def follows_the_last(fields: dict[str, Any], seen: Observation) -> bool:
    return bool(fields["worst"] == _compared(seen).prefix)


def differs_again(fields: dict[str, Any], seen: Observation) -> bool:
    dropped = any(one.dropout for one in seen.run) or seen.state.dropping
    return float(fields["apart"]) == _compared(seen).repeated and not dropped


def is_made_anew(fields: dict[str, Any], seen: Observation) -> bool:
    return differs_again(fields, seen) and bool(_compared(seen).layers_made)


def is_unused(side: str) -> Found:
    return lambda _fields, seen: side in _compared(seen).unused


def _are_equal(first: Ids | None, second: Ids | None) -> bool:
    return first is None or second is None or np.array_equal(first, second)


def reads_the_decoder(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether its keys are of the decoder's own tokens, and how many read others."""
    cross = sum(one.kind == "cross" for one in seen.attentions)
    return fields["n"] == cross and any(
        one.module == fields["module"]
        and one.kind == "decoder"
        and _are_equal(one.key_ids, one.query_ids)
        for one in seen.attentions
    )


def differs_in_steps(fields: dict[str, Any], seen: Observation) -> bool:
    cached = _compared(seen).cached
    assert cached is not None
    told = fields.get("apart", cached[2])
    return (fields["row"] - 1, told) == cached[1:] and told > _compared(seen).limit


def begins_again(fields: dict[str, Any], seen: Observation) -> bool:
    return differs_in_steps(fields, seen) and _compared(seen).restarts


def is_of_others(fields: dict[str, Any], seen: Observation) -> bool:
    """Whether a token that attention read is another one in the ids."""
    row, at = fields["row"] - 1, fields["at"] - 1
    read = [
        x.key_ids for x in seen.run if x.kind == "decoder" and x.key_ids is not None
    ]
    return fields["now"] != fields["cached"] and any(
        at < ids.shape[1] and ids[row, at] == fields["cached"] for ids in read
    )


def is_added_elsewhere(fields: dict[str, Any], seen: Observation) -> bool:
    alone = [x.module for x in seen.attentions if x.module in seen.state.alone]
    return 0 < fields["n"] < fields["all"] == len(seen.attentions) and bool(alone)


def is_first_nan(_fields: dict[str, Any], seen: Observation) -> bool:
    """Whether of the attentions that could be computed again, one has NaN."""
    return any(bool(np.isnan(one.weights).any()) for one in seen.attentions)


_IN = "(in {n} of {all} attentions)."
CLAIMS: dict[str, Found] = {
    "{kind} layer {layer} ({module})": is_place,
    "The causal mask is off by one: every row reads one token ahead, as row {row} of "
    f"head {{head}} reads key {{key}} {_IN}": is_one_ahead,
    "If this is a decoder, its causal mask is off by one: every row reads one token "
    f"ahead, as row {{row}} of head {{head}} reads key {{key}} {_IN}": is_one_ahead,
    "The causal mask is missing, or does not hide: row {row} of head {head} reads key "
    f"{{key}}, which comes after it, with weight {{weight:.3g}} {_IN}": is_later,
    "If this is a decoder, its causal mask is missing, or does not hide: row {row} of "
    "head {head} reads key {key}, which comes after it, with weight {weight:.3g} "
    f"{_IN}": is_later,
    "Scores are multiplied by a mask, so a masked one counts as 0: row {row} of head "
    f"{{head}} still reads key {{key}} with weight {{weight:.3g}} {_IN}": is_read,
    "The mask is inverted: in batch row {batch}, the queries may read no keys but "
    f"those that they must not read {_IN}": is_inverted,
    "Padding is not masked, or its mask does not hide: in batch row {batch}, row {row} "
    "of head {head} reads key {key}, a padding token, with weight {weight:.3g} "
    f"{_IN}": is_pad,
    "In batch row {batch}, row {row} of head {head} may read no key, so its weights "
    "are NaN.": gives_nan,
    "In batch row {batch}, row {row} of head {head} may read no key, so its result is "
    "0.": gives_zero,
    "In batch row {batch}, row {row} of head {head} may read no key, so it reads all "
    "of them, with weight {weight:.3g} at most.": reads_all,
    "The softmax runs over the {axis}, not over the keys: row {row} of head {head} "
    f"sums to {{sum:.3g}} {_IN}": sums_to,
    "Row {row} of head {head} sums to {sum:.3g}, not to 1.": sums_to,
    "Row {row} of head {head} is NaN, and so is all that reads it.": is_nan,
    "Look for NaN in what this layer is given: here it is seen first.": is_first_nan,
    "The scores are not divided by sqrt({d}) = {root:.3g}: their scale is {scale:.3g}, "
    f"and row {{row}} of head {{head}} gives one key {{weight:.3g}} {_IN}": is_unscaled,
    "If neither weights nor norms make up for it, a division by sqrt({d}) is missing: "
    f"the scale of the scores is 1 {_IN}": is_perhaps_unscaled,
    "The scale of the scores is {scale:.3g} = {found}; for heads of {d} it ought to be "
    f"1/sqrt({{d}}) = {{right:.3g}} {_IN}": is_wrong_scale,
    "The values of head {head} are all 0, so it adds nothing "
    "({n} of {all}).": is_all_zero("values"),
    "The queries of head {head} are all 0, so it reads keys alike "
    "({n} of {all}).": is_all_zero("queries"),
    "The keys of head {head} are all 0, so it reads them alike "
    "({n} of {all}).": is_all_zero("keys"),
    "Dropout is on: row {row} of head {head} sums to {sum:.3g}, and every call gives "
    f"other numbers {_IN}": drops,
    "{bad:,} of its {total:,} {name} are NaN or infinite, in half precision, though "
    "all parameters are finite.": is_too_large,
    "The target is not shifted: {n:,} of {all:,} labels are the very token that their "
    "row is given, so there is nothing to predict.": counts_labels,
    "In {n:,} of {all:,} rows the likeliest token is the very one that the row is "
    "given, as after training with labels that were not "
    "shifted.": predicts_what_is_given,
    "If this is a decoder, it learned nothing: in {n:,} of {all:,} rows the likeliest "
    "token is the very one that the row is given.": predicts_what_is_given,
    "In {n:,} of {all:,} rows the likeliest token is the one after the label, and in "
    "{right:,} the label: as after training with labels shifted "
    "twice.": predicts_the_next,
    "Where the label comes again, the likeliest token does so too in {n:,} of {all:,} "
    "rows, but it is another one: {said} for {word}, say.": says_another,
    "The same sentence gives other numbers in row {row} of a batch than alone: they "
    "differ by {worst:.3g}, while row 1 differs by {first:.2g}. Positions run along "
    "the batch, or rows are mixed.": differs_among_alike,
    "Row {row} of this batch gives other numbers than alone: they differ by "
    "{worst:.3g}, so it depends on what else is in the batch.": differs_from_alone,
    "The rows before the last token change by {worst:.3g} when it is another one, so "
    "they depend on what comes after them.": follows_the_last,
    "Two calls with the same input differ by {apart:.3g}, and not by "
    "dropout.": differs_again,
    "Two calls differ by {apart:.3g}: this layer is made inside forward, with new "
    "random weights in every call, which nothing trains.": is_made_anew,
    "With other tokens in the source, the output is exactly the same.": is_unused(
        "source"
    ),
    "With other tokens in the target, the output is exactly the same.": is_unused(
        "target"
    ),
    "“{module}” reads the keys of the decoder itself, not the source (attentions that "
    "read the source: {n}).": reads_the_decoder,
    "Row {row} of the cached steps differs from one full pass over the same tokens, by "
    "{apart:.3g}.": differs_in_steps,
    "Positions begin again in the cached steps: the queries of row {row} are those of "
    "the same token in the first place.": begins_again,
    "Row {row} of the cache is of other tokens than the loop goes on with: token {at} "
    "was read as {cached}, and is {now} in the ids.": is_of_others,
    "If this layer is to have a residual connection, it is missing: what the attention "
    "gives is added to nothing, while that of {n} of {all} is.": is_added_elsewhere,
}
