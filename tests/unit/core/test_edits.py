"""A model that scripts edit and hook: what is decoded is what ``run`` computes."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize, prune

import visformer
from tests.tiny_models import BOS, letters, tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.packed import ModelStamp
from visformer.core.passes import run
from visformer.core.search import search
from visformer.errors import InputError
from visformer.values.changes.position_change import PositionChange
from visformer.values.intervention import Intervention
from visformer.values.trace import Trace

SOURCE = [4, 9, 7, 12, 3]


class Doubled(nn.Module):
    """Stands in for a layer's own matrix, as adapters do."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        doubled: Tensor = 2 * self.linear(x)
        return doubled


class Halved(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight / 2


def last(checkpoint: Checkpoint) -> Any:
    return list(checkpoint.model.decoder)[-1]


def other_weights(checkpoint: Checkpoint) -> None:
    checkpoint.model.load_state_dict(tiny_checkpoint(seed=5).model.state_dict())


def replaced_parameter(checkpoint: Checkpoint) -> None:
    linear = last(checkpoint).feed_forward.w2
    linear.weight = nn.Parameter(-linear.weight.detach())


def replaced_linear(checkpoint: Checkpoint) -> None:
    attention = last(checkpoint).self_attention
    attention.output = copy.deepcopy(last(checkpoint).cross_attention.output)


def written(checkpoint: Checkpoint) -> None:
    with torch.no_grad():
        last(checkpoint).cross_attention.output.weight.zero_()


def written_uncounted(checkpoint: Checkpoint) -> None:
    last(checkpoint).cross_attention.output.weight.data[:, :8] = 0


def written_through_numpy(checkpoint: Checkpoint) -> None:
    last(checkpoint).feed_forward.w1.bias.detach().numpy()[:] += 1


def written_output(checkpoint: Checkpoint) -> None:
    with torch.no_grad():
        checkpoint.model.output.weight.mul_(-1)


def written_embedding(checkpoint: Checkpoint) -> None:
    checkpoint.model.target_embedding.weight.data.mul_(-1)


def other_norm(checkpoint: Checkpoint) -> None:
    last(checkpoint).feed_forward_norm.eps = 10.0


def other_activation(checkpoint: Checkpoint) -> None:
    last(checkpoint).feed_forward.activation = torch.tanh


def adapted(checkpoint: Checkpoint) -> None:
    last(checkpoint).self_attention.value = Doubled(
        last(checkpoint).self_attention.value
    )


def parametrized(checkpoint: Checkpoint) -> None:
    parametrize.register_parametrization(
        last(checkpoint).feed_forward.w1, "weight", Halved()
    )


def pruned(checkpoint: Checkpoint) -> None:
    prune.l1_unstructured(last(checkpoint).cross_attention.value, "weight", 0.7)


def hooked(checkpoint: Checkpoint) -> None:
    last(checkpoint).self_attention.query.register_forward_hook(lambda *a: 3 * a[2])


def hooked_before(checkpoint: Checkpoint) -> None:
    last(checkpoint).cross_attention.register_forward_pre_hook(
        lambda _, given: (given[0], -given[1], given[2])
    )


def hooked_output(checkpoint: Checkpoint) -> None:
    checkpoint.model.output.register_forward_hook(lambda *a: -a[2])


def patched(checkpoint: Checkpoint) -> None:
    linear = last(checkpoint).feed_forward.w2
    linear.forward = lambda x: nn.functional.linear(x, -linear.weight)


EDITS = [
    other_weights,
    replaced_parameter,
    replaced_linear,
    written,
    written_uncounted,
    written_through_numpy,
    written_output,
    written_embedding,
    other_norm,
    other_activation,
    adapted,
    parametrized,
    pruned,
    hooked,
    hooked_before,
    hooked_output,
    patched,
]


def decoded(checkpoint: Checkpoint, **choices: Any) -> Trace:
    return visformer.Decoding(checkpoint, SOURCE, limit=6, **choices).finish()


def assert_as_run(trace: Trace, checkpoint: Checkpoint, **choices: Any) -> None:
    """The decoded Trace is that of one pass over the same ids, by the model as is."""
    whole = run(checkpoint, [SOURCE], [trace.target_ids.tolist()], **choices)[0]
    for one, other in (
        (trace.decoder_rows, whole.decoder_rows),
        (trace.memory_rows, whole.memory_rows),
    ):
        assert np.abs(one - other).max() <= 2e-5 * np.abs(other).max()
    logits = checkpoint.model.output(torch.tensor(whole.decoder_output)).detach()
    best = logits.argmax(-1).tolist()
    assert [step.id for step in trace.steps] == best
    assert [step.candidates[0].id for step in trace.steps] == best


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_decoded_searched_and_looked_at(
    edit: Callable[[Checkpoint], None],
) -> None:
    checkpoint = tiny_checkpoint()
    before, facts = decoded(checkpoint), checkpoint.facts
    assert_as_run(before, checkpoint)
    assert decoded(checkpoint).model is facts  # untouched, it is the same model
    edit(checkpoint)
    after = decoded(checkpoint)
    assert_as_run(after, checkpoint)
    length = min(len(before), len(after))
    moved = after.decoder_output[:length] - before.decoder_output[:length]
    assert np.abs(moved).max() > 1e-3 or edit in (written_output, hooked_output)
    found = search(checkpoint, [SOURCE, SOURCE], beam=1)
    assert found[0].best == found[1].best
    assert found[0].best[: len(after)] == [step.id for step in after.steps]
    looked = after.lens()
    assert [row.ids[-1, 0] for row in looked] == [step.id for step in after.steps]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize(
    "change",
    [Intervention(masked_value=-2.0), Intervention(positions=PositionChange("none"))],
    ids=str,
)
def test_a_changed_run_is_of_the_edited_model(
    edit: Callable[[Checkpoint], None], change: Intervention
) -> None:
    checkpoint = tiny_checkpoint()
    decoded(checkpoint)
    edit(checkpoint)
    trace = decoded(checkpoint, intervention=change)
    assert_as_run(trace, checkpoint, intervention=change)
    plain = run(checkpoint, [SOURCE], [trace.target_ids.tolist()])[0]
    assert np.abs(plain.decoder_rows - trace.decoder_rows).max() > 1e-4


def test_a_hook_sees_every_row_of_the_decoder() -> None:
    checkpoint = tiny_checkpoint()
    seen: list[int] = []
    layer = last(checkpoint)
    handle = layer.register_forward_hook(lambda *a: seen.append(a[1][0].shape[1]))
    visformer.Decoding(checkpoint, SOURCE).step(3)
    assert seen[-3:] == [1, 2, 3]
    handle.remove()
    seen.clear()
    assert_as_run(decoded(checkpoint), checkpoint)
    assert not seen


@pytest.mark.parametrize("edit", [written, adapted, hooked, written_embedding])
def test_an_edit_within_a_sentence_is_refused(
    edit: Callable[[Checkpoint], None],
) -> None:
    """Rows of two models would stand in one Trace."""
    checkpoint = tiny_checkpoint()
    decoding = visformer.Decoding(checkpoint, SOURCE, limit=6)
    shown = decoding.step(2)
    if edit is written_embedding:
        with torch.no_grad():
            checkpoint.model.target_embedding.weight.mul_(-1)
    else:
        edit(checkpoint)
    assert len(decoding.back()) == 1
    assert decoding.step() is not shown  # what is recorded can still be gone through
    for act in (decoding.step, decoding.finish, lambda: decoding.force(7)):
        with pytest.raises(InputError, match="have changed since this sentence"):
            act()
    decoding.restart(SOURCE, limit=6)
    assert_as_run(decoding.finish(), checkpoint)


def test_a_hook_of_all_modules_within_a_sentence_is_refused() -> None:
    checkpoint = tiny_checkpoint()
    decoding = visformer.Decoding(checkpoint, SOURCE, limit=6)
    decoding.step(2)
    with (
        nn.modules.module.register_module_forward_hook(lambda *_a: None),
        pytest.raises(InputError, match="have changed since this sentence"),
    ):
        decoding.step()


def test_an_edited_model_is_that_of_no_file() -> None:
    checkpoint = Checkpoint(
        name="file",
        layout="native",
        config=tiny_checkpoint().config,
        model=tiny_checkpoint().model,
        tokenizer=letters(),
        digest="ab" * 32,
    )
    change = Intervention(masked_value=-2.0)
    assert decoded(checkpoint).model.digest == "ab" * 32
    assert decoded(checkpoint, intervention=change).model.digest == "ab" * 32
    assert run(checkpoint, [SOURCE], [[BOS]])[0].model.digest == "ab" * 32
    handle = last(checkpoint).register_forward_hook(lambda *a: None)
    assert decoded(checkpoint).model.digest == ""  # who knows what a hook does
    handle.remove()
    assert decoded(checkpoint).model.digest == "ab" * 32
    for edit in (written_uncounted, written):
        edit(checkpoint)
        assert decoded(checkpoint).model.digest == ""
        assert decoded(checkpoint, intervention=change).model.digest == ""
    assert run(checkpoint, [SOURCE], [[BOS]])[0].model.digest == ""


def test_weights_that_are_not_numbers_are_packed_once() -> None:
    checkpoint = tiny_checkpoint()
    with torch.no_grad():
        last(checkpoint).feed_forward.w1.weight[0] = torch.nan
    assert checkpoint.packed is checkpoint.packed


def test_looking_for_edits_costs_little_beside_a_step() -> None:
    """Some hundred comparisons of identities; a step is thousands of microseconds."""
    stamp = ModelStamp(tiny_checkpoint(encoder_layers=4, decoder_layers=4).model)
    times = []
    for _ in range(20):
        began = time.perf_counter()
        assert stamp.holds()
        times.append(time.perf_counter() - began)
    assert min(times) < 1e-3
