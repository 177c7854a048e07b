"""FilledMasks: a text that an encoder reads, and what would fill its masked tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from visformer.arguments import wrong_value
from visformer.core.modified import as_intervention
from visformer.core.sampling import as_strategy, most_probable
from visformer.core.stepping import Pairs, Stepping
from visformer.errors import InputError
from visformer.language import _
from visformer.values.intervention import Intervention
from visformer.values.step import CANDIDATES, Candidates, Choice
from visformer.values.strategy import Strategy, StrategyName
from visformer.values.trace import Trace
from visformer.watching.traces import layers_of, with_own_weights

if TYPE_CHECKING:
    from visformer.formats.hugging_face.folder_model import FolderModel


class FilledMasks(Stepping):
    """What ``Decoding`` is for a model that reads and writes nothing.

    There are no steps: ``trace.fills`` has the best tokens for each masked one, of one
    pass over the text as it is.
    """

    def __init__(
        self,
        model: FolderModel,
        source: str | Sequence[int],
        *,
        strategy: Strategy | StrategyName | None = None,
        limit: int | None = None,
        intervention: Intervention | str | None = None,
    ) -> None:
        """Read ``source``; nothing is chosen, so strategy and limit change nothing."""
        self.checkpoint, self.strategy = model, as_strategy(strategy)
        self.intervention = as_intervention(intervention)
        self.restart(source, limit=limit)

    def __repr__(self) -> str:
        """Name the text."""
        return f"<FilledMasks: {self.trace!r}>"

    def restart(self, source: str | Sequence[int], *, limit: int | None = None) -> None:
        """Start again with another text."""
        self._source = self.checkpoint.read(source)
        self.checkpoint.check(self.intervention, self._source)
        self._source_text = source if isinstance(source, str) else ""
        self.limit, self._position = 0, 0
        self.__dict__.pop("trace", None)

    @cached_property
    def trace(self) -> Trace:
        """The text's attention, and what would fill its masked tokens."""
        model, source = self.checkpoint, self._source
        watched, logits = model.watched_pass(source, (), self.intervention)
        if not watched.traces:
            raise InputError(watched.certificate.sentence)
        fills = {}
        for at, id in enumerate(source.ids):
            if id == model.masked:
                p, best, _entropy = most_probable(logits[at : at + 1], CANDIDATES)
                named = model.pieces(best[0].tolist())
                fills[at] = Candidates(best[0].numpy(), named, p[0, best[0]].numpy())
        (trace,) = watched.traces
        trace = replace(
            trace,
            model=model.described(trace.model),
            source_text=self._source_text or trace.source_text,
            source_spans=source.spans if trace.source else (),
            truncated_from=source.cut_from,
            intervention=self.intervention,
            fills=fills,
        )
        # what it says of the model is of the unchanged one
        return with_own_weights(trace, layers_of(watched.last_run), 0)

    @property
    def ended(self) -> bool:
        """Whether nothing follows: nothing ever does."""
        return True

    def feed(self, reference: str | Sequence[int]) -> Trace:
        """Refuse a reference: there is no decoder to feed it to."""
        return self.follow(self.reference(reference))

    def reference(self, reference: str | Sequence[int]) -> list[Choice]:
        """Refuse a reference, unless it is empty."""
        if reference:
            raise wrong_value("reference", str(reference)[:40], _nothing())
        return []

    def follow(self, choices: Pairs) -> Trace:
        """Refuse choices: none is made."""
        if choices:
            raise wrong_value("choices", len(choices), _nothing())
        return self.trace

    @property
    def settled(self) -> bool:
        """Whether no later step changes an earlier one: there are none."""
        return True

    def _computed(self) -> int:
        return 0

    def _compute_next(self) -> None:
        raise InputError(_nothing())

    def _choices(self, count: int) -> list[Choice]:
        return []

    def _target_id(self, token: str | int) -> int:
        raise wrong_value("token", token, _nothing())


def _nothing() -> str:
    return _("nothing: this model reads text and writes none")
