"""The nearest tokens by their embeddings, against numbers by hand and plain numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.tiny_models import tiny_checkpoint
from visformer.core.all_tokens import NEAR
from visformer.core.checkpoint import Checkpoint
from visformer.errors import InputError
from visformer.values.facts import SentenceSide
from visformer.values.measured import NearWords


@pytest.fixture
def checkpoint() -> Checkpoint:
    return tiny_checkpoint(3)


def near_words(
    checkpoint: Checkpoint, side: SentenceSide, asked: int | str
) -> NearWords:
    ask = checkpoint.extras.nearest
    assert ask is not None
    return ask(side, asked)


def embeddings(checkpoint: Checkpoint) -> np.ndarray:
    weight: np.ndarray = checkpoint.model.source_embedding.weight.detach().numpy()
    return weight


def test_cosines_are_those_of_numpy_best_first(checkpoint: Checkpoint) -> None:
    table = embeddings(checkpoint).astype(np.float64)
    found = near_words(checkpoint, "source", 7)
    units = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosines = units @ units[7]
    cosines[7] = 2
    wanted = np.argsort(-cosines, kind="stable")[: NEAR + 1]
    assert found.ids.tolist() == wanted.tolist()
    assert found.cosines[0] == pytest.approx(1)
    assert np.allclose(found.cosines[1:], cosines[wanted[1:]], atol=1e-6)
    assert found.tokens[0] == checkpoint.tokenizer.source.token(7)
    assert (found.vocabulary, found.width) == table.shape


def test_three_rows_by_hand(checkpoint: Checkpoint) -> None:
    with torch.no_grad():
        table = checkpoint.model.source_embedding.weight
        table.zero_()  # has no direction: it is near to nothing
        table[5, 0], table[6, :2], table[8, 1] = 2, torch.tensor([3.0, 3.0]), -1
    found = near_words(checkpoint, "source", 5)
    assert found.ids.tolist() == [5, 6, 8]
    assert found.cosines.tolist() == pytest.approx([1, math.sqrt(0.5), 0], abs=1e-6)


def test_a_text_names_a_token_or_none(checkpoint: Checkpoint) -> None:
    token = checkpoint.tokenizer.source.token(9)
    assert near_words(checkpoint, "source", token).tokens[0] == token
    with pytest.raises(InputError, match="is named “no such token”"):
        near_words(checkpoint, "source", "no such token")


def test_each_side_has_its_own_table(checkpoint: Checkpoint) -> None:
    table = checkpoint.model.target_embedding.weight.detach()
    found = near_words(checkpoint, "target", 7)
    cosine = torch.cosine_similarity(table[7], table[int(found.ids[1])], 0)
    assert found.cosines[1] == pytest.approx(float(cosine), abs=1e-6)
    assert found.tokens[0] == checkpoint.tokenizer.target.token(7)


def test_an_id_beyond_the_vocabulary_is_refused(checkpoint: Checkpoint) -> None:
    with pytest.raises(InputError, match="outside the vocabulary"):
        near_words(checkpoint, "source", 10**6)


def test_numbers_that_are_none_break_nothing(checkpoint: Checkpoint) -> None:
    with torch.no_grad():
        checkpoint.model.source_embedding.weight[6] = math.nan
    found = near_words(checkpoint, "source", 5)
    assert 6 not in found.ids
    assert near_words(checkpoint, "source", 6).ids.tolist() == [6]
