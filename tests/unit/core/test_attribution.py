"""What tokens do to a run, against the same model in float64, changed by hooks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.tiny_models import count_encodings, tiny_checkpoint
from tests.unit.core.variants import ODD, small
from visformer.core import attribution
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.importance import importance
from visformer.core.model import Layer, StackRecord, Transformer
from visformer.core.parts import Attention
from visformer.core.search import exhausted
from visformer.errors import InputError
from visformer.formats.loading import presets
from visformer.values.facts import KINDS, Kind
from visformer.values.intervention import parse
from visformer.values.measured import Attribution
from visformer.values.trace import Trace


class Exact(NamedTuple):
    """A pass in float64."""

    encoded: StackRecord
    decoded: StackRecord
    log_p: Tensor  # of each choice, [T]

    def stack(self, kind: Kind) -> StackRecord:
        return self.encoded if kind == "encoder" else self.decoded


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm"])
def checkpoint(request: pytest.FixtureRequest) -> Checkpoint:
    pre = {"norm_first": True, "final_norm": True} if request.param else {}
    return tiny_checkpoint(seed=2, shared_embedding=False, **pre)


def decoded(checkpoint: Checkpoint) -> Decoding:
    decoding = Decoding(checkpoint, "abcd")
    decoding.feed("kbza")
    return decoding


def double(checkpoint: Checkpoint) -> Transformer:
    return copy.deepcopy(checkpoint.model).double()


def passed(model: Transformer, trace: Trace) -> Exact:
    """Run what a Trace read, with masks written here."""
    source, target = (
        torch.tensor(ids)[None] for ids in (trace.source_ids, trace.target_ids)
    )
    rows = target.shape[1]
    seen = torch.ones(1, 1, source.shape[1], dtype=torch.bool)
    encoded = model.encode(source, seen)
    causal = torch.ones(1, rows, rows, dtype=torch.bool).tril()
    made = model.decode(target, encoded.output, causal, seen)
    log_p = model.output(made.output)[0].log_softmax(-1)
    chosen = torch.tensor([step.id for step in trace.steps])
    return Exact(encoded, made, log_p[torch.arange(rows), chosen])


def close(found: Attribution, expected: Any, most: float) -> None:
    assert found.values is not None
    np.testing.assert_allclose(found.values, expected, atol=most)


def attention(model: Transformer, kind: Kind, layer: int) -> Attention:
    at: Layer = list(model.encoder if kind == "encoder" else model.decoder)[layer]
    part = at.cross_attention if kind == "cross" else at.self_attention
    assert isinstance(part, Attention)
    return part


@contextmanager
def hooked(*hooks: tuple[nn.Module, Callable[..., Any]]) -> Iterator[None]:
    handles = [module.register_forward_hook(hook) for module, hook in hooks]
    yield
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layer", [0, 1])
@torch.no_grad()
def test_value_zeroing_is_the_turn_of_the_layers_output(
    checkpoint: Checkpoint, kind: Kind, layer: int
) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    trace = decoding.trace
    before = passed(model, trace).stack(kind).hidden[layer + 1][0]  # [Q, D]
    expected = []
    for key in range(len(trace.tokens(kind)[1])):

        def zero(_module: nn.Module, _given: Any, v: Tensor, key: int = key) -> Tensor:
            v[:, key] = 0
            return v

        with hooked((attention(model, kind, layer).value, zero)):
            after = passed(model, trace).stack(kind).hidden[layer + 1][0]
        expected.append(1 - torch.cosine_similarity(before, after, dim=1))
    turned = torch.stack(expected, 1).clamp_min(0)  # [Q, K]
    found = decoding.attribution("zeroing", kind, layer)
    close(found, (turned / turned.sum(1, keepdim=True)).numpy(), 1e-5)
    if kind == "decoder" and found.values is not None:
        assert not np.triu(found.values, 1).any()  # to the last bit


class RunElsewhere:
    """A native model of which only whole runs are known."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    def __getattr__(self, name: str) -> Any:
        return getattr(self.checkpoint, name)


RUNS = {  # a source, a target and changes; the first has pads
    "padded": ([4, 0, 5, 0], [8, 9, 0, 10], "head decoder * -2 @ L2H2; causal off"),
    "whole": (
        [4, 5, 6],
        [8, 9, 10],
        "head cross off @ L1H1; value decoder 2 off; cell cross 2 1 off @ L2; scale 2; "
        "head encoder mean @ L2H1; layer decoder off @ L3; positions none",
    ),
}


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("variant", [*presets(), *ODD])
def test_value_zeroing_of_a_layer_is_that_of_whole_runs(
    variant: str, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"d_model": 16, "heads": 4, **ODD.get(variant, {})}
    model = small("paper" if variant in ODD else variant, **sizes)
    source, target, text = RUNS[run]
    monkeypatch.setattr(attribution, "LEAST_COPIES", 3)
    monkeypatch.setattr(attribution, "ROWS_BLOCK", 1)
    for change in ("", text):
        decoding = Decoding(model, source, intervention=parse([change]))
        decoding.feed(target)
        for kind, layer in zip(KINDS, (1, 1, 0), strict=True):
            ways: list[Any] = [model, RunElsewhere(model)]
            found, expected = (
                exhausted(attribution.value_zeroing(way, decoding.known, kind, layer))
                for way in ways
            )
            np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_value_zeroing_of_a_layer_encodes_once(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding, encoded = decoded(checkpoint), count_encodings(monkeypatch)
    for kind in KINDS:
        encoded.clear()
        exhausted(attribution.value_zeroing(checkpoint, decoding.known, kind, 0))
        assert encoded == [5]  # a b c d and the end


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_norms_are_lengths_of_what_is_added_through_w_o(
    checkpoint: Checkpoint, kind: Kind
) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    trace, part = decoding.trace, attention(model, kind, 1)
    record = passed(model, trace).stack(kind)
    projected = (record.cross if kind == "cross" else record.attention)[1]
    v = projected[2][0]  # [K, D]
    width = v.shape[-1] // part.heads
    queries, keys = map(len, trace.tokens(kind))
    expected = np.zeros((queries, keys))
    for q in range(queries):
        for k in range(keys):
            z = torch.zeros(v.shape[-1], dtype=torch.float64)
            for head in range(part.heads):
                own = slice(head * width, (head + 1) * width)
                z[own] = float(trace.attention(kind, 1, head)[q, k]) * v[k, own]
            expected[q, k] = (part.output.weight @ z).norm()
    expected /= expected.sum(1, keepdims=True)
    close(decoding.attribution("norms", kind, 1), expected, 1e-5)


@pytest.mark.parametrize("kind", ["cross", "decoder"])
@torch.no_grad()
def test_gradients_are_slopes_of_log_p(checkpoint: Checkpoint, kind: Kind) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    trace, step = decoding.trace, 1e-5
    table = model.source_embedding if kind == "cross" else model.target_embedding
    expected = []
    for key in range(len(trace.tokens(kind)[1])):
        ends = []
        for by in (1 + step, 1 - step):

            def scale(
                _module: nn.Module, _given: Any, x: Tensor, key: int = key, by: Any = by
            ) -> Tensor:
                x = x.clone()
                x[:, key] *= by
                return x

            with hooked((table, scale)):
                ends.append(passed(model, trace).log_p)
        expected.append((ends[0] - ends[1]) / (2 * step))
    slopes = torch.stack(expected, 1).numpy()
    close(decoding.attribution("gradient", kind), slopes, 2e-5)


@torch.no_grad()
def test_the_share_of_the_source(checkpoint: Checkpoint) -> None:
    decoding, model = decoded(checkpoint), double(checkpoint)
    trace, layers = decoding.trace, range(len(list(model.decoder)))
    own = passed(model, trace).log_p

    def only_own(module: nn.Module, given: Any, made: Any) -> Any:
        """Compute self-attention by hand, of each row's own value alone."""
        assert isinstance(module, Attention)
        x, _memory, mask = given
        q, k, v = (
            part(x)[0].unflatten(-1, (module.heads, -1)).transpose(0, 1)
            for part in (module.query, module.key, module.value)
        )  # [H, T, d]
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        z = weights.diagonal(0, 1, 2)[..., None] * v  # [H, T, d]
        return module.output(z.transpose(0, 1).flatten(1))[None], made[1]

    def zero(_module: nn.Module, _given: Any, v: Tensor) -> Tensor:
        return torch.zeros_like(v)

    with hooked(*((attention(model, "cross", at).value, zero) for at in layers)):
        without_source = passed(model, trace).log_p
    with hooked(*((attention(model, "decoder", at), only_own) for at in layers)):
        without_target = passed(model, trace).log_p
    source, target = (own - without_source).abs(), (own - without_target).abs()
    found = decoding.attribution("norms", "cross").share
    assert found is not None
    np.testing.assert_allclose(found, (source / (source + target)).numpy(), atol=1e-4)
    assert found[0] == 1  # the first row reads itself alone


def test_a_changed_run_is_measured_as_it_ran(checkpoint: Checkpoint) -> None:
    change = parse(["head cross off @ L1", "value decoder 2 off"])
    decoding = Decoding(checkpoint, "abcd", intervention=change)
    decoding.feed("kbza")
    found = decoding.attribution("zeroing", "cross", 0).values
    assert found is not None
    assert not found.any()  # no head of it adds anything
    found = decoding.attribution("norms", "decoder", 1).values
    assert found is not None
    assert not found[:, 1].any()
    assert found[:, 0].all()
    with pytest.raises(InputError, match="value decoder 2 off; head cross off @ L1"):
        decoding.attribution("norms", "cross", 0)


def test_gradients_of_a_long_source_are_refused(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding = decoded(checkpoint)
    source, target = len(decoding.known.source.ids), len(decoding.known.target)
    weights = 2 * 2 * (source**2 + target**2 + source * target)  # layers and heads
    monkeypatch.setattr(attribution, "MOST_KEPT", 8 * weights - 1)
    with pytest.raises(InputError, match=f"of memory with {source} source and"):
        decoding.attribution("gradient", "cross")
    made = exhausted(importance(checkpoint, decoding.known))
    assert any("of memory" in one for one in made.reasons)
    assert {*made.heads} == {*KINDS}  # each switched off, as before
    monkeypatch.setattr(attribution, "MOST_KEPT", 8 * weights)
    assert decoding.attribution("gradient", "cross").values is not None


def test_what_cannot_be_measured_is_said(checkpoint: Checkpoint) -> None:
    decoding = decoded(checkpoint)
    with pytest.raises(InputError, match="of the written token"):
        decoding.attribution("gradient", "encoder")
    wrong: Any = "shapley"
    with pytest.raises(InputError, match="zeroing"):
        decoding.attribution(wrong)
    with pytest.raises(InputError, match="layer"):
        decoding.attribution("norms", "cross", 7)
