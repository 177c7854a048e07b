"""What each row of a watched decoder predicted, from the model's own output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from visformer.values.step import CANDIDATES, Candidates, Origin, Step

TINY = 1e-38  # float32 holds its logarithm

if TYPE_CHECKING:
    from visformer.watching.row_tokens import RowTokens
    from visformer.watching.watcher import Watched


def steps_of(watched: Watched, row: int, tokens: RowTokens) -> tuple[Step, ...]:
    """Return the steps of a row; none where the output is no distribution."""
    length = len(tokens.target)
    numbers = logits_of(watched.output, length)
    if numbers is None or not length or not _is_vocabulary(watched, numbers):
        return ()
    rows = numbers if numbers.shape[1] == length else numbers.transpose(0, 1)
    if row >= len(rows) or int(tokens.target_ids.max()) >= rows.shape[-1]:
        return ()
    probabilities = probabilities_of(rows[row])
    ids = [int(id) for id in tokens.target_ids[1:]]
    choices: list[tuple[int, Origin]] = [(id, "reference") for id in ids]
    choices.append((int(probabilities[-1].argmax()), "model"))
    texts = [" ".join(map(tokens.piece, [*ids[: at + 1]])) for at in range(length - 1)]
    texts.append(" ".join(map(tokens.piece, [*ids, choices[-1][0]])))
    return tuple(
        step_of(probabilities[at], choice, tokens.piece, text)
        for at, (choice, text) in enumerate(zip(choices, texts, strict=True))
    )


def probabilities_of(numbers: Tensor) -> Tensor:
    """Return probabilities [T, V] of logits, or of what are probabilities already."""
    numbers = numbers.detach().float().cpu()
    given = bool((numbers >= 0).all())
    given = given and bool(((numbers.sum(-1) - 1).abs() < 1e-3).all())
    return numbers if given else numbers.softmax(-1)


def step_of(
    p: Tensor, choice: tuple[int, Origin], piece: Callable[[int], str], text: str
) -> Step:
    """Return the step that made a choice from probabilities [V]."""
    id, origin = choice
    best = p.topk(min(CANDIDATES, len(p)))
    named = [piece(int(i)) for i in best.indices]
    return Step(
        id=id,
        token=piece(id),
        probability=float(p[id]),
        rank=1 + int((p > p[id]).sum()),
        candidates=Candidates(best.indices.numpy(), named, best.values.numpy()),
        entropy=_bits(p),
        origin=origin,
        text=text,
    )


def _bits(p: Tensor) -> float:
    return float(-(p * p.clamp_min(TINY).log2()).sum())


def logits_of(output: Any, length: int) -> Tensor | None:
    """Return [B, T, V], or [T, B, V], of what a model returned."""
    named = output.get("logits") if isinstance(output, Mapping) else None
    several = output if isinstance(output, tuple | list) else (named,)
    for one in (getattr(output, "logits", None), output, *several):
        if isinstance(one, Tensor) and one.is_floating_point() and one.dim() == 3:
            return one if length in one.shape[:2] else None
    return None


def _is_vocabulary(watched: Watched, numbers: Tensor) -> bool:
    """Whether the last dimension counts tokens: as many as an embedding has rows."""
    if getattr(watched.output, "logits", None) is not None:
        return True
    tables = [m for m in watched.watcher.model.modules() if isinstance(m, nn.Embedding)]
    size = numbers.shape[-1]
    is_width = any(size == table.embedding_dim for table in tables)
    return any(size == table.num_embeddings for table in tables) and not is_width
