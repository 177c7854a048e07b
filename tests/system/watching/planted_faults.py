"""A small translator, sound, and faults that engineers plant: each one change of it.

The data are sentences to be reversed; the sound model can be trained for it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, SIZE, VOCABULARY = 32, 4, 8, 20
PAD, BOS, EOS = 0, 1, 2
LAST = 1  # the layer, of 0 and 1, that has the fault where one alone has it
Cache = list[tuple[Tensor, Tensor] | None]


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, SIZE).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = q @ k.mT / SIZE**0.5
        return scores

    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        fill = max(-1e9, torch.finfo(scores.dtype).min)
        weights: Tensor = scores.masked_fill(~mask, fill).softmax(-1)
        return weights

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor, past: Cache | None = None
    ) -> Tensor:
        q, k, v = (self.heads(f(y)) for f, y in self.pairs(x, memory))
        if past is not None:
            if past[0] is not None:
                k, v = (
                    torch.cat(pair, 2) for pair in zip(past[0], (k, v), strict=True)
                )
            past[0] = k, v
        y = self.weights(self.scores(q, k), mask) @ v
        out: Tensor = self.o(y.transpose(1, 2).flatten(2))
        return out

    def pairs(self, x: Tensor, memory: Tensor) -> list[tuple[nn.Module, Tensor]]:
        return [(self.q, x), (self.k, memory), (self.v, memory)]


class Layer(nn.Module):
    def __init__(self, *, cross: bool) -> None:
        super().__init__()
        self.attention = Attention()
        self.cross = Attention() if cross else None
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH), nn.Dropout(0.1)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        past: Cache | None = None,
    ) -> Tensor:
        x = self.attended(x, mask, past)
        if self.cross is not None:
            x = self.crossed(x, mask, memory, memory_mask)
        y: Tensor = x + self.feed(self.norms[2](x))
        return y

    def attended(self, x: Tensor, mask: Tensor, past: Cache | None) -> Tensor:
        y = self.norms[0](x)
        out: Tensor = x + self.attention(y, y, mask, past)
        return out

    def crossed(self, x: Tensor, _mask: Any, memory: Any, memory_mask: Any) -> Tensor:
        assert self.cross is not None
        out: Tensor = x + self.cross(self.norms[1](x), memory, memory_mask)
        return out


class Translator(nn.Module):
    """Pads are masked as keys; ``decode`` takes a cache of the steps before."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(VOCABULARY, WIDTH)
        self.target = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(160, WIDTH)
        self.encoder = nn.ModuleList(Layer(cross=False) for _ in range(2))
        self.decoder = nn.ModuleList(Layer(cross=True) for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, VOCABULARY)
        self.dropout = nn.Dropout(0.1)

    def embedded(self, table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        at = torch.arange(start, start + ids.shape[1])
        x: Tensor = self.dropout(table(ids) + self.places(at))
        return x

    def padding(self, ids: Tensor) -> Tensor:
        return (ids != PAD)[:, None, None]

    def causal(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys).tril(keys - queries).bool()

    def target_mask(self, tgt: Tensor, queries: int) -> Tensor:
        return self.padding(tgt) & self.causal(queries, tgt.shape[1])

    def masks(self, _layer: int, src: Tensor, tgt_mask: Tensor) -> tuple[Any, Any]:
        """Return what a layer of the decoder is given: of the target, of the source."""
        return tgt_mask, self.padding(src)

    def encode(self, src: Tensor) -> Tensor:
        x = self.embedded(self.source, src)
        for layer in self.encoder:
            x = layer(x, self.padding(src))
        return x

    def decode(
        self, memory: Tensor, src: Tensor, tgt: Tensor, past: list[Cache] | None = None
    ) -> Tensor:
        start = 0 if not past or past[0][0] is None else past[0][0][0].shape[2]
        x = self.embedded(self.target, tgt[:, start:], start)
        tgt_mask = self.target_mask(tgt, tgt.shape[1] - start)
        for at, layer in enumerate(self.decoder):
            mask, memory_mask = self.masks(at, src, tgt_mask)
            x = layer(x, mask, memory, memory_mask, past[at] if past else None)
        y: Tensor = self.out(self.norm(x))
        return y

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(self.encode(src), src, tgt)


def greedy(model: Translator, src: Tensor, steps: int = 5) -> Tensor:
    """Decode with a cache, token by token; returns ids [B, steps + 1]."""
    memory = model.encode(src)
    past: list[Cache] = [[None], [None]]
    y = torch.full((len(src), 1), BOS)
    for _step in range(steps):
        best = model.decode(memory, src, y, past)[:, -1].argmax(-1)
        y = torch.cat([y, best[:, None]], 1)
    return y


def beams(model: Translator, src: Tensor, steps: int = 5) -> Tensor:
    """Decode the first sentence with three beams; the cache follows them."""
    return _beams(model, src[:1].expand(3, -1), steps, follows=True)


def beams_alone(model: Translator, src: Tensor, steps: int = 5) -> Tensor:
    """Do so while the cache stays where it was: the fault."""
    return _beams(model, src[:1].expand(3, -1), steps, follows=False)


def _beams(model: Translator, src: Tensor, steps: int, *, follows: bool) -> Tensor:
    memory = model.encode(src)
    past: list[Cache] = [[None], [None]]
    y, scores = torch.full((3, 1), BOS), torch.tensor([0.0, -1e9, -1e9])
    for _step in range(steps):
        chances = model.decode(memory, src, y, past)[:, -1].log_softmax(-1)
        scores, best = (scores[:, None] + chances).flatten().topk(3)
        parents = best // VOCABULARY
        y = torch.cat([y[parents], best[:, None] % VOCABULARY], 1)
        for own in past if follows else []:
            assert own[0] is not None
            own[0] = own[0][0][parents], own[0][1][parents]
    return y


def sentences(rows: int, length: int, seed: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """Return source, target and labels; the second row is two tokens shorter."""
    made = torch.Generator().manual_seed(seed)
    src = torch.randint(3, VOCABULARY, (rows, length), generator=made)
    full = torch.cat(
        [torch.full((rows, 1), BOS), src.flip(1), torch.full((rows, 1), EOS)], 1
    )
    src[1, -2:] = PAD
    full[1, 1:-3], full[1, -3:] = full[1, 3:-1].clone(), torch.tensor([EOS, PAD, PAD])
    given = full[:, :-1].masked_fill(full[:, :-1] == EOS, PAD)
    return src, given, full[:, 1:]


# --- faults of the attention ---
class Multiplied(Attention):
    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return (scores * mask).softmax(-1)


class AddedAsNumber(Attention):
    """The mask of zeros and ones is added as it is."""

    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return (scores + mask.float()).softmax(-1)


class OverHeads(Attention):
    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -1e9).softmax(1)


class OverQueries(Attention):
    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(~mask, -1e9).softmax(-2)


class MaskedAfter(Attention):
    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.softmax(-1) * mask


class NotScaled(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = q @ k.mT
        return scores


class ByWidth(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = q @ k.mT / WIDTH**0.5
        return scores


class TimesRoot(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores: Tensor = q @ k.mT * SIZE**0.5
        return scores


class DroppedAlways(Attention):
    """Dropout by the function, which is on unless told: ``eval`` does nothing."""

    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return F.dropout(super().weights(scores, mask), 0.3)


class NewEachTime(Attention):
    """The projection of the values is made in ``forward``."""

    def pairs(self, x: Tensor, memory: Tensor) -> list[tuple[nn.Module, Tensor]]:
        return [*super().pairs(x, memory)[:2], (nn.Linear(WIDTH, WIDTH), memory)]


class FirstKeyStale(Attention):
    """The cache of the keys is cut to its last three."""

    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        if scores.shape[2] == 1 and scores.shape[3] > 3:
            mask = mask & (torch.arange(scores.shape[3]) >= scores.shape[3] - 3)
        return super().weights(scores, mask)


# --- faults of a layer ---
class CrossReadsDecoder(Layer):
    def crossed(self, x: Tensor, mask: Any, memory: Any, memory_mask: Any) -> Tensor:
        assert self.cross is not None
        y = self.norms[1](x)
        out: Tensor = x + self.cross(y, y, mask)
        return out


class CrossNotAdded(Layer):
    """The cross attention is computed, and its result is not used."""

    def crossed(self, x: Tensor, mask: Any, memory: Any, memory_mask: Any) -> Tensor:
        super().crossed(x, mask, memory, memory_mask)
        return x


class NoCross(Layer):
    def crossed(self, x: Tensor, mask: Any, memory: Any, memory_mask: Any) -> Tensor:
        return x


class NoResidual(Layer):
    def attended(self, x: Tensor, mask: Tensor, past: Cache | None) -> Tensor:
        y = self.norms[0](x)
        out: Tensor = self.attention(y, y, mask, past)
        return out


class LessTheMean(Layer):
    """What is normalised is the whole sentence, over its tokens."""

    def attended(self, x: Tensor, mask: Tensor, past: Cache | None) -> Tensor:
        return super().attended(x - x.mean(1, keepdim=True), mask, past)


class LessTheBatch(Layer):
    def attended(self, x: Tensor, mask: Tensor, past: Cache | None) -> Tensor:
        return super().attended(x - x.mean(0, keepdim=True), mask, past)


# --- faults of the model ---
class NotCausal(Translator):
    def causal(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys).bool()


class NotCausalInOne(Translator):
    def masks(self, layer: int, src: Tensor, tgt_mask: Tensor) -> tuple[Any, Any]:
        mask = tgt_mask.any(-2, keepdim=True) if layer == LAST else tgt_mask
        return mask, self.padding(src)


class OneTooFar(Translator):
    def causal(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys).tril(keys - queries + 1).bool()


class OneTooShort(Translator):
    """A row does not read itself, so the first reads nothing."""

    def causal(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys).tril(keys - queries - 1).bool()


class NoPadding(Translator):
    def padding(self, ids: Tensor) -> Tensor:
        return torch.ones_like(ids).bool()[:, None, None]


class NoPaddingInCross(Translator):
    def masks(self, layer: int, src: Tensor, tgt_mask: Tensor) -> tuple[Any, Any]:
        return tgt_mask, torch.ones_like(src).bool()[:, None, None]


class InvertedPadding(Translator):
    def padding(self, ids: Tensor) -> Tensor:
        return (ids == PAD)[:, None, None]


class RowsOfPadding(Translator):
    """The padding hides rows, not keys; in the encoder and in the decoder."""

    def padding(self, ids: Tensor) -> Tensor:
        return (ids != PAD)[:, None, :, None]

    def masks(self, layer: int, src: Tensor, tgt_mask: Tensor) -> tuple[Any, Any]:
        return tgt_mask, (src != PAD)[:, None, None]


class AlongTheBatch(Translator):
    def embedded(self, table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        x: Tensor = table(ids) + self.places(torch.arange(len(ids)))[:, None]
        return x


class OtherRow(Translator):
    """The encoder's output is that of the row before."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(self.encode(src).roll(1, 0), src, tgt)


class SameTarget(Translator):
    """The decoder is given the first token of the target in every place."""

    def decode(
        self, memory: Tensor, src: Tensor, tgt: Tensor, past: list[Cache] | None = None
    ) -> Tensor:
        return super().decode(memory, src, torch.full_like(tgt, BOS), past)


class RestartingPlaces(Translator):
    def embedded(self, table: nn.Embedding, ids: Tensor, start: int = 0) -> Tensor:
        return super().embedded(table, ids)


# --- faults of the weights, and of training ---
@torch.enable_grad()
def _trained(loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Translator:
    """Train for half a second: the tokens are mostly learned, not all of them."""
    torch.manual_seed(1)
    model = Translator()
    steps = torch.optim.Adam(model.parameters(), 3e-3)
    for step in range(60):
        src, given, labels = sentences(32, 7, step)
        steps.zero_grad()
        loss(model(src, given), given, labels).backward()
        steps.step()
    return model.eval()


def _loss(logits: Tensor, labels: Tensor, **more: Any) -> Tensor:
    return F.cross_entropy(logits.transpose(1, 2), labels, **more)


@cache
def _sound() -> Translator:
    return _trained(lambda y, _given, labels: _loss(y, labels, ignore_index=PAD))


def trained() -> Translator:
    """Return the sound model, trained."""
    return copy.deepcopy(_sound())


def _given_predicted() -> Translator:
    return _trained(lambda y, given, _labels: _loss(y, given, ignore_index=PAD))


def _smoothed() -> Translator:
    return _trained(
        lambda y, _g, labels: _loss(y, labels, ignore_index=PAD, label_smoothing=0.9)
    )


def _pads_in_the_loss() -> Translator:
    return _trained(lambda y, _given, labels: _loss(y, labels))


def _shifted_twice() -> Translator:
    return _trained(
        lambda y, _g, labels: _loss(y[:, :-1], labels[:, 1:], ignore_index=PAD)
    )


def _permuted() -> Translator:
    model = trained()
    model.out.weight.data, model.out.bias.data = (
        x.roll(5, 0) for x in (model.out.weight.data, model.out.bias.data)
    )
    return model


def _tied_broken() -> Translator:
    model = trained()
    model.out.weight.data = torch.randn(VOCABULARY, WIDTH) / WIDTH**0.5
    return model


def _copied_layer() -> Translator:
    model = trained()
    model.decoder[1] = copy.deepcopy(model.decoder[0])
    return model


def _changed(change: Callable[[Any], None], start: Callable[[], Any]) -> Translator:
    model = start()
    with torch.no_grad():
        change(model)
    assert isinstance(model, Translator)
    return model


def _no_output(model: Any) -> None:  # head 3 of the last cross attention
    model.decoder[LAST].cross.o.weight[:, 2 * SIZE : 3 * SIZE] = 0


def _no_values(model: Any) -> None:  # head 2 of the first attention
    for part in (
        model.encoder[0].attention.v.weight,
        model.encoder[0].attention.v.bias,
    ):
        part[SIZE : 2 * SIZE] = 0


def _no_queries(model: Any) -> None:  # head 4 of the last decoder attention
    own = model.decoder[LAST].attention.q
    own.weight[3 * SIZE :] = 0
    own.bias[3 * SIZE :] = 0


def _no_keys(model: Any) -> None:  # head 1 of the last decoder attention
    own = model.decoder[LAST].attention.k
    own.weight[:SIZE] = 0
    own.bias[:SIZE] = 0


def _nan(model: Any) -> None:
    model.encoder[LAST].feed[0].weight[3, 4] = float("nan")


def _too_large(model: Any) -> None:
    for part in (model.encoder[LAST].attention.q, model.encoder[LAST].attention.k):
        part.weight *= 400
    model.half()


def _sound_model(model: type[Translator] = Translator) -> Translator:
    torch.manual_seed(5)
    return model().eval()


def _swapped(made: type[nn.Module], names: tuple[str, ...]) -> Callable[[], Translator]:
    """Return what makes a model whose modules of these names have another forward."""

    def build() -> Translator:
        model = _sound_model()
        for name, module in model.named_modules():
            if name in names or name.rpartition(".")[2] in names:
                module.__class__ = made
        return model

    return build


ALL = "attention", "cross"
DECODER = "decoder.0", "decoder.1"


@dataclass(frozen=True)
class Planted:
    """A fault: what makes the model, and what of it is true."""

    build: Callable[[], Translator]
    ids: tuple[str, ...]  # one of them is said; none: nobody can know it
    where: str = ""  # what the place of the finding has in it
    allowed: tuple[str, ...] = ()  # what else is true, and may be said
    labels: str = "labels"  # or "given"
    loop: Callable[[Translator, Tensor], Tensor] | None = None  # in the ``with`` form
    listed: bool = True  # of the 29; else one more
    severity: str = "fault"
    remedy: str = ""  # what the remedy says
    never: str = ""  # what nothing that is said has in it


def _model(kind: type[Translator]) -> Callable[[], Translator]:
    return lambda: _sound_model(kind)


def _weights(
    change: Callable[[Any], None], start: Callable[[], Any] = trained
) -> Callable[[], Translator]:
    return lambda: _changed(change, start)


PLANTED = {
    "causal off by one": Planted(_model(OneTooFar), ("causal-off-by-one",), "decoder."),
    "no causal mask": Planted(_model(NotCausal), ("not-causal",), "decoder."),
    "mask multiplied": Planted(_swapped(Multiplied, ALL), ("mask-multiplied",)),
    "mask added as 0 and 1": Planted(
        _swapped(AddedAsNumber, ALL), ("not-causal",), "decoder.", ("padding-read",)
    ),
    "softmax over heads": Planted(_swapped(OverHeads, ALL), ("softmax-axis",)),
    "softmax over queries": Planted(_swapped(OverQueries, ALL), ("softmax-axis",)),
    "not scaled": Planted(
        _swapped(NotScaled, ("decoder.1.cross",)), ("not-scaled",), "decoder.1.cross"
    ),
    "positions along the batch": Planted(
        _model(AlongTheBatch), ("positions-along-batch",), never="by inf"
    ),
    "no eval": Planted(lambda: trained().train(), ("dropout-on",), remedy="eval()"),
    "padding inverted": Planted(
        _model(InvertedPadding), ("mask-inverted",), never="scale"
    ),
    "padding along the rows": Planted(_model(RowsOfPadding), ("padding-read",)),
    "padding not masked": Planted(_model(NoPadding), ("padding-read",)),
    "padding not masked in cross": Planted(
        _model(NoPaddingInCross), ("padding-read",), ".cross"
    ),
    "trained to predict what is given": Planted(_given_predicted, ("predicts-given",)),
    "memory of another row": Planted(_model(OtherRow), ("batch-row-differs",)),
    "cross reads the decoder": Planted(
        _swapped(CrossReadsDecoder, DECODER),
        ("cross-reads-decoder",),
        "cross",
        ("source-not-used",),
    ),
    "divided by the root of the width": Planted(
        _swapped(ByWidth, ("decoder.0.attention",)),
        ("wrong-scale",),
        "decoder.0.attention",
    ),
    "positions restart": Planted(
        _model(RestartingPlaces),
        ("positions-restart", "cached-steps-differ"),
        loop=greedy,
    ),
    "beams without their cache": Planted(
        _model(Translator), ("cache-of-other-tokens",), "cache", loop=beams_alone
    ),
    "tied weights broken": Planted(_tied_broken, ()),
    "vocabulary permuted": Planted(_permuted, ("vocabulary-permuted",)),
    "layer copied": Planted(_copied_layer, ("equal-layers",), severity="note"),
    "no residual": Planted(
        _swapped(NoResidual, DECODER),
        ("no-residual",),
        "decoder.0.attention",
        severity="note",
    ),
    "labels smoothed by 0.9": Planted(_smoothed, ()),
    "loss on pads": Planted(_pads_in_the_loss, ()),
    "labels shifted twice": Planted(_shifted_twice, ("shifted-twice",)),
    "head without output": Planted(
        _weights(_no_output), ("dead-head",), "decoder.1.cross", severity="note"
    ),
    "head without queries": Planted(
        _weights(_no_queries), ("dead-head",), "decoder.1.attention", severity="note"
    ),
    "not a number": Planted(
        _weights(_nan), ("nan-parameter",), "encoder.1.feed.0.weight", never="to nan"
    ),
    # more than the 29
    "cross of one layer reads the decoder": Planted(
        _swapped(CrossReadsDecoder, ("decoder.1",)),
        ("cross-reads-decoder",),
        "decoder.1.cross",
        listed=False,
    ),
    "target not shifted": Planted(
        trained, ("not-shifted",), labels="given", listed=False
    ),
    "not causal in one layer": Planted(
        _model(NotCausalInOne), ("not-causal",), "decoder.1.attention", listed=False
    ),
    "first row reads nothing": Planted(
        _model(OneTooShort), ("no-key",), "decoder.", listed=False, never="scale"
    ),
    "masked after the softmax": Planted(
        _swapped(MaskedAfter, ALL), ("rows-not-one",), listed=False
    ),
    "multiplied by the root": Planted(
        _swapped(TimesRoot, ALL), ("wrong-scale",), listed=False
    ),
    "dropout in eval": Planted(
        _swapped(DroppedAlways, ("encoder.1.attention",)),
        ("dropout-always",),
        "encoder.1.attention",
        listed=False,
        never="eval()",
    ),
    "values made in forward": Planted(
        _swapped(NewEachTime, ("encoder.1.attention",)),
        ("calls-differ",),
        listed=False,
    ),
    "head without values": Planted(
        _weights(_no_values),
        ("dead-head",),
        "encoder.0.attention",
        severity="note",
        listed=False,
    ),
    "head without keys": Planted(
        _weights(_no_keys),
        ("dead-head",),
        "decoder.1.attention",
        severity="note",
        listed=False,
    ),
    "too large for half precision": Planted(
        _weights(_too_large),
        ("overflow",),
        "encoder.1.attention",
        listed=False,
        never="to nan",
    ),
    "cross not added": Planted(
        _swapped(CrossNotAdded, DECODER), ("source-not-used",), listed=False
    ),
    "no cross attention": Planted(
        _swapped(NoCross, DECODER), ("source-not-used",), listed=False
    ),
    "same target everywhere": Planted(
        _model(SameTarget), ("target-not-used",), listed=False
    ),
    "mean over the tokens": Planted(
        _swapped(LessTheMean, DECODER), ("later-tokens-count",), listed=False
    ),
    "mean over the batch": Planted(
        _swapped(LessTheBatch, DECODER), ("batch-row-differs",), listed=False
    ),
    "cache cut short": Planted(
        _swapped(FirstKeyStale, ("decoder.0.attention", "decoder.1.attention")),
        ("cached-steps-differ",),
        loop=greedy,
        listed=False,
    ),
}
