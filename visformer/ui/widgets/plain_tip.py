"""Tool tips that show what they are given: ``<s>`` is a token, and no markup.

Qt reads a tip that looks like markup as such, and loads the pictures that it names.
"""

from __future__ import annotations

import html


def plain_tip(words: str) -> str:
    """Return words as a tool tip; only those with ``<`` or ``&`` are changed."""
    if "<" not in words and "&" not in words:
        return words
    text = html.escape(words).replace("\n", "<br>")
    return f"<qt>{text}</qt>"
