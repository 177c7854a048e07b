"""The residual stream, the lens and the logits of watched models, and ranks."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.watching.test_comparing_runs import SOURCE, TARGET, Mine
from visformer.core.sampling import ranks
from visformer.pictures.words.absent import no_lens_words
from visformer.values.facts import StackFacts
from visformer.values.trace import Trace


class Around(nn.Module):
    """torch.nn.Transformer with final norms, sequence first or batch first."""

    def __init__(self, *, batch_first: bool = True, change: str = "") -> None:
        super().__init__()
        torch.manual_seed(2)
        self.words, self.out = nn.Embedding(20, 16), nn.Linear(16, 20)
        with warnings.catch_warnings(action="ignore"):
            self.inside = nn.Transformer(16, 4, 2, 3, 24, batch_first=batch_first)
        self.change = change
        self.eval()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        length = target.shape[1 if self.inside.batch_first else 0]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        y = self.inside(self.words(source), self.words(target), tgt_mask=mask)
        logits: Tensor = self.out(y)
        return logits.tanh() if self.change == "capped" else logits


def watched(model: nn.Module, source: Tensor = SOURCE) -> list[Trace]:
    with torch.no_grad():
        return visformer.watch(model)(source, TARGET[: len(source)]).traces


def close(tensor: Tensor) -> Any:
    return pytest.approx(tensor.numpy(), abs=1e-5)


def kept(model: nn.Module, names: list[str], *given: Tensor) -> dict[str, list[Any]]:
    """Return what leaves some modules, and last what enters the first."""
    seen: dict[str, list[Any]] = {name: [] for name in names}
    handles = [
        model.get_submodule(name).register_forward_hook(
            lambda _m, args, made, name=name: seen[name].extend([args[0], made])
        )
        for name in names
    ]
    with torch.no_grad():
        model(*given)
    for handle in handles:
        handle.remove()
    return seen


@pytest.mark.parametrize("batch_first", [True, False])
def test_each_layer_is_kept(*, batch_first: bool) -> None:
    model = Around(batch_first=batch_first)

    def turn(x: Tensor) -> Tensor:
        return x if batch_first else x.transpose(0, 1)

    given = turn(SOURCE), turn(TARGET)
    with torch.no_grad():
        traces = visformer.watch(model)(*given).traces
    stack = "inside.decoder.layers"
    seen = kept(model, [f"{stack}.{at}" for at in range(3)], *given)
    ends = kept(model, ["inside.decoder", "inside.encoder", "out"], *given)
    for row, trace in enumerate(traces):
        assert trace.model.stacks["decoder"] == StackFacts(
            d_model=16, hidden=4, output=True, read_out=True
        )
        assert trace.model.stacks["encoder"].hidden == 3
        entered = turn(seen[f"{stack}.0"][0])[row]
        assert trace.hidden("decoder", 0) == close(entered)
        for at in range(3):
            left = turn(seen[f"{stack}.{at}"][1])[row]
            assert trace.hidden("decoder", at + 1) == close(left)
        for own, name in (
            (trace.decoder_output, "inside.decoder"),
            (trace.encoder_output, "inside.encoder"),
            (trace.logits, "out"),
        ):
            assert own == close(turn(ends[name][1])[row])
        assert no_lens_words(trace) == ""


def test_a_file_keeps_the_stream_and_not_the_logits(tmp_path: Path) -> None:
    (trace, _other) = watched(Around())
    trace.save(tmp_path / "x.vis")
    again = visformer.open_trace(tmp_path / "x.vis")
    assert np.array_equal(again.hidden("decoder", 2), trace.hidden("decoder", 2))
    assert again.model.stacks == trace.model.stacks
    with pytest.raises(visformer.InputError):
        _ = again.logits
    cut = trace.until(2)
    assert np.array_equal(cut.logits, trace.logits[:2])


def test_the_lens_is_the_models_own_norm_and_projection() -> None:
    model = Around()
    wrapped = visformer.wrap(model, bos=1, eos=2)
    trace = visformer.Decoding(wrapped, [3, 4, 5], limit=3).finish()
    chosen = np.array([step.id for step in trace.steps])
    hidden = trace.streams(range(len(trace)))
    rows = wrapped.lens(hidden, chosen, temperature=2.0)
    with torch.no_grad():
        each = model.out(model.inside.decoder.norm(torch.tensor(hidden)))
    for at, row in enumerate(rows):
        p = each[at].softmax(-1)
        best = each[at].sort(dim=-1, descending=True, stable=True).indices[:, :12]
        assert row.ids.tolist() == best.tolist()
        assert row.chosen_probabilities == pytest.approx(p[:, chosen[at]].numpy())
        assert row.chosen_ranks[-1] == trace.steps[at].rank
        assert row.weight == pytest.approx(model.out.weight[chosen[at]].detach())
        assert row.tempered_log_sum == pytest.approx(
            float((each[at, -1] / 2).logsumexp(-1)), abs=1e-5
        )


def test_what_makes_no_logits_of_its_stream_has_no_lens() -> None:
    (trace, _other) = watched(Around(change="capped"))
    assert trace.model.stacks["decoder"].read_out is False
    assert "not its output projection" in no_lens_words(trace)
    assert trace.logits.max() <= 1
    wrapped = visformer.wrap(Around(change="capped"), bos=1, eos=2)
    stream = np.zeros((1, 4, 16), np.float32)
    assert wrapped.lens(stream, np.array([3]), temperature=1.0) == ()


class Between(Mine):
    """Adds something between the layers: no one stream goes through them."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        keys, mask = (source != 0)[:, None, None], torch.ones(4, 4).tril().bool()
        x, y = self.words(source), self.words(target)
        for layer in self.encoder:
            x = layer(x + 1, keys)
        for layer in self.decoder:
            y = layer(y, mask, x, keys)
        return self.out(y)  # type: ignore[no-any-return]


def test_a_stream_is_kept_only_where_it_is_one() -> None:
    (trace, _other) = watched(Between())
    assert [*trace.model.stacks] == ["decoder"]
    (square, _other) = watched(Mine(), SOURCE[:, :2])  # [2, 2]: which one is the batch?
    assert [*square.model.stacks] == ["decoder"]
    with pytest.raises(visformer.InputError, match="hidden states are not in"):
        square.hidden("encoder", 0)


# ---- logits, however they are returned -----------------------------------------------


Told = namedtuple("Told", "state scores")


class Shaped(nn.Module):
    """The model, with its logits in another shape."""

    def __init__(self, shape: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.inside, self.shape = Mine(), shape

    def forward(self, source: Tensor, target: Tensor) -> Any:
        return self.shape(self.inside(source, target))


@pytest.mark.parametrize(
    "shape",
    [
        lambda z: z,
        lambda z: z.flatten(0, 1),
        lambda z: (z.mean(-1), None, z),
        lambda z: (torch.zeros(len(z), 7, 16), {"scores": z}),
        lambda z: Told(torch.zeros(2, 4, 16), z),
        lambda z: {"loss": z.mean(), "logits": z},
        lambda z: z.transpose(0, 1),
        lambda z: z.log_softmax(-1),
        lambda z: z.softmax(-1),
        lambda z: z.double(),
    ],
)
def test_logits_are_found_however_they_are_returned(
    shape: Callable[[Tensor], Any],
) -> None:
    with torch.no_grad():
        logits = Mine()(SOURCE, TARGET)
        watched = visformer.watch(Shaped(shape))(SOURCE, TARGET)
    for row, trace in enumerate(watched.traces):
        p = logits[row].softmax(-1)
        for at, step in enumerate(trace.steps):
            assert step.probability == pytest.approx(float(p[at, step.id]), abs=1e-6)
            assert step.rank == ranks(logits[row, at : at + 1], step.id)
            best = logits[row, at].sort(descending=True, stable=True).indices
            assert [one.id for one in step.candidates] == best.tolist()
            entropy = -(p[at] * p[at].log2()).sum()
            assert step.entropy == pytest.approx(float(entropy), abs=1e-5)
        assert len(trace.steps) == len(trace)


def test_what_is_no_distribution_over_tokens_is_none() -> None:
    for shape in (lambda z: z[..., :9], lambda z: z.sum(-1)):
        with torch.no_grad():
            watched = visformer.watch(Shaped(shape))(SOURCE, TARGET)
        assert [len(trace.steps) for trace in watched.traces] == [0, 0]


def test_ranks_follow_the_logits_where_probabilities_are_all_zero() -> None:
    """Below e^-103 float32 knows no probability; of equal logits the lowest id."""
    far = torch.arange(20.0) * -30
    far[7] = far[6]

    def distant(z: Tensor) -> Tensor:
        return far + torch.zeros_like(z)

    def target(*ids: int) -> Tensor:
        return torch.tensor([[1, *ids]])

    with torch.no_grad():
        watched = visformer.watch(Shaped(distant))(SOURCE[:1], target(5, 6, 7, 19))
    (trace,) = watched.traces
    assert [step.rank for step in trace.steps] == [6, 7, 8, 20, 1]
    assert trace.steps[3].probability == 0
    assert [one.id for one in trace.steps[0].candidates] == [*range(20)]
    wrapped = visformer.wrap(Shaped(distant), bos=1, eos=2)
    forced = visformer.Decoding(wrapped, [3, 4], limit=3)
    steps = forced.follow([(7, "forced"), (19, "forced")]).steps
    assert [step.rank for step in steps] == [8, 20]
