"""No id that a vocabulary does not have reaches a computation, on any way in."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import torch

from tests.tiny_models import tiny_checkpoint
from visformer.core.decoding import Decoding
from visformer.core.incremental import OneRow
from visformer.core.model import Transformer
from visformer.core.passes import run
from visformer.errors import InputError

CHECKPOINT = tiny_checkpoint()
SIZE = CHECKPOINT.config.target_vocabulary
FAR = 1 << 63
EDGES = (-FAR, -FAR - 1, FAR - 1, FAR, -(1 << 31), 1 << 31, 1 << 32, -SIZE, -1, SIZE)
COUNT = 1_000  # and 10,000 once, by hand


def drawn(chance: Random) -> int:
    """Return an id that is too small or too large, of any magnitude."""
    far = chance.randrange(1 << chance.randint(1, 63))
    return chance.choice((-1 - far, SIZE + far, *EDGES))


def source(id: int) -> None:
    Decoding(CHECKPOINT, [5, id, 6]).step()


def batch(id: int) -> None:
    run(CHECKPOINT, [[5, 6], [7, id]], [[2, 5], [2, 6]])


def target(id: int) -> None:
    run(CHECKPOINT, [[5, 6]], [[2, id]])


def arrays(id: int) -> None:
    kept = max(-FAR, min(FAR - 1, id))
    run(CHECKPOINT, np.array([[kept]], np.int64), torch.tensor([[2]]))


STEPPED = Decoding(CHECKPOINT, "abc")
STEPPED.step(3)


def forced(id: int) -> None:
    STEPPED.force(id)


def followed(id: int) -> None:
    STEPPED.follow([(5, "forced"), (id, "model")])


WAYS: tuple[Callable[[int], None], ...] = (
    source,
    batch,
    target,
    arrays,
    forced,
    followed,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_an_id_out_of_range_is_refused_before_anything_is_computed(
    way: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = STEPPED.trace

    def computed(*_given: object, **_more: object) -> None:
        raise AssertionError("it was looked up")

    with monkeypatch.context() as patch:
        for looker in ("embed", "encode", "decode"):
            patch.setattr(Transformer, looker, computed)
        patch.setattr(OneRow, "extend", computed)
        chance = Random(4)
        for _number in range(COUNT):
            id = drawn(chance)
            with pytest.raises(InputError, match=r"outside the vocab|whole number"):
                way(id)
    assert STEPPED.trace.target == before.target
    for id in (0, SIZE - 1):
        way(id)
    STEPPED.follow([(step.id, step.origin) for step in before.steps])
