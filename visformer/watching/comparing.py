"""Compare two models or two runs: find the first head that differs."""

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from visformer.arguments import wrong_type
from visformer.core.checkpoint import Checkpoint
from visformer.core.passes import IdRows, run
from visformer.errors import InputError
from visformer.language import _
from visformer.values.intervention import NO_CHANGES
from visformer.values.trace import Trace
from visformer.watching.compared_runs import ComparedRun, Comparison, compared
from visformer.watching.module_calls import same_chances
from visformer.watching.stepped import SteppedModel
from visformer.watching.watcher import Watched, difference, watch

AND = " + "


Compared = nn.Module | Checkpoint | SteppedModel | Watched | Trace
IdSides = tuple[Tensor | None, Tensor | None]  # source and target ids
_DECODER = "decoder_input_ids"  # the argument's name in transformers


def compare(
    a: Compared, b: Compared, source: IdRows | None = None, target: IdRows | None = None
) -> Comparison:
    """Return the first kind, layer and head whose attention differs.

    ``visformer.compare`` says what the sides and ids may be. Raises TypeError for other
    types, InputError if ids are missing or no attention is found, and whatever
    ``watch`` and ``run`` raise.
    """
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Compared):
            allowed = _(
                "a torch.nn.Module, what visformer.load or wrap returns, a Watched or "
                "a Trace"
            )
            raise wrong_type(name, given, allowed)
    ids = _ids((a, b), source, target)
    runs = _ran(a, ids), _ran(b, ids)
    found = compared(*runs)
    outputs = [run.returned.last for run in runs if isinstance(run, Watched)]
    known = len(outputs) == 2 and all(x is not None for x in outputs)
    said = replace(
        found,
        output=difference(*outputs) if known else math.nan,
        certifiable=any(isinstance(side, nn.Module) for side in (a, b)),
    )
    if found.kind is None and found.same_output:
        return said
    quiet, remedy = _in_eval((a, b), runs, ids)
    mends = bool(remedy) and compared(*quiet).kind is None
    return replace(said, remedy=remedy) if mends else said


def _ids(
    sides: tuple[Compared, Compared], source: IdRows | None, target: IdRows | None
) -> IdSides:
    """Return the ids to run, by default those that one of the sides has read."""
    if source is not None or target is not None:
        return _tensor("source", source), _tensor("target", target)
    if all(isinstance(side, Watched | Trace) for side in sides):
        return None, None
    for side in sides:
        if isinstance(side, Watched):
            return _read_by(side)
        if isinstance(side, Trace):
            return _of_traces([side])
    raise InputError(
        "There are no ids to run: give source and target, or the source alone of a "
        "model with one side."
    )


def _read_by(watched: Watched) -> IdSides:
    """Return a watched model's ids; for a loop, the ids it had read at the end."""
    if others := _others(watched):
        raise InputError(
            "The watched call was also given {names}: watch the other model in the "
            "same way, and compare what was watched.",
            names=", ".join(others),
        )
    calls = watched.sources, watched.targets
    if max(map(len, calls)) > 1:
        return _of_traces(watched.traces)
    source, target = (several[0] if several else None for several in calls)
    return source, target


def _others(watched: Watched) -> list[str]:
    """Name the inputs of a watched model other than source and target."""
    sides = watched.sides.source | watched.sides.target
    others = (one.name for one in watched.inputs if one.name and not one.mark & sides)
    return [*dict.fromkeys(others)]


def _of_traces(traces: Sequence[Trace]) -> IdSides:
    sides = [[t.source_ids for t in traces], [t.target_ids for t in traces]]
    source, target = (
        torch.from_numpy(np.stack(rows)) if rows and rows[0].size else None
        for rows in sides
    )
    return source, target


def _tensor(name: str, ids: IdRows | None) -> Tensor | None:
    if ids is None:
        return None
    try:
        return torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError):
        allowed = _("rows of ids, padded to one length")
        raise wrong_type(name, ids, allowed) from None


def _ran(side: Compared, ids: IdSides) -> ComparedRun:
    """Run a side; InputError if no attention is found."""
    made: ComparedRun
    if isinstance(side, Trace):
        made = [side]
    elif isinstance(side, Watched):
        made = side
    elif isinstance(side, Checkpoint):
        if ids[1] is None:
            raise InputError("A checkpoint is run on a source and a target: give both.")
        made = run(side, *ids)  # type: ignore[arg-type]
    else:
        made = _watched(side, ids)
    if not (made.attentions if isinstance(made, Watched) else made[0].kinds):
        raise InputError("No attention was found in one of the two: give others.")
    return made


def _watched(side: nn.Module | SteppedModel, ids: IdSides) -> Watched:
    given = [x for x in ids if x is not None]
    if isinstance(side, SteppedModel):
        return side.watched_batch(given, NO_CHANGES)
    device = next((x.device for x in (*side.parameters(), *side.buffers())), "cpu")
    given = [x.to(device) for x in given]
    with torch.no_grad(), same_chances(side):
        taken = inspect.signature(side.forward).parameters
        if len(given) == 2 and _DECODER in taken:  # the second argument may be a mask
            return watch(side)(given[0], **{_DECODER: given[1]})
        return watch(side)(*given)


def _in_eval(
    sides: tuple[Compared, Compared],
    runs: tuple[ComparedRun, ComparedRun],
    ids: IdSides,
) -> tuple[tuple[ComparedRun, ComparedRun], str]:
    """Repeat the runs without dropout; also returns what disables it, or ""."""
    quiet, words = [*runs], []
    several = sum(_module_of(side) is not None for side in sides) > 1
    for at, (side, name) in enumerate(zip(sides, "ab", strict=True)):
        module = _module_of(side)
        if module is None or not any(part.training for part in module.modules()):
            continue
        own = _read_by(side) if isinstance(side, Watched) else ids
        with _evaluated(module):
            made = _watched(module, own)
        if compared(runs[at], made).kind is not None:
            quiet[at] = made
            words.append(f"{name}.eval()" if several else "module.eval()")
    return (quiet[0], quiet[1]), AND.join(words)


def _module_of(side: Compared) -> nn.Module | None:
    """Return a side's module, if it can be called again."""
    if isinstance(side, Watched):
        again = side.output is not None and not _others(side)
        return side.watcher.model if again else None
    return side if isinstance(side, nn.Module) else None


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """Set eval mode inside the context; restores the mode of every submodule."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes.items():
            part.training = mode
