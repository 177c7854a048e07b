"""The stages of the Computation tab, in order; STAGES has an entry for each.

A stage is one step of the arithmetic from a layer's input to its output. Its entry
holds its name, its title, its page and the function that makes its picture.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from visformer.language import N_, _
from visformer.pictures.comparison import no_step_words
from visformer.pictures.computation.attention_stages import (
    concat_stage,
    mask_stage,
    output_stage,
    product_stage,
    residual_stage,
    softmax_stage,
    weighted_stage,
)
from visformer.pictures.computation.feed_forward_stages import (
    activation_stage,
    dropout_stage,
    feed_residual_stage,
    sublayers_stage,
    w1_stage,
    w2_stage,
)
from visformer.pictures.computation.norms import norms_stage
from visformer.pictures.computation.projection_stages import (
    input_stage,
    projection_stage,
    projections_stage,
    scale_stage,
    scale_title,
)
from visformer.pictures.computation.stage_picture import StagePicture, of_tokens
from visformer.pictures.computation.subject import Subject
from visformer.values.facts import STACK_OF, Kind
from visformer.values.trace import Trace

# Translated when shown, like the pages and the titles of the stages.
WAITING = N_(
    "This stage needs the layer's weights, which are not here yet: the engine is still "
    "starting, or it has another model open."
)
NOT_RUN = N_("No sentence has been run yet.")
NOTHING = N_(
    "Nothing has been decoded yet. Step forward, or choose the encoder's "
    "self-attention (press 1)."
)
NOTHING_YET = N_("Nothing has been decoded yet. Step forward.")

StagePage = Literal["attention", "feed_forward"]
PAGES: dict[StagePage, str] = {
    "attention": N_("Attention of a cell"),
    "feed_forward": N_("Feed-forward, residual, norm"),
}


class Stage(NamedTuple):
    """One step of the arithmetic."""

    name: str  # in the State and in ``render --stage``
    title: str  # on its tab
    page: StagePage
    make: Callable[[Subject], StagePicture]
    weighs: bool = True  # whether it needs the layer's weights


STAGES = (
    Stage("input", N_("input"), "attention", input_stage),
    Stage("projections", N_("Q, K, V"), "attention", projections_stage),
    Stage("query", "Q", "attention", projection_stage("query")),
    Stage("key", "K", "attention", projection_stage("key")),
    Stage("value", "V", "attention", projection_stage("value")),
    Stage("product", "QKᵀ", "attention", product_stage, weighs=False),
    Stage("scale", "÷ √d", "attention", scale_stage, weighs=False),
    Stage("mask", N_("mask"), "attention", mask_stage, weighs=False),
    Stage("softmax", "softmax", "attention", softmax_stage, weighs=False),
    Stage("weighted", "× V", "attention", weighted_stage, weighs=False),
    Stage("concat", N_("concat"), "attention", concat_stage),
    Stage("output", "× Wₒ", "attention", output_stage),
    Stage("residual", N_("add, norm"), "attention", residual_stage),
    Stage("w1", "× W₁", "feed_forward", w1_stage),
    Stage("activation", N_("activation"), "feed_forward", activation_stage),
    Stage("w2", "× W₂", "feed_forward", w2_stage),
    Stage("dropout", N_("dropout"), "feed_forward", dropout_stage),
    Stage("feed_residual", N_("add, norm"), "feed_forward", feed_residual_stage),
    Stage("sublayers", N_("what each sublayer adds"), "feed_forward", sublayers_stage),
    Stage("norms", N_("layer / batch norm"), "feed_forward", norms_stage),
)


def stage_names() -> tuple[str, ...]:
    """Return the names of all stages, in order."""
    return tuple(stage.name for stage in STAGES)


def stage_of(name: str) -> Stage:
    """Return the stage with a name."""
    return next(stage for stage in STAGES if stage.name == name)


def stages_on(page: StagePage) -> tuple[Stage, ...]:
    """Return the stages of a page, in order."""
    return tuple(stage for stage in STAGES if stage.page == page)


def neighbour(name: str, by: int) -> str:
    """Return the name of the stage ``by`` places further, clamped at both ends."""
    names = stage_names()
    return names[max(0, min(len(names) - 1, names.index(name) + by))]


def titles_on(
    page: StagePage, trace: Trace | None, kind: Kind, layer: int
) -> tuple[str, ...]:
    """Return the tab titles of a page's stages, for one layer of a Trace."""
    own = {"scale": scale_title(trace, kind, layer)}
    known = None if trace is None else trace.model.known
    if known is not None and known.norm == "rms":
        own["norms"] = _("RMS / batch norm")
    return tuple(own.get(stage.name) or _(stage.title) for stage in stages_on(page))


def picture(stage: Stage, looked_at: Subject) -> StagePicture | str:
    """Return a stage's picture, or a sentence if its data are missing."""
    if not stage.weighs:
        return _made(stage, looked_at)
    model, stack = looked_at.trace.model, STACK_OF[looked_at.kind]
    if model.known is None:
        return _(
            "This stage needs the layer's weights, but only the attention of “{model}” "
            "is known.",
            model=model.name,
        )
    if stack not in model.stacks or not model.stacks[stack].hidden:
        return _(
            "This stage needs the residual stream, which this trace does not have."
        )
    return _(WAITING) if looked_at.layer_rows is None else _made(stage, looked_at)


def _made(stage: Stage, looked_at: Subject) -> StagePicture:
    alone = stage.page == "feed_forward"
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and ∞ are drawn
        made = stage.make(replace(looked_at, alone=alone))
    if not alone:
        return made
    return replace(made, maps=tuple(map(of_tokens, made.maps)))


def no_cell_words(trace: Trace | None) -> str:
    """Explain why there is no cell."""
    if trace is None:
        return _(NOT_RUN)
    return _(NOTHING if "encoder" in trace.kinds else NOTHING_YET)


def no_cell_beside(name: str, other: Trace, own: Subject, step: int) -> str:
    """Say that a run beside that on screen lacks its cell; "" where it has it."""
    ended = "" if own.kind == "encoder" else no_step_words(name, other, step)
    if ended:
        return ended
    queries, keys = map(len, other.tokens(own.kind))
    has = own.kind in other.kinds and own.query < queries and own.key < keys
    if has and own.layer < other.layers(own.kind) and own.head < other.heads(own.kind):
        return ""
    return _("“{run}” has no such cell.", run=name)


def heading(looked_at: Subject, page: StagePage = "attention") -> str:
    """Name the cell shown, and explain the default cell if none is selected.

    The feed-forward network processes tokens separately and has no cell.
    """
    if page == "feed_forward":
        return ""
    query, key = looked_at.token("query"), looked_at.token("key")
    told = np.isnan(looked_at.weights[looked_at.query, looked_at.key])
    words = _("{query} reads {key}", query=query, key=key)
    if not looked_at.chosen and not told:
        words = _(
            "{query} reads {key} · no cell is selected, so this is the last query and "
            "the key that it reads most",
            query=query,
            key=key,
        )
    if looked_at.whole:
        words += _(" · rows read later tokens, so those of the whole pass are shown")
    return words
