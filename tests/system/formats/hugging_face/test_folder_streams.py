"""The residual stream, the logits and the lens of folders of transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visformer
from tests.system.formats.hugging_face.parity import opened_once
from visformer.engine.decodes import lean
from visformer.engine.messages import Lens
from visformer.engine.process import lens
from visformer.pictures.words.absent import no_lens_words

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers' own
SOURCE = [5, 6, 7, 8]


@pytest.mark.parametrize("name", ["T5", "BART", "M2M100", "GPT-2", "Llama"])
def test_what_a_folder_keeps_is_what_transformers_returns(
    name: str, folder_of: Callable[[str], Path]
) -> None:
    model: Any = opened_once(folder_of(name))
    trace = visformer.Decoding(model, SOURCE, limit=3).finish()
    ids = torch.from_numpy(trace.target_ids)[None]
    more = {} if model.alone else {"decoder_input_ids": ids}
    read = ids if model.alone else torch.tensor([SOURCE])
    with torch.no_grad():
        own = model.model(input_ids=read, output_hidden_states=True, **more)
    hidden = own.hidden_states if model.alone else own.decoder_hidden_states
    assert np.abs(trace.logits - own.logits[0].numpy()).max() < 1e-5
    for at, one in enumerate(hidden[:-1]):  # of the last one, the final norm is made
        assert np.abs(trace.hidden("decoder", at) - one[0].numpy()).max() < 1e-5
    assert np.abs(trace.decoder_output - hidden[-1][0].numpy()).max() < 1e-5
    if not model.alone:
        encoded = own.encoder_last_hidden_state[0].numpy()
        assert np.abs(trace.encoder_output - encoded).max() < 1e-5
    sent = lean(trace)
    assert (sent.own_logits, no_lens_words(sent)) == (None, "")
    chosen = np.array([step.id for step in trace.steps])
    hidden = sent.streams(range(len(trace)))
    request = Lens(hidden=hidden, chosen=chosen, temperature=1.0)
    rows = lens(model, request)
    for at, (row, step) in enumerate(zip(rows, trace.steps, strict=True)):
        assert row.chosen_ranks[-1] == step.rank
        assert row.chosen_logits[-1] == pytest.approx(trace.logits[at, step.id], 1e-4)
        assert row.tokens[-1][0] == step.candidates[0].token
