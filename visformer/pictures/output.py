"""From the decoder's output to the next token: vector, logits, softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from visformer.pictures.candidates import ORIGINS
from visformer.pictures.picture import (
    ARROW,
    Matrix,
    Numbers,
    TokenPair,
    largest,
    signed_shade,
)
from visformer.text import visible
from visformer.values.lens import LensRow, LensRows
from visformer.values.memo import same
from visformer.values.strategy import Strategy
from visformer.values.trace import Trace
from visformer.words import decimals, dimension_words, number, probability

MOST_ROWS = 256  # rows of Z that are drawn: those up to the current one
AHEAD = 8  # rows after the current one that are asked for before they are shown
AROUND = 128  # rows on both sides of the current one whose lens is asked for
NOT_RUN = "No sentence has been run yet."
UNDECODED = "Nothing is decoded yet: step on to see what the decoder predicts."


def known_rows(trace: Trace | None, lens: LensRows | None) -> Mapping[int, LensRow]:
    """Return the rows of the lens that are of a Trace's run."""
    if trace is None or lens is None or not same(lens.of, trace.storage):
        return {}
    return lens.rows


def current_row(trace: Trace | None, lens: LensRows | None) -> LensRow | None:
    """Return the lens of a Trace's last row, once it is known."""
    return None if trace is None else known_rows(trace, lens).get(len(trace) - 1)


def refused(trace: Trace | None, lens: LensRows | None) -> bool:
    """Tell whether the engine could not look at a Trace's run."""
    if trace is None or lens is None or not same(lens.of, trace.storage):
        return False
    return lens.refused


def missing(
    trace: Trace | None, lens: LensRows | None, *, busy: bool
) -> tuple[int, ...]:
    """Return the rows whose lens is wanted and not known, the nearest first.

    Those around the last row of ``trace``, also of what its run has decoded ahead.
    While something runs, only that row: looking would slow it.
    """
    if trace is None or not len(trace) or refused(trace, lens):
        return ()
    at, known = len(trace) - 1, known_rows(trace, lens)
    end = min(len(trace.whole), at + AHEAD + 1)
    around = range(at, at + 1) if busy else range(max(0, at - AROUND), end)
    rows = [row for row in around if row not in known]
    return tuple(sorted(rows, key=lambda row: abs(row - at)))


def first_row(trace: Trace) -> int:
    """Return the first row of Z that is drawn."""
    return max(0, len(trace) - MOST_ROWS)


def output_picture(trace: Trace) -> Matrix:
    """Return the decoder's output Z [T, D], a row per step."""
    start, width = first_row(trace), trace.model.config.d_model
    values = np.zeros((0, width), np.float32)
    if len(trace):
        values = trace.decoder_output[start:]
    reads = (
        "this run's mask lets rows read later tokens"
        if looks_ahead(trace)
        else "row t read tokens 1..t, predicts t + 1"
    )
    part = f", rows {start + 1} to {len(trace)}" if start else ""
    top = largest(values)
    return Matrix(
        title=f"Z [{len(trace)}, {width}]{part}: {reads}",
        values=values,
        shade=signed_shade(values, top),
        rows=tuple(
            _row_label(row, trace.target[row], trace.steps[row].token)
            for row in range(start, len(trace))
        ),
        columns=tuple(map(str, range(width))),
        row_axis="row t",
        column_axis="decoder output, by dimension (dim)",
        row_unit="row",
        column_unit="dim",
        ends=(number(-top, 3), f"+{number(top, 3)}"),
        note="the model's own numbers, linear" if len(trace) else UNDECODED,
        signed=True,
    )


@lru_cache(maxsize=8192)
def _row_label(row: int, read: str, predicted: str) -> str:
    return TokenPair(f"{row + 1}: {visible(read)}", visible(predicted))


def output_words(trace: Trace, row: int) -> str:
    """Say what a row of Z holds, and what it is for."""
    predicted = visible(trace.steps[row].token)
    if looks_ahead(trace):
        later = ", this run's mask being changed perhaps of later ones"
    else:
        later = ", of no later one"
    return (
        f"Row {row + 1} of Z holds what came of the source and of target "
        f"{_read(trace, row)}{later}; the softmax of its logits "
        f"predicts token {row + 2}: “{predicted}”."
    )


def _read(trace: Trace, row: int) -> str:
    first, last = visible(trace.target[0]), visible(trace.target[row])
    if row == 0:
        return f"token 1 (“{first}”)"
    return f"tokens 1 to {row + 1} (“{first}” … “{last}”)"


def looks_ahead(trace: Trace) -> bool:
    """Tell whether some row may attend to a later one: the mask was changed."""
    return trace.intervention.looks_ahead


def flow_words(trace: Trace | None) -> str:
    """Say how the current step's token came about, from what was read to the choice."""
    if trace is None:
        return NOT_RUN
    if not len(trace):
        return UNDECODED
    row, step = len(trace) - 1, trace.steps[-1]
    config = trace.model.config
    parts = [
        f"Step {row + 1}: target {_read(trace, row)}",
        "decoder",
        *(["final norm"] if config.final_norm else []),
        f"row {row + 1} of Z",
        f"times W{' + b' if config.output_bias else ''}: "
        f"{config.target_vocabulary:,} logits z",
        "softmax",
        f"{ORIGINS[step.origin]}: “{visible(step.token)}”, "
        f"p {probability(step.probability)}, rank {step.rank:,}.",
    ]
    return ARROW.join(parts)


def product_table(trace: Trace | None, lens: LensRows | None) -> Numbers | None:
    """Return the last row of Z, and once known how it makes the chosen logit."""
    if trace is None or not len(trace):
        return None
    vector = trace.decoder_output[-1]
    # the same names at every step, so that the table need not be built anew
    names, values = ["Z[t]"], [vector]
    look = current_row(trace, lens)
    if look is not None:
        names += ["W[:, chosen]", "product"]
        values += [look.weight, vector * look.weight]
    return Numbers(
        rows=tuple(names),
        columns=tuple(map(dimension_words, range(len(vector)))),
        values=np.stack(values),
        axis="model",
    )


def logit_table(trace: Trace | None, lens: LensRows | None) -> Numbers | None:
    """Return logit, logit - LSE and probability of the best tokens and the chosen."""
    look = current_row(trace, lens)
    if trace is None or look is None:
        return None
    step = trace.steps[-1]
    names = [f"{rank}  {visible(t)}" for rank, t in enumerate(look.tokens[-1], 1)]
    logits, p = look.logits[-1].tolist(), look.probabilities[-1].tolist()
    if step.id not in look.ids[-1]:
        names.append(f"{look.chosen_ranks[-1]:,}  {visible(step.token)}")
        logits.append(float(look.chosen_logits[-1]))
        p.append(float(look.chosen_probabilities[-1]))
    values = np.array([logits, np.subtract(logits, look.log_sums[-1]), p], np.float32).T
    return Numbers(
        rows=tuple(names),
        columns=("logit z", "z − LSE", "p = e^(z−LSE)"),
        values=values,
        axis="",
        by="column",
    )


def chosen_line(trace: Trace | None, lens: LensRows | None) -> int | None:
    """Return the line of ``logit_table`` that is the chosen token."""
    look = current_row(trace, lens)
    if trace is None or look is None:
        return None
    ids, chosen = look.ids[-1].tolist(), trace.steps[-1].id
    return ids.index(chosen) if chosen in ids else len(ids)


def softmax_words(trace: Trace | None, lens: LensRows | None) -> str:
    """Write the softmax of the current step out, with its numbers."""
    if trace is None or not len(trace):
        return ""
    look = current_row(trace, lens)
    if look is None or lens is None:
        return unknown_words(trace, lens)
    config, step = trace.model.config, trace.steps[-1]
    logit, total = float(look.chosen_logits[-1]), float(look.log_sums[-1])
    token = visible(step.token)
    terms = f"sum of {config.d_model} products"
    if look.bias is not None:
        terms += f" + bias {number(look.bias)}"
    listed = float(look.probabilities[-1].sum())
    rest = config.target_vocabulary - look.ids.shape[1]
    lines = [
        f"z(“{token}”) = {terms} = {decimals(logit)}.  LSE = ln Σ exp(z) over all "
        f"{config.target_vocabulary:,} logits = {decimals(total)}.  "
        f"p = exp({decimals(logit)} − {decimals(total)}) = "
        f"exp({decimals(logit - total)}) = {probability(math.exp(logit - total))}.",
    ]
    if rest > 0:
        others = probability(max(0.0, 1 - listed))
        lines.append(
            f"The best {look.ids.shape[1]} hold {probability(listed)} of the "
            f"probability, the other {rest:,} tokens {others}."
        )
    if config.softmax_output:
        lines.append(
            "This model ends in a softmax of its own: what it returns are the "
            "probabilities p; z is what enters that softmax."
        )
    return " ".join([*lines, *_sampling_words(lens.strategy, look, logit)])


def _sampling_words(strategy: Strategy, look: LensRow, logit: float) -> list[str]:
    """Say from what distribution tokens are drawn, where they are."""
    if strategy.name != "sample":
        return []
    heat, total = strategy.temperature, look.tempered_log_sum
    drawn = math.exp(logit / heat - total)
    cuts = []
    if strategy.top_k:
        cuts.append(f"top-k {strategy.top_k}")
    if strategy.top_p < 1:
        cuts.append(f"top-p {number(strategy.top_p)}")
    after = f", before {' and '.join(cuts)} cut tokens off" if cuts else ""
    return [
        f"Sampling at temperature {number(heat)}: softmax(z / {number(heat)}) gives "
        f"exp({decimals(logit)} / {number(heat)} − {decimals(total)}) = "
        f"{probability(drawn)}{after}."
    ]


def unknown_words(trace: Trace, lens: LensRows | None) -> str:
    """Say why there are no logits yet."""
    if refused(trace, lens):
        return "The engine could not compute the logits: the log says why."
    return (
        "Logits need the output projection, which stays in the engine: they are asked "
        "for and come as soon as it has this model open."
    )
