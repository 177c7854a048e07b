"""From the decoder's output to the next token: vector, logits, softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.candidates import rest_of
from visformer.pictures.picture import Matrix, Numbers, largest, signed_shade
from visformer.pictures.token_names import candidate, chosen_name, marks, names, word
from visformer.pictures.words.absent import (
    has_output,
    has_source,
    has_target,
    no_lens_words,
    no_output_words,
    without_steps_words,
)
from visformer.pictures.words.choices import (
    choice_sentence,
    draw_words,
    short_choice,
    written_names,
)
from visformer.values.lens import LensRow, LensRows
from visformer.values.memo import same
from visformer.values.reading_order import reads_later
from visformer.values.step import Step
from visformer.values.trace import Trace
from visformer.words import decimals, dimension_words, number, probability, rank_text

MOST_ROWS = 256  # rows of Z drawn: the last ones up to the current row
AHEAD = 8  # rows after the current one that are requested in advance
AROUND = 128  # rows on both sides of the current one whose lens is requested
NOT_RUN = N_("No sentence has been run yet.")
UNDECODED = N_("Nothing is decoded yet: step forward to see what the decoder predicts.")


def known_rows(trace: Trace | None, lens: LensRows | None) -> Mapping[int, LensRow]:
    """Return the rows of the lens that belong to a Trace's run."""
    if trace is None or lens is None or not same(lens.of, trace.storage):
        return {}
    return lens.rows


def current_row(trace: Trace | None, lens: LensRows | None) -> LensRow | None:
    """Return the lens of a Trace's last row, if known."""
    return None if trace is None else known_rows(trace, lens).get(len(trace) - 1)


def refused(trace: Trace | None, lens: LensRows | None) -> bool:
    """Whether the engine could not compute the lens of a Trace's run."""
    if trace is None or lens is None or not same(lens.of, trace.storage):
        return False
    return lens.refused


def missing(
    trace: Trace | None, lens: LensRows | None, *, busy: bool
) -> tuple[int, ...]:
    """Return the rows whose lens is needed but unknown, the nearest first.

    They are around the last row of ``trace``, including rows already decoded after it.
    While the engine is ``busy``, only that row is requested, in order not to slow the
    run.
    """
    if trace is None or not len(trace) or refused(trace, lens):
        return ()
    if no_lens_words(trace):
        return ()
    at, known = len(trace) - 1, known_rows(trace, lens)
    end = min(len(trace.whole), at + AHEAD + 1)
    around = range(at, at + 1) if busy else range(max(0, at - AROUND), end)
    rows = [row for row in around if row not in known]
    return tuple(sorted(rows, key=lambda row: abs(row - at)))


def first_row(trace: Trace) -> int:
    """Return the first row of Z that is drawn."""
    return max(0, len(trace) - MOST_ROWS)


# by whether the first rows are left out, and whether rows read later tokens
_TITLES = {
    (False, False): N_("Z [{rows}, {width}]: row t read tokens 1..t, predicts t + 1"),
    (False, True): N_("Z [{rows}, {width}]: some rows of this run read later tokens"),
    (True, False): N_(
        "Z [{rows}, {width}], rows {first} to {rows}: row t read tokens 1..t, predicts "
        "t + 1"
    ),
    (True, True): N_(
        "Z [{rows}, {width}], rows {first} to {rows}: some rows of this run read later "
        "tokens"
    ),
}


def output_picture(trace: Trace) -> Matrix | None:
    """Return the decoder's output Z [T, D], one row per step; None if not stored."""
    if not has_output(trace):
        return None
    start, width = first_row(trace), trace.model.stacks["decoder"].d_model
    values = np.zeros((0, width), np.float32)
    if len(trace):
        values = trace.decoder_output[start:]
    top = largest(values)
    return Matrix(
        title=_(
            _TITLES[bool(start), reads_later(trace)],
            rows=len(trace),
            width=width,
            first=start + 1,
        ),
        values=values,
        shade=signed_shade(values, top),
        rows=_row_labels(trace, range(start, len(trace))),
        columns=tuple(map(str, range(width))),
        row_axis=_("row t"),
        column_axis=_("decoder output, by dimension (dim)"),
        row_unit=_("row"),
        column_unit=_("dim"),
        ends=(number(-top, 3), f"+{number(top, 3)}"),
        note=_("the model's own numbers, linear") if len(trace) else _(UNDECODED),
        signed=True,
    )


def _row_labels(trace: Trace, rows: range) -> tuple[str, ...]:
    read = names(trace, "target")[rows.start :]
    shown = written_names(trace, rows) if trace.steps else read
    return tuple(
        name.after(f"{row + 1}: ") for row, name in zip(rows, shown, strict=True)
    )


# by whether a row of Z reads a source, and whether it may read later tokens
_DEPENDS = {
    (True, False): N_("Row {row} of Z depends on the source and on {tokens} only."),
    (True, True): N_(
        "Row {row} of Z depends on the source, on {tokens} and possibly on later "
        "tokens."
    ),
    (False, False): N_("Row {row} of Z depends on {tokens}."),
    (False, True): N_("Row {row} of Z may depend on later tokens too."),
}


def output_words(trace: Trace, row: int) -> str:
    """Say what a row of Z depends on, and what is computed from it."""
    sourced = has_source(trace) and bool(trace.steps)
    depends = _DEPENDS[sourced, reads_later(trace)]
    reads = _(depends, row=row + 1, tokens=_read(trace, row))
    if not trace.steps:
        return reads
    return sentences((reads, choice_sentence(trace, row)))


def _read(trace: Trace, row: int) -> str:
    first, last = (word(trace, "target", at) for at in (0, row))
    if row == 0:
        return _("target token 1 (“{first}”)", first=first)
    return _(
        "target tokens 1 to {count} (“{first}” … “{last}”)",
        count=row + 1,
        first=first,
        last=last,
    )


def flow_words(trace: Trace | None) -> str:
    """Describe the way from the tokens read to the current step's choice."""
    if trace is None:
        return _(NOT_RUN)
    if not has_target(trace):
        return no_output_words(trace)
    if not len(trace):
        return _(UNDECODED)
    if not trace.steps:
        return sentences((without_steps_words(trace), no_output_words(trace)))
    row = len(trace) - 1
    chain = [
        _("Step {step}: {tokens}", step=row + 1, tokens=_read(trace, row)),
        _("decoder"),
        *_known_chain(trace, row),
        _("{choice}.", choice=short_choice(trace)),
    ]
    return " → ".join(filter(None, chain))


def _known_chain(trace: Trace, row: int) -> tuple[str, ...]:
    """Return what a row passes after the decoder, if known."""
    if trace.model.known is None:
        stack = trace.model.stacks.get("decoder")
        if stack is None or not stack.read_out:
            return (_("output (not known)"),)
        norm = _("final norm") if stack.output else ""
        place, own = _("row {row} of Z", row=row + 1), _("the model's projection")
        return norm, place, own, "softmax"
    config = trace.model.config
    product = "W + b" if config.output_bias else "W"
    logits = ngettext("{n:,} logit z", "{n:,} logits z", config.target_vocabulary)
    return (
        _("final norm") if config.final_norm else "",
        _("row {row} of Z", row=row + 1),
        _("times {product}: {logits}", product=product, logits=logits),
        "softmax",
    )


def product_table(trace: Trace | None, lens: LensRows | None) -> Numbers | None:
    """Return the last row of Z and, once known, the terms of the chosen logit."""
    if trace is None or not len(trace) or not has_output(trace):
        return None
    vector = trace.decoder_output[-1]
    # constant names, so that the table need not be rebuilt at every step
    columns = trace.memo.made(
        (trace.model,),
        "dimensions",
        lambda: tuple(map(dimension_words, range(len(vector)))),
    )
    names, values = ["Z[t]"], [vector]
    look = current_row(trace, lens)
    if look is not None:
        names += [_("W[:, token]"), _("product")]
        values += [look.weight, vector * look.weight]
    return Numbers(
        rows=tuple(names), columns=columns, values=np.stack(values), axis="model"
    )


def logit_table(trace: Trace | None, lens: LensRows | None) -> Numbers | None:
    """Return logit and probability of the best tokens and of the step's token."""
    look = current_row(trace, lens)
    if trace is None or look is None:
        return None
    step, how = trace.steps[-1], marks(trace, "target")
    best = enumerate(look.tokens[-1], 1)
    names = [candidate(token, how).after(f"{rank}  ") for rank, token in best]
    logits, p = look.logits[-1].tolist(), look.probabilities[-1].tolist()
    if step.id not in look.ids[-1]:
        rank = rank_text(int(look.chosen_ranks[-1]))
        names.append(chosen_name(trace).after(f"{rank}  "))
        logits.append(float(look.chosen_logits[-1]))
        p.append(float(look.chosen_probabilities[-1]))
    values = np.array([logits, p], np.float32).T
    return Numbers(
        rows=tuple(names),
        columns=(_("logit z"), "p = e^(z−LSE)"),
        values=values,
        axis="",
        by="column",
    )


def chosen_line(trace: Trace | None, lens: LensRows | None) -> int | None:
    """Return the line of ``logit_table`` with the chosen token."""
    look = current_row(trace, lens)
    if trace is None or look is None:
        return None
    ids, chosen = look.ids[-1].tolist(), trace.steps[-1].id
    return ids.index(chosen) if chosen in ids else len(ids)


def softmax_words(trace: Trace | None, lens: LensRows | None) -> str:
    """Write out the softmax of the current step in numbers."""
    if trace is None or not len(trace) or no_lens_words(trace):
        return ""
    look = current_row(trace, lens)
    if look is None or lens is None:
        return unknown_words(trace, lens)
    if trace.model.known is None:
        return ""
    config = trace.model.config
    logit, total = float(look.chosen_logits[-1]), float(look.log_sums[-1])
    token = chosen_name(trace)
    terms = ngettext("sum of {n} product", "sum of {n} products", config.d_model)
    if look.bias is not None:
        terms = _("{terms} + bias {bias}", terms=terms, bias=number(look.bias))
    said = [
        _(
            "z(“{token}”) = {terms} = {logit}.  LSE = ln Σ exp(z) over all {count:,} "
            "logits = {total}.  p = exp({logit} − {total}) = exp({difference}) = {p}.",
            token=token,
            terms=terms,
            logit=decimals(logit),
            count=config.target_vocabulary,
            total=decimals(total),
            difference=decimals(logit - total),
            p=probability(math.exp(logit - total)),
        ),
        _rest_words(look, config.target_vocabulary),
    ]
    if config.softmax_output:
        said.append(
            _(
                "This model ends in a softmax of its own: it returns the probabilities "
                "p; z is what enters that softmax."
            )
        )
    said.append(_sampling_words(trace.steps[-1], lens, look, logit))
    return sentences(said)


def _rest_words(look: LensRow, vocabulary: int) -> str:
    best = look.ids.shape[1]
    if best >= vocabulary:
        return ""
    listed = float(look.probabilities[-1].sum())
    return ngettext(
        "The best {best} hold {listed} of the probability, the other {n:,} token "
        "{others}.",
        "The best {best} hold {listed} of the probability, the other {n:,} tokens "
        "{others}.",
        vocabulary - best,
        best=best,
        listed=probability(listed),
        others=probability(rest_of(listed)),
    )


def _sampling_words(step: Step, lens: LensRows, look: LensRow, logit: float) -> str:
    """State the distribution that the token was drawn from; "" if it was not drawn."""
    if step.drawn is None:
        return ""
    heat, total = step.drawn.temperature, look.tempered_log_sum
    if heat != lens.strategy.temperature:  # the sum is for another temperature
        return draw_words(step.drawn)
    sampling = _(
        "Sampling at temperature {heat}: softmax(z / {heat}) gives exp({logit} / "
        "{heat} − {total}) = {drawn}.",
        heat=number(heat),
        logit=decimals(logit),
        total=decimals(total),
        drawn=probability(math.exp(logit / heat - total)),
    )
    return sentences((sampling, draw_words(step.drawn)))


def unknown_words(trace: Trace, lens: LensRows | None) -> str:
    """Explain why there are no logits yet."""
    if refused(trace, lens):
        return _("The engine could not compute the logits; the log says why.")
    return _(
        "Logits need the output projection, which stays in the engine. They are "
        "requested as soon as the engine has opened this model."
    )
