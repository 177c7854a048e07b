"""One order of tokens: by logit, of equal ones the lowest id, wherever it shows."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest
import torch

import visformer
from tests.tiny_models import BOS, tiny_checkpoint
from visformer.core import sampling
from visformer.core.checkpoint import Checkpoint
from visformer.core.passes import run
from visformer.core.sampling import best_first, choose, filtered, most_probable, ranks
from visformer.core.search import search
from visformer.core.translation import translate
from visformer.errors import InputError
from visformer.pictures.candidates import candidate_table
from visformer.values.not_finite import not_finite_words
from visformer.values.step import Strategy

SOURCE = [4, 9, 7, 12, 3]
NAN = math.nan


def tied(*, spread: float = 0.0) -> Checkpoint:
    """Return a model with the same logits at every step: ties, or steps of spread."""
    checkpoint = tiny_checkpoint(output_bias=True)
    output = checkpoint.model.output
    with torch.no_grad():
        output.weight.zero_()
        count = len(output.bias)
        output.bias.copy_(-spread * torch.arange(count).float())
        if not spread:
            output.bias[[5, 9, 20]] = 2.0
            output.bias[3] = 1.0  # the end of the sentence
    return checkpoint


def test_no_seed_repeats_the_draws_of_another_one_a_step_later() -> None:
    def drawn(seed: int, first: int) -> list[int]:
        way = Strategy("sample", seed=seed)
        steps = range(first, first + 9)
        return [choose(torch.zeros(1000), way, step).id for step in steps]

    assert drawn(1, 0) == drawn(1, 0)
    assert drawn(1, 0) != drawn(0, 1)
    assert drawn(2, 0) != drawn(0, 2)


@pytest.mark.parametrize("size", [7, 3000])
def test_of_equal_scores_the_lowest_ids_come_first(size: int) -> None:
    """Against a stable sort of everything, with ties inside and at the end."""
    drawn = torch.Generator().manual_seed(1)
    for most in (1, 2, 5, 50):
        levels = torch.randint(0, 9, (6, size), generator=drawn).float()
        scores = torch.cat([levels, torch.randn(3, size, generator=drawn)])
        scores[1, 2:] = -math.inf
        scores[2, [0, 5]] = NAN
        scores[3] = NAN
        top, ids = best_first(scores, most)
        known = scores.nan_to_num(nan=math.inf, neginf=-math.inf)
        order = known.sort(dim=-1, descending=True, stable=True).indices[:, :most]
        assert torch.equal(ids, order)
        assert torch.equal(
            top.nan_to_num(nan=7e7), scores.gather(1, order).nan_to_num(nan=7e7)
        )


def test_few_and_many_scores_are_ordered_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.randint(0, 4, (5, 60)).float()
    scores[0, 7] = NAN
    expected = best_first(scores, 9)
    monkeypatch.setattr(sampling, "FEW", 0)
    for one, other in zip(best_first(scores, 9), expected, strict=True):
        assert torch.equal(one.nan_to_num(), other.nan_to_num())


def test_a_tie_is_decided_alike_by_steps_table_search_sampling_and_lens() -> None:
    checkpoint = tied()
    trace = visformer.Decoding(checkpoint, SOURCE, limit=3).finish()
    assert [step.id for step in trace.steps] == [5, 5, 5]
    step = trace.steps[0]
    assert [c.id for c in step.candidates[:6]] == [5, 9, 20, 3, 0, 1]
    assert [row.id for row in candidate_table(trace.until(1)).rows[:3]] == [5, 9, 20]
    for beam in (1, 3):
        found = search(checkpoint, [SOURCE, SOURCE[:3]], beam=beam)
        assert all(set(one.best) == {5} for one in found) or beam > 1
        assert all(one.best[0] == 5 for one in found)
    whole = run(checkpoint, [SOURCE], [[BOS, 9, 20, 4]])[0]
    assert [step.rank for step in whole.steps] == [2, 3, 8, 1]
    rows = whole.lens()
    assert [row.ids[-1, 0] for row in rows] == [5] * 4
    assert [row.chosen_ranks[-1] for row in rows] == [s.rank for s in whole.steps]
    logits = torch.tensor(whole.logits[0])
    assert choose(logits, Strategy(), 0).id == 5
    assert filtered(logits, 2, 1.0).nonzero().flatten().tolist() == [5, 9]


def test_order_and_rank_are_those_of_logits_where_probabilities_are_zero() -> None:
    checkpoint = tied(spread=60.0)  # e^-120 is no float32
    trace = run(checkpoint, [SOURCE], [[BOS, 29, 17, 4]])[0]
    assert trace.steps[0].probability == 0
    assert [step.rank for step in trace.steps[:3]] == [30, 18, 5]
    assert [c.id for c in trace.steps[0].candidates] == list(range(30))
    look = trace.lens()[0]
    assert look.chosen_ranks.tolist() == [30] * 3
    assert look.ids[0].tolist() == list(range(12))


def test_ranks_near_the_end_of_a_large_vocabulary() -> None:
    logits = torch.randn(2, 60_000, generator=torch.Generator().manual_seed(0)) * 30
    order = logits.sort(dim=-1, descending=True, stable=True).indices[0]
    for place in (0, 44_000, 59_999):
        assert int(ranks(logits, int(order[place]))[0]) == place + 1


def test_entropy_is_that_of_a_second_softmax() -> None:
    logits = torch.randn(4, 5000, generator=torch.Generator().manual_seed(2)) * 8
    logits[1, 3:] = -math.inf
    logits[2, 0] = NAN
    p, _, entropy = most_probable(logits, 3)
    exact = p.double().numpy()
    with np.errstate(all="ignore"):
        terms = np.where(exact > 0, exact * np.log2(exact), exact)
    assert entropy.numpy() == pytest.approx(-terms.sum(-1), abs=1e-5, nan_ok=True)


@pytest.mark.parametrize("name", ["greedy", "sample"])
def test_a_model_that_is_nan_stops_and_says_where(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = tiny_checkpoint()
    with torch.no_grad():
        next(iter(checkpoint.model.decoder)).feed_forward.w1.weight[0, 0] = NAN
    strategy = Strategy(name=name)  # type: ignore[arg-type]
    decoding = visformer.Decoding(checkpoint, SOURCE, limit=9, strategy=strategy)
    with caplog.at_level(logging.WARNING):
        trace = decoding.finish()
        decoding.force(7)
    assert len(trace) == 1
    assert decoding.ended
    assert (trace.steps[0].id, trace.steps[0].rank) == (0, 1)
    said = "The numbers of decoder layer 1 and all that follow are not finite"
    assert [record.message[: len(said)] for record in caplog.records] == [said]
    for beam in (1, 2):
        with pytest.raises(InputError, match=said):
            translate(checkpoint, ["abc", "ab"], beam=beam)


def test_where_numbers_stop_being_finite_is_named() -> None:
    for part, words in {
        "source_embedding": "The encoder's input is not finite",
        "encoder": "The numbers of encoder layer 2 and",
        "output": "The logits are not finite",
    }.items():
        checkpoint = tiny_checkpoint(shared_embedding=False)
        module = getattr(checkpoint.model, part)
        if part == "encoder":
            module = list(module)[-1].feed_forward.w2
        with torch.no_grad():
            module.weight.fill_(NAN)
        assert words in not_finite_words(run(checkpoint, [SOURCE], [[BOS]])[0])
    assert not_finite_words(run(tiny_checkpoint(), [SOURCE], [[BOS]])[0]) == ""
