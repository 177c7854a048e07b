"""The generation settings of folders that transformers wrote."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from visformer.core.generation import Generation
from visformer.errors import CheckpointError
from visformer.files import read_json, short
from visformer.language import _

FILE = "generation_config.json"
TOKENS = 20  # transformers' default limit of new tokens
MOST_BEAMS = 256
_IDLE: dict[str, tuple[Any, ...]] = {  # unsupported -> values without effect
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "penalty_alpha": (0, 0.0),
    "encoder_repetition_penalty": (1, 1.0),
    "encoder_no_repeat_ngram_size": (0,),
    "sequence_bias": (),
    "exponential_decay_length_penalty": (),
    "remove_invalid_values": (False,),
    "guidance_scale": (1, 1.0),
    "watermarking_config": (),
    "constraints": (),
    "force_words_ids": (),
    "forced_decoder_ids": (),
    "max_time": (),
    "stop_strings": (),
    "dola_layers": (),
    "num_return_sequences": (1,),
}


class Settings:
    """A folder's generation settings: checked values, None where missing.

    transformers reads ``generation_config.json``, and the settings in ``config.json``
    only if that file is missing.
    """

    def __init__(
        self, folder: Path, config: Mapping[str, Any], config_name: str
    ) -> None:
        path = folder / FILE
        own = path.is_file()
        self._values = read_json(path) if own else config
        self.name = FILE if own else config_name

    def get(self, key: str) -> Any:
        """Return the unchecked value of a setting."""
        return self._values.get(key)

    def id(self, key: str, rows: int) -> int | None:
        """Return a single id; the first of a list."""
        ids = self.ids(key, rows)
        return ids[0] if ids else None

    def ids(self, key: str, rows: int) -> tuple[int, ...]:
        """Return an id or a list of ids as a tuple."""
        value = self.get(key)
        ids = [value] if type(value) is int else [] if value is None else value
        if not isinstance(ids, list) or not all(
            type(i) is int and 0 <= i < rows for i in ids
        ):
            raise CheckpointError(
                "{file}: {key} is {value}, but must be an id or a list of ids from 0 "
                "to {high:,}.",
                **self._found(key),
                high=rows - 1,
            )
        return tuple(ids)

    def sequences(self, key: str, rows: int) -> tuple[tuple[int, ...], ...]:
        """Return a list of lists of ids."""
        value = self.get(key)
        listed_ids = [] if value is None else value
        if not isinstance(listed_ids, list) or not all(
            isinstance(ids, list)
            and ids
            and all(type(i) is int and 0 <= i < rows for i in ids)
            for ids in listed_ids
        ):
            raise CheckpointError(
                "{file}: {key} is {value}, but must be a list of lists of ids from 0 "
                "to {high:,}.",
                **self._found(key),
                high=rows - 1,
            )
        return tuple(tuple(ids) for ids in listed_ids)

    def whole(self, key: str, least: int, most: int = 2**31) -> int | None:
        """Return an integer from ``least`` to ``most``."""
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= most:
            raise CheckpointError(
                "{file}: {key} is {value}, but must be a whole number from {low} to "
                "{high:,}.",
                **self._found(key),
                low=least,
                high=most,
            )
        return value

    def number(self, key: str, least: float, most: float, usual: float) -> float:
        """Return a number from ``least`` to ``most``."""
        value = self.get(key)
        if value is None:
            return usual
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not least <= value <= most:
            raise CheckpointError(
                "{file}: {key} is {value}, but must be a number from {low:g} to "
                "{high:g}.",
                **self._found(key),
                low=least,
                high=most,
            )
        return float(value)

    def choice(self, key: str, allowed: tuple[Any, ...]) -> Any:
        """Return one of ``allowed``; the first is the default."""
        value = self.get(key)
        if value is None:
            return allowed[0]
        if not any(value is one or value == one == "never" for one in allowed):
            raise CheckpointError(
                "{file}: {key} is {value}, but must be one of {choices}.",
                **self._found(key),
                choices=", ".join(map(json.dumps, allowed)),
            )
        return value

    def _found(self, key: str) -> dict[str, str]:
        """Return the placeholders of a sentence about a setting."""
        value = short(repr(self.get(key)), 40)
        return {"file": self.name, "key": key, "value": value}

    def unsupported(self) -> Iterator[str]:
        """Yield a sentence for each setting that Visformer does not support."""
        for key, idle in _IDLE.items():
            value = self.get(key)
            if value is not None and value not in idle:
                yield _("{key} = {value} in {file} is ignored", **self._found(key))


def read_generation(
    settings: Settings, eos: int, rows: int
) -> tuple[Generation, tuple[str, ...]]:
    """Return a folder's generation rules, and which were assumed or ignored.

    ``eos`` ends a sentence; ``rows`` is the size of the target vocabulary. Raises
    CheckpointError for an invalid setting.
    """
    ids = settings.ids("eos_token_id", rows)
    ends = tuple(id for id in ids if id != eos)
    forbidden = tuple(
        word
        for word in settings.sequences("bad_words_ids", rows)
        if word not in {(id,) for id in (eos, *ends)}
    )
    alone = tuple((id,) for id in settings.ids("suppress_tokens", rows))
    tokens, assumed = _most_tokens(settings)
    fewest = settings.whole("min_new_tokens", 0)
    if fewest is None:  # min_length also counts the decoder's start token
        fewest = max(0, (settings.whole("min_length", 0) or 0) - 1)
    rules = Generation(
        beams=settings.whole("num_beams", 1, MOST_BEAMS) or 1,
        length_penalty=settings.number("length_penalty", -100, 100, 1.0),
        early_stopping=settings.choice("early_stopping", (False, True, "never")),
        max_tokens=tokens,
        min_tokens=fewest,
        forbidden=tuple(dict.fromkeys([*forbidden, *alone])),
        forbidden_first=settings.ids("begin_suppress_tokens", rows),
        forced_first=settings.id("forced_bos_token_id", rows),
        forced_last=settings.ids("forced_eos_token_id", rows),
        ends=ends,
        no_repeat=settings.whole("no_repeat_ngram_size", 0) or 0,
        repetition_penalty=settings.number("repetition_penalty", 1e-3, 1e3, 1.0),
        renormalise=settings.choice("renormalize_logits", (False, True)),
    )
    return rules, (*assumed, *settings.unsupported())


def _most_tokens(settings: Settings) -> tuple[int, tuple[str, ...]]:
    new, length = settings.whole("max_new_tokens", 1), settings.whole("max_length", 2)
    if new is not None:
        return new, ()
    if length is not None:
        return length - 1, ()
    assumed = _(
        "max_new_tokens = {n} ({file} does not say; this is transformers' default)",
        n=TOKENS,
        file=settings.name,
    )
    return TOKENS, (assumed,)
