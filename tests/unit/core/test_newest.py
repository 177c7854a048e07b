"""Search where pads are chosen: every step is that of the whole pass."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import visformer
from tests.unit.core.variants import SMALL
from visformer.core.incremental import DecoderRows
from visformer.core.passes import run
from visformer.core.search import search
from visformer.values.row_columns import Columns

SOURCE = [4, 5, 6, 7]


@pytest.mark.parametrize("preset", ["handout", "modular", "scratch", "torch"])
@pytest.mark.parametrize("starts_padded", [False, True])
def test_rows_after_a_pad_are_those_of_the_whole_pass(
    preset: str, starts_padded: bool
) -> None:
    checkpoint = visformer.build(preset, device="cpu", **SMALL)
    model, pad = checkpoint.model, checkpoint.tokenizer.pad
    if starts_padded and preset != "torch":  # whose rows are NaN then
        checkpoint.tokenizer.bos = pad
    bos = checkpoint.tokenizer.bos
    ids = [[bos, pad, 7, 8, 9, pad, 4], [bos, 5, 6, 7, pad, 3, 4]]
    source = torch.tensor([SOURCE, SOURCE])
    real = source != pad
    with torch.no_grad():
        memory = model.encode(source, real[:, None]).output
    newest = DecoderRows(checkpoint, memory, real, 9)
    column = Columns(checkpoint.facts).output("decoder")
    for length in range(1, 8):
        made = torch.tensor([row[:length] for row in ids])
        with torch.inference_mode():
            rows, _masks = newest.computed(made, length - 1)
        output = rows[:, 0, column].numpy()
        full = run(checkpoint, source, made)
        for row, trace in enumerate(full):
            expected = trace.decoder_output[-1]
            assert np.abs(output[row] - expected).max() < 2e-5 * np.abs(expected).max()
        newest.keep(torch.tensor([1, 0]), torch.tensor([1, 0]))
        ids.reverse()


@pytest.mark.parametrize("beam", [1, 3])
def test_search_in_scratch_scores_as_the_whole_pass(beam: int) -> None:
    """The output likes pads, so that each hypothesis has some."""
    checkpoint = visformer.build("scratch", device="cpu", max_positions=9, **SMALL)
    with torch.no_grad():
        checkpoint.model.output.bias[0] = 1.5
        checkpoint.model.output.bias[2] = -9
    found = search(checkpoint, [SOURCE], beam=beam)[0].best
    assert found.count(0) >= 2
    if beam == 1:
        for t in range(len(found)):  # a longer pass has other rows
            trace = run(checkpoint, [SOURCE], [[1, *found[:t]]])[0]
            assert int(trace.logits[-1].argmax()) == found[t]
