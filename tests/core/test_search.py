"""Greedy and beam search over batches."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from tests.models import BOS, EOS, tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.generation import Generation
from visformer.core.search import search
from visformer.core.translation import translate
from visformer.errors import InputError

SOURCES = ["hello", "a", "transformers attend", "xyz", "qwertyuiop"]


@pytest.mark.parametrize("seed", range(4))
def test_one_beam_is_greedy_decoding(seed: int) -> None:
    checkpoint = tiny_checkpoint(seed, norm_first=True, final_norm=True)
    greedy = [Decoding(checkpoint, text).finish().text for text in SOURCES]
    assert translate(checkpoint, SOURCES) == greedy


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
    assert search(checkpoint, [source], beam=len(every)) == [list(best)]


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
    assert search(checkpoint, [[7, EOS]], beam=2) == [[first, first, first, EOS]]


def test_nothing_to_translate() -> None:
    assert translate(tiny_checkpoint(), []) == []
    with pytest.raises(InputError, match="beams is 0"):
        translate(tiny_checkpoint(), ["a"], beam=0)
