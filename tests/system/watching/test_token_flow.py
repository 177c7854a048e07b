"""Tokens are those that stand at the queries and keys, whatever the argument was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from tests.system.watching.comparing import CLOSE, apart
from tests.system.watching.small_models import (
    WIDTH,
    Encoder,
    Translator,
    V,
    assert_kept,
    assert_nothing_missed,
    assert_traced,
    causal,
    kept_by,
    some_ids,
)
from visformer.watching.watcher import Watched, watch

BOS = 1
ORDER = torch.tensor([2, 0, 4, 1, 3])


def called(model: nn.Module, *args: Any, **options: Any) -> Watched:
    with torch.no_grad():
        return watch(model.eval(), **options)(*args)


def assert_own(watched: Watched, model: nn.Module) -> None:
    """Assert that each attention, and each Trace of it, is the model's own."""
    kept = {name: own[-1:] for name, own in kept_by(model).items()}
    assert_kept(watched, kept)
    for one in watched.attentions:
        assert one.kind in ("encoder", "decoder", "cross")
        assert_traced(watched, one.kind, kept[one.module][0])


def assert_sources(watched: Watched, ids: Tensor) -> None:
    """Assert the source's ids, and the tokens named after them."""
    assert [x.source_ids.tolist() for x in watched.traces] == ids.tolist()
    names = [tuple(map(str, row)) for row in ids.tolist()]
    assert [x.source for x in watched.traces] == names


def assert_numbered(watched: Watched, side: str, length: int) -> None:
    """Assert that positions are numbered, and that the certificate says so."""
    numbers = tuple(str(at + 1) for at in range(length))
    assert {getattr(x, side) for x in watched.traces} == {numbers}
    said = [s for s in watched.certificate.missed if side in s and "numbered" in s]
    assert len(said) == 1
    assert not watched.certificate.ok


class Shifted(Translator):
    """Shifts its target itself, before it is embedded or after."""

    by = "ids"

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.encode(source)
        if self.by == "ids":
            bos = torch.full_like(target[:, :1], BOS)
            return self.decode(memory, torch.cat([bos, target[:, :-1]], 1))
        if self.by == "new":
            shifted = target.new_zeros(target.shape)
            shifted[:, 1:] = target[:, :-1]
            shifted[:, 0] = BOS
            return self.decode(memory, shifted)
        if self.by == "roll":
            shifted = target.roll(1, 1)
            shifted[:, 0] = BOS
            return self.decode(memory, shifted)
        x = self.embed_target(target)
        x = pad(x, (0, 0, 1, 0))[:, :-1]  # the first row is zeros
        return self.read(memory, x + self.positions[:, : x.shape[1]])


@pytest.mark.parametrize("by", ["ids", "new", "roll"])
def test_a_target_shifted_inside(by: str) -> None:
    model, source, target = Shifted(), some_ids(3, 6), some_ids(3, 5, seed=2)
    model.by = by
    watched = called(model, source, target, labels=target)
    assert_own(watched, model)
    read = [[BOS, *row[:-1]] for row in target.tolist()]
    assert [x.target_ids.tolist() for x in watched.traces] == read
    assert [list(x.target) for x in watched.traces] == [list(map(str, r)) for r in read]
    assert_sources(watched, source)
    assert_nothing_missed(watched)


@pytest.mark.parametrize("by", ["ids", "new", "roll"])
def test_its_cross_entropy_is_the_models_own(by: str) -> None:
    """Step t has the probability of label t, which is not the token of row t."""
    model, source, target = Shifted(), some_ids(3, 6), some_ids(3, 5, seed=2)
    model.by = by
    watched = called(model, source, target, labels=target)
    losses = cross_entropy(watched.output.mT, target, reduction="none")
    for trace, own, labels in zip(watched.traces, losses, target, strict=True):
        assert [step.id for step in trace.steps[:-1]] == labels[:-1].tolist()
        shown = [-np.log(step.probability) for step in trace.steps[:-1]]
        assert np.allclose(shown, own[:-1], atol=1e-5)


def test_a_target_shifted_among_its_embeddings() -> None:
    model, source, target = Shifted(), some_ids(3, 6), some_ids(3, 5, seed=2)
    model.by = "embeddings"
    watched = called(model, source, target, labels=target)
    assert_own(watched, model)
    assert_sources(watched, source)
    names = [x.target for x in watched.traces]
    if names[0] == ("1", "2", "3", "4", "5"):
        assert_numbered(watched, "target", 5)
    else:  # a row that has no token is named after none
        assert [row[1:] for row in names] == [
            tuple(map(str, row[:-1])) for row in target.tolist()
        ]
    assert watched.certificate.findings == ()


MOVED: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda x: x.flip(1),
    "roll": lambda x: x.roll(2, 1),
    "index": lambda x: x[:, ORDER],
    "index_select": lambda x: x.index_select(1, ORDER),
    "reversed indices": lambda x: x[:, torch.arange(4, -1, -1)],
    "a list": lambda x: x[:, [2, 0, 4, 1, 3]],
}
PUT_TOGETHER: dict[str, Callable[[Tensor], Tensor]] = {
    "halves": lambda x: torch.cat([x[:, 3:], x[:, :3]], 1),
    "every second": lambda x: torch.cat([x[:, ::2], x[:, 1::2]], 1),
    "stacked": lambda x: torch.stack([x[:, at] for at in ORDER.tolist()], 1),
}


class Moving(Encoder):
    def __init__(
        self, move: Callable[[Tensor], Tensor], *, after: bool = False, **kind: bool
    ) -> None:
        super().__init__(**kind)
        self.move, self.after = move, after

    def forward(self, ids: Tensor) -> Tensor:
        if self.after:
            return self.read(self.move(self.embed(ids)))
        return self.read(self.embed(self.move(ids)))


@pytest.mark.parametrize("after", [False, True], ids=["ids", "embeddings"])
@pytest.mark.parametrize("case", MOVED)
@pytest.mark.parametrize("rows", [1, 3])
def test_tokens_follow_those_that_are_moved(case: str, after: bool, rows: int) -> None:
    model, ids = Moving(MOVED[case], after=after), some_ids(rows, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    assert_sources(watched, MOVED[case](ids))
    assert_nothing_missed(watched)


@pytest.mark.parametrize("after", [False, True], ids=["ids", "embeddings"])
@pytest.mark.parametrize("case", PUT_TOGETHER)
def test_ids_that_are_put_together_are_named_and_embeddings_numbered(
    case: str, after: bool
) -> None:
    model, ids = Moving(PUT_TOGETHER[case], after=after), some_ids(3, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    if after:
        assert_numbered(watched, "source", 5)
    else:
        assert_sources(watched, PUT_TOGETHER[case](ids))
        assert_nothing_missed(watched)


def written(x: Tensor, *parts: tuple[Any, Tensor]) -> Tensor:
    y = torch.zeros_like(x)
    for at, part in parts:
        y[:, at] = part
    return y


def filled(x: Tensor, *parts: tuple[Any, Tensor]) -> Tensor:
    """Write parts [B, 5, D / 2] of features, or rows, into what held nothing."""
    y = torch.empty_like(x)
    for at, part in parts:
        y[at] = part
    return y


HALF, REST = (..., slice(0, 4)), (..., slice(4, None))


def test_features_written_one_after_the_other_keep_their_tokens() -> None:
    """As keys that are put together of two parts, into memory that held nothing."""
    move, ids = (lambda x: filled(x, (HALF, x[HALF]), (REST, x[REST]))), some_ids(3, 5)
    model = Moving(move, after=True)
    watched = called(model, ids)
    assert_own(watched, model)
    assert_sources(watched, ids)


FILLED: dict[str, Callable[[Tensor], Tensor]] = {
    "another order": lambda x: filled(x, (HALF, x[HALF]), (REST, x.flip(1)[REST])),
    "the other first": lambda x: filled(x, (HALF, x.flip(1)[HALF]), (REST, x[REST])),
    "rows": lambda x: filled(x, (0, x[1]), (1, x[2]), (2, x[0])),
    "a row too many": lambda x: filled(x, (0, x[0]), (1, x[0]), (2, x[2])),
}


@pytest.mark.parametrize("case", FILLED)
def test_what_is_written_of_several_orders_is_numbered(case: str) -> None:
    model, ids = Moving(FILLED[case], after=True), some_ids(3, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    assert_numbered(watched, "source", 5)


def written_through_a_view(x: Tensor) -> Tensor:
    y = x.clone()
    y.transpose(0, 1).copy_(x.flip(1).transpose(0, 1))
    return y


WRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "shifted": lambda x: written(x, (slice(1, None), x[:, :-1])),
    "moved": lambda x: written(x, (slice(0, 2), x[:, 3:]), (slice(2, 5), x[:, :3])),
    "by an index": lambda x: written(x, (ORDER, x)),
    "index_copy": lambda x: torch.zeros_like(x).index_copy(1, ORDER, x),
    "two orders added": lambda x: 0 * x + x.flip(1),
    "chosen": lambda x: x.where(torch.arange(5)[:, None] > 2, x.flip(1)),
    "through a view": written_through_a_view,
    "rows": lambda x: torch.zeros_like(x).index_copy(0, torch.tensor([1, 2, 0]), x),
}


@pytest.mark.parametrize("case", WRITTEN)
def test_embeddings_that_are_written_elsewhere_are_followed_or_numbered(
    case: str,
) -> None:
    model, ids = Moving(WRITTEN[case], after=True), some_ids(3, 5)
    watched = called(model, ids)
    if case == "rows" and watched.traces[0].source_ids.tolist() == ids[0].tolist():
        (own,) = kept_by(model)["own"][-1:]
        assert_traced(watched, "encoder", own[torch.tensor([1, 2, 0])])
        return
    assert_own(watched, model)
    if watched.traces[0].source == ("1", "2", "3", "4", "5"):
        assert_numbered(watched, "source", 5)
    else:
        moved = WRITTEN[case](ids[..., None])[..., 0]
        assert 0 not in moved  # where nothing was written, there is nothing to name
        assert_sources(watched, moved)


AT = torch.arange(5)[:, None]


def edited(x: Tensor, edit: Callable[[Tensor], Any]) -> Tensor:
    y = x.roll(1, 1)
    edit(y)
    return y


NOT_FOLLOWED: dict[str, Callable[[Tensor], Tensor]] = {
    "erased": lambda x: edited(x, lambda y: y[:, 0].zero_()),
    "erased, as many rows": lambda x: edited(x, lambda y: y[:, :1].fill_(0)),
    "masked in place": lambda x: edited(x, lambda y: y.masked_fill_(AT == 0, 0)),
    "times nothing": lambda x: edited(x, lambda y: y[:, 0].mul_(0)),
    "times a mask": lambda x: x.roll(1, 1) * (AT > 0),
    "where": lambda x: x.roll(1, 1).where(AT > 0, torch.tensor(0.0)),
    "another for one": lambda x: torch.where(AT == 0, x[:, 1:2], x),
    "swapped by where": lambda x: torch.where(
        AT == 0, x[:, 4:], torch.where(AT == 4, x[:, :1], x)
    ),
    "masked": lambda x: x.masked_fill(AT == 0, 0),
    "masked_scatter": lambda x: x.masked_scatter((AT > 2).expand(x.shape), x),
    "index_fill": lambda x: x.roll(1, 1).index_fill(1, torch.tensor([0]), 0),
    "sort": lambda x: x.sort(1).values,
    "topk": lambda x: x.topk(5, 1).values,
    "cumsum": lambda x: x.cumsum(1),
    "cummax": lambda x: x.cummax(1).values,
    "padded and cut": lambda x: pad(x, (0, 0, 1, -1)),
    "lerp": lambda x: x.lerp(x.roll(1, 1), 1.0),
    "lerp in place": lambda x: edited(x, lambda y: y[:, 1:].lerp_(x[:, :-1], 1)),
    "copied over": lambda x: edited(x, lambda y: y[:, 1:].mul_(0).add_(x[:, :-1])),
    "shifted features": lambda x: torch.cat([x[..., :4], x.flip(1)[..., 4:]], -1),
    "take": lambda x: x.take(torch.arange(x.numel()).view(x.shape).flip(1)),
    "put": lambda x: torch.zeros_like(x).put_(torch.arange(120).flip(0), x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(
        1, ORDER[:, None].expand(x.shape), x
    ),
    "as_strided": lambda x: x.contiguous().as_strided(x.shape, (40, 0, 1)),
    "packed": lambda x: torch.zeros_like(x).masked_scatter(
        torch.ones(x.shape).bool(), x[torch.ones(x.shape[:2]).bool()].roll(1, 0)
    ),
    "channels": lambda x: torch.channel_shuffle(pad(x, (0, 0, 0, 1)), 3)[:, :5],
    "pooled": lambda x: torch.nn.functional.max_pool1d(x.mT, 3, 1, 1).mT,
    "sampled": lambda x: torch.func.vmap(lambda a: a.sort(0).values)(x),
}


@pytest.mark.parametrize("case", NOT_FOLLOWED)
def test_what_stands_where_no_token_did_is_numbered(case: str) -> None:
    model = Moving(NOT_FOLLOWED[case], after=True)
    watched = called(model, some_ids(5 if "many rows" in case else 3, 5))
    assert_own(watched, model)
    assert_numbered(watched, "source", 5)


HIDDEN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "masked": lambda x, mask: x.masked_fill(mask[..., None], 0),
    "times": lambda x, mask: x * ~mask[..., None],
    "where": lambda x, mask: torch.where(mask[..., None], 0.0, x),
    "written": lambda x, mask: x.index_put((mask,), torch.tensor(0.0)),
    "beside a mixture": lambda x, _mask: x + x.cumsum(1),
    "scaled by position": lambda x, _mask: x * torch.arange(1, 6)[:, None],
    "normed": lambda x, _mask: nn.BatchNorm1d(WIDTH)(x.mT).mT,
    "normed, not trained": lambda x, _mask: nn.BatchNorm1d(WIDTH).eval()(x.mT).mT,
    "in place": lambda x, _mask: x.mul_(2).add_(1),
}


@pytest.mark.parametrize("case", HIDDEN)
def test_tokens_whose_padding_is_hidden_keep_their_names(case: str) -> None:
    class Model(Encoder):
        def forward(self, ids: Tensor) -> Tensor:
            return self.read(HIDDEN[case](self.embed(ids), ids == 0))

    model, ids = Model(), some_ids(3, 5)
    ids[0, 3:] = 0
    watched = called(model, ids)
    assert_own(watched, model)
    assert_sources(watched, ids)


@pytest.mark.parametrize("case", MOVED)
def test_the_source_of_a_translator_is_moved_and_its_target_is_not(case: str) -> None:
    class Model(Translator):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            return super().forward(MOVED[case](source), target)

    model, source, target = Model(), some_ids(2, 5), some_ids(2, 5, seed=2)
    watched = called(model, source, target)
    assert_own(watched, model)
    assert_sources(watched, MOVED[case](source))
    assert [x.target_ids.tolist() for x in watched.traces] == target.tolist()
    assert_nothing_missed(watched)


@pytest.mark.parametrize("case", ["flip", "index", "roll"])
def test_those_of_a_decoder_follow_as_well(case: str) -> None:
    model, ids = Moving(MOVED[case], one_way=True), some_ids(3, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    moved = MOVED[case](ids).tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == moved


def in_another_order(x: Tensor) -> Tensor:
    """Gather each row in an order of its own."""
    order = torch.stack([ORDER.roll(at) for at in range(len(x))])
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[2]))


def test_what_cannot_be_followed_is_numbered_and_said() -> None:
    model, ids = Moving(in_another_order, after=True), some_ids(3, 5)
    watched = called(model, ids)
    assert [one.kind for one in watched.attentions] == ["encoder"]
    assert_own(watched, model)
    assert_numbered(watched, "source", 5)


def test_ids_in_an_order_of_each_row_are_those_that_were_embedded() -> None:
    order = torch.stack([ORDER.roll(at) for at in range(3)])
    model, ids = Moving(lambda x: x.gather(1, order)), some_ids(3, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    assert_sources(watched, ids.gather(1, order))


def by_length(ids: Tensor) -> Tensor:
    return (ids != 0).sum(1).argsort(descending=True)


class Sorted(Encoder):
    """Sorts its batch by length, and puts its results in the order that was given."""

    after = False

    def forward(self, ids: Tensor) -> Tensor:
        order = by_length(ids)
        x = self.embed(ids)[order] if self.after else self.embed(ids[order])
        return self.read(x)[order.argsort()]


@pytest.mark.parametrize("after", [False, True], ids=["ids", "embeddings"])
def test_a_batch_sorted_inside_keeps_each_sentence_to_its_trace(after: bool) -> None:
    model, ids = Sorted(), some_ids(3, 5)
    model.after = after
    ids[0, 4:], ids[1, 2:] = 0, 0  # lengths 4, 2, 5: the order is not its own inverse
    watched = called(model, ids, pad=0)
    (own,) = kept_by(model)["own"][-1:]
    assert_traced(watched, "encoder", own[by_length(ids).argsort()])
    assert_sources(watched, ids)
    for at in range(3):
        alone = called(model, ids[at : at + 1]).traces[0]
        shown = watched.traces[at].attention("encoder", 0)
        assert np.allclose(shown, alone.attention("encoder", 0), atol=1e-6)


def test_a_batch_sorted_outside_of_its_decoder() -> None:
    class Model(Translator):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            order = by_length(source)
            made = super().forward(source[order], target[order])
            return made[order.argsort()]

    model, source, target = Model(), some_ids(3, 5), some_ids(3, 4, seed=2)
    source[0, 4:], source[1, 2:] = 0, 0
    watched = called(model, source, target)
    back = by_length(source).argsort()
    kept = kept_by(model)
    assert_traced(watched, "cross", kept["cross"][-1][back])
    assert_traced(watched, "decoder", kept["own"][-1][back])
    assert_sources(watched, source)
    assert [x.target_ids.tolist() for x in watched.traces] == target.tolist()


class Placed(Encoder):
    """Embeds positions, and the kinds of segments, beside its words."""

    def __init__(self, places: int, **kind: bool) -> None:
        super().__init__(**kind)
        self.places, self.parts = nn.Embedding(places, WIDTH), nn.Embedding(2, WIDTH)

    def forward(self, ids: Tensor, segments: Any = None, at: Any = None) -> Tensor:
        at = torch.arange(ids.shape[1]) if at is None else at
        x = self.places(at) + self.embed(ids)
        return self.read(x if segments is None else self.parts(segments) + x)


@pytest.mark.parametrize("places", [6, 20, 512])
@pytest.mark.parametrize("given", ["made", "segments", "positions"])
def test_positions_never_give_the_names(places: int, given: str) -> None:
    model, ids = Placed(places), some_ids(2, 6)
    several: list[Any] = [ids]
    if given != "made":
        several.append(torch.tensor([[0, 0, 0, 1, 1, 1]] * 2))
    if given == "positions":
        several.append(torch.arange(6).expand(2, -1))
    watched = called(model, *several)
    assert_own(watched, model)
    assert_sources(watched, ids)
    assert_nothing_missed(watched)


@pytest.mark.parametrize("places", [20, 512])
@pytest.mark.parametrize("rows", [1, 2])
def test_nor_do_they_in_steps_of_one_token(places: int, rows: int) -> None:
    class Stepping(Placed):
        def forward(self, ids: Tensor, at: Any, before: Any = None) -> Any:  # type: ignore[override]
            x = self.places(at) + self.embed(ids)
            whole = x if before is None else torch.cat([before, x], 1)
            return self.out(x + self.own(x, whole)), whole

    model, token, before = Stepping(places).eval(), torch.full((rows, 1), 9), None
    read: list[Tensor] = []
    with torch.no_grad(), watch(model) as watched:
        for at in range(4):
            read.append(token)
            logits, before = model(token, torch.full((rows, 1), at), before)
            token = logits[:, -1].argmax(-1, keepdim=True)
    assert {one.kind for one in watched.attentions} == {"decoder"}
    ids = torch.cat(read, 1).tolist()
    assert [x.target_ids.tolist() for x in watched.traces] == ids


def test_embeddings_that_were_given_have_numbers_and_nothing_is_said() -> None:
    """Where no ids were given, none was lost."""

    class Read(Encoder):
        def forward(self, x: Tensor) -> Tensor:
            return self.read(x)

    watched = called(Read(), torch.randn(2, 4, WIDTH))
    assert [x.source for x in watched.traces] == [("1", "2", "3", "4")] * 2
    assert watched.certificate.missed == ()


def test_a_vocabulary_in_two_tables_is_named_by_what_was_embedded() -> None:
    class Two(Encoder):
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(V, WIDTH)

        def forward(self, ids: Tensor) -> Tensor:
            return self.read(self.embed(ids) + self.characters(ids % 7))

    model, ids = Two(), some_ids(2, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    assert_sources(watched, ids)


def test_beams_made_by_repeating_the_tokens_are_named() -> None:
    class Model(Translator):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            memory, rows = self.encode(source), 3 * len(source)
            memory = memory.repeat(1, 3, 1).view(rows, -1, WIDTH)  # [B * 3, S, 8]
            several = memory.view(rows // 3, -1), torch.arange(rows // 3)
            memory = several[0].index_select(0, several[1]).view_as(memory)  # not done
            return self.decode(memory, target.repeat(1, 3).view(rows, -1))

    source, target = some_ids(2, 5), some_ids(2, 4, seed=2)
    watched = called(Model(), source, target)
    shown = watched.traces
    assert [x.target_ids.tolist() for x in shown] == [
        r for r in target.tolist() for _ in "123"
    ]
    assert [x.source_ids.tolist() for x in shown] == [
        r for r in source.tolist() for _ in "123"
    ]


def test_what_a_scan_gives_is_added_to_tokens_that_are_named() -> None:
    """As in Mamba: states are read out by products, token by token."""

    class Model(Encoder):
        def forward(self, ids: Tensor) -> Tensor:
            x, state, read = self.embed(ids), torch.zeros(len(ids), WIDTH, WIDTH), []
            for token in x.unbind(1):  # [B, 8]
                state = state / 2 + token[:, :, None] * token[:, None]
                read.append((state @ token[:, :, None])[:, :, 0])
            return self.read(x + torch.stack(read, -1).mT)

    model, ids = Model(one_way=True), some_ids(2, 5)
    watched = called(model, ids)
    assert_own(watched, model)
    assert [x.target_ids.tolist() for x in watched.traces] == ids.tolist()


def test_rows_that_pick_each_their_own_tokens_stay_in_order() -> None:
    """As heads of prob-sparse attention pick queries: it is known whose they are."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.own = nn.Embedding(V, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.kept: list[Tensor] = []

        def forward(self, ids: Tensor) -> Tensor:
            x = self.own(self.embed(ids))
            heads = x.unflatten(-1, (2, 4)).transpose(1, 2).flatten(0, 1)  # [B 2, T, 4]
            top = heads.sum(-1).topk(3).indices
            queries = heads[torch.arange(len(heads))[:, None], top]  # [B 2, 3, 4]
            weights = (queries @ heads.mT / 2).softmax(-1)
            self.kept.append(weights.unflatten(0, (-1, 2)))
            return weights @ heads  # type: ignore[no-any-return]

    for rows in (1, 2):
        model = Model()
        watched = called(model, some_ids(rows, 5))
        (seen,) = watched.attentions
        assert seen.weights.shape == (rows, 2, 3, 5)
        assert apart(seen.weights, model.kept[-1]) <= CLOSE


def test_rows_of_a_target_stay_its_own_where_they_read_repeated_ones() -> None:
    class Model(Translator):
        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            memory = self.encode(source).repeat(1, 3, 1).view(len(target), -1, WIDTH)
            x = self.embed_target(target)
            x = x + self.cross(x, memory)
            return self.out(x + self.own(x, x, causal(x.shape[1])))  # type: ignore[no-any-return]

    source, target = some_ids(2, 5), some_ids(6, 4, seed=2)
    watched = called(Model(), source, target)
    assert [x.target_ids.tolist() for x in watched.traces] == target.tolist()
    assert [x.source_ids.tolist() for x in watched.traces] == [
        r for r in source.tolist() for _ in "123"
    ]
