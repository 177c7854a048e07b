"""Mutants of ``.vis`` files: random, with checksums that fit where that goes deeper.

Given a seed, a mutant is always the same. ``python -m tests.unit.values.vis_mutants N``
tries so many on the reader and says what each did.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tests.general_traces import Shape, any_trace
from tests.traces import make_trace
from tests.unit.values.vis_files import Blocks
from visformer.errors import InputError, VisformerError
from visformer.trace_file.file_blocks import HEAD, INDEX, START, foot, head
from visformer.trace_file.saved_session import SavedRun
from visformer.trace_file.trace_file import read_session, write_session
from visformer.values.trace import Trace

DATA = Path(__file__).parents[2] / "data"
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 64, 10**6, 2**31, 2**63, 10**30, -(2**40)),
    *(0.5, -0.0, 1e-300, 1e300, 3.5e38, "", "x", "-inf", "nan", "1", "\n", "\u202e"),
    *("encoder", "cross", "x" * 5000, "𝔘" * 40, [], {}, [[]], [None], {"": 1}),
    *([0] * 40, [1, 2], ["a", "b"], {"masks": []}, [["cross", 0]]),
)
Outcome = Literal["whole", "part", "error"]


@dataclass(frozen=True)
class Mutant:
    """A file, and how it was made of which."""

    how: str
    of: str
    data: bytes
    # what must come out by a run's name, where the change must be noticed
    runs: dict[str, Trace]


def originals() -> dict[str, tuple[bytes, dict[str, Trace]]]:
    """Return small files, a kept one and of models of many kinds, by name."""
    found = {
        path.stem: (path.read_bytes(), _by_name(read_session(path).runs))
        for path in sorted(DATA.glob("*.vis"))
    }
    ours, wide = make_trace(source=4, target=6, layers=2, d_model=8), Shape(heads=4)
    made: dict[str, Sequence[Trace]] = {
        "ours": [ours],
        "any": [any_trace(wide, bias="full", captured=True, prompt=2)],
        "distance": [any_trace(wide, bias="distance")],
        "decoder": [any_trace(Shape(kinds=("decoder",)), prompt=3)],
        "encoder": [any_trace(Shape(kinds=("encoder",)), steps=False)],
        "bare": [any_trace(Shape(hidden=False, output=False), steps=False)],
        "session": [ours, ours.until(3), any_trace(wide)],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, traces in made.items():
            path = Path(folder) / "a.vis"
            runs = [SavedRun(trace=t, name=str(at)) for at, t in enumerate(traces)]
            write_session(runs, path)
            found[name] = path.read_bytes(), _by_name(runs)
    return found


def _by_name(runs: Sequence[SavedRun]) -> dict[str, Trace]:
    return {run.name: run.trace for run in runs}


def mutants(count: int, seed: int = 0) -> Iterator[Mutant]:
    """Yield so many mutants."""
    files = originals()
    for at in range(count):
        draw = random.Random(f"{seed}/{at}")
        name = draw.choice([*files])
        data, traces = files[name]
        way = draw.choice(_WAYS)
        raw = way in (_cut, _flip, _overwrite)
        changed = way(data, draw)
        yield Mutant(way.__name__[1:], name, changed, traces if raw else {})


def outcome(mutant: Mutant, path: Path) -> Outcome:
    """Open a mutant and read all of it; AssertionError where its numbers are wrong.

    Any other exception than a VisformerError is let through.
    """
    path.write_bytes(mutant.data)
    said: VisformerError | None = None
    try:
        session = read_session(path)
    except VisformerError as error:
        said = error
    if said is not None:
        assert isinstance(said, InputError)
        assert 0 < len(str(said)) <= 200, str(said)
        return "error"
    with np.errstate(all="ignore"):
        for run in session.runs:
            read_all(run.trace)
    if mutant.runs:
        for run in session.runs:
            assert_prefix(run.trace, mutant.runs[run.name])
    return "part" if session.missing else "whole"


def read_all(trace: Trace) -> None:
    """Read every number of a Trace."""
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            heads = trace.attention_heads(kind, layer)
            assert heads.weights().shape == (trace.heads(kind), *heads.mask.shape)
            trace.values(kind, layer, 0)
    for stack, facts in trace.model.stacks.items():
        for layer in range(facts.hidden):
            trace.hidden(stack, layer)
    assert len([*trace.steps]) in (0, len(trace))
    assert isinstance(trace.text, str)


def assert_prefix(found: Trace, original: Trace) -> None:
    """Check that what was found is what there was, as far as it goes."""
    whole = original.until(len(found))
    assert (found.source, found.target) == (original.source, whole.target)
    assert tuple(found.steps) == tuple(whole.steps)
    for name in ("encoder_rows", "memory_rows", "decoder_rows"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    for kind in whole.kinds:
        for layer in range(whole.layers(kind)):
            weights = found.attention(kind, layer), whole.attention(kind, layer)
            np.testing.assert_array_equal(weights[0], weights[1])


# ---- ways to change a file -----------------------------------------------------------

Way = Callable[[bytes, random.Random], bytes]


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _flip(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def _overwrite(data: bytes, draw: random.Random) -> bytes:
    at, size = draw.randrange(len(data)), draw.choice((1, 4, 22, 100))
    return data[:at] + draw.randbytes(size) + data[at + size :]


def _facts(data: bytes, draw: random.Random) -> bytes:
    """Change the facts, some runs' more than once."""
    blocks = Blocks.of(data)
    name = draw.choice([n for n in blocks.payloads if n.endswith(("facts", "session"))])
    text = _changed_json(blocks.payloads[name], draw)
    return blocks.with_payload(name, text).whole()


def _texts(data: bytes, draw: random.Random) -> bytes:
    blocks = Blocks.of(data)
    names = [n for n in blocks.payloads if "/texts/" in n]
    if not names:
        return _facts(data, draw)
    name = draw.choice(names)
    text = _changed_json(blocks.payloads[name], draw)
    return blocks.with_payload(name, text).whole()


def _payload(data: bytes, draw: random.Random) -> bytes:
    """Change the bytes of a block: numbers, masks, or JSON as bytes."""
    blocks = Blocks.of(data)
    name = draw.choice([n for n in blocks.payloads if n != INDEX])
    payload = blocks.payloads[name]
    change = draw.choice((_cut, _flip, _overwrite)) if payload else _grown
    return blocks.with_payload(name, change(payload, draw)).whole()


def _grown(data: bytes, draw: random.Random) -> bytes:
    return data + draw.randbytes(8)


def _blocks(data: bytes, draw: random.Random) -> bytes:
    """Leave blocks out, exchange or rename them, or put them in another order."""
    payloads = dict(Blocks.of(data).payloads)
    one, other = draw.choice([*payloads]), draw.choice([*payloads])
    what = draw.randrange(4)
    if what == 0:
        del payloads[one]
    elif what == 1:
        payloads[one], payloads[other] = payloads[other], payloads[one]
    elif what == 2:
        payloads[draw.choice(["", "0/", "\n" * 9, one + "0"])] = payloads.pop(one)
    else:
        names = [*payloads]
        draw.shuffle(names)
        payloads = {name: payloads[name] for name in names}
    return Blocks(data[:START], payloads).whole()


def _index(data: bytes, draw: random.Random) -> bytes:
    blocks = Blocks.of(data)
    body = data[:START] + blocks.body()
    index = _changed_json(blocks.payloads[INDEX], draw)
    at = draw.choice([len(body), len(body), 0, len(body) + 5, 2**62])
    return body + head(INDEX.encode(), index) + index + foot(at)


def _heads(data: bytes, draw: random.Random) -> bytes:
    """Change a block's head, its own checksum made to fit; the index is left out."""
    blocks = Blocks.of(data)
    spans = [*blocks.without(INDEX).spans()]
    name, at, _stop = draw.choice(spans)
    text = name.encode()
    fields = list(HEAD.unpack_from(data, at))[1:4]
    which = draw.randrange(3)
    limits = (1 << 16, 1 << 64, 1 << 32)
    fields[which] = draw.choice([0, 1, fields[which] + 1, limits[which] - 1])
    fields[which] %= limits[which]
    begin = HEAD.pack(b"VISB", *fields, 0)[:-4]
    check = hashlib.new("md5", usedforsecurity=False).digest()[:4]
    if draw.random() < 0.9:
        check = struct.pack("<I", zlib.crc32(begin + text))
    changed = data[:at] + begin + check + data[at + HEAD.size :]
    return changed[: spans[-1][2]] if draw.random() < 0.5 else changed


def _changed_json(data: bytes, draw: random.Random) -> bytes:
    """Put odd values at some places of JSON, or take some away."""
    value = json.loads(data)
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        places = [*_places(value)]
        if not places:
            value = copy.deepcopy(draw.choice(ODD))
            continue
        holder, key = draw.choice(places)
        if draw.random() < 0.15:
            del holder[key]
        elif isinstance(holder[key], int | float) and draw.random() < 0.4:
            holder[key] = holder[key] + draw.choice((-1, 1, 0.5, 100))
        elif isinstance(holder[key], list) and draw.random() < 0.4:
            holder[key] = holder[key] * 2 if draw.random() < 0.5 else holder[key][1:]
        else:
            holder[key] = copy.deepcopy(draw.choice(ODD))
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield where every value stands, at most a few of each list."""
    if not isinstance(value, dict | list):
        return
    keys = value if isinstance(value, dict) else range(len(value))
    for key in [*keys][:40]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


_WAYS: list[Way] = [
    *(_cut, _flip, _overwrite, _facts, _facts, _facts, _facts),
    *(_texts, _payload, _payload, _blocks, _index, _heads),
]


def main(count: int, seed: int) -> None:
    did: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for mutant in mutants(count, seed):
            did[mutant.how, outcome(mutant, Path(folder) / "a.vis")] += 1
    for (how, what), times in sorted(did.items()):
        print(f"{how:14} {what:6} {times:6}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
