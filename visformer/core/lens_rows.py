"""The logit lens: each decoder layer's residual stream through the model's output."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from visformer.core.loaded import Loaded
from visformer.core.rows import check_ids, host
from visformer.core.sampling import most_probable, ranks
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.language import N_
from visformer.values.arrays import Floats, Ids, read_only
from visformer.values.step import TOP, LensRow

WRONG_STREAMS = N_("The residual streams have shape {found}, but must have {expected}.")


@torch.inference_mode()
def read_streams(
    checkpoint: Loaded, hidden: Floats, chosen: Ids, *, temperature: float = 1.0
) -> tuple[LensRow, ...]:
    """Read streams [N, L + 1, D] of N rows that chose the token ids ``chosen`` [N].

    Raises InputError if the streams or ids are not of this model.
    """
    config = checkpoint.config
    shape = (len(chosen), config.decoder_layers + 1, config.d_model)
    if hidden.shape != shape:
        found, expected = list(hidden.shape), list(shape)
        raise InputError(WRONG_STREAMS, found=found, expected=expected)
    if len(chosen):
        check_ids(chosen.tolist(), checkpoint.tokenizer.target.size)
    packed, device, model = checkpoint.packed, checkpoint.device, checkpoint.model
    token, bias = checkpoint.tokenizer.target.token, model.output.bias
    # row by row, to hold only L + 1 vocabularies of numbers at once
    with few_threads(hidden.size * config.target_vocabulary):
        return tuple(
            lens_row(
                checkpoint.logits_from(
                    packed, model.decoder.norm(torch.tensor(stream, device=device))
                ),
                id,
                token,
                temperature,
                weight=model.output.weight[id],
                bias=None if bias is None else bias[id],
            )
            for stream, id in zip(hidden, chosen.tolist(), strict=True)
        )


def lens_row(
    logits: Tensor,
    chosen: int,
    token: Callable[[int], str],
    temperature: float,
    *,
    weight: Tensor,
    bias: Tensor | None,
) -> LensRow:
    """Describe what the layers of one row predict, by their logits [L + 1, V].

    ``weight`` [D] and ``bias`` are the output projection's of the chosen token.
    """
    p, best, _entropy = most_probable(logits, TOP)  # [L + 1, V] and [L + 1, TOP]
    chosen_p = p[:, chosen]  # [L + 1]
    return LensRow(
        ids=_host_ids(best),
        tokens=tuple(tuple(token(id) for id in ids) for ids in best.tolist()),
        logits=host(logits.gather(1, best)),
        probabilities=host(p.gather(1, best)),
        log_sums=host(logits.logsumexp(-1)),
        chosen_logits=host(logits[:, chosen]),
        chosen_probabilities=host(chosen_p),
        chosen_ranks=_host_ids(ranks(logits, chosen).masked_fill(chosen_p.isnan(), 0)),
        tempered_log_sum=float((logits[-1] / temperature).logsumexp(-1)),
        weight=host(weight.clone()),
        bias=None if bias is None else float(bias),
    )


def _host_ids(tensor: Tensor) -> Ids:
    return read_only(tensor.to("cpu", torch.int64).numpy())
