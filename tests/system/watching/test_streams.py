"""The residual stream, the logits and the lens of watched models."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import visformer
from tests.system.watching.test_comparing_runs import SOURCE, TARGET, Mine
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


def test_nothing_is_left_behind() -> None:
    model = Mine()
    watched(model)
    for module in model.modules():
        assert not module._forward_hooks
        assert not module._forward_pre_hooks
    with visformer.watch(model) as seen, torch.no_grad():
        model(SOURCE, TARGET)
        torch.save(model, io.BytesIO())
        copied = seen.watcher.model
    assert copied is model
