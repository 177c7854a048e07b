"""Small Traces of random numbers, built without a model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from visformer.values.arrays import Bools, Floats, read_only
from visformer.values.config import ModelConfig
from visformer.values.facts import Kind, ModelFacts
from visformer.values.recording import Recording, Row
from visformer.values.step import Candidates, Step
from visformer.values.trace import Columns, Trace

PAD, UNK, BOS, EOS = range(4)
VOCABULARY = 50


def make_trace(
    source: int = 5,
    target: int = 4,
    layers: int = 2,
    heads: int = 2,
    d_model: int = 8,
    seed: int = 0,
    *,
    decoder_layers: int | None = None,
    masked_value: float = -np.inf,
    sharpness: float = 1.0,
) -> Trace:
    """Return a Trace of random rows, causal mask in the decoder, nothing else hidden.

    ``sharpness`` scales the rows: attention becomes peaky.
    """
    config = ModelConfig(
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        d_model=d_model,
        heads=heads,
        encoder_layers=layers,
        decoder_layers=layers if decoder_layers is None else decoder_layers,
        feed_forward=4 * d_model,
        masked_value=masked_value,
    )
    model = ModelFacts(
        config=config,
        name="random",
        digest="",
        layout="native",
        device="cpu",
        parameters=1_000,
        pad=PAD,
        bos=BOS,
        eos=EOS,
    )
    random = np.random.default_rng(seed)
    layout = Columns(model)
    steps = tuple(_step(at, random) for at in range(target))
    chosen = [step.id for step in steps]
    ids = random.integers(4, VOCABULARY, source)
    return Trace(
        model=model,
        source_text=" ".join(f"s{at}" for at in range(source)),
        source=tuple(f"▁s{at}" for at in range(source)),
        source_ids=read_only(ids.astype(np.int64)),
        source_spans=(),
        target=("<s>", *(step.token for step in steps))[:target],
        target_ids=read_only(np.array([BOS, *chosen][:target], np.int64)),
        steps=steps,
        encoder_rows=_rows(random, source, layout.width("encoder"), sharpness),
        memory_rows=_rows(random, source, layout.width("memory"), sharpness),
        decoder_rows=_rows(random, target, layout.width("decoder"), sharpness),
        masks=_masks(source, target),
    )


def with_config(model: ModelFacts, **choices: Any) -> ModelFacts:
    """Return the same model with other sizes or choices."""
    return replace(model, config=replace(model.config, **choices))


def grown(trace: Trace) -> list[Trace]:
    """Decode a Trace row by row again, as the engine does."""
    recording = Recording(trace.until(0), len(trace))
    traces = []
    for at, step in enumerate(trace.steps):
        row = Row(
            id=int(trace.target_ids[at]),
            token=trace.target[at],
            values=trace.decoder_rows[at],
            self_mask=trace.masks["decoder"][at, : at + 1],
            cross_mask=trace.masks["cross"][at],
            step=step,
        )
        recording.append(row)
        traces.append(recording.trace())
    return traces


def _step(at: int, random: np.random.Generator) -> Step:
    best = random.choice(np.arange(4, VOCABULARY), 5, replace=False)
    shares = np.sort(random.dirichlet(np.ones(5)))[::-1]
    tokens = [f"▁t{at}", *(f"▁w{id}" for id in best[1:])]
    candidates = Candidates(best, tokens, shares)
    choice = candidates[0]
    return Step(
        id=choice.id,
        token=choice.token,
        probability=choice.probability,
        rank=1,
        candidates=candidates,
        entropy=float(-(shares * np.log2(shares)).sum()),
        origin="model",
        text=" ".join(f"t{index}" for index in range(at + 1)),
    )


def _rows(
    random: np.random.Generator, length: int, width: int, sharpness: float
) -> Floats:
    rows = random.standard_normal((length, width)) * sharpness
    return read_only(rows.astype(np.float32))


def _masks(source: int, target: int) -> dict[Kind, Bools]:
    return {
        "encoder": read_only(np.ones((source, source), bool)),
        "decoder": read_only(np.tril(np.ones((target, target), bool))),
        "cross": read_only(np.ones((target, source), bool)),
    }
