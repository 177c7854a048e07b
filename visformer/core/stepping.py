"""Stepping: forwards and backwards through the tokens of a sentence."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, get_args

from visformer.arguments import one_of, whole_number, wrong_type
from visformer.errors import InputError
from visformer.language import _
from visformer.values.step import Choice, Draw, Origin
from visformer.values.trace import Trace

Pairs = Sequence[Choice | tuple[int, Origin]]  # where it is not known how one was drawn


def as_choices(given: object) -> list[Choice]:
    """Return choices, also from pairs; TypeError or InputError for anything else."""
    try:
        pairs: Any = given if isinstance(given, list | tuple) else [given]
        made = [Choice(whole_number("id", id), *rest) for id, *rest in pairs]
        if not all(isinstance(one.drawn, Draw | None) for one in made):
            raise TypeError
    except (TypeError, ValueError):
        allowed = _("pairs of a token id and who chose it")
        raise wrong_type("choices", given, allowed) from None
    for choice in made:
        one_of("origin", choice.origin, get_args(Origin))
    return made


class Stepping(ABC):
    """What every decoding can do, whoever computes its steps."""

    in_rows: ClassVar[bool] = False  # whether ``rows`` gives what each step adds
    limit: int  # the largest number of target tokens
    _position: int  # the current step: how many tokens are chosen

    @property
    @abstractmethod
    def trace(self) -> Trace:
        """Everything up to the current step."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the current step ended the sentence or reached the limit."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether no later step changes the rows of an earlier one."""

    @property
    def _turn(self) -> AbstractContextManager[bool]:
        """The lock of this decoding, made by the first who asks."""
        lock: AbstractContextManager[bool] = vars(self).setdefault(
            "_lock", threading.RLock()
        )
        return lock

    @property
    def text(self) -> str:
        """The translation up to the current step."""
        return self.trace.text

    def step(self, count: int = 1) -> Trace:
        """Go ``count`` tokens forward, but not past the end or the limit.

        Several threads may step one decoding: they take turns.
        """
        with self._turn:
            self.advance(count)
            return self.trace

    def advance(self, count: int = 1) -> None:
        """Do what ``step`` does, without making a Trace of it."""
        for _step in range(whole_number("count", count)):
            if self.ended:
                break
            if self._position == self._computed():
                self._compute_next()
            self._position += 1

    def back(self, count: int = 1) -> Trace:
        """Go ``count`` tokens back; later steps are kept for ``step``."""
        with self._turn:
            self._position = max(0, self._position - whole_number("count", count))
            return self.trace

    def finish(self) -> Trace:
        """Decode to the end of the sentence or the limit."""
        return self.step(self.limit)

    def force(self, token: str | int) -> Trace:
        """Replace the current step's choice by ``token``; drop all later steps.

        Before the first step the token becomes the first choice. Text must be exactly
        one token; raises InputError otherwise.
        """
        id = self._target_id(token)
        kept = max(0, self._position - 1)
        return self.follow([*self._choices(kept), Choice(id, "forced")])

    def after_prompt(self, choices: Sequence[Choice]) -> list[Choice]:
        """Return the choices of a Trace's steps without those of a prompt."""
        return [*choices]

    @abstractmethod
    def reference(self, reference: str | Sequence[int]) -> list[Choice]:
        """Return the choices of a reference; a text includes the end of sentence."""

    @abstractmethod
    def follow(self, choices: Pairs) -> Trace:
        """Make exactly these choices; InputError for ids that there are not."""

    def _check_limit(self, choices: Sequence[Choice]) -> None:
        if len(choices) > self.limit:
            raise InputError(
                _(
                    "There are {n:,} target tokens, but at most {most:,} are allowed.",
                    n=len(choices),
                    most=self.limit,
                )
            )

    @abstractmethod
    def _computed(self) -> int:
        """Return how many steps are computed, the current one and later ones."""

    @abstractmethod
    def _compute_next(self) -> None:
        """Compute the step after the last one, and let the model choose."""

    @abstractmethod
    def _choices(self, count: int) -> list[Choice]:
        """Return the first choices that were made."""

    @abstractmethod
    def _target_id(self, token: str | int) -> int:
        """Return the id of exactly one target token; InputError otherwise."""
