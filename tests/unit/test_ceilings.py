"""How large the package may be: its ceiling never rises.

A room's may rise in the commit that lowers others' by at least as much. Whoever makes
something smaller lowers what is written here.
"""

from __future__ import annotations

import ast
import dataclasses
from collections import Counter
from pathlib import Path

from tests.catalogue import in_the_code
from visformer.engine.process import HANDLERS
from visformer.session.state import State

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "visformer"
LINES = {  # of Python, by room; "" is the root
    "": 3_680,
    "analysis": 3_966,
    "commands": 1_444,
    "core": 8_016,
    "engine": 2_244,
    "formats": 8_507,
    "pictures": 14_605,
    "program": 834,
    "session": 5_588,
    "tokenizers": 885,
    "trace_file": 1_696,
    "training": 1_864,
    "ui": 22_518,
    "values": 5_369,
    "watching": 9_177,
}
ALL_LINES, FILES, TEST_LINES = 90_393, 371, 78_393
SENTENCES, STATE_FIELDS, REQUESTS = 3_097, 54, 19
BARE_NAMES = 11.3  # % of variables and parameters
# participles and pronouns, which alone do not say what a variable holds
BARE = """
made told found given asked wanted known kept seen shown held own one several other
others more some rest before after now then here there least most whole alone apart
said read needed taken chosen drawn done gone begun left moved turned
"""


def _lines(path: Path) -> int:
    return path.read_text("utf-8").count("\n")


def test_no_room_grows() -> None:
    lines = Counter[str]()
    paths = [*PACKAGE.rglob("*.py")]
    for path in paths:
        room = path.relative_to(PACKAGE).parts[:-1]
        lines[room[0] if room else ""] += _lines(path)
    assert lines.keys() == LINES.keys()
    grown = {room: count for room, count in lines.items() if count > LINES[room]}
    assert grown == {}
    assert lines.total() <= ALL_LINES
    assert len(paths) <= FILES


def test_the_tests_do_not_grow() -> None:
    """Without the benchmarks, and without what made the bundled models."""
    tests = ROOT / "tests"
    apart = (tests / "bench", tests / "models")
    counts = [
        _lines(path)
        for path in tests.rglob("*.py")
        if not any(path.is_relative_to(folder) for folder in apart)
    ]
    assert sum(counts) <= TEST_LINES


def test_what_there_is_to_know_does_not_grow() -> None:
    sentences = {(one.forms[0], one.context) for one in in_the_code()}
    assert len(sentences) <= SENTENCES
    assert len(dataclasses.fields(State)) <= STATE_FIELDS
    assert len(HANDLERS) <= REQUESTS


def test_names_do_not_get_barer() -> None:
    bare = every = 0
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = node.arg if isinstance(node, ast.arg) else ""
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            every += bool(name)
            bare += name.strip("_").lower() in BARE.split()
    assert round(100 * bare / every, 1) <= BARE_NAMES
