"""The signs that every trained tokenizer knows as pieces of their own."""

from __future__ import annotations

from visformer.training.normalisation import CLOSING, KEPT, encoding_rules

_ASCII = range(0x21, 0x7F)
_LATIN = range(0xA1, 0x180)  # with every letter and sign of French
_MORE = CLOSING + KEPT + "‘“”‚„–—−€₹×÷≤≥•→ȘșȚț"


def required_signs() -> str:
    """Return the characters that are pieces although the pairs may lack them.

    Those that the normaliser rewrites are left out: the model never meets them. What
    is not here and rare in the pairs is cut into bytes.
    """
    rewritten = encoding_rules().keys() - set(CLOSING + "'")
    signs = dict.fromkeys([*map(chr, [*_ASCII, *_LATIN]), *_MORE])
    return "".join(sign for sign in signs if sign not in rewritten)
