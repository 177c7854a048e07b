"""The loss of a reference: the same numbers as torch's cross-entropy."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from tests.existing import existing
from tests.tiny_models import BOS, EOS, PAD, tiny_checkpoint
from tests.traces import fed, make_trace
from visformer import load
from visformer.core.decoding import Decoding
from visformer.core.passes import run
from visformer.paths import bundled_checkpoints
from visformer.pictures.words.modified_run import (
    MOST_LOSS,
    Score,
    is_taught,
    loss_share,
    score,
    score_words,
)

REVERSE = next(path for path in bundled_checkpoints() if path.name == "reverse")


@pytest.mark.parametrize("reference", ["e d c b a", "a b c x"])
def test_losses_are_torchs_cross_entropy(reference: str) -> None:
    decoding = Decoding(load(REVERSE), "a b c d e")
    trace = decoding.feed(reference)
    logits = torch.from_numpy(trace.logits.copy())
    ids = torch.tensor([step.id for step in trace.steps])
    each = functional.cross_entropy(logits, ids, reduction="none")
    assert [step.loss for step in trace.steps] == pytest.approx(
        each.tolist(), rel=1e-4, abs=1e-6
    )
    found = existing(score(trace))
    mean = float(functional.cross_entropy(logits, ids))
    total = float(functional.cross_entropy(logits, ids, reduction="sum"))
    assert found.total == pytest.approx(total, rel=1e-4, abs=1e-5)
    assert found.mean == pytest.approx(mean, rel=1e-4, abs=1e-5)
    assert found.perplexity == pytest.approx(math.exp(mean), rel=1e-3)
    assert (found.tokens, found.agreed) == (
        len(ids),
        int((logits.argmax(1) == ids).sum()),
    )
    words = score_words(trace)
    assert f"Cross-entropy {mean:.3f} per token ({total:.2f} nats)" in words
    assert f"{found.agreed} of {len(ids)} as the model says" in words


def test_padding_has_no_loss() -> None:
    """A row of a padded batch scores as the same sentence alone."""
    checkpoint = tiny_checkpoint()
    alone = run(checkpoint, [[4, 5, EOS]], [[BOS, 7, 8, EOS]])[0]
    source, target = [[4, 5, EOS, PAD]], [[BOS, 7, 8, EOS, PAD, PAD]]
    both = run(checkpoint, source * 2, target * 2)[0]
    found, wanted = existing(score(both)), existing(score(alone))
    assert (found.tokens, found.agreed) == (wanted.tokens, wanted.agreed)
    assert found.total == pytest.approx(wanted.total, rel=1e-5)
    assert score_words(both) == score_words(alone)


def test_a_run_of_the_models_own_has_no_score() -> None:
    assert score(make_trace()) is None
    assert score_words(make_trace()) == ""
    forced = fed(make_trace(), {0: "reference", 2: "forced"})
    assert not is_taught(forced)
    assert not is_taught(make_trace().until(0))
    ends = fed(make_trace(), dict.fromkeys(range(3), "reference"))
    assert is_taught(ends)
    found = existing(score(ends))
    assert found.tokens == 3


def test_what_is_impossible_has_no_end_and_nan_stays() -> None:
    step = make_trace().steps[0]
    assert math.isnan(replace(step, probability=math.nan).loss)
    assert math.isnan(Score(tokens=2, agreed=0, total=math.nan).perplexity)
    assert loss_share(MOST_LOSS / 2) == pytest.approx(0.5)
    assert (loss_share(0), loss_share(math.inf), loss_share(math.nan)) == (0, 1, 1)
    impossible = fed(make_trace(), dict.fromkeys(range(4), "reference"))
    steps = (replace(impossible.steps[0], probability=0.0), *impossible.steps[1:])
    assert "perplexity ∞" in score_words(replace(impossible, steps=steps))
