"""Pictures of the logit lens: what each decoder layer would have predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from visformer.language import N_, _, sentences
from visformer.pictures.output import current_row, known_rows
from visformer.pictures.picture import Label, Matrix
from visformer.pictures.token_names import candidate, chosen_name, marks
from visformer.pictures.words.choices import marked_token
from visformer.values.facts import ModelFacts
from visformer.values.lens import LensRow, LensRows
from visformer.values.pieces import WordMarks
from visformer.values.trace import Trace
from visformer.words import layer_words, number, probability, rank_text, share

Shows = Literal["best", "chosen"]
SHOWS: dict[Shows, str] = {  # in a cell of the map of all steps, translated when shown
    "best": N_("the layer's best token"),
    "chosen": N_("the rank of the step's token"),
}
BEST = 5  # tokens of a layer besides the chosen one
MOST_STEPS = 128  # steps in the map of all steps: the last ones up to the current one
Text = tuple[str, str]  # the text of a cell: a token, a number
_TITLES: dict[tuple[Shows, bool], str] = {  # by whether the first steps are omitted
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
    title = _TITLES[shows, bool(rows.start)]
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
