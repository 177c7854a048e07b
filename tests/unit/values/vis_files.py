"""Files of version 3 taken apart into blocks and put together, checksums right."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from visformer.trace_file.file_blocks import FOOT, HEAD, INDEX, START, foot, head
from visformer.values.trace import Trace

Facts = dict[str, Any]


@dataclass(frozen=True)
class Blocks:
    """The start of a file, and the payload of each block in order."""

    start: bytes
    payloads: dict[str, bytes]

    @classmethod
    def of(cls, whole: bytes) -> Blocks:
        payloads, at = {}, START
        while at < len(whole) - FOOT.size:
            _mark, length, size, _crc, _check = HEAD.unpack_from(whole, at)
            at += HEAD.size + length
            payloads[whole[at - length : at].decode()] = whole[at : at + size]
            at += size
        return cls(whole[:START], payloads)

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """Yield each block's name, where it begins, and where it ends."""
        at = START
        for name, payload in self.payloads.items():
            size = HEAD.size + len(name.encode()) + len(payload)
            yield name, at, at + size
            at += size

    def without(self, name: str) -> Blocks:
        kept = {key: data for key, data in self.payloads.items() if key != name}
        return Blocks(self.start, kept)

    def with_payload(self, name: str, payload: bytes) -> Blocks:
        return Blocks(self.start, {**self.payloads, name: payload})

    def body(self) -> bytes:
        """Return all blocks but the index."""
        return b"".join(
            head(name.encode(), payload) + payload
            for name, payload in self.payloads.items()
            if name != INDEX
        )

    def whole(self) -> bytes:
        """Return a file of these blocks, with an index of its own."""
        places = [
            (name, at, len(self.payloads[name]))
            for name, at, _stop in self.without(INDEX).spans()
        ]
        body, index = self.body(), json.dumps(places).encode()
        end = head(INDEX.encode(), index) + index + foot(START + len(body))
        return self.start + body + end


def file_of(trace: Trace, folder: Path) -> bytes:
    """Return the file that a Trace is saved in."""
    trace.save(folder / "whole.vis")
    return (folder / "whole.vis").read_bytes()


def with_facts(whole: bytes, change: Callable[[Facts], None]) -> bytes:
    """Return a file whose first run's facts are changed."""
    blocks = Blocks.of(whole)
    facts = json.loads(blocks.payloads["0/facts"])
    change(facts)
    return blocks.with_payload("0/facts", json.dumps(facts).encode()).whole()
