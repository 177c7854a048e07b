"""The process that opens mutants: bounded in memory, and nothing else is at stake.

Each line in names a use and a path; each line out is a JSON object: ``outcome`` is
``used``, ``refused`` or ``fault``, with the sentence or the foreign exception.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

MEMORY = 6 << 30  # bytes of address space
LONGEST = 200  # characters of a sentence


def use_checkpoint(path: Path, heads: int | None = None) -> None:
    """Open a checkpoint, and decode two tokens of it."""
    import visformer

    checkpoint = visformer.load(path, heads=heads, device="cpu")
    trace = visformer.Decoding(checkpoint, "5 6").step(2)
    trace.attention("cross", 0)


def use_pairs(path: Path) -> None:
    """Read pairs and split them."""
    from visformer.training.data import read_pairs, split_pairs

    split_pairs(read_pairs(path), valid=2, test=2, seed=0)


def use_trace(path: Path) -> None:
    """Open a trace and ask for all that it holds."""
    import visformer

    trace = visformer.open_trace(path)
    for kind in trace.kinds:
        for layer in range(trace.layers(kind)):
            trace.attention(kind, layer)
    for step in trace.steps:
        str(step)


USES: Mapping[str, Callable[[Path], None]] = {
    "checkpoint": use_checkpoint,
    "state dict": partial(use_checkpoint, heads=2),
    "pairs": use_pairs,
    "trace": use_trace,
}


def outcome(use: Callable[[Path], None], path: Path) -> dict[str, str]:
    """Use a file; tell whether that worked, was refused well, or was a fault."""
    from visformer.errors import VisformerError

    try:
        use(path)
    except VisformerError as error:
        words = str(error)
        if len(words) > LONGEST or "\n" in words or not words.strip():
            return {"outcome": "fault", "words": f"no short sentence: {words[:300]!r}"}
        return {"outcome": "refused", "words": words}
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        words = f"{type(error).__name__} at {place}: {str(error)[:200]}"
        return {"outcome": "fault", "words": words}
    return {"outcome": "used", "words": ""}


def main() -> None:
    faulthandler.enable(sys.stderr)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    import torch

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        task = json.loads(line)
        answers.write(json.dumps(outcome(USES[task["use"]], Path(task["path"]))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
