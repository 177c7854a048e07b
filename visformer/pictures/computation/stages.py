"""Which function makes the picture of which stage, and what is said without one."""

from __future__ import annotations

from collections.abc import Callable

from visformer.pictures.computation.attention_stages import (
    input_stage,
    mask_stage,
    product_stage,
    projection_stage,
    scale_stage,
    softmax_stage,
)
from visformer.pictures.computation.computation import (
    STAGE_NAMES,
    Axis,
    Subject,
    stage_of,
    subject,
)
from visformer.pictures.computation.drawn import StagePicture
from visformer.pictures.computation.feed_stages import (
    activation_stage,
    feed_residual_stage,
    norms_stage,
    sublayers_stage,
    w1_stage,
    w2_stage,
)
from visformer.pictures.computation.head_stages import (
    concat_stage,
    output_stage,
    residual_stage,
    weighted_stage,
)
from visformer.session.state import State

WAITING = (
    "This stage needs the weights of the layer. They are in the engine: it is "
    "starting, or has another model open."
)
NOTHING = "Nothing is decoded yet: step on, or choose the encoder's self attention (1)."
_MAKERS: dict[str, Callable[[Subject], StagePicture]] = dict(
    zip(
        STAGE_NAMES,
        (
            input_stage,
            projection_stage("query"),
            projection_stage("key"),
            projection_stage("value"),
            product_stage,
            scale_stage,
            mask_stage,
            softmax_stage,
            weighted_stage,
            concat_stage,
            output_stage,
            residual_stage,
            w1_stage,
            activation_stage,
            w2_stage,
            feed_residual_stage,
            sublayers_stage,
            norms_stage,
        ),
        strict=True,
    )
)


def picture(
    state: State, dimensions: dict[Axis, int]
) -> tuple[Subject | None, StagePicture | str]:
    """Return what is looked at and its picture; a sentence where there is none."""
    stage, looked_at = stage_of(state), subject(state, dimensions)
    if state.shown is None:
        return None, "No sentence has been run yet."
    if looked_at is None:
        return None, NOTHING
    if stage.weighs and looked_at.layer_rows is None:
        return looked_at, WAITING
    return looked_at, _MAKERS[stage.name](looked_at)


def heading(looked_at: Subject | None) -> str:
    """Say which cell is shown, and where nobody has chosen it, why this one."""
    if looked_at is None:
        return ""
    pair = f"{looked_at.token('query')} reads {looked_at.token('key')}"
    if looked_at.chosen:
        return pair
    return f"{pair} · no cell is chosen: the last query and the key it reads most"
