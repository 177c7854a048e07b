"""Requests with exactly one answer: each a function of the open checkpoint."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from visformer.engine.messages import (
    AllTokens,
    AllTokensDone,
    Batch,
    BatchDone,
    FindTokens,
    Lens,
    LensDone,
    Parameters,
    ParametersDone,
    Shuffle,
    Shuffled,
    TokensFound,
)
from visformer.errors import VisformerError
from visformer.language import _
from visformer.values.trace import Trace

if TYPE_CHECKING:
    from visformer.core.checkpoint import Checkpoint


log = logging.getLogger(__name__)


def open_one(checkpoint: Checkpoint | None) -> Checkpoint:
    """Return the open checkpoint; VisformerError if there is none."""
    if checkpoint is None:
        raise VisformerError(_("No model is open: open a checkpoint first."))
    return checkpoint


def run_here(checkpoint: Checkpoint | None) -> Checkpoint:
    """Return the open checkpoint; VisformerError where another program runs it."""
    from visformer.core.checkpoint import Checkpoint

    made = open_one(checkpoint)
    if not isinstance(made, Checkpoint):
        raise VisformerError(
            _(
                "“{name}” is run by transformers, and its source is not shuffled.",
                name=made.name,
            )
        )
    return made


def batch(checkpoint: Checkpoint | None, number: int, request: Batch) -> BatchDone:
    """Run several sentences together."""
    from visformer.core.side_runs import run_texts

    traces = run_texts(open_one(checkpoint), request.sources)
    return BatchDone(number=number, traces=tuple(map(lean, traces)))


def find_tokens(
    checkpoint: Checkpoint | None, number: int, request: FindTokens
) -> TokensFound:
    """Find the tokens that are, begin with or contain a text."""
    from visformer.core.all_tokens import named

    side = open_one(checkpoint).tokenizer.target
    found = named(request.text, (side.token(id) for id in range(side.size)))
    return TokensFound(number=number, text=request.text, tokens=found)


def shuffle(checkpoint: Checkpoint | None, number: int, request: Shuffle) -> Shuffled:
    """Run a sentence as it is and in another order."""
    from visformer.core.side_runs import run_shuffled

    order, baseline, shuffled = run_shuffled(
        run_here(checkpoint),
        request.source,
        request.target,
        intervention=request.intervention,
        seed=request.seed,
    )
    return Shuffled(
        number=number, order=order, baseline=lean(baseline), shuffled=lean(shuffled)
    )


def parameters(
    checkpoint: Checkpoint | None, number: int, request: Parameters
) -> ParametersDone:
    """Read the weights of a layer; None if the open model has no such layer."""
    from visformer.core.layer_export import layer_parameters

    weights = None
    try:
        weights = layer_parameters(run_here(checkpoint), request.stack, request.layer)
    except VisformerError:  # asked for another model than is open by now
        log.info("no layer %s in the %s", request.layer, request.stack)
    return ParametersDone(number=number, parameters=weights)


def lens(checkpoint: Checkpoint | None, number: int, request: Lens) -> LensDone:
    """Return what each layer would predict; no rows if they are another model's."""
    from visformer.core.checkpoint import Checkpoint
    from visformer.core.lens_rows import read_streams

    asked = request.hidden, request.chosen
    try:
        made = open_one(checkpoint)
        if isinstance(made, Checkpoint):
            rows = read_streams(made, *asked, temperature=request.temperature)
        else:
            rows = made.lens(*asked, temperature=request.temperature)
    except (VisformerError, RuntimeError):  # of another model; or no memory for it
        log.exception("no lens of %s rows", len(request.chosen))
        rows = ()
    return LensDone(number=number, rows=rows)


def all_tokens(
    checkpoint: Checkpoint | None, number: int, request: AllTokens
) -> AllTokensDone:
    """Return the distribution that a row predicts; None if it is another model's."""
    from visformer.core.all_tokens import distribution_of
    from visformer.core.checkpoint import Checkpoint

    made = open_one(checkpoint)
    try:
        if isinstance(made, Checkpoint):
            whole = distribution_of(made, request.stream)
        else:
            whole = made.distribution(
                request.source, request.target, request.intervention, request.row
            )
    except (VisformerError, RuntimeError):  # of another model; or no memory for it
        log.exception("no distribution of row %s", request.row)
        whole = None
    return AllTokensDone(number=number, distribution=whole)


def lean(trace: Trace) -> Trace:
    """Return the Trace without what stays in the engine: output, own weights."""
    bare = replace(trace, output_weight=None, output_bias=None, own_logits=None)
    return replace(bare, own_weights=None, own_lens=None)
