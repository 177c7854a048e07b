"""What certificates claim of a model and of several calls, by template."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tests.system.watching.claims_found import CLAIMS, Heard, Pass
from visformer.values.watched_attention import WatchedAttention

Certified = Callable[[dict[str, Any], list[Pass]], bool]


def _attentions(passes: list[Pass], module: str) -> Iterator[WatchedAttention]:
    """Yield the attentions of a module; it is named by its class where it is all."""
    for watched, _seen in passes:
        names = {module} | ({""} if _is_whole(watched.watcher.model, module) else set())
        for one in (*watched.attentions, *watched.last_run):
            if one.module in names:
                yield one


def _is_whole(model: nn.Module, name: str) -> bool:
    return name == type(model).__name__


def is_module(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether there is such a module; what ran in it can be asked of nothing else."""
    model = passes[-1][0].watcher.model
    names = dict(model.named_modules())
    plain = {name.replace("_orig_mod", "").strip(".") for name in names}
    return _is_whole(model, fields["module"]) or fields["module"] in plain


# ---- the model's own tensors ---------------------------------------------------------


def _tensors(passes: list[Pass]) -> dict[str, Tensor]:
    model = passes[-1].watched.watcher.model
    several = (*model.named_parameters(), *model.named_buffers())
    return {
        name: x.detach() for name, x in several if x.is_floating_point() and x.numel()
    }


def is_broken(fields: dict[str, Any], passes: list[Pass]) -> bool:
    counts = [
        (int((~x.isfinite()).sum()), x.numel()) for x in _tensors(passes).values()
    ]
    broken = [one for one in counts if one[0]]
    told = fields["bad"], fields["total"]
    return told in broken and 1 <= fields["n"] <= len(broken)


def are_copies(fields: dict[str, Any], passes: list[Pass]) -> bool:
    model = passes[-1].watched.watcher.model
    first, second = (
        dict(model.get_submodule(fields[name]).named_parameters())
        for name in ("first", "second")
    )
    return len(first) == fields["n"] and all(
        torch.equal(x, second[name]) for name, x in first.items()
    )


def is_unread(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether the columns of the head named are 0 and those of another are not."""
    weight, head = _tensors(passes)[fields["name"]], fields["head"]
    heads = {one.weights.shape[1] for one in passes[-1].seen.attentions}
    return fields["n"] < fields["all"] and any(
        not weight.chunk(n, axis)[head - 1].any() and bool(weight.any())
        for n in heads
        for axis in (0, 1)
        if n >= head
    )


def _in_mode(passes: list[Pass], *, training: bool) -> int:
    model = passes[-1].watched.watcher.model
    return sum(module.training is training for module in model.modules())


def are_dropping(fields: dict[str, Any], passes: list[Pass]) -> bool:
    return 1 <= int(fields["n"]) <= _in_mode(passes, training=True)


def drop_always(fields: dict[str, Any], passes: list[Pass]) -> bool:
    return 1 <= int(fields["n"]) <= _in_mode(passes, training=False)


def are_finite(_fields: dict[str, Any], passes: list[Pass]) -> bool:
    return all(bool(x.isfinite().all()) for x in _tensors(passes).values())


# ---- torch's fast path ---------------------------------------------------------------


def gives_zeros(fields: dict[str, Any], passes: list[Pass]) -> bool:
    found = passes[-1].watched.fast_paths
    return 0 < fields["n"] <= fields["all"] and any(
        (x.zeros, x.places) == (fields["n"], fields["all"]) for x in found
    )


def gives_nan(fields: dict[str, Any], passes: list[Pass]) -> bool:
    found = passes[-1].watched.fast_paths
    return 0 < fields["n"] <= fields["all"] and any(
        (x.broken, x.places) == (fields["n"], fields["all"]) for x in found
    )


def differs_elsewhere(fields: dict[str, Any], passes: list[Pass]) -> bool:
    found = passes[-1].watched.fast_paths
    return fields["worst"] > 0 and any(x.elsewhere == fields["worst"] for x in found)


def differs_unwatched(fields: dict[str, Any], passes: list[Pass]) -> bool:
    return bool(fields["worst"] == passes[-1].watched.fast_difference)


# ---- what is not shown ---------------------------------------------------------------


def is_mixed(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether the row named does not sum to 1, since weights were mixed."""
    row, head = fields["row"] - 1, fields["head"] - 1
    return not math.isclose(fields["sum"], 1, abs_tol=1e-3) and any(
        one.mixed
        and head < one.weights.shape[1]
        and row < one.weights.shape[2]
        and bool(
            (np.abs(one.weights[:, head, row].sum(-1) - fields["sum"]) < 1e-3).any()
        )
        for one in _attentions(passes, fields["module"])
    )


def is_of_kind(kind: str) -> Certified:
    return lambda fields, passes: any(
        one.kind == kind for one in _attentions(passes, fields["module"])
    )


def is_merged(fields: dict[str, Any], passes: list[Pass]) -> bool:
    return any(
        one.kind == "merged"
        and (one.border or 0) == fields["first"]
        and one.weights.shape[3] == fields["first"] + fields["second"]
        for one in _attentions(passes, fields["module"])
    )


def has_heads(fields: dict[str, Any], passes: list[Pass]) -> bool:
    told = fields["heads"], fields["all"]
    return told[0] != told[1] and any(
        (one.weights.shape[1], one.queries.shape[1]) == told
        for one in _attentions(passes, fields["module"])
    )


def has_more_keys(fields: dict[str, Any], passes: list[Pass]) -> bool:
    return any(
        one.kind != "cross"
        and one.weights.shape[3] - one.weights.shape[2] == fields["n"] > 0
        for one in _attentions(passes, fields["module"])
    )


def has_other_sizes(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether it has these sizes, and another attention of its kind has others."""
    told = fields["heads"], fields["queries"], fields["keys"]
    run = passes[-1].watched.last_run
    return any(
        one.weights.shape[1:] == told
        and any(
            x.kind == one.kind or x.weights.shape[1:] != told
            for x in run
            if x is not one
        )
        for one in _attentions(passes, fields["module"])
    )


def are_on_no_tab(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether the traces contain all attentions but as many as are said."""
    watched = passes[-1].watched
    trace = watched.traces[0] if watched.traces else None
    on_tabs = 0 if trace is None else sum(trace.layers(x) for x in trace.kinds)
    lost = sum(not one.verified for one in watched.last_run)
    told = fields["n"], fields["all"]
    return told == (len(watched.last_run) - on_tabs - lost, len(watched.last_run))


def are_not_whole(fields: dict[str, Any], passes: list[Pass]) -> bool:
    made = passes[-1].watched.generated.sequences
    return 0 < int(fields["n"]) <= len(made) == int(fields["all"])


def no_attention(_fields: dict[str, Any], passes: list[Pass]) -> bool:
    return not passes[-1].watched.attentions


def has_numbers(side: str) -> Certified:
    """Whether the tokens of a side have numbers for names."""

    def is_numbered(_fields: dict[str, Any], passes: list[Pass]) -> bool:
        own = ("encoder", "query"), ("decoder", "query"), ("cross", "key")
        if side == "target":
            own = ("decoder", "query"), ("cross", "query"), ("encoder", "query")
        return any(
            getattr(one, f"{of}_ids") is None
            for one in passes[-1].watched.last_run
            for kind, of in own
            if one.kind == kind
        )

    return is_numbered


# ---- several calls -------------------------------------------------------------------


def is_within(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether a pass of that length has as many attentions, no further apart."""
    return any(
        len(watched.attentions) == fields["n"]
        and max(one.difference for one in watched.attentions) == fields["worst"]
        and any(
            fields["length"] in x.shape
            for x in (*watched.sources[-1:], *watched.targets[-1:])
        )
        for watched, _seen in passes
    )


def axis_is_unknown(_fields: dict[str, Any], passes: list[Pass]) -> bool:
    return len(passes) == 1 and passes[0].watched.time_axis is None


def compared(name: str) -> Certified:
    """Whether the largest number of a comparison is the one that is said."""

    def is_so(fields: dict[str, Any], passes: list[Pass]) -> bool:
        several = [getattr(seen.compared, name, None) for _watched, seen in passes]
        (found, *_others) = [x for x in several if x is not None]
        if name == "cached":
            found = found[2]
        numbers = found.values() if isinstance(found, dict) else found
        worst = max(numbers) if not isinstance(numbers, float) else numbers
        return bool(worst == fields["worst"])

    return is_so


def steps_agree(fields: dict[str, Any], passes: list[Pass]) -> bool:
    """Whether the row that is furthest is not further than is said."""
    found = passes[-1].seen.compared
    return (
        found is not None
        and found.cached is not None
        and (found.cached[2] <= fields["worst"])
    )


CERTIFIED: dict[str, Certified] = {
    "{bad:,} of its {total:,} numbers are NaN or infinite, and so is all that "
    "they are multiplied with (broken tensors of the model: {n}).": is_broken,
    "All {n} tensors of “{second}” are equal to those of “{first}”, as of a layer"
    " that was copied.": are_copies,
    "Columns of “{name}” are 0, so head {head} adds nothing ({n} of {all}).": is_unread,
    "Dropout is on in {n} module, so every call gives other numbers.": are_dropping,
    "Dropout is on in {n} modules, so every call gives other numbers.": are_dropping,
    "Numbers are dropped though {n} module that does it is in evaluation mode, so"
    " every call gives other numbers.": drop_always,
    "Numbers are dropped though the {n} modules that do it are in evaluation "
    "mode, so every call gives other numbers.": drop_always,
    "Compute it in bfloat16 or float32, or make its numbers smaller.": are_finite,
    "Unwatched, torch's fast path gives NaN at {n:,} of {all:,} places, as of a "
    "row whose every key is masked. It is off while the model is watched.": gives_nan,
    "“{module}”: torch's fast path is off while the model is watched. It gives "
    "zeros at {n:,} of {all:,} places.": gives_zeros,
    "“{module}”: torch's fast path is off while the model is watched. Its numbers"
    " differ by up to {worst:.2g}.": differs_elsewhere,
    "Unwatched, with that path, the output differs by up to "
    "{worst:.2g}.": differs_unwatched,
    "“{module}”: its weights are mixed after the softmax, or a sink takes a "
    "share: row {row} of head {head} sums to {sum:.3g}.": is_mixed,
    "“{module}”: its attention is neither the encoder's nor the decoder's. Name "
    "the inputs with sources= and targets=.": is_of_kind("other"),
    "“{module}”: one softmax over {first:,} and {second:,} keys of two sides, "
    "which no Trace can hold. It is in watched.attentions.": is_merged,
    "“{module}”: {heads} heads are computed from the weights of {all}, so no "
    "Trace can hold it. It is in watched.attentions.": has_heads,
    "“{module}”: {n:,} more key than tokens, so no Trace can hold it. It is in "
    "watched.attentions.": has_more_keys,
    "“{module}”: {n:,} more keys than tokens, so no Trace can hold it. It is in "
    "watched.attentions.": has_more_keys,
    "“{module}”: {heads} heads, {queries:,} queries and {keys:,} keys do not fit "
    "the other layers, so no Trace holds it. It is in "
    "watched.attentions.": has_other_sizes,
    "{n:,} of {all:,} attentions of the last run is on no tab.": are_on_no_tab,
    "{n:,} of {all:,} attentions of the last run are on no tab.": are_on_no_tab,
    "{n:,} of {all:,} sequences that “generate” returned was not read in one run,"
    " so no Trace holds all of it.": are_not_whole,
    "{n:,} of {all:,} sequences that “generate” returned were not read in one "
    "run, so no Trace holds all of them.": are_not_whole,
    "No attention was found. If a custom kernel computes it, or a graph in "
    "another format, switch to the eager implementation.": no_attention,
    "No attention was found: no softmax over products of two activations weighs "
    "others.": no_attention,
    "The order of the source tokens could not be traced, so positions are "
    "numbered instead.": has_numbers("source"),
    "The order of the target tokens could not be traced, so positions are "
    "numbered instead.": has_numbers("target"),
    "Length {length:,}: {n} attention, within {worst:.2g}.": is_within,
    "Length {length:,}: {n} attentions, within {worst:.2g}.": is_within,
    "No other lengths or batches were tried: it is unknown which axis of the "
    "inputs counts tokens.": axis_is_unknown,
    "The same call twice: they differ by {worst:.2g}.": compared("repeated"),
    "One row alone and in a batch: they differ by {worst:.2g}.": compared("alike"),
    "Rows of the batch against the same rows alone: they differ by "
    "{worst:.2g}.": compared("rows"),
    "A pass against the pass with another last token: before it they differ by "
    "{worst:.2g}.": compared("prefix"),
    "The last token with the cache of the others, and a full pass: they differ by"
    " {worst:.2g}.": compared("cached"),
    "Cached steps against one full pass: they differ by {worst:.1e}.": steps_agree,
}

MODULE = "“{module}”: "
NO_CLAIMS: dict[str, tuple[str, ...]] = {  # by how they begin
    "it says what to do": (
        *("Add ", "Call ", "Choose ", "Compare ", "Divide ", "Exchange ", "Give "),
        *("Hide ", "Leave ", "Load ", "Look for a norm", "Look for random", "Make "),
        *("Mask ", "Nothing to do", "Replace ", "See ", "Shift ", "Take ", "Train "),
    ),
    "it is the evidence of a check that has passed, which no certificate shows": (
        *("The largest weight on a later", "The largest weight on a padding"),
        *("The output changes by", "The scale of the scores", "Their sums are within"),
        "They differ by {apart:.2g}; rounding",
    ),
    "it says what could not be followed, of which nothing is known but the place": (
        *(f"{MODULE}“{{operation}}”", f"{MODULE}a softmax over", f"{MODULE}attention"),
        *(f"{MODULE}it reads numbers", f"{MODULE}activations are multiplied"),
        *(f"{MODULE}each query and key is", f"{MODULE}the outputs of two"),
    ),
    "the call that it speaks of is not kept: the tests of it look at it": (
        *("Length {length:,}: the output is not finite", "Cached steps were not com"),
        *(
            "the model does not take all",
            "the tokens that were read",
            "a mask hides some",
        ),
        *(
            "the encoder reads something",
            "its attention has other",
            "the steps were al",
        ),
        *("a pass over fewer", "in one call, its", "the cache has other tokens"),
        *("numbers are dropped at random", "the model takes more than"),
    ),
}


def false_of(heard: list[Heard]) -> list[str]:
    """Return the sentences that do not follow from what was watched."""
    return [one.text for one in heard if not is_true(one)]


def is_true(one: Heard) -> bool:
    """Whether a sentence follows from what was watched, where it claims something."""
    if one.template in CERTIFIED:
        return CERTIFIED[one.template](one.fields, one.passes)
    found = CLAIMS.get(one.template)
    seen = [each.seen for each in one.passes[-1:]]
    return found is None or all(found(one.fields, x) for x in seen)
