"""A GPU computes what the CPU computes: ``pytest -m gpu -n0`` where there is CUDA.

Each test runs on the CPU, too, in the usual suite, which proves its own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import visformer
from tests.system.training.toys import trainer
from tests.tiny_models import tiny_checkpoint
from visformer.cli import main
from visformer.core.check import check
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.incremental import CapturedRow, DecoderState
from visformer.core.model import Transformer
from visformer.core.packed import PackedDecoder
from visformer.errors import is_memory
from visformer.training import loop
from visformer.training.loop import Progress, Trainer
from visformer.values.facts import KINDS
from visformer.values.step import Choice, StrategyName

D, H = 32, 2  # a head of 16: what flash kernels take as it is
CLOSE = 1e-4
HALF = 1e-2  # what a certificate allows where numbers are of half precision
M = TypeVar("M", bound=nn.Module)
KINDS_SEEN = ["encoder", "decoder", "cross"]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """Return a device; products on it have all digits of float32."""
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("this computer has no GPU that CUDA can use")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield torch.device(request.param)
    torch.set_float32_matmul_precision(before)


def random_state(device: torch.device) -> Tensor:
    """Return the state of the numbers that a device draws."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else _cpu_state()


def _cpu_state() -> Tensor:
    return torch.random.get_rng_state()


def switches() -> tuple[object, ...]:
    """Return what of torch's own is switched while a model is watched."""
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch.get_float32_matmul_precision(),
        torch.is_grad_enabled(),
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
    )


def hooks(model: nn.Module) -> list[int]:
    """Return how many hooks each module has."""
    names = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks"
    return [len(vars(m)[name]) for m in model.modules() for name in names]


class HandWritten(nn.Module):
    """Causal attention over one sequence, by torch's own function."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(self.dropout(mixed.transpose(1, 2).flatten(2)))


def made(kind: Callable[[], M], device: torch.device) -> M:
    torch.manual_seed(3)
    return kind().to(device).eval()


def transformer() -> nn.Module:
    return nn.Transformer(D, H, 1, 1, 2 * D, batch_first=True)


def drawn(*sizes: int, device: torch.device) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(1)).to(device)


@pytest.mark.parametrize("strategy", ["greedy", "beam", "sample"])
def test_decoding_gives_the_tokens_and_the_attention_of_the_cpu(
    device: torch.device, strategy: StrategyName
) -> None:
    checkpoint, plain = tiny_checkpoint(), tiny_checkpoint()
    checkpoint.model.to(device)
    trace = Decoding(checkpoint, "abcde", strategy=strategy, limit=12).finish()
    expected = Decoding(plain, "abcde", strategy=strategy, limit=12).finish()
    assert trace.target_ids.tolist() == expected.target_ids.tolist()
    assert trace.model.device == str(next(checkpoint.model.parameters()).device)
    for kind in KINDS:
        for layer in range(2):
            ours, theirs = (t.attention(kind, layer) for t in (trace, expected))
            np.testing.assert_allclose(ours, theirs, atol=CLOSE)
    np.testing.assert_allclose(trace.logits, expected.logits, atol=1e-3)
    assert check(checkpoint)["passed"]


class Uncaptured(CapturedRow):
    """Computes what is captured on a GPU, each time anew."""

    def _begin(self, layers: Callable[..., None]) -> None:
        self._run(layers)


@pytest.fixture
def moved(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Checkpoint], None]:
    """Return what moves a model there; its single rows are computed as on a GPU."""
    begin, models = DecoderState.__init__, list[nn.Module]()

    def begun(
        self: DecoderState, packed: PackedDecoder, *given: Any, **to: Any
    ) -> None:
        begin(self, packed, *given, **to)
        if device.type == "cpu" and packed.model in models:
            self._one_row = None
            self._captured = Uncaptured(packed, self.cache)

    monkeypatch.setattr(DecoderState, "__init__", begun)
    return lambda checkpoint: models.append(checkpoint.model.to(device))


@pytest.mark.parametrize("masked_value", [-1e9, -math.inf, 0.5])
def test_steps_in_any_order_are_those_of_one_after_another(
    moved: Callable[[Checkpoint], None], masked_value: float
) -> None:
    """Forwards, back, another way: a row reads what came before it alone."""
    checkpoint, plain = (tiny_checkpoint(masked_value=masked_value) for _ in range(2))
    vocabulary = checkpoint.vocabulary
    bad = vocabulary.one("z")
    with torch.no_grad():
        for model in (checkpoint.model, plain.model):
            model.target_embedding.weight[bad] = torch.nan
    moved(checkpoint)
    decoding = Decoding(checkpoint, "abcde", limit=12)
    decoding.step(5)
    decoding.back(3)
    for id in (bad, vocabulary.one("a"), vocabulary.one("a")):
        broken = decoding.follow([*_pairs(decoding), (id, "forced")])
    assert np.isnan(broken.logits).any(-1).tolist() == [False] * 3 + [True] * 2
    decoding.back(3)
    decoding.follow([*_pairs(decoding), (vocabulary.one("b"), "forced")])
    trace = decoding.step(4)
    assert len(trace) == 7
    expected = Decoding(plain, "abcde", limit=12)
    for count in range(1, 8):
        expected.follow(_pairs(decoding)[:count])
    np.testing.assert_allclose(trace.logits, expected.trace.logits, atol=1e-3)
    for layer in range(2):
        ours, theirs = (t.attention("decoder", layer) for t in (trace, expected.trace))
        np.testing.assert_allclose(ours, theirs, atol=CLOSE)


def _pairs(decoding: Decoding) -> list[Choice]:
    return [step.choice for step in decoding.trace.steps]


def test_sentences_of_two_lengths_take_turns(
    moved: Callable[[Checkpoint], None],
) -> None:
    checkpoint, plain = tiny_checkpoint(), tiny_checkpoint()
    moved(checkpoint)
    texts = "abcde", "edcbaabc"
    both = [Decoding(checkpoint, text, limit=9) for text in texts]
    for _step in range(9):
        for decoding in both:
            decoding.step()
    for decoding, text in zip(both, texts, strict=True):
        expected = Decoding(plain, text, limit=9).finish()
        assert decoding.trace.target_ids.tolist() == expected.target_ids.tolist()
        np.testing.assert_allclose(decoding.trace.logits, expected.logits, atol=1e-3)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_a_step_waits_for_the_gpu_once(device: torch.device) -> None:
    if device.type == "cpu":
        pytest.skip("test_other_device.py counts what is read without a GPU")
    checkpoint = tiny_checkpoint()
    checkpoint.model.to(device)
    decoding = Decoding(checkpoint, "abcde", limit=12)
    decoding.step(3)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match="synchronizing") as waits:
            decoding.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(waits) == 1, [f"{wait.filename}:{wait.lineno}" for wait in waits]


def test_after_memory_has_run_out_the_cpu_goes_on_at_the_same_step(
    device: torch.device,
) -> None:
    checkpoint = tiny_checkpoint()
    checkpoint.model.to(device)
    decoding = Decoding(checkpoint, "abcde", limit=12)
    before = decoding.step(5)
    if device.type == "cuda":
        total = torch.cuda.mem_get_info()[1]
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(
            (torch.cuda.memory_reserved() + (2 << 20)) / total
        )
        try:
            with pytest.raises(torch.OutOfMemoryError) as full:
                torch.empty(1 << 28, device=device)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert is_memory(full.value)
    checkpoint.model.to("cpu")
    there = Decoding(checkpoint, "abcde", limit=12)
    after = there.follow([step.choice for step in before.steps])
    assert after.target_ids.tolist() == before.target_ids.tolist()
    np.testing.assert_allclose(after.logits, before.logits, atol=1e-3)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_a_transformer_of_torch_is_watched(
    device: torch.device, half: bool, training: bool
) -> None:
    model = made(transformer, device).train(training)
    given = drawn(2, 6, D, device=device), drawn(2, 5, D, device=device)
    cast = torch.autocast(device.type, torch.bfloat16) if half else nullcontext()
    before = switches(), hooks(model)
    with cast:
        watched = visformer.watch(model)(*given)
    assert (switches(), hooks(model)) == before
    assert [one.kind for one in watched.attentions] == KINDS_SEEN
    certificate = watched.certificate
    if training:
        assert all(one.dropout for one in watched.attentions)
    if not training or device.type == "cpu":  # a GPU's kernels tell of no mask
        assert certificate.passed, certificate.sentence
        assert certificate.worst <= certificate.tolerance
    if half and not training:  # dropout keeps the weights in float32
        assert certificate.tolerance == HALF
    if not half:
        assert certificate.tolerance <= CLOSE
    assert watched.output_difference is not None
    assert watched.output_difference <= (HALF if half else CLOSE)
    assert watched.output.device.type == device.type


def test_products_with_fewer_digits_are_given_more_room(device: torch.device) -> None:
    """In TF32, which GPUs have, as in half precision."""
    model, x = made(HandWritten, device), drawn(2, 7, D, device=device)
    torch.set_float32_matmul_precision("high")
    certificate = visformer.watch(model)(x).certificate
    assert certificate.passed, certificate.sentence
    assert (certificate.tolerance == HALF) == (device.type == "cuda")


BACKENDS = {
    "flash": (SDPBackend.FLASH_ATTENTION, True),
    "efficient": (SDPBackend.EFFICIENT_ATTENTION, False),
    "math": (SDPBackend.MATH, False),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_kernel_of_attention_is_seen_through(
    device: torch.device, backend: str
) -> None:
    kernel, half = BACKENDS[backend]
    if device.type == "cpu" and backend == "efficient":
        pytest.skip("this kernel is CUDA's alone")
    model, x = made(HandWritten, device), drawn(2, 7, D, device=device)
    if half and device.type == "cuda":  # this kernel takes nothing else there
        model, x = model.to(torch.bfloat16), x.to(torch.bfloat16)
    with sdpa_kernel(kernel):
        watched = visformer.watch(model)(x)
    (one,) = watched.attentions
    assert one.kind == "decoder"
    assert one.verified
    q, k, v = model.qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
    scores = (q.float() @ k.float().mT) / (D // H) ** 0.5
    future = torch.ones(7, 7, dtype=torch.bool, device=device).triu(1)
    own = scores.masked_fill(future, -torch.inf).softmax(-1).detach().cpu().numpy()
    np.testing.assert_allclose(one.weights, own, atol=max(one.tolerance, CLOSE))
    values = v.detach().float().cpu().numpy()
    np.testing.assert_allclose(one.values, values, atol=CLOSE)


def test_random_numbers_go_on_as_after_one_call(device: torch.device) -> None:
    """The second call that is compared draws what the first one drew."""
    model, x = made(HandWritten, device).train(), drawn(2, 7, D, device=device)
    torch.manual_seed(7)
    plain = model(x)
    after = random_state(device), _cpu_state()
    torch.manual_seed(7)
    watched = visformer.watch(model)(x)
    assert torch.equal(watched.output, plain)
    assert watched.output_difference == 0
    for state, now in zip(after, (random_state(device), _cpu_state()), strict=True):
        assert torch.equal(state, now)


def test_random_numbers_of_a_model_without_parameters(device: torch.device) -> None:
    """What a model draws where none of its parameters are is put back, too."""
    model, x = nn.Dropout(0.5), drawn(2, 7, D, device=device)
    assert visformer.watch(model)(x).output_difference == 0


class Step(nn.Module):
    """One causal attention that is given what is cached."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv = nn.Embedding(11, D), nn.Linear(D, 3 * D)
        self.head = nn.Linear(D, 11)

    def forward(self, ids: Tensor, cache: list[Tensor]) -> Any:
        x = self.embed(ids)
        q, k, v = self.qkv(x).unflatten(-1, (3, H, D // H)).permute(2, 0, 3, 1, 4)
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = [k, v]
        weights = (q @ k.mT / (D // H) ** 0.5).softmax(-1)
        return self.head((weights @ v).transpose(1, 2).flatten(2))


def generated(model: nn.Module, steps: int, device: torch.device) -> list[int]:
    ids, cache = [1], list[Tensor]()
    with torch.no_grad():
        for _step in range(steps):
            logits = model(torch.tensor([ids[-1:]], device=device), cache)
            ids.append(int(logits[0, -1].argmax()))
    return ids


def test_the_steps_of_a_cached_loop_are_joined(device: torch.device) -> None:
    model = made(Step, device)
    with visformer.watch(model) as watched:
        ids = generated(model, 5, device)
    assert ids == generated(model, 5, device)
    (one,) = watched.last_run
    assert one.weights.shape == (1, H, 5, 5)
    np.testing.assert_allclose(one.weights.sum(-1), 1, atol=CLOSE)
    assert (np.triu(one.weights[0, 0], 1) == 0).all()
    assert watched.certificate.passed


def test_a_function_that_moves_ids_to_its_device_is_wrapped(
    device: torch.device,
) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.attend = nn.Embedding(11, D), HandWritten()
            self.head = nn.Linear(D, 11)

        def forward(self, ids: Tensor) -> Any:
            return self.head(self.attend(self.embed(ids)))

    model = made(Model, device)
    wrapped = visformer.wrap(lambda ids: model(ids.to(device)), bos=1, eos=0)
    trace = visformer.Decoding(wrapped, "1 4", limit=4).step(4)
    ids = [1, 4]
    for _step in range(4):
        with torch.no_grad():
            logits = model(torch.tensor([ids], device=device))
        ids.append(int(logits[0, -1].argmax()))
    assert [step.id for step in trace.steps] == ids[1:]
    assert trace.kinds == ("decoder",)


class Stopped(Exception):
    """Stands for a kill."""


def test_training_resumes_where_it_was_stopped(
    device: torch.device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REPORT_STEPS", 1)

    def started(name: str) -> Trainer:
        plain = trainer(tmp_path / "plain", dropout=0.0, save_seconds=0.0)
        model = Transformer(plain.model.config, dropout=0.0)
        model.load_state_dict(plain.model.state_dict())
        return Trainer(model, plain.data, plain.options, tmp_path / name, device=device)

    def stop(progress: Progress) -> None:
        if progress.step >= 4:
            raise Stopped

    whole = started("whole")
    before = whole.held_out_loss()
    best = whole.run(lambda progress: None)
    assert best < before
    with pytest.raises(Stopped):
        started("cut").run(stop)
    resumed = started("cut")
    assert resumed.state.step > 0
    assert next(resumed.model.parameters()).device.type == device.type
    assert resumed.run(lambda progress: None) == pytest.approx(best, rel=1e-3)


def test_memory_that_runs_out_is_a_sentence(
    device: torch.device,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_given: Any, **_more: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 PiB.")

    monkeypatch.setattr(Trainer, "run", fail)
    given = ["train", "--task", "copy", "--out", str(tmp_path / "run")]
    given += ["--device", str(device), "--examples", "8", "--valid", "4", "--test", "4"]
    assert main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "not enough memory" in line
