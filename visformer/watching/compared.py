"""Comparison: where the attention of two runs first differs, in words and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from visformer.language import _, ngettext
from visformer.values.watched_attention import WatchedKind

SAME_OUTPUT = 1e-3  # logarithms of probabilities that differ by less are the same
STACKS: tuple[tuple[WatchedKind, ...], ...] = (
    *(("encoder",), ("decoder", "cross"), ("merged",), ("other",)),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where the attention of two runs first differs, and what makes it vanish.

    ``kind`` is None where nothing differs; ``layer``, ``head`` and ``row``, that of the
    batch where it is most, count from 0. ``difference`` is the largest there: NaN where
    numbers are NaN, infinite where the two cannot be laid side by side, of which
    ``problem`` tells. With ``in_values`` the weights are the same, and what they weight
    is not. ``heads`` are the numbers of heads of both.

    ``remedies`` are the changes of a run, or the settings, under each of which the
    difference vanishes; where no single one does, two or three of them, joined by
    " + ". ``tried`` says how many runs were tried. ``log_probabilities`` is the largest
    difference between the logarithms of the next token's probabilities, ``output`` that
    between what two watched models returned, relative to max(1, row magnitude); NaN
    where they are not known of both.
    """

    kind: WatchedKind | None
    layer: int = 0
    head: int = 0
    difference: float = 0.0
    heads: tuple[int, int] = (0, 0)
    log_probabilities: float = math.nan
    remedies: tuple[str, ...] = ()
    row: int = 0
    in_values: bool = False
    problem: str = ""
    output: float = math.nan
    tried: int = 0
    certifiable: bool = False  # whether a side is a module

    @property
    def same_output(self) -> bool:
        """Whether the next tokens' probabilities are the same, as far as is known."""
        return not self.log_probabilities > SAME_OUTPUT

    @property
    def comparable(self) -> bool:
        """Whether another setting could make it vanish."""
        return not math.isinf(self.difference) or self.heads[0] != self.heads[1]

    @property
    def progress(self) -> tuple[float, ...]:
        """How far it lies in the order of computation, to be compared."""
        if self.kind is None:
            return (math.inf,)
        stack = next(at for at, kinds in enumerate(STACKS) if self.kind in kinds)
        inside = STACKS[stack].index(self.kind)
        gap = math.inf if math.isnan(self.difference) else self.difference
        return stack, self.layer, inside, self.in_values, self.head, -gap

    def __str__(self) -> str:
        """Say it in a few sentences."""
        said = [self.problem or self._place()]
        if self.row and not self.problem:
            said.append(
                _("It is most in row {row} of the batch.", row=self.row + 1),
            )
        if self.remedies:
            said.append(
                _("It vanishes with {remedies}.", remedies=", ".join(self.remedies))
            )
        elif self.tried:
            said.append(
                ngettext(
                    "No switch makes it vanish: {n:,} run was tried.",
                    "No switch makes it vanish: {n:,} runs were tried.",
                    self.tried,
                )
            )
        if self.certifiable and not self.remedies and self.kind is not None:
            said.append(
                _(
                    "visformer.watch(module).certify(source, target) looks for faults "
                    "in a module's forward pass."
                )
            )
        return " ".join(said)

    def _place(self) -> str:
        if self.kind is None:
            return self._after()
        where = {
            "kind": self.kind,
            "layer": self.layer + 1,
            "head": self.head + 1,
            "difference": self.difference,
        }
        if self.in_values:
            return _(
                "They differ first in {kind} attention, layer {layer}, head {head}, by "
                "{difference:.2g}: its weights are the same, but what they weight is "
                "not.",
                **where,
            )
        return _(
            "They differ first in {kind} attention, layer {layer}, head {head}, by "
            "{difference:.2g}.",
            **where,
        )

    def _after(self) -> str:
        """Say that all attention is the same, and what is known of what follows it."""
        if self.log_probabilities > SAME_OUTPUT:
            return _(
                "Attention is the same in every head, but the logarithms of the "
                "probabilities differ by {difference:.2g}: look after the last "
                "attention.",
                difference=self.log_probabilities,
            )
        if math.isnan(self.log_probabilities) and self.output > SAME_OUTPUT:
            return _(
                "Attention is the same in every head, but the outputs differ by "
                "{difference:.2g}: look after the last attention.",
                difference=self.output,
            )
        if math.isnan(self.log_probabilities) and math.isnan(self.output):
            return _(
                "Attention is the same in every head. What follows it was not "
                "compared: no logits are known of both."
            )
        return _("Attention is the same in every head, and so is what follows it.")
