"""From the decoder's output to the next token: vector, logits, softmax, logit lens."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.candidates import rest_of
from visformer.pictures.picture import Label, Matrix, Numbers, largest, signed_shade
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
    marked_token,
    short_choice,
    written_names,
)
from visformer.values.facts import ModelFacts
from visformer.values.memo import same
from visformer.values.pieces import WordMarks
from visformer.values.reading_order import reads_later
from visformer.values.step import LensRow, LensRows, Step
from visformer.values.trace import Trace
from visformer.words import (
    decimals,
    dimension_words,
    layer_words,
    number,
    probability,
    rank_text,
    share,
)

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


Shows = Literal["best", "chosen"]
SHOWS: dict[Shows, str] = {  # in a cell of the map of all steps, translated when shown
    "best": N_("the layer's best token"),
    "chosen": N_("the rank of the step's token"),
}
BEST = 5  # tokens of a layer besides the chosen one
MOST_STEPS = 128  # steps in the map of all steps: the last ones up to the current one
Text = tuple[str, str]  # the text of a cell: a token, a number
_LENS_TITLES: dict[tuple[Shows, bool], str] = {  # whether the first steps are omitted
    ("best", False): N_("all steps: each layer's best token"),
    ("best", True): N_("steps {first} to {last}: each layer's best token"),
    ("chosen", False): N_("all steps: the rank of the step's token"),
    ("chosen", True): N_("steps {first} to {last}: the rank of the step's token"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A matrix with text in its cells."""

    matrix: Matrix
    texts: tuple[tuple[Text, ...], ...]  # R rows of C


_ROWS = N_(
    "Row 0 is what enters the first layer; the last row is the model's own prediction. "
    "The rows before it are a lens, not what the model computes there: it reads out "
    "only the last."
)


def how_words(model: ModelFacts) -> str:
    """Explain how the lens is computed, and its limits."""
    if model.known is None:
        how = _(
            "Logit lens: each layer's stream through the model's own final norm, if it "
            "has one, its output projection and softmax."
        )
        return sentences((how, _(_ROWS)))
    config = model.config
    projection = _("the output projection")
    if config.output_bias:
        projection = _("the output projection with its bias")
    if config.final_norm:
        how = _(
            "Logit lens: the final norm of each layer's stream, then {projection}, "
            "then softmax.",
            projection=projection,
        )
    elif config.norm_first:
        how = _(
            "Logit lens: each layer's stream as it is (there is no final norm), then "
            "{projection}, then softmax.",
            projection=projection,
        )
    else:
        how = _(
            "Logit lens: each layer's stream, which ends with the layer's own norm, "
            "then {projection}, then softmax.",
            projection=projection,
        )
    return sentences((how, _(_ROWS)))


def step_lens(trace: Trace | None, lens: LensRows | None) -> Written | None:
    """Return layers by tokens of the current step: the chosen one, then the best."""
    look = current_row(trace, lens)
    if trace is None or look is None:
        return None
    how = marks(trace, "target")
    count = min(BEST, look.ids.shape[1])
    values = np.column_stack([look.chosen_probabilities, look.probabilities[:, :count]])
    texts = tuple(
        (
            _rank_text(look, layer),
            *(
                (candidate(token, how), share(float(p)))
                for token, p in zip(
                    look.tokens[layer][:count], look.probabilities[layer], strict=False
                )
            ),
        )
        for layer in range(len(look.tokens))
    )
    columns = (
        marked_token(trace, -1),
        *(_("best {rank}", rank=n) for n in range(1, count + 1)),
    )
    matrix = Matrix(
        title=_("step {step}, layer by layer", step=len(trace)),
        values=values,
        shade=np.clip(values, 0, 1),
        rows=_layers(len(values)),
        columns=columns,
        row_axis=_("after layer"),
        column_axis=_("the step's token: its rank; then the best tokens"),
        ends=("0", "1"),
        note=_("probability, linear"),
    )
    return Written(matrix, texts)


def _step_label(trace: Trace, row: int) -> Label:
    return marked_token(trace, row).after(f"{row + 1}: ")


def steps_range(trace: Trace) -> range:
    """Return the rows in the map of all steps."""
    return range(max(0, len(trace) - MOST_STEPS), len(trace))


def all_lens(
    trace: Trace | None, lens: LensRows | None, shows: Shows
) -> Written | None:
    """Return steps by layers: the best token or the chosen token's rank."""
    known = known_rows(trace, lens)
    if trace is None or not len(trace) or not known:
        return None
    rows, layers = steps_range(trace), trace.layers("decoder") + 1
    values = np.zeros((len(rows), layers), np.float32)  # [rows, L + 1]
    texts: list[tuple[Text, ...]] = []
    labels: list[Label] = []
    for at, row in enumerate(rows):
        look = known.get(row)
        if look is None:
            texts.append((("…", ""),) * layers)
            labels.append(_step_label(trace, row))
            continue
        best = look.probabilities[:, 0]
        values[at] = best if shows == "best" else look.chosen_probabilities
        label, written = _kept_words(trace, row, look, shows)
        texts.append(written)
        labels.append(label)
    title = _LENS_TITLES[shows, bool(rows.start)]
    matrix = Matrix(
        title=_(title, first=rows.start + 1, last=rows.stop),
        values=values,
        shade=np.clip(values, 0, 1),
        rows=tuple(labels),
        columns=_layers(layers),
        row_axis=_("step: its token"),
        column_axis=_("after layer"),
        ends=("0", "1"),
        note=_("probability, linear"),
    )
    return Written(matrix, tuple(texts))


def _kept_words(
    trace: Trace, row: int, look: LensRow, shows: Shows
) -> tuple[Label, tuple[Text, ...]]:
    """Return a row's label and texts, cached with its run for later steps."""
    of, name = (look, trace.steps[row]), ("lens", row, shows)
    words: tuple[Label, tuple[Text, ...]] | None = trace.memo.find(of, name)
    if words is None:
        words = _step_label(trace, row), _texts(look, shows, marks(trace, "target"))
        trace.memo.keep(of, name, words, len(words[1]))
    return words


def _texts(look: LensRow, shows: Shows, how: WordMarks) -> tuple[Text, ...]:
    """Return the text of a row's cells, one cell per layer."""
    if shows == "chosen":
        return tuple(_rank_text(look, layer) for layer in range(len(look.tokens)))
    best = zip(look.tokens, look.probabilities[:, 0].tolist(), strict=True)
    return tuple((candidate(tokens[0], how), share(p)) for tokens, p in best)


def _layers(count: int) -> tuple[str, ...]:
    """Name the input and the layers; the last layer is the model's output."""
    between = map(str, range(1, count - 1))
    return (_("0: input"), *between, _("{layer}: model", layer=count - 1))


def settled_layer(trace: Trace | None, lens: LensRows | None) -> int | None:
    """Return the layer from which on the step's token is the best one; 0 is the input.

    None if it is not the best in the last layer, or if the lens is unknown.
    """
    look = current_row(trace, lens)
    if look is None or look.chosen_ranks[-1] != 1:
        return None
    others = np.flatnonzero(look.chosen_ranks != 1)
    return int(others[-1]) + 1 if len(others) else 0


def rank_words(trace: Trace | None, lens: LensRows | None) -> str:
    """Describe how the chosen token's rank changes from layer to layer."""
    look = current_row(trace, lens)
    if trace is None or look is None:
        return ""
    ranks = " → ".join(map(rank_text, look.chosen_ranks.tolist()))
    shares = " → ".join(probability(p) for p in look.chosen_probabilities.tolist())
    token = chosen_name(trace)
    return _(
        "“{token}” through the layers: rank {ranks}; p {shares}.",
        token=token,
        ranks=ranks,
        shares=shares,
    )


def lens_cell_words(
    trace: Trace | None, lens: LensRows | None, row: int, layer: int
) -> str:
    """Say what a layer would have predicted at a row."""
    look = known_rows(trace, lens).get(row)
    if trace is None or look is None or row >= len(trace):
        return ""
    how = marks(trace, "target")
    best = ", ".join(
        f"“{candidate(token, how)}” {share(float(p))}"
        for token, p in zip(
            look.tokens[layer][:BEST], look.probabilities[layer], strict=False
        )
    )
    return _(
        "Step {step}, after {place}: {best}. Its token, {token}: rank {rank}, p {p}, "
        "logit {logit}, LSE {total}.",
        step=row + 1,
        place=_("the input") if layer == 0 else layer_words(layer - 1),
        best=best,
        token=marked_token(trace, row),
        rank=rank_text(int(look.chosen_ranks[layer])),
        p=probability(float(look.chosen_probabilities[layer])),
        logit=number(float(look.chosen_logits[layer])),
        total=number(float(look.log_sums[layer])),
    )


def _rank_text(look: LensRow, layer: int) -> Text:
    p = float(look.chosen_probabilities[layer])
    return f"#{rank_text(int(look.chosen_ranks[layer]))}", share(p)
