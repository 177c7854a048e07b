"""The public API: what ``dir(visformer)`` lists, and README's snippets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import visformer

ROOT = Path(__file__).parent.parent
SNIPPETS = re.findall(
    r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
)


def test_everything_public_is_listed_and_there() -> None:
    assert dir(visformer) == sorted([*visformer.__all__, "__version__"])
    for name in visformer.__all__:
        assert getattr(visformer, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        visformer.Nothing  # noqa: B018


def test_snippets_import_visformer_alone() -> None:
    assert SNIPPETS
    for snippet in SNIPPETS:
        assert "visformer." in snippet
        assert not re.search(r"(from|import) visformer\.", snippet)
