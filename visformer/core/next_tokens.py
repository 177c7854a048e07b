"""What follows some rows, brought from the model's device to the CPU in one copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from visformer.core.sampling import most_probable
from visformer.core.threads import few_threads
from visformer.values.step import CANDIDATES, Candidates, Choice, Step


def on_cpu(*tensors: Tensor) -> list[Tensor]:
    """Copy tensors of one device to the CPU together, so that it is waited for once.

    Those of larger numbers come first: where numbers begin is a multiple of their size.
    """
    if tensors[0].device.type == "cpu":
        return [*tensors]
    parts = [part.contiguous().view(torch.uint8).flatten() for part in tensors]
    whole = torch.cat(parts)
    # from memory that the driver may read itself, a copy is several times as fast
    copied = torch.empty(whole.shape, dtype=torch.uint8, pin_memory=whole.is_cuda)
    copied.copy_(whole)
    pieces = copied.split([part.nbytes for part in tensors])
    return [
        piece.view(part.dtype).view(part.shape)
        for piece, part in zip(pieces, tensors, strict=True)
    ]


class NextTokens:
    """The next-token distributions of n rows, on the CPU."""

    def __init__(self, logits: Tensor, *beside: Tensor) -> None:
        """``logits`` is [n, V]; what is ``beside`` them comes to the CPU as float32."""
        with torch.inference_mode(), few_threads(logits.numel()):
            p, best, entropy = most_probable(logits, CANDIDATES)
            singles = (x.to(torch.float32) for x in (logits, p, entropy, *beside))
            best, self.logits, p, entropy, *self.beside = on_cpu(best, *singles)
        self.p, self.best = p.numpy(), best.numpy()  # [n, V], [n, 50]
        self.entropy: list[float] = entropy.tolist()  # [n], in bits

    def step(
        self, row: int, choice: Choice, text: str, token: Callable[[int], str]
    ) -> Step:
        """Describe a choice at a row; ``token`` names an id."""
        p, logits = self.p[row], self.logits[row].numpy()
        id, origin, drawn = choice
        higher = int(np.count_nonzero(logits > logits[id]))
        before = int(np.count_nonzero(logits[:id] == logits[id]))
        best = self.best[row].copy()  # not all rows are kept with it
        return Step(
            id=id,
            token=token(id),
            probability=float(p[id]),
            rank=higher + before + 1,
            candidates=Candidates(best, map(token, best.tolist()), p[best]),
            entropy=self.entropy[row],
            origin=origin,
            text=text,
            drawn=drawn,
        )
