"""The table of all models that the tests watch: what was compared, how far apart.

``python -m tests.system.watching.parity [FILE]`` runs the tests and writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.system.watching.comparing import TABLE

HERE = Path(__file__).parent
TESTS = (
    *("test_tutorials", "test_torch_nn", "test_transformers", "test_difficult"),
    *("test_other_programs", "test_sizes_of_one"),
)


def table(rows: Sequence[tuple[str, str, float]]) -> str:
    """Return rows as Markdown, the largest difference of each model and comparison."""
    largest: dict[tuple[str, str], float] = {}
    for model, what, difference in rows:
        key = model, what
        largest[key] = max(difference, largest.get(key, 0.0))
    models = list(dict.fromkeys(model for model, _what in largest))
    lines = [
        "| model | attentions | against its own | computed again from q, k, v | "
        "output, watched or not | in the Traces |",
        "|---|---|---|---|---|---|",
    ]
    for model in models:
        cells = {what: x for (name, what), x in largest.items() if name == model}
        own = next((what for what in cells if "against its own" in what), "")
        found = [
            cells.get(own, -1.0),
            *(
                cells[what]
                for what in (
                    "computed again from q, k, v",
                    "output, watched against not",
                    "weights in the Traces",
                )
            ),
        ]
        shown = ["-" if x < 0 else f"{x:.1e}" for x in found]
        lines.append(
            f"| {model} | {own.partition(' ')[0]} | " + " | ".join(shown) + " |"
        )
    return "\n".join(lines) + "\n"


def main(path: str = "") -> int:
    """Run the tests; print the table, or write it to a file."""
    code = pytest.main(["-q", "-x", *(str(HERE / f"{name}.py") for name in TESTS)])
    text = table(TABLE)
    if path:
        Path(path).write_text(text, encoding="utf-8")
    else:
        print(text)
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
