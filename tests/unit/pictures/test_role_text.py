"""Which words of a sentence or formula belong to queries, keys and values."""

from __future__ import annotations

import pytest

from visformer.pictures.words.role_text import RoleText, role_text


def parts(text: str, **names: str) -> list[tuple[str, str]]:
    found = role_text(text, **names)
    assert found == text
    return [(found[at : at + length], role) for at, length, role in found.spans]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Q = X W_Q + b_Q", [("Q", "query"), ("W_Q", "query"), ("b_Q", "query")]),
        ("QKᵀ / √d_k", [("Q", "query"), ("Kᵀ", "key")]),
        (
            "softmax(Q Kᵀ / √d_k) V",
            [("Q", "query"), ("Kᵀ", "key"), ("V", "value")],
        ),
        ("q·k = 3; k[dim 2]", [("q", "query"), ("k", "key"), ("k", "key")]),
        ("0.5 · v(key)", [("v", "value"), ("key", "key")]),
        ("“Q” and “K V” are tokens; OK, d_k, via, and W_O no symbols", []),
        (
            "Queries, keys: “key” is a token, keyed and no_value are not values",
            [("Queries", "query"), ("keys", "key"), ("values", "value")],
        ),
    ],
)
def test_symbols_have_their_roles(text: str, expected: list[tuple[str, str]]) -> None:
    assert parts(text) == expected


def test_the_cell_s_tokens_have_theirs() -> None:
    found = parts("“it” reads “K”: 0.5", query="“it”", key="“K”")
    assert found == [("“it”", "query"), ("“K”", "key")]


def test_of_one_token_that_reads_itself_the_first_is_the_query() -> None:
    found = parts("“it” reads “it”; “it” again", query="“it”", key="“it”")
    assert [role for _word, role in found] == ["query", "key", "key"]


def test_its_parts_are_all_of_it() -> None:
    text = role_text("Each query reads K, then V")
    assert list(text.parts()) == [
        ("Each ", ""),
        ("query", "query"),
        (" reads ", ""),
        ("K", "key"),
        (", then ", ""),
        ("V", "value"),
    ]
    assert list(RoleText("plain").parts()) == [("plain", "")]
    assert list(RoleText("").parts()) == []
