"""Tokenizers that know every text, and old ones that learn to."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import pytest
import sentencepiece
import torch

from tests.models.growth import (
    grow_model,
    grow_tokenizer,
    read_fields,
    write_fields,
)
from tests.system.formats.folders import pieces
from tests.tiny_models import tiny_model
from visformer.errors import CheckpointError
from visformer.files import Pair
from visformer.tokenizers.tokenizer import SentencePieceSide
from visformer.training.prepare import required_signs, train_sentencepiece

PAIRS = [
    Pair("the big red house saw a bird", "l'été 1976 est fini à 10:30"),
    Pair("the cat is in the garden", "un animal dort ici depuis 1976"),
] * 40
TYPED = "15:30 [x^2_~`] #1 & “a” ‘b’ «c» – — € £ ¥ $30 12 % 5 °C @ Œ ÿ Łódź … m²"


@functools.cache
def fresh() -> bytes:
    return train_sentencepiece(PAIRS, 1000)


@functools.cache
def grown() -> bytes:
    return grow_tokenizer(old(), fresh())


@functools.cache
def old() -> bytes:
    return pieces()


def side(model: bytes) -> SentencePieceSide:
    return SentencePieceSide(model, "test")


def tokens(model: bytes, text: str) -> list[str]:
    return [piece.token for piece in side(model).encode(text)]


@pytest.mark.parametrize("make", [fresh, grown])
def test_every_sign_that_people_type_is_a_piece(make: Callable[[], bytes]) -> None:
    model = side(make())
    known = {model.token(id) for id in range(model.size)}
    assert set(required_signs()) <= known
    assert {*"0123456789", *map(chr, range(33, 127)), *"éèçœ€£¥“”‘’«»–—…°"} <= known
    assert {f"<0x{byte:02X}>" for byte in range(256)} <= known
    assert "\u00a0" in known
    shown = [piece.token for piece in model.encode(TYPED)]
    assert not any(token.startswith("<") for token in shown)
    written = model.decode([piece.id for piece in model.encode(TYPED)])
    assert written == TYPED


@pytest.mark.parametrize("make", [fresh, grown])
@pytest.mark.parametrize(
    "text", ["a 😀 b", "我有一只猫", "Nguyễn Þór", "👩‍👩‍👧", "boys’ house"]
)
def test_what_is_no_piece_is_cut_into_bytes(
    make: Callable[[], bytes], text: str
) -> None:
    model = side(make())
    found = model.encode(text)
    assert not any(piece.id == model.unknown for piece in found)
    ids = [piece.id for piece in found]
    assert model.decode(ids) == text
    for piece in found:
        if piece.token.startswith("<0x"):
            assert len(text[piece.start : piece.end]) >= 1


def test_each_byte_has_the_span_of_its_character() -> None:
    found = side(grown()).encode("我有猫😀")
    spans = [(p.start, p.end) for p in found if p.token.startswith("<0x")]
    assert spans == [(0, 1)] * 3 + [(1, 2)] * 3 + [(2, 3)] * 3 + [(3, 4)] * 4


def test_bytes_that_are_no_character_are_left_out() -> None:
    model = side(fresh())
    ids = [piece.id for piece in model.encode("a猫b")]
    first, *cat, last = ids[-5:]
    assert model.decode([first, *cat, last]) == "a猫b"
    assert model.decode([first, *cat[:2]]) == "a"
    assert model.decode([first, *cat[1:], last]) == "ab"
    assert model.decode([first, cat[0], *cat, last]) == "a猫b"
    assert model.decode(cat[:1]) == ""


@pytest.mark.parametrize("make", [fresh, grown])
def test_figures_are_cut_one_by_one(make: Callable[[], bytes]) -> None:
    shown = [t.removeprefix("▁") for t in tokens(make(), "in 1976 at 10:30")]
    assert [t for t in shown if any(map(str.isdecimal, t))] == list("19761030")


def test_a_no_break_space_stays_between_figures_only() -> None:
    model = side(fresh())
    for typed, written in (
        ("1\u202f200", "1\u00a0200"),
        ("ici\u00a0?", "ici ?"),
        ("«\u202fici\u202f»", "« ici »"),
    ):
        assert model.decode([p.id for p in model.encode(typed)]) == written


def test_old_pieces_keep_their_ids() -> None:
    before, after = side(old()), side(grown())
    assert after.size > before.size
    assert [after.token(i) for i in range(before.size)] == [
        before.token(i) for i in range(before.size)
    ]
    for text in ("the big red house", "the cat"):
        assert tokens(grown(), text) == tokens(old(), text)
    assert grow_tokenizer(grown(), fresh()) == grown()


def test_pieces_with_figures_are_not_used_after_growing() -> None:
    with_years = _plain_model(["in 1976 and 1976 he was 1976"] * 50)
    assert any("19" in token for token in tokens(with_years, "in 1976"))
    model = grow_tokenizer(with_years, fresh())
    assert [t for t in tokens(model, "1976") if t != "▁"] == list("1976")
    assert side(model).token(10) == side(with_years).token(10)


def _plain_model(lines: list[str]) -> bytes:
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=writer,
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return writer.getvalue()


def test_protocol_buffers_come_back_as_they_were() -> None:
    for model in (old(), fresh()):
        fields = list(read_fields(model))
        assert write_fields(fields) == model


@pytest.mark.parametrize("shared", [True, False])
def test_old_rows_are_kept_and_new_ones_spread_alike(shared: bool) -> None:
    model = tiny_model(shared_embedding=shared, tied_output=shared, output_bias=True)
    rows = model.config.target_vocabulary
    more = grow_model(model, rows + 40)
    assert more.config.source_vocabulary == more.config.target_vocabulary == rows + 40
    for name, values in model.state_dict().items():
        new = more.state_dict()[name]
        assert torch.equal(new[: len(values)], values)
        if name.startswith(("output", "source_emb", "target_emb")):
            assert len(new) == rows + 40
            assert new[rows:].std() == pytest.approx(float(values.std()), rel=0.5)
    same = more.output.weight is more.target_embedding.weight
    assert same is shared
    assert grow_model(model, rows).state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize("old", [b"\x0b", b"\x0a\x02\x0a", b"\x0a\x00", b"\xff"])
def test_a_damaged_tokenizer_is_one_sentence(old: bytes) -> None:
    with pytest.raises(CheckpointError, match="cannot be extended"):
        grow_tokenizer(old, pieces())
