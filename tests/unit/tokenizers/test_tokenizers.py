"""Tokenizers: ids, tokens as shown, and where in the text they stand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.system.formats.folders import PIECES, pieces
from tests.tiny_models import BOS, EOS, PAD, UNK, VOCABULARY, letters
from visformer import paths
from visformer.errors import CheckpointError, InputError
from visformer.tokenizers.tokenizer import (
    SentencePieceSide,
    Token,
    Tokenizer,
    VocabularySide,
    read_sentencepiece,
    read_vocabulary,
)
from visformer.tokenizers.transformers_side import TransformersSide
from visformer.tokenizers.vocabularies import HuggingFaceSide


@functools.cache
def english() -> SentencePieceSide:
    return SentencePieceSide(pieces(), "joint.model")


def words() -> Tokenizer:
    return Tokenizer(english(), english(), pad=PAD, bos=BOS, eos=EOS)


def tokens(text: str) -> list[str]:
    return [piece.token for piece in english().encode(text)]


def covered(text: str) -> list[str]:
    return [text[piece.start : piece.end] for piece in english().encode(text)]


def test_special_ids_and_size() -> None:
    side = english()
    assert side.size == PIECES
    assert side.unknown == UNK
    assert [side.token(i) for i in range(4)] == ["<pad>", "<unk>", "<s>", "</s>"]


def test_spans_point_at_the_text() -> None:
    assert "".join(tokens("the cat")) == "▁the▁cat"
    assert covered("the cat")[0] == "the"
    assert "".join(covered("the cat")) == "the cat"
    assert "".join(covered(" the  cat ")).strip() == "the  cat"


def test_ids_and_tokens_agree() -> None:
    for piece in english().encode("the big red house saw a bird"):
        assert english().token(piece.id) == piece.token


@pytest.mark.parametrize(
    "text", ["the cat", "the big red house", "water in the river garden", "saw"]
)
def test_known_text_comes_back(text: str) -> None:
    tokenizer = words()
    assert tokenizer.decode(tokenizer.encode_target(text)) == text


@pytest.mark.parametrize(
    "unknown", ["猫", "😀", "שלום", "👩‍👩‍👧", "\u202e", "\xad", "é"]
)
def test_unknown_characters_stay_visible(unknown: str) -> None:
    text = f"the {unknown} cat"
    found = [piece for piece in english().encode(text) if piece.id == UNK]
    assert [piece.token for piece in found] == [f"<unk:{unknown}>"]
    assert text[found[0].start : found[0].end] == unknown


def test_a_character_that_becomes_several_is_unknown_once_by_name() -> None:
    shown = tokens("ﷺ")  # the normaliser writes it as four words
    assert [token for token in shown if token.startswith("<unk:")] == ["<unk:ﷺ>"]
    assert set(shown) == {"▁", "<unk>", "<unk:ﷺ>"}


def test_full_width_letters_are_normalised_but_their_spans_are_of_the_text() -> None:
    assert tokens("ｃａｔ") == tokens("cat")
    assert "".join(covered("ｃａｔ")) == "ｃａｔ"


def test_a_letter_with_its_accent_apart_is_one_unknown() -> None:
    assert "<unk:e\u0301>" in tokens("the e\u0301 cat")


@pytest.mark.parametrize("text", ["", " ", "   \t\n ", "\u3000"])
def test_nothing_but_spaces_is_no_token(text: str) -> None:
    assert english().encode(text) == []
    assert letters().source.encode(text) == []
    end = letters().encode_source(text)
    assert end == [Token(EOS, "</s>", len(text), len(text))]


def test_typed_special_tokens_are_plain_text() -> None:
    typed = "<s> </s> <pad>"
    assert not {PAD, BOS, EOS} & {piece.id for piece in english().encode(typed)}
    assert not {PAD, BOS, EOS} & {p.id for p in letters().source.encode(typed)}


def test_lone_surrogates_become_the_replacement_character() -> None:
    assert letters().source.encode("a\udfff")[1].token == "<unk:\ufffd>"
    assert tokens("the \ud800 cat") == tokens("the \ufffd cat")


def test_source_ends_with_the_end_of_sentence() -> None:
    encoded = words().encode_source("the cat")
    assert encoded[-1] == Token(EOS, "</s>", 7, 7)
    assert EOS not in [piece.id for piece in encoded[:-1]]


def test_decode_leaves_special_tokens_out() -> None:
    tokenizer = words()
    ids = tokenizer.encode_target("the cat")
    assert tokenizer.decode([BOS, *ids, EOS, PAD]) == "the cat"
    assert tokenizer.decode([]) == ""


def test_target_id_takes_a_token_as_shown_or_text_of_one() -> None:
    tokenizer = words()
    the = english().encode("the")[0].id
    assert tokenizer.target_id("▁the") == the
    assert tokenizer.target_id("the") == the
    assert tokenizer.target_id("</s>") == EOS
    assert letters().target_id("q") == VOCABULARY["q"]


def test_target_id_refuses_what_is_not_one_token() -> None:
    with pytest.raises(InputError) as caught:
        letters().target_id("cat")
    assert str(caught.value) == (
        "“cat” is not a single token of this model: it is split into c, a, t."
    )
    with pytest.raises(InputError, match=r"“” is not a token of this model\."):
        letters().target_id("")
    with pytest.raises(InputError, match=r"“猫” is not a token of this model\."):
        words().target_id("猫")


def test_target_id_of_a_long_text_is_a_short_sentence() -> None:
    with pytest.raises(InputError) as caught:
        letters().target_id("abc" * 10_000)
    assert len(str(caught.value)) < 200
    assert "and 29,992 more" in str(caught.value)


def test_vocabulary_cuts_into_characters() -> None:
    side = letters().source
    assert side.encode("ab é") == [
        Token(VOCABULARY["a"], "a", 0, 1),
        Token(VOCABULARY["b"], "b", 1, 2),
        Token(UNK, "<unk:é>", 3, 4),
    ]
    assert side.decode([4, 5, 6]) == "abc"
    assert side.token(2) == "<s>"


def test_vocabulary_names_ids_that_have_no_token() -> None:
    side = VocabularySide({"<unk>": 0, "a": 3}, unknown=0)
    assert side.size == 4
    assert [side.token(i) for i in range(4)] == ["<unk>", "<1>", "<2>", "a"]


def test_many_texts_at_once_and_sampling() -> None:
    side = english()
    together = side.ids(["the cat", "", "a dog"])
    assert together[0] == [piece.id for piece in side.encode("the cat")]
    assert together[1] == []
    assert side.decode(side.sample("the house", alpha=0.1)) == "the house"


def check_pieces(found: list[Token], text: str, size: int) -> None:
    """Ids are in the vocabulary; spans lie in the text and never go back."""
    assert all(0 <= piece.id < size for piece in found)
    assert all(0 <= piece.start <= piece.end <= len(text) for piece in found)
    starts = [piece.start for piece in found]
    assert starts == sorted(starts)


@settings(max_examples=150, deadline=None)
@given(st.text())
def test_any_text_can_be_encoded_and_decoded(text: str) -> None:
    for tokenizer in (words(), letters()):
        found = tokenizer.encode_source(text)
        check_pieces(found, text, tokenizer.source.size)
        assert isinstance(tokenizer.decode([piece.id for piece in found]), str)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, PIECES - 1)))
def test_any_ids_can_be_decoded(ids: list[int]) -> None:
    assert isinstance(words().decode(ids), str)


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(categories=["Cs", "Ll"])))
def test_surrogates_never_raise(text: str) -> None:
    for tokenizer in (words(), letters()):
        for piece in tokenizer.encode_source(text):
            piece.token.encode()


def refused(read: Callable[[Path], object], path: Path, content: bytes) -> str:
    path.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        read(path)
    return str(caught.value)


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.model").write_bytes(pieces())
    assert read_sentencepiece(tmp_path / "x.model").size == PIECES
    (tmp_path / "v.json").write_text('{"<unk>": 0, "猫": 1}', encoding="utf-8")
    assert read_vocabulary(tmp_path / "v.json").encode("猫")[0].id == 1


@pytest.mark.parametrize("content", [b"hello", b"\x00" * 50, pieces()[:300]])
def test_broken_sentencepiece_files_are_refused(tmp_path: Path, content: bytes) -> None:
    assert refused(read_sentencepiece, tmp_path / "x.model", content) == (
        "x.model is not a readable sentencepiece model. Choose the .model file that "
        "sentencepiece wrote."
    )


def test_sentencepiece_files_that_are_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    assert refused(read_sentencepiece, path, b"") == (
        "x.model is empty. Download or copy it again."
    )
    assert refused(
        read_sentencepiece, path, b"version https://git-lfs.github.com/spec/v1\n"
    ) == (
        "x.model is a Git LFS pointer, not the file itself. Run “git lfs pull” in its "
        "folder."
    )


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 0}',  # no <unk>
        b'{"<unk>": -1}',
        b'{"<unk>": 1.0}',
        b'{"<unk>": true}',
        b'{"<unk>": 1000000}',
        b'{"<unk>": 0, "a": 0}',
    ],
)
def test_vocabularies_without_proper_ids_are_refused(
    tmp_path: Path, content: bytes
) -> None:
    assert refused(read_vocabulary, tmp_path / "vocab.json", content) == (
        "vocab.json must be one JSON object with a unique id per token, including "
        "<unk>."
    )


def test_vocabularies_are_strict_json(tmp_path: Path) -> None:
    path = tmp_path / "vocab.json"
    assert refused(read_vocabulary, path, b'{"<unk>": NaN}') == (
        "vocab.json is not valid JSON: NaN is not a number. Correct it or copy it "
        "again."
    )
    twice = refused(read_vocabulary, path, b'{"<unk>": 0, "<unk>": 1}')
    assert twice == (
        "vocab.json is not valid JSON: “<unk>” occurs twice. Correct it or copy "
        "it again."
    )
    assert refused(read_vocabulary, path, b"[1]") == (
        "vocab.json must hold one JSON object, from { to }."
    )


def panicking() -> Any:
    """Return a stranger's tokenizer whose library panics at many letters x."""
    library = pytest.importorskip("tokenizers")
    words = {"<unk>": 0, "x" * 40: 1, "a": 2}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token="<unk>"))
    slow = library.Regex("(x+x+)+y")
    made.pre_tokenizer = library.pre_tokenizers.Split(slow, "isolated")
    made.decoder = library.decoders.Replace(slow, "")
    return made


@pytest.mark.parametrize("of_transformers", [False, True])
def test_a_panic_of_the_tokenizers_library_is_one_sentence(
    of_transformers: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is no Exception: it would end whatever reads the file."""
    made = panicking()
    side: HuggingFaceSide | TransformersSide
    if of_transformers:
        library = pytest.importorskip("transformers")
        inner = library.PreTrainedTokenizerFast(tokenizer_object=made)
        side = TransformersSide(inner, 3)
    else:
        side = HuggingFaceSide(made.to_str().encode(), "tokenizer.json")
    assert [token.id for token in side.encode("a")] == [2]
    with pytest.raises(InputError, match="cannot split this text"):
        side.encode("x" * 40)
    with pytest.raises(InputError, match="cannot join these tokens"):
        side.decode([1])
    capfd.readouterr()  # what the library says by itself


def test_transformers_names_what_it_does_not_know() -> None:
    library = pytest.importorskip("tokenizers")
    words = {"<unk>": 0, "a": 1}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    inner = pytest.importorskip("transformers").PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>"
    )
    pieces = TransformersSide(inner, 2).encode("a dog")
    assert [(piece.id, piece.token) for piece in pieces] == [(1, "a"), (0, "<unk:dog>")]


def test_a_tokenizers_file_neither_pads_nor_cuts_what_is_split() -> None:
    """It could ask for gigabytes of padding; what is read is what was typed."""
    library = pytest.importorskip("tokenizers")
    words = {"<unk>": 0, "a": 1}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = library.pre_tokenizers.Whitespace()
    made.enable_padding(length=9)
    made.enable_truncation(2)
    side = HuggingFaceSide(made.to_str().encode(), "tokenizer.json")
    assert [token.id for token in side.encode("a a a")] == [1, 1, 1]


def test_the_four_bytes_of_a_character_are_put_together_again() -> None:
    side = read_sentencepiece(paths.checkpoint() / "tokenizer.model")
    ids = [token.id for token in side.encode("a 😀")]
    assert [side.token(id) for id in ids[-4:]] == [
        "<0xF0>",
        "<0x9F>",
        "<0x98>",
        "<0x80>",
    ]
    assert side.decode(ids) == "a 😀"
    assert side.decode(ids[:-1]) == "a "
