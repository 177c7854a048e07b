"""Traces of random numbers in the shape of a model, made without one."""

from __future__ import annotations

import numpy as np

from visformer.values.arrays import Floats, read_only
from visformer.values.config import ModelConfig
from visformer.values.facts import ModelFacts
from visformer.values.recording import Recording, Row
from visformer.values.step import CANDIDATES, Candidates, Step
from visformer.values.trace import Columns, Trace

PAD, BOS, EOS = 0, 2, 3


def facts(*, d_model: int, heads: int, layers: int, vocabulary: int) -> ModelFacts:
    """Return the facts of a model with as many decoder layers as encoder layers."""
    config = ModelConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        d_model=d_model,
        heads=heads,
        encoder_layers=layers,
        decoder_layers=layers,
        feed_forward=4 * d_model,
        max_positions=4096,
    )
    return ModelFacts(
        config=config,
        name="random",
        digest="",
        layout="native",
        device="cpu",
        parameters=0,
        pad=PAD,
        bos=BOS,
        eos=EOS,
    )


def random_recording(
    model: ModelFacts, source: int, target: int, *, limit: int
) -> Recording:
    """Return a recording of so many tokens; all may attend to what a decoder may."""
    random = np.random.default_rng(0)
    start = _start(model, source, random)
    recording = Recording(start, limit)
    width = start.layout.width("decoder")
    consumed, token, text = BOS, "<s>", ""
    for at in range(target):
        step = _step(model, text, random)
        row = Row(
            id=consumed,
            token=token,
            values=_rows(random, 1, width)[0],
            self_mask=np.ones(at + 1, bool),
            cross_mask=np.ones(source, bool),
            step=step,
        )
        recording.append(row)
        consumed, token, text = step.id, step.token, step.text
    return recording


def _start(model: ModelFacts, source: int, random: np.random.Generator) -> Trace:
    layout = Columns(model)
    ids = random.integers(EOS + 1, model.config.source_vocabulary, source)
    return Trace(
        model=model,
        source_text=" ".join(f"s{id}" for id in ids),
        source=tuple(f"▁s{id}" for id in ids),
        source_ids=read_only(ids.astype(np.int64)),
        source_spans=(),
        target=(),
        target_ids=read_only(np.zeros(0, np.int64)),
        steps=(),
        encoder_rows=_rows(random, source, layout.width("encoder")),
        memory_rows=_rows(random, source, layout.width("memory")),
        decoder_rows=_rows(random, 0, layout.width("decoder")),
        masks={
            "encoder": read_only(np.ones((source, source), bool)),
            "decoder": read_only(np.ones((0, 0), bool)),
            "cross": read_only(np.ones((0, source), bool)),
        },
    )


def _rows(random: np.random.Generator, count: int, width: int) -> Floats:
    return read_only(random.standard_normal((count, width), np.float32))


def _step(model: ModelFacts, text: str, random: np.random.Generator) -> Step:
    """Return a step that chose the best of as many candidates as a model's keeps."""
    ids = random.integers(EOS + 1, model.config.target_vocabulary, CANDIDATES).tolist()
    shares = sorted(random.dirichlet(np.ones(CANDIDATES)).tolist(), reverse=True)
    tokens = [f"▁{id}" for id in ids]
    candidates = Candidates(np.array(ids), tokens, np.array(shares))
    best = candidates[0]
    return Step(
        id=best.id,
        token=best.token,
        probability=best.probability,
        rank=1,
        candidates=candidates,
        entropy=float(-np.dot(shares, np.log2(shares))),
        origin="model",
        text=f"{text} {best.id}".lstrip(),
    )
