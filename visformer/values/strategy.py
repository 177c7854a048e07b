"""Strategy: how tokens are chosen."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, cast, get_args

from visformer.arguments import one_of, real_number, whole_number, wrong_value
from visformer.errors import InputError
from visformer.files import short
from visformer.language import _

StrategyName = Literal["greedy", "sample", "beam"]
MOST_BEAMS = 1000


@dataclass(frozen=True, slots=True)
class Strategy:
    """How tokens are chosen: the best, one drawn, or those of the best of some beams.

    Raises InputError or TypeError for a name that is not known, and for numbers that
    are out of range.
    """

    name: StrategyName = "greedy"
    _: KW_ONLY
    temperature: float = 1.0  # > 0
    top_k: int = 0  # keep the k most probable; 0 keeps all
    top_p: float = (
        1.0  # keep the smallest set with this share of probability, in (0, 1]
    )
    seed: int = 0
    beams: int = 4  # hypotheses that a beam search keeps

    def __post_init__(self) -> None:
        one_of("strategy", self.name, get_args(StrategyName))
        whole_number("top_k", self.top_k)
        whole_number("seed", self.seed, most=2**63 - 1)
        whole_number("beams", self.beams, least=1, most=MOST_BEAMS)
        for name, most in (("temperature", math.inf), ("top_p", 1.0)):
            value, allowed = getattr(self, name), _("a number greater than 0")
            if most == 1:
                allowed = _("a number greater than 0, at most 1")
            if not 0 < real_number(name, value, allowed) <= most:
                raise wrong_value(name, value, allowed)


GREEDY = Strategy()


def strategy_text(strategy: Strategy) -> str:
    """Return what ``read_strategy`` reads: what differs from the default of a name."""
    usual = Strategy(strategy.name)
    fields = "beams", "temperature", "top_k", "top_p", "seed"
    given = {name: getattr(strategy, name) for name in fields}
    written = [f"{n} {v}" for n, v in given.items() if v != getattr(usual, n)]
    return " ".join((strategy.name, *written))


def read_strategy(text: str) -> Strategy:
    """Read “greedy”, “beam beams 4” or “sample temperature 0.7 seed 3”.

    Raises InputError for anything else.
    """
    kinds: dict[str, Any] = {"temperature": float, "top_p": float}
    try:
        name, *words = text.split()
        pairs = zip(words[::2], words[1::2], strict=True)
        given: Any = {key: kinds.get(key, int)(value) for key, value in pairs}
        return Strategy(cast("StrategyName", name), **given)
    except (TypeError, ValueError) as error:
        raise InputError(
            "“{text}” is no strategy: write, for example, “beam beams 4” or “sample "
            "temperature 0.7 seed 3”.",
            text=short(text),
        ) from error
