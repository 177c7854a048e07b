"""What the user wants: plain frozen values, fields of the State."""

from __future__ import annotations

from dataclasses import dataclass

from visformer.engine.messages import Open
from visformer.values.intervention import Intervention
from visformer.values.questions import Overrides
from visformer.values.strategy import GREEDY, Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be translated, and how."""

    sentence: str = ""
    reference: str = ""  # the target that is fed instead of decoding; "" for none
    strategy: Strategy = GREEDY
    limit: int | None = None  # target tokens; None: the model's own limit


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWish:
    """A checkpoint that is to be opened."""

    request: Open
    certain: Overrides | None = None  # given now, if earlier answers are used too
    then: str = ""  # what is translated once it is open


@dataclass(frozen=True, slots=True, kw_only=True)
class LensAsked:
    """What the lens was requested for."""

    of: tuple[object, ...]  # what the Trace is made of, compared by identity
    rows: tuple[int, ...]
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class History:
    """Changes of the run before and after the current one, for undo and redo."""

    undo: tuple[Intervention, ...] = ()  # the latest last
    redo: tuple[Intervention, ...] = ()
