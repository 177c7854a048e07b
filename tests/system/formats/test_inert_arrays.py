"""Arrays of NumPy in a pickle, read without NumPy's unpickling."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
import torch

from visformer.formats.inert_pickle import read_inert
from visformer.formats.whole_model import array_of, read_whole


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="f4").reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype="i8").reshape(2, 3)),
        np.arange(3, dtype=">f4"),
        np.array([True, False]),
    ],
)
def test_arrays_of_numpy_are_tensors(array: np.ndarray, protocol: int) -> None:
    value = {"w": array, "n": np.int64(7), "r": np.random.RandomState(0).get_state()}
    data = pickle.dumps({**value, "complex": np.ones(2, "c8")}, protocol=protocol)
    made = read_whole(data).value
    assert torch.equal(made["w"], torch.from_numpy(array.astype(array.dtype.name)))
    assert made["n"] == 7


@pytest.mark.parametrize(
    "shape", [(2, 2), (1 << 40, 1), (-1, 6), (2.0, 3), (1,) * 9 + (6,)]
)
def test_an_array_is_as_large_as_it_claims(shape: tuple[int, ...]) -> None:
    data = pickle.dumps(np.zeros((2, 3), "f4"), protocol=4)
    array, _storages = read_inert(io.BytesIO(data))
    assert np.array_equal(array_of(array), np.zeros((2, 3)))  # type: ignore[arg-type]
    array.state = (1, shape, *array.state[2:])
    with pytest.raises(ValueError, match=r"size|shape|no array"):
        array_of(array)
