"""What the user wants: plain frozen values, fields of the State."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visformer.engine.messages import Decode, Open
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.questions import Overrides
from visformer.values.step import Choice
from visformer.values.strategy import GREEDY, Strategy

if TYPE_CHECKING:
    from visformer.session.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be translated, and how."""

    sentence: str = ""
    reference: str = ""  # a translation that the user gave; "" for none
    fed: bool = True  # the reference, instead of decoding: teacher forcing
    strategy: Strategy = GREEDY
    limit: int | None = None  # target tokens; None: the model's own limit
    # the choices up to the last one that the user made, of the run with its changes
    prefix: tuple[Choice, ...] = ()

    @classmethod
    def of(cls, request: Decode) -> Wish:
        """Return the wish that a request was made for."""
        return cls(
            sentence=request.source,
            reference=request.reference,
            strategy=request.strategy,
            limit=request.limit,
            prefix=request.prefix,
        )

    def request(self, intervention: Intervention = NO_CHANGES) -> Decode:
        """Return what is asked of the engine for it."""
        return Decode(
            source=self.sentence,
            prefix=self.prefix,
            reference=self.reference if self.fed else "",
            strategy=self.strategy,
            limit=self.limit,
            intervention=intervention,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWish:
    """A checkpoint that is to be opened."""

    request: Open
    certain: Overrides | None = None  # given now, if earlier answers are used too
    then: str = ""  # what is translated once it is open
    resume: Recipe | None = None  # what is worked on once it is open


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAsked:
    """What the lens was requested for."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    rows: tuple[int, ...]
    strategy: Strategy
