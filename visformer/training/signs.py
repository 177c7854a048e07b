"""The characters that every trained tokenizer has as separate pieces."""

from __future__ import annotations

from visformer.training.normalisation import CLOSING, KEPT, encoding_rules

_ASCII = range(0x21, 0x7F)
_LATIN = range(0xA1, 0x180)  # with every letter and sign of French
_MORE = CLOSING + KEPT + "‘“”‚„–—−€₹×÷≤≥•→ȘșȚț"


def required_signs() -> str:
    """Return the characters that are pieces even if the pairs lack them.

    Those that the normaliser rewrites are left out, as the model never sees them. Other
    characters that are rare in the pairs are split into bytes.
    """
    rewritten = encoding_rules().keys() - set(CLOSING + "'")
    signs = dict.fromkeys([*map(chr, [*_ASCII, *_LATIN]), *_MORE])
    return "".join(sign for sign in signs if sign not in rewritten)
