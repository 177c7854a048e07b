"""Small real models with decoded sentences, for the Computation tab's pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.states import ran
from tests.tiny_models import tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.side_runs import layer_parameters
from visformer.pictures.computation.stage_picture import StagePicture
from visformer.pictures.computation.stages import picture, stage_of
from visformer.pictures.computation.subject import Subject, subject
from visformer.pictures.picture import Axis
from visformer.session.state import Session, State
from visformer.values.facts import StackName
from visformer.values.trace import Trace


def traced(text: str = "abcde", **sizes: Any) -> tuple[Checkpoint, Trace]:
    checkpoint = tiny_checkpoint(**sizes)
    return checkpoint, Decoding(checkpoint, text, limit=6).finish()


def state_of(checkpoint: Checkpoint, trace: Trace, **changes: Any) -> State:
    """Return a State with the weights that its kind and layer need."""
    session = Session()
    changes = {"step": len(trace), "kind": "cross", **changes}
    session.set(**ran(trace), **changes)
    stack: StackName = "encoder" if session.state.kind == "encoder" else "decoder"
    made = layer_parameters(checkpoint, stack, session.state.layer)
    session.set(parameters=(made,))
    return session.state


def looked_at(state: State, dimensions: dict[Axis, int] | None = None) -> Subject:
    cell = subject(
        state.visible,
        state.selection,
        parameters=state.parameters,
        positions=state.positions,
        dimensions=dimensions,
    )
    assert cell is not None
    return cell


def shown(state: State, stage: str, **dimensions: int) -> StagePicture:
    result = picture(stage_of(stage), looked_at(state, dimensions))  # type: ignore[arg-type]
    assert isinstance(result, StagePicture)
    return result


def values(state: State, stage: str) -> list[np.ndarray]:
    return [one.make().values for one in shown(state, stage).maps]
