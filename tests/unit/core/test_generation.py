"""The rules of generation, on numbers that can be followed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.tiny_models import EOS, tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.generation import Generation
from visformer.core.search import SentenceSearch, search
from visformer.values.step import Strategy

INF = math.inf
SCORES = [1.0, -2.0, 3.0, 4.0]
SOURCE = [4, 5, 6, EOS]


def restricted(made: list[int], *, last: bool = False, **rules: Any) -> list[float]:
    """Apply rules to SCORES after the ids made, the start token first; 0 ends."""
    scores = Generation(**rules).restrict(
        torch.tensor([SCORES]), torch.tensor([made]), torch.tensor([last]), (0,)
    )
    found: list[float] = scores[0].tolist()
    return found


def ruled(seed: int = 1, **rules: Any) -> Checkpoint:
    return replace(tiny_checkpoint(seed), generation=Generation(**rules))


def decoded(checkpoint: Checkpoint, **given: Any) -> list[int]:
    return [step.id for step in Decoding(checkpoint, SOURCE, **given).finish().steps]


@pytest.mark.parametrize(
    ("made", "rules", "expected"),
    [
        ([3], {"forbidden": ((3,), (1,))}, [1, -INF, 3, -INF]),
        ([3, 1], {"forbidden": ((3, 1, 2), (1, 0), (1, 1, 3))}, [-INF, -2, -INF, 4]),
        ([3, 1], {"min_tokens": 2}, [-INF, -2, 3, 4]),
        ([3, 1, 1], {"min_tokens": 2}, SCORES),
        ([3], {"forced_first": 2}, [-INF, -INF, 0, -INF]),
        ([3, 2], {"forced_first": 2}, SCORES),
        ([3], {"forbidden_first": (2,)}, [1, -2, -INF, 4]),
        ([3, 2], {"forbidden_first": (2,)}, SCORES),
        ([3, 1], {"forced_first": 1, "forbidden_first": (2,)}, [1, -2, -INF, 4]),
        ([3, 1, 2], {"repetition_penalty": 2.0}, [1, -4, 1.5, 2]),
        ([1, 2, 1], {"no_repeat": 2}, [1, -2, -INF, 4]),
        ([3, 2, 2], {"no_repeat": 2}, [1, -2, -INF, 4]),  # 2 2 2 holds 2 2 twice
        ([1, 2, 1], {"no_repeat": 1}, [1, -INF, -INF, 4]),
        ([1, 2, 1], {"no_repeat": 3}, SCORES),
    ],
)
def test_what_may_be_chosen(
    made: list[int], rules: dict[str, Any], expected: list[float]
) -> None:
    assert Generation(**rules).restricts
    assert restricted(made, **rules) == expected


def test_the_end_is_forced_on_the_last_token_alone() -> None:
    assert restricted([3, 1], forced_last=(0, 2)) == SCORES
    assert restricted([3, 1], last=True, forced_last=(0, 2)) == [0, -INF, 0, -INF]


def test_no_rule_restricts_nothing() -> None:
    assert not Generation().restricts
    assert not Generation(beams=4, length_penalty=2.0, max_tokens=9).restricts


def test_decoding_keeps_the_rules_and_the_models_probabilities() -> None:
    free = decoded(ruled())
    never = free[0]
    checkpoint = ruled(forbidden=((never,),), max_tokens=7, forced_last=(EOS,))
    made = decoded(checkpoint)
    assert never not in made
    assert made[-1] == EOS
    assert len(made) <= 7
    assert decoded(checkpoint, limit=1) == [EOS]
    step = Decoding(checkpoint, SOURCE).step().steps[0]
    assert step.candidates[0].id == never
    assert step.rank == 2
    assert step.origin == "rule"
    one = Strategy("sample", top_k=1)  # it is drawn from what the rules leave
    (step,) = Decoding(checkpoint, SOURCE, strategy=one).step().steps
    assert (step.rank, *step.choice[1:]) == (2, "rule", (1.0, 1.0, 1, 1.0))
    assert Decoding(ruled(), SOURCE).step().steps[0].origin == "model"
    unaltered = Decoding(ruled(forbidden=((never, never, never),)), SOURCE).step()
    assert unaltered.steps[0].origin == "model"  # there are rules: they change nothing
    assert search(checkpoint, [SOURCE], beam=1)[0].best == made


def test_another_id_may_end_a_sentence() -> None:
    free = decoded(ruled())
    assert len(free) > 1
    checkpoint = ruled(ends=(free[0],))
    assert decoded(checkpoint) == free[:1]
    assert search(checkpoint, [SOURCE], beam=1)[0].best == free[:1]


def closes(best: float, length: int, **rules: Any) -> bool:
    """Tell whether two hypotheses, -2 and -3 at 2 tokens, end the search."""
    sentence = SentenceSearch(2, 8, Generation(**rules))
    sentence.add(1, 0, EOS, -2.0)
    assert all(sentence.go_on(-1.0) for _step in range(length - 1))
    sentence.add(1, 1, EOS, -3.0)
    return not sentence.go_on(best)


def test_when_a_search_stops() -> None:
    assert closes(-1.0, 2, early_stopping=True)
    assert not closes(-2.9, 2, early_stopping=False)  # -2.9 / 2 beats -3 / 2
    assert closes(-3.0, 2, early_stopping=False)
    assert not closes(-4.0, 4, early_stopping=False)  # -1 a token
    assert closes(-6.0, 4, early_stopping=False)
    assert not closes(-6.0, 4, early_stopping="never")  # -6 / 8 could be reached
    assert closes(-3.0, 4, early_stopping="never", length_penalty=0.0)
    assert closes(-INF, 4, early_stopping="never")
