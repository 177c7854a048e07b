"""Every version of ``.vis`` that was ever released opens to the numbers it had.

The files of tests/data were written by the programs of their time, and the numbers of
versions.json were read from them by those programs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.traces import make_trace
from visformer.errors import InputError
from visformer.paths import FIRST_TRACE, resource
from visformer.trace_file.file_blocks import FOOT, MAGIC, OLDEST, START, VERSION, head
from visformer.trace_file.trace_file import read_trace

DATA = Path(__file__).parents[2] / "data"
VERSIONS: dict[str, Any] = json.loads((DATA / "versions.json").read_text("utf-8"))


@pytest.mark.parametrize("name", VERSIONS)
def test_a_file_of_each_version_opens(name: str) -> None:
    expected, trace = VERSIONS[name], read_trace(DATA / f"{name}.vis")
    assert [*trace.source] == expected["source"]
    assert [*trace.target] == expected["target"]
    assert [step.id for step in trace.steps] == expected["ids"]
    assert trace.text == expected["text"]
    assert trace.steps[2].entropy == expected["entropy"]
    assert str(trace.intervention) == expected["intervention"]
    assert trace.model.parameters == expected["parameters"]
    # to the last digits: products were added up in another order
    cross, decoder = trace.attention("cross", 1, 1), trace.attention("decoder", 0, 0)
    np.testing.assert_allclose(cross, expected["cross"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(decoder, expected["decoder"], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(
        trace.hidden("decoder", 2)[1], np.array(expected["hidden"], np.float32)
    )


def test_a_file_from_before_the_release_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    path.write_bytes(MAGIC + bytes((OLDEST - 1, 0)) + b"what it held")
    with pytest.raises(InputError, match="is no longer read: run its sentence again"):
        read_trace(path)


def test_the_bundled_trace_opens() -> None:
    trace = read_trace(resource(FIRST_TRACE))
    assert (trace.model.config.heads, trace.model.config.masked_value) == (8, -1e9)
    assert trace.model.config.tied_output


def test_a_newer_minor_and_an_unknown_block_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.vis"
    make_trace().save(path)
    body = path.read_bytes()[START : -FOOT.size]
    later = MAGIC + bytes((VERSION[0], 7))
    path.write_bytes(later + head(b"later", b"abc") + b"abc" + body)
    assert len(read_trace(path)) == 4
    path.write_bytes(later + path.read_bytes()[START:])
