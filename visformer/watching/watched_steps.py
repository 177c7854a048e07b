"""What each row of a watched decoder predicted, from the model's own output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from visformer.core.rows import Distribution
from visformer.values.step import Origin, Step

if TYPE_CHECKING:
    from visformer.watching.row_tokens import RowTokens
    from visformer.watching.watcher import Watched


def steps_of(logits: Tensor | None, tokens: RowTokens) -> tuple[Step, ...]:
    """Return the steps of a row by its logits, [T, V]; () without them, or its ids."""
    most = max(int(tokens.target_ids.max()), tokens.last or 0)
    if logits is None or not tokens.known or most >= logits.shape[-1]:
        return ()
    rows = Distribution(logits, tokens.piece)
    ids = [int(id) for id in tokens.target_ids[1:]]
    choices: list[tuple[int, Origin]] = [(id, "reference") for id in ids]
    if tokens.last is None:
        choices.append((int(rows.best[-1, 0]), "model"))
    else:
        choices.append((tokens.last, "reference"))
    pieces = [tokens.piece(id) for id, _origin in choices]
    return tuple(
        rows.step(at, id, origin, " ".join(pieces[: at + 1]))
        for at, (id, origin) in enumerate(choices)
    )


def output_of(watched: Watched) -> Any:
    """Return the result of a watched call; of several, of the last one."""
    return watched.returned if watched.output is None else watched.output


def watched_logits(watched: Watched, rows: int, length: int) -> Tensor | None:
    """Return float32 logits [B, T, V] of B rows, T tokens, if the model gave them."""
    model = watched.watcher.model
    tables = [one for one in model.modules() if isinstance(one, nn.Embedding)]
    # the last dimension counts tokens where it has as many as an embedding has rows
    sizes = {one.num_embeddings for one in tables} - {x.embedding_dim for x in tables}
    first = watched.time_axis == 0
    found = logits_of(output_of(watched), rows, length, sizes=sizes, time_first=first)
    return None if found is None or not length else as_logits(found)


def logits_of(
    output: Any,
    rows: int,
    length: int,
    *,
    sizes: set[int] | None = None,
    time_first: bool = False,
) -> Tensor | None:
    """Find logits in what a model returned: [B, T, V] of B rows, T tokens.

    They are what is called ``logits``, or else the first tensor of a fitting shape
    whose last dimension is among ``sizes`` (None: any): [B, T, V] or [T, B, V], or of
    known sizes [B T, V], with each token's rows together if ``time_first``. They may be
    probabilities: see ``as_logits``.
    """
    named: Any = output.get("logits") if isinstance(output, Mapping) else None
    named = getattr(output, "logits", named)
    for one in (named, *tree_leaves(output)):
        if not isinstance(one, Tensor) or not one.is_floating_point():
            continue
        known = one.shape[-1:].numel() in (sizes or ())
        if one.dim() == 2 and known and len(one) == rows * length:
            one = one.unflatten(0, (length, rows) if time_first else (rows, length))
        if one.dim() == 3 and (known or sizes is None or one is named):
            turned = one.transpose(0, 1)
            for laid in (turned, one) if time_first else (one, turned):
                if laid.shape[:2] == (rows, length):
                    return laid  # type: ignore[no-any-return]
    return None


def as_logits(numbers: Tensor) -> Tensor:
    """Return float32 logits [..., V] on the CPU; of probabilities the logarithms."""
    numbers = numbers.detach().float().cpu()
    given = bool((numbers >= 0).all())
    given = given and bool(((numbers.sum(-1) - 1).abs() < 1e-3).all())
    return numbers.log() if given else numbers
