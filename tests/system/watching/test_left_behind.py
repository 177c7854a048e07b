"""Watching leaves the model and torch as they were, after an error too."""

from __future__ import annotations

import copy
import io
import threading
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from tests.system.watching.faulty_models import built
from visformer.errors import InputError
from visformer.watching.watcher import watch

SRC, TGT = torch.randint(1, 24, (2, 7)), torch.randint(1, 24, (2, 5))


def hooks(model: nn.Module) -> list[tuple[str, int]]:
    """Return how many hooks every module has, and torch for all of them."""
    mine = [
        (f"{path}{name}", len(value))
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if "hooks" in name
    ]
    everywhere = vars(torch.nn.modules.module).items()
    return mine + [(name, len(x)) for name, x in everywhere if name.endswith("_hooks")]


def state(model: nn.Module) -> dict[str, Any]:
    """Return what must be the same after a call that was watched."""
    return {
        "hooks": hooks(model),
        "attributes": [sorted(vars(module)) for module in model.modules()],
        "tensors": {name: x.clone() for name, x in model.state_dict().items()},
        "training": [module.training for module in model.modules()],
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "modes": len(_get_current_dispatch_mode_stack()),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
    }


def assert_same(before: dict[str, Any], after: dict[str, Any]) -> None:
    rest = [{k: v for k, v in one.items() if k != "tensors"} for one in (before, after)]
    assert rest[0] == rest[1]
    assert before["tensors"].keys() == after["tensors"].keys()
    for name, tensor in before["tensors"].items():
        assert torch.equal(tensor, after["tensors"][name])


class Raising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = built("healthy")
        self.norm = nn.BatchNorm1d(24)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        self.norm(self.inner(src, tgt).mT)
        raise ZeroDivisionError


@pytest.mark.parametrize("fast", [True, False])
def test_all_is_as_it_was(fast: bool) -> None:
    model = built("healthy")
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        before, plain = state(model), model(SRC, TGT)
        watched = watch(model)(SRC, TGT)
        assert_same(before, state(model))
        assert torch.equal(watched.output, plain)
        assert torch.equal(model(SRC, TGT), plain)
        assert watched.output_difference == 0.0
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_after_an_error_too() -> None:
    model = Raising().eval()
    before = state(model)
    with pytest.raises(ZeroDivisionError):
        watch(model)(SRC, TGT)
    assert_same(before, state(model))
    with pytest.raises(ZeroDivisionError), watch(model) as watched:
        model(SRC, TGT)
    assert_same(before, state(model))
    assert len(watched.attentions) == 6  # what was seen until then is kept


def test_a_model_may_be_copied_and_saved_while_it_is_watched() -> None:
    model, file = built("healthy"), io.BytesIO()
    plain = model(SRC, TGT)
    with watch(model) as watched:
        model(SRC, TGT)
        copied = copy.deepcopy(model)
        torch.save(model, file)
        model(SRC, TGT)
    file.seek(0)
    for other in (copied, torch.load(file, weights_only=False)):
        assert torch.equal(other(SRC, TGT), plain)
    assert len(watched.attentions) == 12
    assert b"visformer" not in file.getvalue()


def test_two_threads_do_not_meet() -> None:
    """A window that is served on a thread, and a model that is called beside it."""
    model, kinds = built("healthy"), []
    inside, called = threading.Event(), threading.Event()

    class Waiting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
            inside.set()
            called.wait(15)
            return model(src, tgt)  # type: ignore[no-any-return]

    def watching(one: nn.Module) -> None:
        with watch(one) as watched:
            one(SRC, TGT)
        kinds.append([attention.kind for attention in watched.attentions])

    first = threading.Thread(target=watching, args=(Waiting(),))
    second = threading.Thread(target=watching, args=(model,))
    first.start()
    assert inside.wait(15)
    plain = model(SRC, TGT)  # unwatched, on this thread
    second.start()
    called.set()
    first.join()
    second.join()
    assert kinds == [["encoder"] * 2 + ["decoder", "cross"] * 2] * 2
    assert torch.equal(model(SRC, TGT), plain)
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_call_in_training_draws_and_counts_once() -> None:
    """Random state and running statistics are those of one call, not of two."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.drop = nn.BatchNorm1d(16), nn.Dropout(0.5)

        def forward(self, x: Tensor) -> Tensor:
            x = self.drop(self.norm(x.mT).mT)
            return (x @ x.mT).softmax(-1) @ x

    x, results = torch.randn(2, 7, 16), []
    for watching in (False, True):
        torch.manual_seed(7)
        model = Counting()
        output = watch(model)(x).output if watching else model(x)
        results.append((output, model.norm.running_mean, torch.rand(1)))
    for plain, ours in zip(*results, strict=True):
        assert torch.equal(plain, ours)


def test_what_a_model_is_given_is_not_used_up() -> None:
    class Filling(nn.Module):
        def forward(self, x: Tensor, kept: list[Tensor]) -> Tensor:
            kept.append(x)
            all = torch.cat(kept, 1)
            return (x @ all.mT).softmax(-1) @ all

    kept: list[Tensor] = []
    watched = watch(Filling())(torch.randn(2, 7, 16), kept)
    assert len(kept) == 1
    assert watched.output_difference == 0.0


# torch's own warning is another kind from 2.14 on
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
def test_a_scripted_and_a_compiled_model_are_seen_through() -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            scores = self.q(x) @ x.transpose(1, 2) * 0.25
            return torch.matmul(scores.softmax(-1), x)

    x = torch.randn(2, 7, 16)
    models: list[Any] = [
        torch.jit.trace(Small(), x),
        torch.compile(Small(), backend="eager"),
    ]
    for model in models:
        watched = watch(model)(x)
        assert [one.weights.shape for one in watched.attentions] == [(2, 1, 7, 7)]
        assert watched.certificate.passed


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_a_scripted_and_a_quantised_model_are_seen_through() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    watched = watch(torch.jit.script(layer))(torch.randn(2, 7, 16))
    assert [one.weights.shape for one in watched.attentions] == [(2, 4, 7, 7)]
    assert watched.certificate.passed
    assert watched.certificate.findings == ()
    quantised = torch.ao.quantization.quantize_dynamic(built("healthy"), {nn.Linear})
    watched = watch(quantised, pad=0)(SRC, TGT)
    assert len(watched.attentions) == 6
    assert watched.certificate.passed


def test_misuse_is_refused_in_a_sentence() -> None:
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module"):
        watch("model")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the model takes src, tgt"):
        watch(built("healthy"), sources="sources")
    watched = watch(built("healthy"), source_tokens=["a"])(SRC, TGT)
    with pytest.raises(InputError, match="7 tokens"):
        _ = watched.traces


def test_tokens_are_told_or_made() -> None:
    names = [f"s{i}" for i in range(7)]
    watched = watch(
        built("healthy"), source_tokens=names, tokenizer=lambda id: f"<{id}>"
    )(SRC, TGT)
    trace = watched.traces[1]
    assert trace.source == tuple(names)
    assert trace.target[0] == f"<{int(TGT[1, 0])}>"
