"""Any two of module, checkpoint, watched run and Trace, with faults made by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import visformer
from visformer.errors import InputError

WIDTH, HEADS, TOKENS, PAD = 16, 4, 20, 0
SOURCE = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 3, 4, 0]])
TARGET = torch.tensor([[1, 6, 7, 8], [1, 3, 2, 0]])
SAME = "Attention is the same in every head, and so is what follows it."


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.fault = ""

    def forward(self, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        split = (z.unflatten(-1, (HEADS, -1)).transpose(1, 2) for z in self.parts(x, y))
        q, k, v = split  # [B, H, T, d]
        if self.fault == "heads":  # the second and the third change places
            q, k = (z[:, [0, 2, 1, 3]] for z in (q, k))
        if self.fault == "one value":
            v = torch.cat([v[:, :3], v[:, 3:] * 1.5], 1)
        scale = WIDTH if self.fault == "scale" else WIDTH // HEADS
        scores = (q @ k.mT / math.sqrt(scale)).masked_fill(~mask, -1e9)
        weights = F.dropout(scores.softmax(-1), 0.5, self.training)
        if self.fault == "nan":
            weights = weights.index_fill(1, torch.tensor([1]), math.nan)
        return self.o((weights @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def parts(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q(x), self.k(y), self.v(y)


class Layer(nn.Module):
    def __init__(self, *, cross: bool) -> None:
        super().__init__()
        self.attention = Attends()
        self.cross = Attends() if cross else None
        self.feed = nn.Linear(WIDTH, WIDTH)
        self.norm: nn.Module = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor, y: Any = None, keys: Any = None) -> Any:
        x = self.norm(x + self.attention(x, x, mask))
        if self.cross is not None:
            x = self.norm(x + self.cross(x, y, keys))
        return self.norm(x + self.feed(x).relu())


class Mine(nn.Module):
    """A model of nobody's layout: two layers of each."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.out = nn.Embedding(TOKENS, WIDTH), nn.Linear(WIDTH, TOKENS)
        self.encoder = nn.ModuleList(Layer(cross=False) for _ in range(2))
        self.decoder = nn.ModuleList(Layer(cross=True) for _ in range(layers))
        self.ahead = 0  # how many later tokens a row reads
        self.eval()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        keys, length = (source != PAD)[:, None, None], target.shape[1]
        x, y = self.words(source), self.words(target)
        for layer in self.encoder:
            x = layer(x, keys)
        mask = torch.ones(length, length).tril(self.ahead).bool()
        for layer in self.decoder:
            y = layer(y, mask, x, keys)
        return self.out(y)  # type: ignore[no-any-return]


class Headless(Mine):
    """Returns no logits."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return super().forward(source, target).sum(-1)


class Alone(nn.Module):
    """One side: an encoder, or a decoder where it is causal."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        self.inside, self.causal = Mine(), causal

    def forward(self, ids: Tensor) -> Tensor:
        length, x = ids.shape[1], self.inside.words(ids)
        mask = torch.ones(length, length).bool()
        for layer in self.inside.encoder:
            x = layer(x, mask.tril() if self.causal else mask)
        return self.inside.out(x)  # type: ignore[no-any-return]


def faulty(fault: str, kind: str = "decoder", layer: int = 1) -> Mine:
    model: Any = Mine()
    stack = model.encoder if kind == "encoder" else model.decoder
    if fault == "ahead":
        model.ahead = 1
    elif fault == "norm":
        stack[layer].norm = UnbiasedNorm()
    elif fault == "last":
        model.out.weight.data[0] *= 3
    else:
        part = stack[layer].cross if kind == "cross" else stack[layer].attention
        part.fault = fault
    return model  # type: ignore[no-any-return]


class UnbiasedNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)


def watched(model: nn.Module, source: Tensor = SOURCE) -> visformer.Watched:
    with torch.no_grad():
        return visformer.watch(model)(source, TARGET[: len(source)])


@pytest.mark.parametrize(
    ("fault", "kind", "layer", "first"),
    [
        ("heads", "decoder", 1, ("decoder", 1, 1, False)),
        ("heads", "cross", 0, ("cross", 0, 1, False)),
        ("one value", "encoder", 1, ("encoder", 1, 3, True)),
        ("scale", "encoder", 0, ("encoder", 0, 0, False)),
        ("scale", "cross", 1, ("cross", 1, 0, False)),
        ("ahead", "", 0, ("decoder", 0, 0, False)),
        ("norm", "encoder", 0, ("encoder", 1, 0, False)),
        ("norm", "decoder", 0, ("cross", 0, 0, False)),
    ],
)
def test_of_two_modules_the_first_head_that_differs_is_named(
    fault: str, kind: str, layer: int, first: tuple[str, int, int, bool]
) -> None:
    made = visformer.compare(Mine(), faulty(fault, kind, layer), SOURCE, TARGET)
    assert (made.kind, made.layer, made.head, made.in_values) == first
    good, bad = watched(Mine()), watched(faulty(fault, kind, layer))
    at = [[one for one in x.attentions if one.kind == first[0]] for x in (good, bad)]
    a, b = (several[first[1]] for several in at)
    pairs = [(a.weights, b.weights), (a.weights @ a.values, b.weights @ b.values)]
    x, y = pairs[made.in_values]
    assert made.difference == abs(x - y)[:, first[2]].max() > 1e-3
    assert made.row == abs(x - y)[:, first[2]].max((1, 2)).argmax()
    head = f"first in {first[0]} attention, layer {first[1] + 1}, head {first[2] + 1}, "
    assert head in str(made)
    assert made.remedy == ""
    assert "visformer.watch(module).certify(source, target)" in str(made)


def test_kinds_of_sides_tell_the_same(tmp_path: Path) -> None:
    good, bad = watched(Mine()), watched(faulty("heads"))
    bad.traces[1].save(tmp_path / "bad.vis")
    recorded = visformer.open_trace(tmp_path / "bad.vis")
    pairs: list[tuple[Any, Any]] = [
        (Mine(), bad),
        (good, faulty("heads")),
        (good, bad),
        (good, recorded),
        (good.traces[1], recorded),
        (Mine(), recorded),
        (recorded, good),
    ]
    for a, b in pairs:
        made = visformer.compare(a, b)
        assert (made.kind, made.layer, made.head) == ("decoder", 1, 1)
    assert "certify" not in str(visformer.compare(good, recorded))
    assert "NaN" not in repr(visformer.compare(good.traces[0], good.traces[0]))


def test_what_is_the_same_is_said() -> None:
    assert str(visformer.compare(Mine(), Mine(), SOURCE, TARGET)) == SAME
    assert str(visformer.compare(watched(Mine()), Mine())) == SAME
    with visformer.watch(Mine()) as seen:
        seen.watcher.model(SOURCE, TARGET)
    assert str(visformer.compare(seen, Mine())) == SAME
    (trace, _other) = watched(Headless()).traces
    unknown = str(visformer.compare(trace, trace))
    assert "What follows it was not compared: the logits of both are" in unknown
    made = visformer.compare(Mine(), faulty("last"), SOURCE, TARGET)
    assert made.kind is None
    assert made.log_probabilities > 0.01
    assert "look after the last attention" in str(made)
    kept = watched(Mine()).traces[0], watched(faulty("last")).traces[0]
    assert "the logarithms of the probabilities" in str(visformer.compare(*kept))


@pytest.mark.parametrize("causal", [True, False])
def test_models_of_one_side_take_the_source_alone(*, causal: bool) -> None:
    good, bad = Alone(causal=causal), Alone(causal=causal)
    kind = "decoder" if causal else "encoder"
    assert str(visformer.compare(good, bad, SOURCE)) == SAME
    bad.inside = faulty("heads", "encoder")
    made = visformer.compare(good, bad, SOURCE)
    assert (made.kind, made.layer, made.head) == (kind, 1, 1)
    assert visformer.compare(good, visformer.watch(bad)(SOURCE)).kind == kind


def test_dropout_is_found() -> None:
    for a, b, remedy in [
        (Mine().train(), Mine(), "a.eval()"),
        (Mine(), Mine().train(), "b.eval()"),
    ]:
        made = visformer.compare(a, b, SOURCE, TARGET)
        assert (made.kind, made.layer, made.remedy) == ("encoder", 0, remedy)
        assert a.training or b.training  # as they were
    both = visformer.compare(Mine().train(), Mine().train(), SOURCE, TARGET)
    assert str(both) == SAME  # they draw the same numbers
    made = visformer.compare(Mine().train(), watched(faulty("scale")))
    assert made.remedy == ""  # they differ in eval mode, too


def test_what_cannot_be_compared_is_said() -> None:
    good = watched(Mine())
    fewer = visformer.compare(good, Mine(layers=1))
    assert (fewer.kind, fewer.layer) == ("decoder", 1)
    assert "They have 2 and 1 layers of decoder attention." in str(fewer)
    kinds = visformer.compare(good, visformer.watch(Alone(causal=True))(SOURCE))
    assert "They have 2 and 0 layers" in str(kinds)
    shorter = visformer.compare(good, watched(Mine(), SOURCE[:, :4]))
    assert "5 x 5 and 4 x 4 queries and keys" in str(shorter)
    other = visformer.compare(good.traces[0], watched(Mine(), SOURCE + 1).traces[0])
    assert "they read different tokens: token 1 of row 1 is 3 and 4" in str(other)
    rows = visformer.compare(good, watched(Mine(), SOURCE[:1]))
    assert "2 and 1 rows" in str(rows)
    for one in (fewer, shorter, other, rows):
        assert math.isinf(one.difference)
        assert one.remedy == ""


def test_nan_is_equal_to_nothing() -> None:
    bad = faulty("nan")
    for one in (Mine(), faulty("nan")):
        made = visformer.compare(one, bad, SOURCE, TARGET)
        assert (made.kind, made.layer, made.head) == ("decoder", 1, 1)
        assert math.isnan(made.difference)
        assert "some numbers are NaN or infinite" in str(made)


def test_what_is_missing_or_wrong_is_refused() -> None:
    good: Any = Mine()
    with pytest.raises(TypeError, match=r"b is 3, but must be a torch\.nn"):
        visformer.compare(good, 3)
    with pytest.raises(InputError, match=r"x\.vis cannot be read"):
        visformer.compare(good, "x.vis", text="one")
    with pytest.raises(InputError, match="There are no ids to run"):
        visformer.compare(good, Mine())
    with pytest.raises(TypeError, match=r"source is .* rows of ids"):
        visformer.compare(good, Mine(), [[1, 2], [3]])
    with pytest.raises(InputError, match="No attention was found in one of the two"):
        visformer.compare(watched(good), nn.Identity(), SOURCE)


def test_masks_of_a_watched_call_are_not_lost() -> None:
    model = nn.Transformer(16, 4, 1, 1, 16, batch_first=True).train()
    given = torch.randn(1, 5, 16), torch.randn(1, 4, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    seen = visformer.watch(model)(*given, tgt_mask=mask)
    with pytest.raises(InputError, match="also given tgt_mask: watch the other model"):
        visformer.compare(seen, model)
    made = visformer.compare(seen, visformer.watch(model.eval())(*given))
    assert made.remedy == ""


def test_what_wrap_returns_is_a_side() -> None:
    good, bad = (visformer.wrap(x, bos=1, eos=2) for x in (Mine(), faulty("heads")))
    made = visformer.compare(good, bad, SOURCE, TARGET)
    assert (made.kind, made.layer, made.head) == ("decoder", 1, 1)
    assert str(visformer.compare(good, Mine(), SOURCE, TARGET)) == SAME
