"""The rules of a folder as transformers' ``generate`` takes them, checked first."""

from __future__ import annotations

from typing import Any

from visformer.core.generation import Generation
from visformer.formats.hugging_face.library import library


def generate_config(
    rules: Generation,
    *,
    beams: int,
    tokens: int,
    special: tuple[int, tuple[int, ...], int],
) -> Any:
    """Return a ``GenerationConfig`` of rules; ``special`` are start, ends and pad.

    Nothing of a folder is in it that was not read as a rule.
    """
    start, ends, pad = special
    # sequences of one are forbidden, or suppressed: which does the same
    given = {
        "num_beams": beams,
        "length_penalty": rules.length_penalty,
        "early_stopping": rules.early_stopping,
        "max_new_tokens": tokens,
        "min_new_tokens": rules.min_tokens or None,
        "bad_words_ids": [[*words] for words in rules.forbidden] or None,
        "begin_suppress_tokens": [*rules.forbidden_first] or None,
        "forced_bos_token_id": rules.forced_first,
        "forced_eos_token_id": [*rules.forced_last] or None,
        "no_repeat_ngram_size": rules.no_repeat or None,
        "repetition_penalty": rules.repetition_penalty,
        "renormalize_logits": rules.renormalise,
        "decoder_start_token_id": start if start >= 0 else None,
        "bos_token_id": start if start >= 0 else None,
        "eos_token_id": [*ends] or None,
        "pad_token_id": pad if pad >= 0 else next(iter(ends), None),
        "do_sample": False,
    }
    told = {name: value for name, value in given.items() if value is not None}
    return library().GenerationConfig(**told)
