"""What each row of a watched decoder predicted, from the model's own output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from visformer.values.step import CANDIDATES, Candidates, Step

TINY = 1e-38  # float32 holds its logarithm

if TYPE_CHECKING:
    from visformer.watching.row_tokens import RowTokens
    from visformer.watching.watcher import Watched


def steps_of(watched: Watched, row: int, tokens: RowTokens) -> tuple[Step, ...]:
    """Return the steps of a row; none where the output is no distribution."""
    length = len(tokens.target)
    numbers = _logits(watched.output, length)
    if numbers is None or not length or not _is_vocabulary(watched, numbers):
        return ()
    rows = numbers if numbers.shape[1] == length else numbers.transpose(0, 1)
    if row >= len(rows) or int(tokens.target_ids.max()) >= rows.shape[-1]:
        return ()
    mine = rows[row].detach().float().cpu()
    given = bool((mine >= 0).all()) and bool(((mine.sum(-1) - 1).abs() < 1e-3).all())
    probabilities = mine if given else mine.softmax(-1)
    steps, text = [], ""
    for at in range(length):
        forced = at + 1 < length
        p = probabilities[at]
        id = int(tokens.target_ids[at + 1]) if forced else int(p.argmax())
        token = tokens.piece(id)
        text = f"{text} {token}".strip()
        best = p.topk(min(CANDIDATES, len(p)))
        named = [tokens.piece(int(i)) for i in best.indices]
        steps.append(
            Step(
                id=id,
                token=token,
                probability=float(p[id]),
                rank=1 + int((p > p[id]).sum()),
                candidates=Candidates(best.indices.numpy(), named, best.values.numpy()),
                entropy=_bits(p),
                origin="reference" if forced else "model",
                text=text,
            )
        )
    return tuple(steps)


def _bits(p: Tensor) -> float:
    return float(-(p * p.clamp_min(TINY).log2()).sum())


def _logits(output: Any, length: int) -> Tensor | None:
    """Return [B, T, V], or [T, B, V], of what a model returned."""
    for one in (getattr(output, "logits", None), output, *_first(output)):
        if isinstance(one, Tensor):
            fits = one.dim() == 3 and length in one.shape[:2]
            return one if fits and one.is_floating_point() else None
    return None


def _first(output: Any) -> list[Any]:
    if isinstance(output, dict):
        return [output.get("logits")]
    return list(output[:1]) if isinstance(output, tuple | list) else []


def _is_vocabulary(watched: Watched, numbers: Tensor) -> bool:
    """Whether the last dimension counts tokens: as many as an embedding has rows."""
    if getattr(watched.output, "logits", None) is not None:
        return True
    tables = [m for m in watched.watcher.model.modules() if isinstance(m, nn.Embedding)]
    size = numbers.shape[-1]
    is_width = any(size == table.embedding_dim for table in tables)
    return any(size == table.num_embeddings for table in tables) and not is_width
