"""What people type from memory: texts alone, losses, other programs' keywords."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import visformer
from tests.tiny_models import tiny_checkpoint
from visformer.errors import CheckpointError, InputError
from visformer.paths import bundled_checkpoints
from visformer.values.arrays import Floats
from visformer.values.trace import Trace

REVERSE = next(path for path in bundled_checkpoints() if path.name == "reverse")


@pytest.fixture(autouse=True)
def bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the small one be the one that needs no name."""
    monkeypatch.setattr("visformer.paths.checkpoint", lambda: REVERSE)


def cross_entropy(trace: Trace, ids: list[int]) -> Floats:
    logits = torch.from_numpy(trace.logits[: len(ids)].copy())
    made = functional.cross_entropy(logits, torch.tensor(ids), reduction="none")
    return made.numpy()


def test_losses_of_a_decoding_are_of_what_was_chosen() -> None:
    decoding = visformer.Decoding("a b c")
    for trace in (decoding.step(2), decoding.finish(), decoding.feed("c b d")):
        ids = [step.id for step in trace.steps]
        assert trace.loss.dtype == np.float32
        assert trace.loss.shape == (len(trace),)
        np.testing.assert_allclose(
            trace.loss, cross_entropy(trace, ids), rtol=1e-4, atol=1e-6
        )


def test_losses_of_a_pass_end_where_the_target_does() -> None:
    traces = visformer.run(REVERSE, ["a b c", "a"], ["c b a", "a"])
    for trace, known in zip(traces, (4, 2), strict=True):
        ids = trace.target_ids[1 : known + 1].tolist()
        expected = cross_entropy(trace, ids)
        np.testing.assert_allclose(trace.loss[:known], expected, rtol=1e-4, atol=1e-6)
        assert np.isnan(trace.loss[known:]).all()
        assert len(trace.loss) == 5


def test_what_has_no_steps_has_no_losses() -> None:
    model: Any = torch.nn.Transformer(8, 2, 1, 1, 8, batch_first=True).eval()
    watched = visformer.watch(model)(torch.ones(1, 3, 8), torch.ones(1, 2, 8) / 3)
    (trace,) = watched.traces
    assert np.isnan(trace.loss).tolist() == [True, True]
    assert np.isnan(trace.entropy()).tolist() == [True, True]


def test_texts_are_run_as_their_ids() -> None:
    (trace,) = visformer.run(REVERSE, "a b c", "c b a")
    fed = visformer.Decoding(REVERSE, "a b c").feed("c b a")
    assert trace.target == (*fed.target, fed.steps[-1].token)
    np.testing.assert_allclose(
        trace.attention("cross")[..., :-1, :], fed.attention("cross"), atol=1e-5
    )
    assert repr(trace) == "<Trace of reverse letters: “a b c” to “cba”, 5 rows>"
    long, short = visformer.run(REVERSE, ["a b c", "a"], ["c b a", "a"])
    assert long.source == trace.source
    assert short.source[2:] == short.target[3:] == ("<pad>", "<pad>")
    assert not short.mask("cross", 0)[:, 2:].any()
    with pytest.raises(InputError, match=r"sources \(2\) and targets \(1\)"):
        visformer.run(REVERSE, ["a", "b"], "a")


def test_control_characters_of_a_text_are_spaces() -> None:
    odd = visformer.Decoding(REVERSE, "a\x1b b\rc")
    assert odd.trace.source_text == "a  b c"
    assert odd.trace.source == visformer.Decoding(REVERSE, "a b c").trace.source
    assert odd.feed("c\x03b a").target == odd.feed("c b a").target


def test_texts_tell_their_lengths_to_models_that_mask_by_length() -> None:
    checkpoint = tiny_checkpoint(mask_rule="lengths")
    trace = visformer.run(checkpoint, ["abcd", "a"], ["a", "b"])[1]
    real = len(visformer.Decoding(checkpoint, "a").trace.source)
    assert trace.mask("encoder", 0)[0].tolist() == [
        at < real for at in range(len(trace.source))
    ]


def test_a_trace_of_ids_names_its_source() -> None:
    checkpoint = tiny_checkpoint()
    (trace,) = visformer.run(checkpoint, [[4, 5]], [[1, 6]])
    assert f"“{' '.join(trace.source)}” to" in repr(trace)
    (alone,) = visformer.run(checkpoint, None, [[1, 6]])
    assert repr(alone).startswith("<Trace of tiny: “")


def test_a_text_alone_is_read_by_the_bundled_model() -> None:
    assert visformer.Decoding("a b c").finish().text == "cba"
    assert visformer.Decoding("a").checkpoint.name == "reverse letters"
    for path in (REVERSE, str(REVERSE)):
        with pytest.raises(TypeError, match="source is None, but must be a text"):
            visformer.Decoding(path)
    for path in ("checkpoints/nothing", "model.pt"):
        with pytest.raises(CheckpointError, match="does not exist"):
            visformer.Decoding(path)
    unclear: Any = None
    with pytest.raises(TypeError, match="checkpoint is None"):
        visformer.Decoding(unclear, "a b")


def test_keywords_of_other_programs_are_taken_or_told() -> None:
    assert len(visformer.Decoding("a b c", max_new_tokens=2).finish()) == 2
    drive: Any = visformer.Decoding
    for settings, call in {
        ("num_beams", 4): r"visformer\.translate\(…, beam=4\)",
        ("target", "c b a"): r"decoding\.feed\(…\)",
        ("temperature", 0.5): r"strategy=visformer\.Strategy\(…\)",
        ("max_length", 9): "limit=…",
    }.items():
        with pytest.raises(TypeError, match=f"“{settings[0]}”. Use {call}."):
            drive(REVERSE, "a b c", **dict([settings]))
    with pytest.raises(InputError, match="mean the same here"):
        drive("a b c", limit=2, max_new_tokens=2)


def test_an_open_checkpoint_is_told_where_to_look() -> None:
    checkpoint: Any = visformer.load(REVERSE)
    with pytest.raises(TypeError, match="has its config, assumed and findings"):
        visformer.inspect(checkpoint)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module, as its “model” is"):
        visformer.watch(checkpoint)


def test_a_lens_is_of_the_model_that_ran() -> None:
    checkpoint = visformer.load(REVERSE)
    trace = visformer.Decoding(checkpoint, "a b c").finish()
    looks = trace.lens([0, -1])
    for look, row in zip(looks, (0, len(trace) - 1), strict=True):
        own = trace.steps[row]
        assert look.chosen_probabilities[-1] == pytest.approx(own.probability, abs=1e-5)
    (ran,) = visformer.run(checkpoint, "a b c", "c b a")
    np.testing.assert_allclose(ran.lens(0)[0].logits, looks[0].logits, atol=1e-4)
    with pytest.raises(InputError, match="no logit lens"):
        pickle.loads(pickle.dumps(trace)).lens()
    with torch.no_grad():
        checkpoint.model.output.weight.mul_(0.5)
    with pytest.raises(InputError, match="has changed"):
        trace.lens()
