"""A reader written from resources/vis-format.md alone gets the numbers that we get."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.general_traces import Shape, any_trace
from visformer.values.facts import KINDS, Kind


class Stranger:
    """Reads a file with the standard library and numpy."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        assert self.data[:18] == b"VISFORMER TRACE\n\x04\x00"
        mark, at, crc = struct.unpack("<8sQI", self.data[-20:])
        assert (mark, crc) == (b"VISINDEX", zlib.crc32(self.data[-20:-4]))
        self.places = {"index": (at, len(self.data) - 20 - at - 22 - 5)}
        listed = json.loads(self.block("index"))
        self.places |= {name: (at, size) for name, at, size in listed}
        self.facts = json.loads(self.block("0/facts"))

    def block(self, name: str) -> bytes:
        at, size = self.places[name]
        head = self.data[at : at + 22]
        mark, length, stored, payload_crc, crc = struct.unpack("<4sHQII", head)
        assert (mark, stored) == (b"VISB", size)
        text = self.data[at + 22 : at + 22 + length]
        payload = self.data[at + 22 + length : at + 22 + length + size]
        assert (text.decode(), zlib.crc32(payload)) == (name, payload_crc)
        assert zlib.crc32(head[:18] + text) == crc
        return payload

    def array(self, name: str, *shape: int) -> Any:
        height, (*outer, rows, columns) = self.facts["height"], shape
        parts = []
        for at in range(-(-rows // height)):
            here = min(height, rows - at * height)
            if "/mask/" in name:
                cells = np.frombuffer(self.block(f"{name}/{at}"), np.uint8)
                cells = cells.reshape(*outer, here, -(-columns // 8))
                parts.append(np.unpackbits(cells, axis=-1)[..., :columns] == 1)
            else:
                numbers = np.frombuffer(self.block(f"{name}/{at}"), "<f4")
                parts.append(numbers.reshape(*outer, here, columns))
        return np.concatenate(parts, -2)

    def weights(self, kind: Kind, layer: int) -> Any:
        facts = self.facts["model"]["attention"][kind]
        rows = "encoder" if kind == "encoder" else "decoder"
        memory = "memory" if kind == "cross" else kind
        lengths = {"decoder": len(self.facts["target"])}
        q, k = (lengths.get(x, len(self.facts["source"])) for x in (rows, memory))
        heads, groups, size = (facts[n] for n in ("heads", "key_heads", "head_size"))
        part = "cross queries" if kind == "cross" else "queries"
        queries = self.array(f"0/{rows}/{part}/{layer}", q, heads * size)
        keys = self.array(f"0/{memory}/keys/{layer}", k, groups * size)
        keys = keys.reshape(k, groups, size).repeat(heads // groups, 1)
        scores = np.einsum("qhd,khd->hqk", queries.reshape(q, heads, size), keys)
        scores = scores * facts["scales"][layer] + self.bias(kind, layer, q, k)
        mask = self.array(f"0/mask/{kind}", q, k)
        scores = np.where(mask, scores, float(facts["masked_value"]))
        exponents = np.exp(scores - scores.max(-1, keepdims=True))
        return exponents / exponents.sum(-1, keepdims=True)

    def bias(self, kind: Kind, layer: int, q: int, k: int) -> Any:
        if kind not in self.facts["biases"]:
            return 0
        bias = self.facts["biases"][kind][layer]
        where = f"{kind}/{bias['layer']}"
        if bias["form"] == "full":
            return self.array(f"0/bias/{where}", bias["heads"], q, k)
        table = self.array(f"0/table/{where}", bias["heads"], bias["width"])
        columns = np.arange(k) - np.arange(q)[:, None] + bias["zero"]
        return table[:, np.clip(columns, 0, bias["width"] - 1)]

    def steps(self) -> list[tuple[int, float, str, list[tuple[int, str]]]]:
        found = []
        height, count = self.facts["height"], len(self.facts["chosen"])
        for at in range(-(-count // height)):
            numbers, n = self.block(f"0/steps/{at}"), min(height, count - at * height)
            texts = json.loads(self.block(f"0/texts/{at}"))
            ids = struct.unpack_from(f"<{n}q", numbers)
            shares = struct.unpack_from(f"<{n}d", numbers, 8 * n)
            counts = struct.unpack_from(f"<{n}i", numbers, 32 * n)
            best = iter(struct.unpack_from(f"<{sum(counts)}i", numbers, 36 * n))
            for i in range(n):
                text = self.facts["text"][: texts["common"][i]] + texts["rest"][i]
                tokens = [(next(best), token) for token in texts["candidates"][i]]
                found.append((ids[i], shares[i], text, tokens))
        return found


@pytest.mark.parametrize("bias", ["none", "distance", "full"])
def test_a_stranger_reads_what_we_wrote(tmp_path: Path, bias: Any) -> None:
    trace = any_trace(Shape(heads=4, key_heads=2), bias=bias, source=70, target=130)
    trace.save(tmp_path / "a.vis")
    stranger = Stranger(tmp_path / "a.vis")
    for kind in KINDS:
        for layer in range(2):
            found, ours = stranger.weights(kind, layer), trace.attention(kind, layer)
            np.testing.assert_allclose(found, ours, atol=1e-5)
    assert stranger.steps() == [
        (s.id, s.probability, s.text, [(c.id, c.token) for c in s.candidates])
        for s in trace.steps
    ]
    hidden = stranger.array("0/decoder/hidden/2", 130, 8)
    np.testing.assert_array_equal(hidden, trace.hidden("decoder", 2))
