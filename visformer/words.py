"""How places and numbers are written wherever a person reads them.

Tokens, rows, steps, layers and heads count from 0 in Python and from 1 on screen: these
functions take the former and write the latter. Positions and dimensions keep the
formula's count, from 0, and are written ``pos 0`` and ``dim 0``. At step 0 nothing has
been decoded; step n is the choice made from decoder row n. Numbers have one minus sign
(U+2212) and name NaN and ∞.
"""

from visformer.language import N_, _, signed
from visformer.values.facts import Kind

KIND_NAMES: dict[Kind, str] = {  # translated where they are shown
    # i18n: kinds of attention; see also “{kind} attention”
    "encoder": N_("encoder self"),
    "decoder": N_("decoder self"),
    "cross": N_("cross"),
}
ACTIVATION_NAMES = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "tanh"}
NOUGHT = "~0"  # what few decimals would round to zero
LEAST = 1e-4  # smaller probabilities are written with an exponent, not as 0.0000


# ---- places ------------------------------------------------------------------------


def token_words(token: str, index: int) -> str:
    """Name a token and its place in the sentence: “cat” (token 3)."""
    return _("“{token}” (token {place})", token=token, place=index + 1)


def layer_words(layer: int) -> str:
    return _("layer {layer}", layer=layer + 1)


def short_head(layer: int, head: int) -> str:
    """Name a head where there is little room."""
    return f"L{layer + 1} H{head + 1}"


def head_words(layer: int, head: int) -> str:
    return _("layer {layer}, head {head}", layer=layer + 1, head=head + 1)


def position_words(position: int) -> str:
    return _("pos {position}", position=position)


def dimension_words(dimension: int) -> str:
    return _("dim {dimension}", dimension=dimension)


# ---- numbers -----------------------------------------------------------------------


def number(value: float, digits: int = 4) -> str:
    """Write a number with four significant digits: −0.1234, 12.3, 1.2e−05."""
    return signed(f"{value:.{digits}g}")


def decimals(value: float, count: int = 4) -> str:
    """Write a number with a fixed number of decimals, for columns of numbers."""
    return signed(f"{value:.{count}f}")


def probability(p: float) -> str:
    """Write a probability or an attention weight: 0.1234, 0, 3.2e−06."""
    if p == 0:
        return "0"
    return signed(f"{p:.1e}" if abs(p) < LEAST else f"{p:.4f}")


def percent(p: float) -> str:
    """Write a share in [0, 1] as a percentage: 12.5%, NaN."""
    return "NaN" if p != p else f"{p:.1%}"


def rank_text(rank: int) -> str:
    """Write a rank from 1; 0 is none, as of a probability that is NaN."""
    return f"{rank:,}" if rank else "–"


def share(p: float) -> str:
    """Write a probability in at most four characters: .97, 1.0, ~0, NaN."""
    if not p >= 0.005:  # NaN too
        return "NaN" if p != p else NOUGHT
    return "1.0" if p >= 0.995 else f"{p:.2f}"[1:]


def short(value: float) -> str:
    """Write a number in at most seven characters besides its minus sign.

    Very small and very large numbers have an exponent.
    """
    magnitude = abs(value)
    if value != 0 and not 1e-4 <= magnitude < 1e4:  # inf and NaN too
        return signed(f"{value:.1e}")
    return signed(f"{value:.{5 - len(str(int(magnitude)))}f}")


def masked_value_text(value: float) -> str:
    """Write the number that replaces masked scores: −1e9, −∞."""
    short_exponent = f"{value:g}".replace("e+0", "e").replace("e+", "e")
    return signed(short_exponent.replace("e-0", "e-"))
