"""What each layout takes for granted and its files do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from visformer.core.presets import PRESETS


class Habits(NamedTuple):
    """The special ids of a tutorial's examples, and what else is taken for granted."""

    pad: int = 0
    bos: int = 1
    eos: int = 2
    ends_source: bool = False  # whether a text's last token for the encoder is eos
    untold: tuple[str, ...] = ("max_positions",)  # fields that a file may leave open
    two_pads: bool = False  # whether its code takes a pad id for each side


_TORCH = (
    "norm_first",
    "activation",
    "embedding_scale",
    "norm_eps",
    "positions",
    "max_positions",
)
HABITS: dict[str, Habits] = {
    "handout": Habits(),
    "d2l": Habits(1, 2, 3, ends_source=True),
    "labml": Habits(untold=("activation", "max_positions")),
    "modular": Habits(1, 2, 3, ends_source=True, two_pads=True),
    "scratch": Habits(),
    "torch": Habits(ends_source=True, untold=_TORCH, two_pads=True),
}
_SIZES = {  # which files tell themselves, or ``heads``, which is asked
    "source_vocabulary",
    "target_vocabulary",
    "d_model",
    "heads",
    "encoder_layers",
    "decoder_layers",
    "feed_forward",
}


def usual_ids(layout: str, named: Mapping[str, int]) -> dict[str, int]:
    """Return pad, bos and eos: as a tokenizer names them, else the tutorial's own."""
    usual = HABITS[layout]._asdict()
    return {name: named.get(name, usual[name]) for name in ("pad", "bos", "eos")}


def choices(layout: str) -> dict[str, Any]:
    """Return the fields of the config in which a layout is itself, without sizes."""
    return {key: v for key, v in PRESETS[layout].items() if key not in _SIZES}
