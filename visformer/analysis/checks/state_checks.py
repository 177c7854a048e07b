"""Checks of the model itself: broken numbers, dropout, layers made anew, copies."""

import numpy as np

from visformer.analysis.checks.observation import Observation, places_of
from visformer.language import _, ngettext
from visformer.values.finding import Finding
from visformer.values.watched_attention import HALF_TOLERANCE


def not_a_number(seen: Observation) -> Finding | None:
    """Report a parameter or buffer that holds NaN."""
    broken = seen.state.broken
    if not broken:
        return None
    first = broken[0]
    return Finding(
        "nan-parameter",
        first.name,
        _(
            "{bad:,} of its {total:,} numbers are NaN or infinite, and so is all that "
            "they are multiplied with (broken tensors of the model: {n}).",
            bad=first.bad,
            total=first.total,
            n=len(broken),
        ),
        _("Load an earlier file from the training."),
    )


def overflow(seen: Observation) -> Finding | None:
    """Report activations of half precision that are no longer finite."""
    for place in places_of(seen.run):
        one = place.attention
        if one.tolerance < HALF_TOLERANCE:
            continue
        for name in ("queries", "keys", "values", "weights"):
            numbers = getattr(one, name)
            bad = numbers.size - int(np.isfinite(numbers).sum())
            nothing = one.masked.all(-1, keepdims=True)
            if not bad or (
                name == "weights" and (np.isfinite(numbers) | nothing).all()
            ):
                continue
            return Finding(
                "overflow",
                place.words,
                _(
                    "{bad:,} of its {total:,} {name} are NaN or infinite, in half "
                    "precision, though all parameters are finite.",
                    bad=bad,
                    total=numbers.size,
                    name=name,
                ),
                _("Compute it in bfloat16 or float32, or make its numbers smaller."),
                at=place.at(),
            )
    return None


def dropout(seen: Observation) -> Finding | None:
    """Report dropout that is on since the model is in training mode."""
    modules = seen.state.dropping
    if not modules:
        return None
    dropped = [place for place in seen.places if place.attention.dropout]
    remedy = _("Call model.eval() before you look at its numbers.")
    if not dropped:
        what = ngettext(
            "Dropout is on in {n} module, so every call gives other numbers.",
            "Dropout is on in {n} modules, so every call gives other numbers.",
            len(modules),
        )
        return Finding("dropout-on", modules[0] or "forward", what, remedy)
    place = dropped[0]
    sums = place.attention.weights.sum(-1)
    at = np.unravel_index(int(np.abs(sums - 1).argmax()), sums.shape)
    return Finding(
        "dropout-on",
        place.words,
        _(
            "Dropout is on: row {row} of head {head} sums to {sum:.3g}, and every "
            "call gives other numbers (in {n} of {all} attentions).",
            row=int(at[2]) + 1,
            head=int(at[1]) + 1,
            sum=float(sums[at]),
            n=len(dropped),
            all=len(seen.attentions),
        ),
        remedy,
        at=place.at(int(at[1]), int(at[2])),
    )


def dropout_always(seen: Observation) -> Finding | None:
    """Report dropout that does not ask whether the model is being trained."""
    modules = seen.state.dropping_always
    if not modules:
        return None
    return Finding(
        "dropout-always",
        modules[0] or "forward",
        ngettext(
            "Numbers are dropped though {n} module that does it is in evaluation mode, "
            "so every call gives other numbers.",
            "Numbers are dropped though the {n} modules that do it are in evaluation "
            "mode, so every call gives other numbers.",
            len(modules),
        ),
        _("Give functional.dropout training=self.training, or use nn.Dropout."),
    )


def calls_differ(seen: Observation) -> Finding | None:
    """Report a model that gives other numbers when it is called again."""
    compared = seen.compared
    if compared is None or (compared.repeated or 0.0) <= compared.limit:
        return None
    made = compared.layers_made
    if made:
        return Finding(
            "calls-differ",
            made[0],
            _(
                "Two calls differ by {apart:.3g}: this layer is made inside forward, "
                "with new random weights in every call, which nothing trains.",
                apart=compared.repeated,
            ),
            _("Make the layer once, in __init__, and call it in forward."),
        )
    return Finding(
        "calls-differ",
        _("output"),
        _(
            "Two calls with the same input differ by {apart:.3g}, and not by dropout.",
            apart=compared.repeated,
        ),
        _("Look for random numbers, or for something kept from the call before."),
        "note",
    )


def equal_layers(seen: Observation) -> Finding | None:
    """Report layers with the same numbers in tensors of their own."""
    if not seen.state.equal:
        return None
    pair = seen.state.equal[0]
    return Finding(
        "equal-layers",
        pair.second,
        _(
            "All {n} tensors of “{second}” are equal to those of “{first}”, as of a "
            "layer that was copied.",
            n=pair.tensors,
            first=pair.first,
            second=pair.second,
        ),
        _("Nothing to do if it was copied on purpose; else load the right file."),
        "note",
    )


def fast_path(seen: Observation) -> Finding | None:
    """Report the NaN that torch's fast path gives where it is not switched off."""
    broken = seen.state.fast_path
    if broken is None:
        return None
    return Finding(
        "fast-path-nan",
        broken.name,
        _(
            "Unwatched, torch's fast path gives NaN at {n:,} of {all:,} places, as of "
            "a row whose every key is masked. It is off while the model is watched.",
            n=broken.bad,
            all=broken.total,
        ),
        _("Leave each row a key, or leave out rows that are padding alone."),
    )
