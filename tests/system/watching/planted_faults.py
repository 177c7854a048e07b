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

    def scores(self, q: Tensor, k: Tensor) -> Any:
        return q @ k.mT / SIZE**0.5

    def weights(self, scores: Tensor, mask: Tensor) -> Any:
        fill = max(-1e9, torch.finfo(scores.dtype).min)
        return scores.masked_fill(~mask, fill).softmax(-1)

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor, past: Cache | None = None
    ) -> Any:
        q, k, v = (self.heads(f(y)) for f, y in self.pairs(x, memory))
        if past is not None:
            if past[0] is not None:
                k, v = (
                    torch.cat(pair, 2) for pair in zip(past[0], (k, v), strict=True)
                )
            past[0] = k, v
        y = self.weights(self.scores(q, k), mask) @ v
        return self.o(y.transpose(1, 2).flatten(2))

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
    ) -> Any:
        x = self.attended(x, mask, past)
        if self.cross is not None:
            x = self.crossed(x, mask, memory, memory_mask)
        return x + self.feed(self.norms[2](x))

    def attended(self, x: Tensor, mask: Tensor, past: Cache | None) -> Any:
        y = self.norms[0](x)
        return x + self.attention(y, y, mask, past)

    def crossed(self, x: Tensor, _mask: Any, memory: Any, memory_mask: Any) -> Any:
        assert self.cross is not None
        return x + self.cross(self.norms[1](x), memory, memory_mask)


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

    def embedded(self, table: nn.Embedding, ids: Tensor, start: int = 0) -> Any:
        at = torch.arange(start, start + ids.shape[1])
        return self.dropout(table(ids) + self.places(at))

    def padding(self, ids: Tensor) -> Tensor:
        return (ids != PAD)[:, None, None]

    def causal(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys).tril(keys - queries).bool()

    def target_mask(self, tgt: Tensor, queries: int) -> Tensor:
        return self.padding(tgt) & self.causal(queries, tgt.shape[1])

    def masks(self, _layer: int, src: Tensor, tgt_mask: Tensor) -> tuple[Any, Any]:
        """Return what a layer of the decoder is given: of the target, of the source."""
        return tgt_mask, self.padding(src)

    def encode(self, src: Tensor) -> Any:
        x = self.embedded(self.source, src)
        for layer in self.encoder:
            x = layer(x, self.padding(src))
        return x

    def decode(
        self, memory: Tensor, src: Tensor, tgt: Tensor, past: list[Cache] | None = None
    ) -> Any:
        start = 0 if not past or past[0][0] is None else past[0][0][0].shape[2]
        x = self.embedded(self.target, tgt[:, start:], start)
        tgt_mask = self.target_mask(tgt, tgt.shape[1] - start)
        for at, layer in enumerate(self.decoder):
            mask, memory_mask = self.masks(at, src, tgt_mask)
            x = layer(x, mask, memory, memory_mask, past[at] if past else None)
        return self.out(self.norm(x))

    def forward(self, src: Tensor, tgt: Tensor) -> Any:
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


# --- faults of the forward pass ---
class NotScaled(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Any:
        return q @ k.mT


class DroppedAlways(Attention):
    """Dropout by the function, which is on unless told: ``eval`` does nothing."""

    def weights(self, scores: Tensor, mask: Tensor) -> Tensor:
        return F.dropout(super().weights(scores, mask), 0.3)


def _cut_short(self: Attention, scores: Tensor, mask: Tensor) -> Any:
    """Return the weights where the cache of the keys is cut to its last three."""
    if scores.shape[2] == 1 and scores.shape[3] > 3:
        mask = mask & (torch.arange(scores.shape[3]) >= scores.shape[3] - 3)
    return Attention.weights(self, scores, mask)


def _hidden(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, -1e9)


def _normed(self: Layer, x: Tensor, at: int) -> list[Tensor]:
    """Return a layer's normed input twice, as queries and as keys."""
    return [self.norms[at](x)] * 2


def _less(axis: int) -> Callable[..., Any]:
    """Return what takes the mean over an axis from what enters the attention."""
    return lambda self, x, *more: Layer.attended(self, x - x.mean(axis, True), *more)


def _ahead(n: int) -> Callable[..., Tensor]:
    """Return a causal mask in which a row reads so many later tokens."""
    return lambda _self, q, k: torch.ones(q, k).tril(k - q + n).bool()


def _all_open(ids: Tensor) -> Tensor:
    return torch.ones_like(ids).bool()[:, None, None]


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


@cache
def _learned(what: str, shift: int = 0, **more: Any) -> Translator:
    """Train on the labels or on what is given, with what ``cross_entropy`` is told."""
    return _trained(
        lambda y, given, labels: F.cross_entropy(
            y[:, : y.shape[1] - shift].mT,
            (given if what == "given" else labels)[:, shift:],
            **more,
        )
    )


def trained() -> Translator:
    """Return the sound model, trained."""
    return copy.deepcopy(_learned("labels", ignore_index=PAD))


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


def _no_output(model: Any) -> None:  # head 3 of the last cross attention
    model.decoder[LAST].cross.o.weight[:, 2 * SIZE : 3 * SIZE] = 0


def _zero(part: Any, head: int) -> None:
    """Set a projection of one head to 0."""
    for numbers in part.parameters():
        numbers[(head - 1) * SIZE : head * SIZE] = 0


def _nan(model: Any) -> None:
    model.encoder[LAST].feed[0].weight[3, 4] = float("nan")


def _too_large(model: Any) -> None:
    for part in (model.encoder[LAST].attention.q, model.encoder[LAST].attention.k):
        part.weight *= 400
    model.half()


def _built(kind: type[Translator] = Translator) -> Translator:
    torch.manual_seed(5)
    return kind().eval()


def _changed(kind: type[nn.Module], methods: dict[str, Any]) -> Any:
    return type(kind.__name__, (kind,), methods)


def _model(**methods: Callable[..., Any]) -> Callable[[], Translator]:
    """Return what makes a model with other methods."""
    return lambda: _built(_changed(Translator, methods))


def _swapped(kind: type[nn.Module], *names: str, **methods: Any) -> Any:
    """Return what makes a model whose modules of these names have other methods."""

    def build() -> Translator:
        model, other = _built(), _changed(kind, methods)
        for name, module in model.named_modules():
            if name in names or name.rpartition(".")[2] in names:
                module.__class__ = other
        return model

    return build


def _attention(*names: str, **methods: Callable[..., Any]) -> Any:
    return _swapped(Attention, *(names or ("attention", "cross")), **methods)


def _decoder(*names: str, **methods: Callable[..., Any]) -> Any:
    return _swapped(Layer, *(names or ("decoder.0", "decoder.1")), **methods)


def _weights(change: Callable[[Any], None]) -> Callable[[], Translator]:
    """Return what makes the trained model and changes its weights."""

    def build() -> Translator:
        model = trained()
        with torch.no_grad():
            change(model)
        return model

    return build


@dataclass(frozen=True)
class Planted:
    """A fault: what makes the model, and what of it is true."""

    build: Callable[[], Translator]
    ids: tuple[str, ...]  # one of them is said; none: nobody can know it
    where: str = ""  # what the place of the finding has in it
    allowed: tuple[str, ...] = ()  # what else is true, and may be said
    labels: str = "labels"  # or "given"
    loop: Callable[[Translator, Tensor], Tensor] | None = None  # in the ``with`` form
    severity: str = "fault"
    remedy: str = ""  # what the remedy says
    what: str = ""  # what its sentence says
    never: str = ""  # what nothing that is said has in it


LISTED = {  # what engineers were found to plant
    "causal off by one": Planted(
        _model(causal=_ahead(1)), ("causal-off-by-one",), "decoder."
    ),
    "no causal mask": Planted(
        _model(causal=_ahead(99)),
        ("not-causal",),
        "decoder.",
        what="which comes after it, with weight 0.",
    ),
    "mask multiplied": Planted(
        _attention(weights=lambda _, scores, mask: (scores * mask).softmax(-1)),
        ("mask-multiplied",),
        what="so a masked one counts as 0: row ",
    ),
    "mask added as 0 and 1": Planted(
        _attention(weights=lambda _, scores, mask: (scores + mask.float()).softmax(-1)),
        *(("not-causal",), "decoder.", ("padding-read",)),
    ),
    "softmax over heads": Planted(
        _attention(weights=lambda _, *given: _hidden(*given).softmax(1)),
        ("softmax-axis",),
    ),
    "softmax over queries": Planted(
        _attention(weights=lambda _, *given: _hidden(*given).softmax(-2)),
        ("softmax-axis",),
        what="The softmax runs over the queries, not over the keys: row ",
    ),
    "not scaled": Planted(
        _swapped(NotScaled, "decoder.1.cross"),
        ("not-scaled",),
        "cross layer 2 (decoder.1.cross)",
        what="sqrt(8) = 2.83",
    ),
    "positions along the batch": Planted(
        _model(
            embedded=lambda self, table, ids, _start=0: (
                table(ids) + self.places(torch.arange(len(ids)))[:, None]
            )
        ),
        ("positions-along-batch",),
        "batch",
        what="than alone: they differ by",
        never="by inf",
    ),
    "no eval": Planted(
        lambda: trained().train(),
        *(("dropout-on",), "dropout"),
        remedy="eval()",
        what="Dropout is on in",
    ),
    "padding inverted": Planted(
        _model(padding=lambda _, ids: (ids == PAD)[:, None, None]),
        ("mask-inverted",),
        never="scale",
    ),
    "padding along the rows": Planted(
        _model(
            padding=lambda _, ids: (ids != PAD)[:, None, :, None],
            masks=lambda _, _at, src, mask: (mask, (src != PAD)[:, None, None]),
        ),
        ("padding-read",),
    ),
    "padding not masked": Planted(
        _model(padding=lambda _, ids: _all_open(ids)),
        ("padding-read",),
        what="in batch row 2, row",
    ),
    "padding not masked in cross": Planted(
        _model(masks=lambda _, _at, src, mask: (mask, _all_open(src))),
        *(("padding-read",), ".cross"),
    ),
    "trained to predict what is given": Planted(
        lambda: _learned("given", ignore_index=PAD), ("predicts-given",)
    ),
    "memory of another row": Planted(
        _model(
            forward=lambda self, src, tgt: self.decode(
                self.encode(src).roll(1, 0), src, tgt
            )
        ),
        ("batch-row-differs",),
        "batch",
    ),
    "cross reads the decoder": Planted(
        _decoder(
            crossed=lambda self, x, mask, *_: x + self.cross(*_normed(self, x, 1), mask)
        ),
        *(("cross-reads-decoder",), "cross", ("source-not-used",)),
    ),
    "divided by the root of the width": Planted(
        _attention("decoder.0.attention", scores=lambda _, q, k: q @ k.mT / WIDTH**0.5),
        *(("wrong-scale",), "decoder.0.attention"),
    ),
    "positions restart": Planted(
        _model(
            embedded=lambda self, table, ids, _start=0: Translator.embedded(
                self, table, ids
            )
        ),
        ("positions-restart", "cached-steps-differ"),
        loop=greedy,
    ),
    "beams without their cache": Planted(
        _built, ("cache-of-other-tokens",), "cache", loop=beams_alone
    ),
    "tied weights broken": Planted(_tied_broken, ()),
    "vocabulary permuted": Planted(_permuted, ("vocabulary-permuted",)),
    "layer copied": Planted(_copied_layer, ("equal-layers",), severity="note"),
    "no residual": Planted(
        _decoder(
            attended=lambda self, x, *more: self.attention(*_normed(self, x, 0), *more)
        ),
        ("no-residual",),
        "decoder.0.attention",
        severity="note",
    ),
    "labels smoothed by 0.9": Planted(
        lambda: _learned("labels", ignore_index=PAD, label_smoothing=0.9), ()
    ),
    "loss on pads": Planted(lambda: _learned("labels"), ()),
    "labels shifted twice": Planted(
        lambda: _learned("labels", 1, ignore_index=PAD), ("shifted-twice",)
    ),
    "head without output": Planted(
        _weights(_no_output), ("dead-head",), "decoder.1.cross", severity="note"
    ),
    "head without queries": Planted(
        _weights(lambda model: _zero(model.decoder[LAST].attention.q, 4)),
        ("dead-head",),
        "decoder.1.attention",
        severity="note",
    ),
    "not a number": Planted(
        _weights(_nan), ("nan-parameter",), "encoder.1.feed.0.weight", never="to nan"
    ),
}
PLANTED = LISTED | {
    "cross of one layer reads the decoder": Planted(
        _decoder(
            "decoder.1",
            crossed=lambda self, x, mask, *_: (
                x + self.cross(*_normed(self, x, 1), mask)
            ),
        ),
        *(("cross-reads-decoder",), "decoder.1.cross"),
    ),
    "target not shifted": Planted(
        trained,
        *(("not-shifted",), "labels"),
        labels="given",
        what=" labels are the very token",
    ),
    "not causal in one layer": Planted(
        _model(
            masks=lambda self, layer, src, mask: (
                mask.any(-2, keepdim=True) if layer == LAST else mask,
                self.padding(src),
            )
        ),
        *(("not-causal",), "decoder.1.attention"),
    ),
    "first row reads nothing": Planted(
        _model(causal=_ahead(-1)), ("no-key",), "decoder.", never="scale"
    ),
    "masked after the softmax": Planted(
        _attention(weights=lambda _, scores, mask: scores.softmax(-1) * mask),
        ("rows-not-one",),
        what="not to 1.",
    ),
    "dropout in eval": Planted(
        _swapped(DroppedAlways, "encoder.1.attention"),
        ("dropout-always",),
        "encoder.1.attention",
        never="eval()",
    ),
    "values made in forward": Planted(
        _attention(
            "encoder.1.attention",
            pairs=lambda self, x, memory: [
                *Attention.pairs(self, x, memory)[:2],
                (nn.Linear(WIDTH, WIDTH), memory),
            ],
        ),
        ("calls-differ",),
        "Linear.weight [32 x 32]",
        what="made inside forward",
    ),
    "head without values": Planted(
        _weights(lambda model: _zero(model.encoder[0].attention.v, 2)),
        ("dead-head",),
        "encoder.0.attention",
        severity="note",
    ),
    "head without keys": Planted(
        _weights(lambda model: _zero(model.decoder[LAST].attention.k, 1)),
        ("dead-head",),
        "decoder.1.attention",
        severity="note",
    ),
    "too large for half precision": Planted(
        _weights(_too_large), ("overflow",), "encoder.1.attention", never="to nan"
    ),
    # the cross attention is computed, and its result is not used
    "cross not added": Planted(
        _decoder(crossed=lambda self, x, *more: (Layer.crossed(self, x, *more), x)[1]),
        ("source-not-used",),
    ),
    "no cross attention": Planted(
        _decoder(crossed=lambda _, x, *_more: x), ("source-not-used",)
    ),
    "same target everywhere": Planted(
        _model(
            decode=lambda self, memory, src, tgt, past=None: Translator.decode(
                self, memory, src, torch.full_like(tgt, BOS), past
            )
        ),
        ("target-not-used",),
    ),
    "mean over the tokens": Planted(
        _decoder(attended=_less(1)), ("later-tokens-count",)
    ),
    "mean over the batch": Planted(
        _decoder(attended=_less(0)), ("batch-row-differs",), "batch"
    ),
    "cache cut short": Planted(
        _attention("decoder.0.attention", "decoder.1.attention", weights=_cut_short),
        ("cached-steps-differ",),
        loop=greedy,
    ),
}
