"""Attention over jagged nested tensors is seen padded, with its tokens' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from visformer.watching.watcher import Watched, watch

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.usefixtures("no_gradients"),
]
SOURCE = [torch.tensor(x) for x in ([5, 6, 7, 8, 9], [3, 4], [11, 12, 13])]
TARGET = [torch.tensor(x) for x in ([1, 15], [1, 17, 18, 19], [1, 12, 16])]
WIDTH, HEADS = 16, 2


@pytest.fixture
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def nested(several: list[Tensor]) -> Tensor:
    return torch.nested.nested_tensor(several, layout=torch.jagged)


class Attention(nn.Module):
    """The one of torch's own tutorial: every part is done with nested tensors."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.dropout = nn.Linear(WIDTH, WIDTH), dropout

    def heads(self, x: Tensor, memory: Tensor) -> list[Tensor]:
        pairs = zip(self.parts, (x, memory, memory), strict=True)
        return [part(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part, y in pairs]

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = self.heads(x, memory)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        out: Tensor = self.out(y.transpose(1, 2).flatten(-2))
        return out

    def weights(self, x: Tensor, memory: Tensor) -> Tensor:
        """Return the weights [H, Q, K] of one sentence, [Q, D] and [K, D]."""
        q, k, _v = self.heads(x[None], memory[None])
        made: Tensor = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)[0]
        return made


class Layers(nn.Module):
    """Two layers of self attention over a list of ids, or over nested ones."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.places = nn.Embedding(20, WIDTH), nn.Embedding(20, WIDTH)
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def embedded(self, ids: Any) -> Tensor:
        if isinstance(ids, Tensor):
            x: Tensor = self.embed(ids)
            return x
        several = [self.embed(x) + self.places(torch.arange(len(x))) for x in ids]
        return torch.nested.as_nested_tensor(several, layout=torch.jagged)

    def forward(self, ids: Any) -> Tensor:
        x = self.embedded(ids)
        for layer in self.layers:
            x = x + layer(x, x)
        return x


class Padded(Layers):
    """Nested inside alone: it is given padded ids, and gives padded numbers."""

    def embedded(self, ids: Tensor) -> Tensor:
        lengths = (ids != 0).sum(1)
        begin, x = torch.zeros_like(lengths), self.embed(ids)
        made = torch.nested.narrow(x, 1, begin, lengths, layout=torch.jagged)
        return made.contiguous()

    def forward(self, ids: Tensor) -> Tensor:
        return torch.nested.to_padded_tensor(super().forward(ids), 0.0)  # type: ignore[no-any-return]


class Translator(Layers):
    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:  # type: ignore[override]
        x, y = self.embed(src), self.embed(tgt)
        x = x + self.layers[0](x, x)
        out: Tensor = y + self.layers[1](y, x)
        return out


def checked(watched: Watched, attentions: list[tuple[Attention, Any, Any]]) -> None:
    """Compare with the weights of each sentence; beyond its end all are 0."""
    assert watched.certificate.passed
    assert watched.output_difference == 0
    assert len(watched.attentions) == len(attentions)
    for seen, (own, queries, keys) in zip(watched.attentions, attentions, strict=True):
        for row, (x, memory) in enumerate(zip(queries, keys, strict=True)):
            right = torch.zeros(seen.weights.shape[1:])
            right[:, : len(x), : len(memory)] = own.weights(x, memory)
            torch.testing.assert_close(torch.tensor(seen.weights[row]), right)


@pytest.mark.parametrize("made", [list, nested])
def test_sentences_are_seen_padded_with_their_names(
    made: Callable[[list[Tensor]], Any],
) -> None:
    given, model = made(SOURCE), Layers().eval()
    watched = watch(model, pad=14)(given)
    first = model.embedded(given).unbind()
    second = (y := model.embedded(given)) + model.layers[0](y, y)
    several = (first, first), (second.unbind(), second.unbind())
    checked(watched, [(m, *x) for m, x in zip(model.layers, several, strict=True)])  # type: ignore[misc]
    assert [one.kind for one in watched.attentions] == ["encoder", "encoder"]
    assert [t.source_ids.tolist() for t in watched.traces] == [
        [5, 6, 7, 8, 9],
        [3, 4, 14, 14, 14],
        [11, 12, 13, 14, 14],
    ]
    certificate = watch(model, pad=14).certify(given)
    assert certificate.ok
    assert certificate.findings == ()


def test_a_model_that_is_nested_inside_has_numbered_positions() -> None:
    ids = nn.utils.rnn.pad_sequence(SOURCE, batch_first=True)
    model = Padded().eval()
    watched = watch(model, pad=0)(ids)
    x = [*map(model.embed, SOURCE)]
    checked(
        watched,
        [
            (model.layers[0], x, x),  # type: ignore[list-item]
            (
                model.layers[1],  # type: ignore[list-item]
                *[[y + model.layers[0](y[None], y[None])[0] for y in x]] * 2,
            ),
        ],
    )
    assert watched.traces[1].source == ("1", "2", "3", "4", "5")
    (missed,) = watched.certificate.missed
    assert "could not be traced, so positions are numbered" in missed
    lengths = [x for x in watch(model, pad=0).certify(ids).checks if "Length" in x]
    assert len(lengths) == 5


def test_two_sides_of_other_lengths_meet_in_cross_attention() -> None:
    model = Translator().eval()
    watched = watch(model, pad=0)(nested(SOURCE), nested(TARGET))
    x, y = ([*map(model.embed, side)] for side in (SOURCE, TARGET))
    read = [one + model.layers[0](one[None], one[None])[0] for one in x]
    own, cross = model.layers
    checked(watched, [(own, x, x), (cross, y, read)])  # type: ignore[list-item]
    assert [one.kind for one in watched.attentions] == ["encoder", "cross"]
    assert watched.attentions[1].weights.shape == (3, HEADS, 4, 5)
    assert watched.traces[2].target_ids.tolist() == [1, 12, 16, 0]
    assert watched.certificate.missed == ()


def test_with_dropout_it_is_named_and_not_shown() -> None:
    model = Layers()
    model.layers[1].dropout = 0.5  # type: ignore[assignment]
    watched = watch(model)(SOURCE)
    assert [one.module for one in watched.attentions] == ["layers.0"]
    (missed,) = watched.certificate.missed
    assert missed.startswith("“layers.1”: attention over these nested tensors is not")
