"""Greedy and beam search over batches."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Generator
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from tests.tiny_models import BOS, EOS, tiny_checkpoint
from visformer.core import search as search_module
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.generation import Generation
from visformer.core.incremental import DecoderRows
from visformer.core.modified import as_intervention
from visformer.core.native_run import NativeRun
from visformer.core.search import exhausted, search, searching
from visformer.core.translation import translate
from visformer.errors import InputError
from visformer.values.beam_search import BeamSearch, EndedBeam
from visformer.values.step import Strategy

SOURCES = ["hello", "a", "transformers attend", "xyz", "qwertyuiop"]


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy_decoding(seed: int) -> None:
    checkpoint = tiny_checkpoint(seed, norm_first=True, final_norm=True)
    greedy = [Decoding(checkpoint, text).finish().text for text in SOURCES]
    assert translate(checkpoint, SOURCES) == greedy


@pytest.mark.parametrize(
    "rules",
    [
        Generation(),
        Generation(min_tokens=4, no_repeat=2),
        Generation(forced_first=7, forced_last=(8,), max_tokens=6),
        Generation(repetition_penalty=3.0, ends=(5, 6, 9)),
    ],
)
def test_greedy_search_that_is_not_scored_finds_the_same(rules: Generation) -> None:
    for seed in range(3):
        checkpoint = tiny_checkpoint(seed, norm_first=True, final_norm=True)
        checkpoint = replace(checkpoint, generation=rules)
        sources = [checkpoint.vocabulary.read(text).ids for text in SOURCES]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("visformer.core.sampling.FEW", 0)  # as of many tokens
            scored = search(checkpoint, sources, beam=1)
            bare = search(checkpoint, sources, beam=1, scored=False)
        for one, other in zip(scored, bare, strict=True):
            assert one.best == other.best
            assert one.ranked()[0].id == other.ranked()[0].id


def test_infinite_numbers_are_refused_without_scores_too() -> None:
    checkpoint = tiny_checkpoint(output_bias=True)
    with torch.no_grad():
        checkpoint.model.output.bias[7] = math.inf
    with pytest.raises(InputError, match="The logits are not finite"):
        translate(checkpoint, ["abc"], beam=1)


def mean_log_probability(
    checkpoint: Checkpoint, source: list[int], target: tuple[int, ...]
) -> float:
    model = checkpoint.model
    ids = torch.tensor([[BOS, *target[:-1]]])
    with torch.no_grad():
        output = model(torch.tensor([source]), ids, checkpoint.tokenizer.pad)
        steps = model.output(output).log_softmax(-1)[0]
    return float(steps[range(len(target)), list(target)].mean())


@pytest.mark.parametrize("seed", range(3))
def test_a_wide_beam_finds_the_best_of_all(seed: int) -> None:
    checkpoint = tiny_checkpoint(
        seed, source_vocabulary=6, target_vocabulary=6, max_positions=3
    )
    source, others = [4, 5, EOS], [i for i in range(6) if i != EOS]
    every = [
        (*start, last)
        for length in (1, 2, 3)
        for start in itertools.product(others, repeat=length - 1)
        for last in (range(6) if length == 3 else [EOS])
    ]
    best = max(every, key=lambda ids: mean_log_probability(checkpoint, source, ids))
    (found,) = search(checkpoint, [source], beam=len(every))
    assert found.best == list(best)


@pytest.mark.parametrize("beam", [1, 3])
def test_order_and_blank_lines_are_kept(beam: int) -> None:
    checkpoint = tiny_checkpoint(1, norm_first=True, final_norm=True)
    lines = ["hello", "", "a", "  \t", "hello", "é<s>"]
    made = translate(checkpoint, lines, beam=beam)
    alone = [translate(checkpoint, [line], beam=beam)[0] for line in lines]
    assert made == alone
    assert made[1] == made[3] == ""


def test_a_source_over_the_positions_is_cut() -> None:
    checkpoint = tiny_checkpoint(max_positions=8)
    assert translate(checkpoint, ["abcdefghij"]) == translate(checkpoint, ["abcdefg"])


def test_beams_that_all_end_in_every_way_go_on_with_the_next_best() -> None:
    """Two ends are each more probable than any other token, whatever was read."""
    checkpoint = tiny_checkpoint(
        source_vocabulary=8, target_vocabulary=8, output_bias=True
    )
    other_end, first, second = 4, 5, 6
    with torch.no_grad():
        checkpoint.model.output.weight.zero_()
        checkpoint.model.output.bias.fill_(-20)
        for id, logit in ((EOS, 4.0), (other_end, 3.9), (first, 3.0), (second, 2.9)):
            checkpoint.model.output.bias[id] = logit
    rules = Generation(
        ends=(other_end,), early_stopping="never", length_penalty=4, max_tokens=4
    )
    checkpoint = replace(checkpoint, generation=rules)  # the longest has the best score
    (found,) = search(checkpoint, [[7, EOS]], beam=2)
    assert found.best == [first, first, first, EOS]


def test_nothing_to_translate() -> None:
    assert translate(tiny_checkpoint(), []) == []
    with pytest.raises(InputError, match="beams is 0"):
        translate(tiny_checkpoint(), ["a"], beam=0)


class Rows:
    """Rows of a search, and what they computed by the ids that they had consumed."""

    def __init__(self, run: NativeRun, beams: int) -> None:
        self.rows, self.seen = run.beam_rows(beams), dict[tuple[int, ...], Any]()

    def next(self, consumed: torch.Tensor) -> torch.Tensor:
        made, _masks = self.rows.computed(consumed, consumed.shape[1] - 1)
        for ids, row in zip(consumed.tolist(), made[:, -1].numpy(), strict=True):
            self.seen[tuple(ids)] = row
        return self.rows.logits(made[:, -1])

    def keep(self, rows: torch.Tensor, sentences: torch.Tensor | None) -> None:
        self.rows.keep(rows, sentences)


CHANGES = ["", "head cross off @ L2H1", "causal off", "hide 2"]


@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_a_search_are_those_of_each_history_alone(change: str) -> None:
    """Every beam of every step: its row, its sum of log p, and who was dropped."""
    checkpoint = tiny_checkpoint(3, norm_first=True, final_norm=True)
    source = checkpoint.vocabulary.read("transformers")
    intervention = as_intervention(change)
    run = checkpoint.begin(source, intervention, 7)
    rows, rules = Rows(run, 3), Generation(early_stopping="never")
    begun, ends = torch.tensor([[BOS]]), checkpoint.ends
    steps = searching(rows, begun, [7], rules, ends, beams=3)
    (found,) = exhausted(steps)
    assert found.ids.shape == found.parents.shape == found.sums.shape == (7, 6)
    for step in range(len(found)):
        kept = np.isfinite(found.sums[step])
        for beam in np.flatnonzero(kept).tolist():
            ids, logprobs = found.line(step, beam)
            assert len(ids) == len(logprobs) == step + 1
            alone = checkpoint.begin(source, intervention, 7)
            reached, following = alone.to([BOS, *ids[:-1]])
            own = float(following.logits[-1].log_softmax(-1)[ids[-1]])
            assert own == pytest.approx(logprobs[-1], abs=2e-5)
            trace = reached.trace([], step + 1)
            here = rows.seen[(BOS, *ids[:-1])]
            assert np.abs(trace.decoder_rows[step] - here).max() < 2e-5
        last_kept, dropped = found.sums[step, :3].min(), found.sums[step, 3:]
        ended = [one for one in found.finished if one.step == step]
        assert len(ended) + kept.sum() == 6
        assert step == 6 or (dropped <= last_kept).all()


def test_what_has_ended_leaves_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last steps compute the beams of the longest sentence alone."""
    checkpoint = tiny_checkpoint(1, norm_first=True, final_norm=True)
    sizes, compute = list[int](), DecoderRows.next

    def next_logits(rows: DecoderRows, consumed: torch.Tensor) -> torch.Tensor:
        sizes.append(len(consumed))
        return compute(rows, consumed)

    monkeypatch.setattr(DecoderRows, "next", next_logits)
    sources = [checkpoint.vocabulary.read(text).ids for text in SOURCES]
    found = search(checkpoint, sources, beam=2)
    lengths = [len(one) for one in found]
    assert len(set(lengths)) > 2
    left = [sum(length > step for length in lengths) for step in range(max(lengths))]
    assert sizes == [2 * count for count in left]
    for ids, made in zip(sources, found, strict=True):
        (alone,) = search(checkpoint, [ids], beam=2)
        assert alone.best == made.best
        scores = [one.score for one in made.ranked()]
        assert [one.score for one in alone.ranked()] == pytest.approx(scores)


def test_what_has_finished_is_ranked() -> None:
    found = BeamSearch(
        beams=2,
        given=(BOS,),
        ids=np.array([[5, 6, 7, 8]] * 3, np.int32),
        parents=np.zeros((3, 4), np.int32),
        sums=np.array([[-1, -2, -3, -4]] * 3, np.float32),
        finished=(EndedBeam(1, 0, EOS, -2.0, -1.0), EndedBeam(3, 0, EOS, -3.2, -0.8)),
        length_penalty=1.0,
        early_stopping=True,
        limit=9,
        ends=(EOS,),
    )
    assert [one.step for one in found.ranked()] == [3, 1]
    assert found.line_of(found.finished[0]) == ((5, EOS), (-1.0, -1.0))


def test_a_decoding_by_beams_is_the_best_hypothesis() -> None:
    checkpoint = tiny_checkpoint(3, norm_first=True, final_norm=True)
    source = checkpoint.vocabulary.read("hello").ids
    (best,) = search(checkpoint, [source], beam=4)
    decoding = Decoding(checkpoint, "hello", strategy=Strategy("beam", beams=4))
    trace = decoding.step(3)
    assert [step.id for step in trace.steps] == best.best[:3]
    assert {step.origin for step in trace.steps} == {"beam"}
    first = decoding.search
    trace = decoding.finish()
    assert [step.id for step in trace.steps] == best.best
    assert decoding.search is first  # one search for all steps
    decoding.back(len(trace) - 2)
    forced = next(id for id in range(4, 9) if id != best.best[1])
    decoding.force(forced)
    after = decoding.finish()
    assert [step.origin for step in after.steps][:3] == ["beam", "forced", "beam"]
    assert decoding.search is not None
    assert decoding.search.given == (BOS, best.best[0], forced)
    assert [s.id for s in after.steps[2:]] == decoding.search.best
    for step, p in zip(after.steps[2:], line_of_best(decoding.search), strict=True):
        assert step.probability == pytest.approx(p, abs=1e-5)


def line_of_best(found: BeamSearch) -> list[float]:
    return [math.exp(x) for x in found.line_of(found.ranked()[0]).logprobs]


def test_batches_side_by_side_find_what_one_after_another_find(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two threads share the batches; a hook, or an error of one, still acts alone."""
    checkpoint = tiny_checkpoint(1, norm_first=True, final_norm=True)
    monkeypatch.setattr("visformer.core.search.BATCH_TOKENS", 32)
    sources = [checkpoint.vocabulary.read(text).ids for text in SOURCES * 2]
    ran, batch = set[int](), search_module._search

    def noted(*given: Any, **named: Any) -> list[BeamSearch]:
        ran.add(threading.get_ident())
        return batch(*given, **named)

    monkeypatch.setattr(search_module, "_search", noted)
    before, own = torch.get_num_threads(), threading.get_ident()
    try:
        torch.set_num_threads(1)
        alone = search(checkpoint, sources, beam=2)
        assert ran == {own}
        torch.set_num_threads(2)
        beside = search(checkpoint, sources, beam=2)
        assert own in ran
        assert len(ran) > 1
        assert [one.best for one in beside] == [one.best for one in alone]
        ran.clear()
        with checkpoint.model.encoder.register_forward_hook(lambda *_given: None):
            search(checkpoint, sources, beam=2)
        assert ran == {own}
        monkeypatch.setattr(search_module, "searching", None)
        with pytest.raises(TypeError):
            search(checkpoint, sources, beam=2)
    finally:
        torch.set_num_threads(before)


def test_a_search_that_is_stopped_ends_at_its_next_step() -> None:
    stopped, steps = threading.Event(), itertools.count()

    def work() -> Generator[None, None, int]:
        for _step in steps:
            stopped.set()
            yield
        return 0

    with pytest.raises(CancelledError):
        exhausted(work(), stopped)
    assert next(steps) == 1
