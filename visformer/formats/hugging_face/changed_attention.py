"""Changes of a run: transformers' own attention with other masks and scales.

Models in transformers call a registered attention function. Ours changes the arguments
and calls the model's own function.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from visformer.errors import CheckpointError, InputError
from visformer.formats.hugging_face.library import explained, library
from visformer.values.facts import Kind, ModelFacts
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.score_bias import NO_WEIGHT
from visformer.values.watched_attention import TOLERANCE
from visformer.watching.traces import layers_of
from visformer.watching.watcher import Watched, difference

NAME = "visformer"  # our entry in transformers' table of functions
AttentionPlaces = Mapping[
    nn.Module, list[tuple[Kind, int]]
]  # kind and layer of each attention, in order of execution
_RUNNING: ContextVar[ChangedAttention] = ContextVar("running")


class AttentionChanges:
    """The changes that can be made to a module's runs."""

    def __init__(
        self,
        module: nn.Module,
        trial: Watched,
        inputs: Mapping[str, Any],
        facts: ModelFacts,
    ) -> None:
        """``trial`` is a watched pass over ``inputs`` that shows where attention is."""
        self._module, self._trial, self._facts = module, trial, facts
        self._inputs = inputs

    def check(self, change: Intervention, source: int) -> None:
        """Raise InputError for a change that does not fit or cannot be made.

        ``source`` is the number of source tokens.
        """
        if change.acting("mask", "scale") != change:
            raise InputError(
                "“{change}” cannot be made: in a model of transformers masks and "
                "scales can be changed, not positions or the value of a mask.",
                change=str(change),
            )
        change.check(self._facts, source)
        if not self._reached:
            raise InputError(
                "“{change}” cannot be made: this model of transformers computes "
                "its attention in a way that cannot be intercepted.",
                change=str(change),
            )

    def running(self, change: Intervention) -> AbstractContextManager[None]:
        """Return a context in which the module runs with a change."""
        return self._changed(change).running(self._module)

    def _changed(self, change: Intervention) -> ChangedAttention:
        return ChangedAttention(self._places, self._facts, change)

    @cached_property
    def _places(self) -> AttentionPlaces:
        layers = layers_of(self._trial.last_run)
        places: dict[nn.Module, list[tuple[Kind, int]]] = {}
        for kind in layers:
            for at, one in enumerate(layers[kind]):
                module = self._module.get_submodule(one.module)
                places.setdefault(module, []).append((kind, at))
        return places

    @cached_property
    def _reached(self) -> bool:
        """Whether a pass with nothing changed goes through our function unmodified."""
        plain = self._changed(NO_CHANGES)
        try:
            with explained(""), torch.no_grad(), plain.running(self._module):
                made = self._module(**self._inputs)
        except CheckpointError:  # its attention cannot be replaced
            return False
        if plain.reached != len(self._trial.last_run):
            return False
        return difference(made[0], self._trial.output[0]) <= TOLERANCE


class ChangedAttention:
    """One pass of a module with a change; counts the attentions that were changed."""

    def __init__(
        self, places: AttentionPlaces, facts: ModelFacts, change: Intervention
    ) -> None:
        self._waiting = {module: iter(there) for module, there in places.items()}
        self._facts, self._change = facts, change
        self.reached = 0

    @contextmanager
    def running(self, module: nn.Module) -> Iterator[None]:
        """Make a transformers module call it inside the context.

        Raises ValueError if its attention cannot be replaced.
        """
        _register()
        model: Any = module
        token = _RUNNING.set(self)
        try:
            model.set_attn_implementation(NAME)
            yield
        finally:
            model.set_attn_implementation("eager")
            _RUNNING.reset(token)

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        scaling: float | None,
    ) -> tuple[Tensor | None, float]:
        """Return the mask and the scale of a module's next attention."""
        self.reached += 1
        kind, layer = next(self._waiting[module])
        own = self._facts.attention[kind].scales[layer]
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        if own:  # the module may apply a part of the scale itself
            scale *= self._change.scale(own, kind, layer) / own
        if not self._change.masks:
            return mask, scale
        return self._masked(kind, layer, query, key, mask), scale

    def _masked(
        self, kind: Kind, layer: int, query: Tensor, key: Tensor, mask: Tensor | None
    ) -> Tensor:
        shape = query.shape[2], key.shape[2]
        added = query.new_zeros(1, 1, *shape) if mask is None else mask[..., : shape[1]]
        allowed = (added > NO_WEIGHT).any(1)[0].cpu().numpy()
        opened = np.ones(shape, bool) if kind == "decoder" else allowed
        made = self._change.mask(kind, layer, allowed, opened)
        wanted = torch.from_numpy(np.array(made)).to(added.device)
        lowest = torch.finfo(added.dtype).min
        return added.where(added > NO_WEIGHT, 0).where(wanted, lowest)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **others: Any,
) -> Any:
    """Call the attention function defined in the module's own file."""
    own: Any = sys.modules[type(module).__module__]
    mask, scale = _RUNNING.get().attend(module, query, key, attention_mask, scaling)
    return own.eager_attention_forward(
        module, query, key, value, mask, scaling=scale, **others
    )


def _register() -> None:
    tables = library(), library("transformers.masking_utils")
    tables[0].AttentionInterface.register(NAME, _attend)
    tables[1].AttentionMaskInterface.register(NAME, tables[1].eager_mask)
