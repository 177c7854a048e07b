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
from visformer.values.storage.file_blocks import FOOT, MAGIC, START, VERSION, head
from visformer.values.storage.older_files import _model
from visformer.values.trace_file import read_session, read_trace

DATA = Path(__file__).parents[1] / "data"
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


def test_there_is_a_file_of_each_version() -> None:
    kept = {read_session(DATA / f"{name}.vis").version[0] for name in VERSIONS}
    assert kept == set(range(1, VERSION[0] + 1))


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


def version_1(alone: bool) -> dict[str, Any]:
    """Return a model's facts as version 1 had them: one flat object."""
    return {
        "source_vocabulary": 50,
        "target_vocabulary": 50,
        "d_model": 8,
        "heads": 2,
        "encoder_layers": 0 if alone else 2,
        "decoder_layers": 2,
        "feed_forward": 32,
        "max_positions": 64,
        "mask_fill": -1e9,
        "expand_bias": False,
        "name": "old",
        "digest": "",
        "layout": "native",
        "device": "cpu",
        "parameters": 400,
        "pad": 0,
        "bos": 2,
        "eos": 3,
        "cross": not alone,
        "blocks": [
            ["target_embedding", 400, ""],
            ["source_embedding", 0, "target_embedding"],
            ["output", 0, ""],
        ],
    }


@pytest.mark.parametrize("alone", [False, True])
def test_facts_of_version_1_are_understood(alone: bool) -> None:
    model = _model(version_1(alone))
    config = model["known"]
    assert (config["masked_value"], config["w1_bias"]) == (-1e9, False)
    assert config["shared_embedding"]
    assert not config["tied_output"]
    assert config["encoder_layers"] == (1 if alone else 2)
    kinds = ["decoder"] if alone else ["encoder", "decoder", "cross"]
    assert [*model["attention"]] == kinds


def test_damage_of_an_older_file_is_one_sentence(tmp_path: Path) -> None:
    whole = (DATA / "version-2.vis").read_bytes()
    path = tmp_path / "a.vis"
    for at in range(len(MAGIC) + 2, len(whole), 7):
        path.write_bytes(whole[:at])
        with pytest.raises(InputError, match=r"cut off|damaged"):
            read_trace(path)
    at = whole.index(b"decoder_rows") + 200
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(InputError, match="“decoder_rows” fails its checksum"):
        read_trace(path)
