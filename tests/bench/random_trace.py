"""Random Traces in the shape of a model, made without a model."""

from __future__ import annotations

import numpy as np

from visformer.values.arrays import Floats, read_only
from visformer.values.config import ModelConfig
from visformer.values.facts import Description, ModelFacts
from visformer.values.recording import Recording, Row
from visformer.values.row_columns import Columns
from visformer.values.step import CANDIDATES, Candidates, Step
from visformer.values.trace import Trace

PAD, UNK, BOS, EOS = range(4)
WORDS = 4  # the first id of an ordinary token


def random_facts(
    *,
    d_model: int,
    heads: int,
    layers: int,
    vocabulary: int,
    decoder_layers: int | None = None,
    masked_value: float = -np.inf,
) -> ModelFacts:
    """Return a model's facts; ``decoder_layers`` defaults to ``layers``."""
    config = ModelConfig(
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
        d_model=d_model,
        heads=heads,
        encoder_layers=layers,
        decoder_layers=layers if decoder_layers is None else decoder_layers,
        feed_forward=4 * d_model,
        max_positions=4096,
        masked_value=masked_value,
    )
    return ModelFacts(
        **Description.of(config)._asdict(),
        name="random",
        digest="",
        layout="native",
        device="cpu",
        parameters=1_000,
        pad=PAD,
        bos=BOS,
        eos=EOS,
    )


def random_trace(
    model: ModelFacts,
    source: int,
    target: int,
    *,
    candidates: int = CANDIDATES,
    sharpness: float = 1.0,
    seed: int = 0,
) -> Trace:
    """Return a random Trace of the given lengths; only future tokens are masked.

    Each step keeps ``candidates`` tokens and chooses the best. ``sharpness`` scales the
    rows, which makes attention more peaked.
    """
    recording = random_recording(
        model,
        source,
        target,
        limit=target,
        candidates=candidates,
        sharpness=sharpness,
        seed=seed,
    )
    return recording.trace()


def random_recording(
    model: ModelFacts,
    source: int,
    target: int,
    *,
    limit: int,
    candidates: int = CANDIDATES,
    sharpness: float = 1.0,
    seed: int = 0,
) -> Recording:
    """Return the recording of such a Trace, with room for ``limit`` rows."""
    random = np.random.default_rng(seed)
    vocabulary = model.config.target_vocabulary
    steps = [_step(at, vocabulary, candidates, random) for at in range(target)]
    recording = Recording(_start(model, source, sharpness, random), limit)
    width = Columns(model).width("decoder")
    consumed, token = BOS, "<s>"
    for at, step in enumerate(steps):
        row = Row(
            id=consumed,
            token=token,
            values=_rows(random, 1, width, sharpness)[0],
            self_mask=np.ones(at + 1, bool),
            cross_mask=np.ones(source, bool),
            step=step,
        )
        recording.append(row)
        consumed, token = step.id, step.token
    return recording


def _start(
    model: ModelFacts, source: int, sharpness: float, random: np.random.Generator
) -> Trace:
    columns = Columns(model)
    ids = random.integers(WORDS, model.config.source_vocabulary, source)
    return Trace(
        model=model,
        source_text=" ".join(f"s{at}" for at in range(source)),
        source=tuple(f"▁s{at}" for at in range(source)),
        source_ids=read_only(ids.astype(np.int64)),
        source_spans=(),
        target=(),
        target_ids=read_only(np.zeros(0, np.int64)),
        steps=(),
        encoder_rows=_rows(random, source, columns.width("encoder"), sharpness),
        memory_rows=_rows(random, source, columns.width("memory"), sharpness),
        decoder_rows=_rows(random, 0, columns.width("decoder"), sharpness),
        masks={
            "encoder": read_only(np.ones((source, source), bool)),
            "decoder": read_only(np.ones((0, 0), bool)),
            "cross": read_only(np.ones((0, source), bool)),
        },
    )


def _rows(
    random: np.random.Generator, count: int, width: int, sharpness: float
) -> Floats:
    rows = random.standard_normal((count, width)) * sharpness
    return read_only(rows.astype(np.float32))


def _step(at: int, vocabulary: int, count: int, random: np.random.Generator) -> Step:
    """Return a step that chose the best of ``count`` candidates."""
    ids = WORDS + random.choice(vocabulary - WORDS, count, replace=False)
    shares = np.sort(random.dirichlet(np.ones(count)))[::-1]
    tokens = [f"▁t{at}", *(f"▁w{id}" for id in ids[1:])]
    candidates = Candidates(ids, tokens, shares)
    best = candidates[0]
    return Step(
        id=best.id,
        token=best.token,
        probability=best.probability,
        rank=1,
        candidates=candidates,
        entropy=float(-(shares * np.log2(shares)).sum()),
        origin="model",
        text=" ".join(f"t{index}" for index in range(at + 1)),
    )
