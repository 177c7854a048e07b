"""Strategy: how tokens are chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How the next token is chosen from the distribution."""

    name: Literal["greedy", "sample"] = "greedy"
    temperature: float = 1.0  # > 0
    top_k: int = 0  # keep the k most probable; 0 keeps all
    top_p: float = 1.0  # keep the smallest set with this total probability, in (0, 1]
    seed: int = 0


GREEDY = Strategy()
