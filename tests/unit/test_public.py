"""The public API: what ``dir(visformer)`` lists, and snippets that use it alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import visformer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "resources" / "guide").glob("*.md")]


def test_everything_public_is_listed_and_there() -> None:
    assert dir(visformer) == sorted([*visformer.__all__, "__version__"])
    for name in visformer.__all__:
        assert getattr(visformer, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        visformer.Nothing  # noqa: B018


def test_snippets_import_visformer_alone() -> None:
    texts = "".join(page.read_text("utf-8") for page in PAGES)
    snippets = re.findall(r"```python\n(.*?)```", texts, re.DOTALL)
    assert len(snippets) > 20
    for snippet in snippets:
        assert not re.search(r"(from|import) visformer\.", snippet)
