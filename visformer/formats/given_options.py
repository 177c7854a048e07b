"""Everything known about a checkpoint besides its tensors: keywords and its configs."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from visformer.arguments import as_path, wrong_type, wrong_value, wrong_words
from visformer.core.generation import Generation
from visformer.errors import CheckpointError, InputError
from visformer.files import listed, read_json, short
from visformer.formats.names import NameRules, name_rules
from visformer.language import _
from visformer.values.config import FIELD_TYPES, ModelConfig
from visformer.values.questions import BY_PAIRS, SOURCE_LANGUAGE, TARGET_LANGUAGE

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
        allowed = _("an id or a list of ids from 0 to {high:,}", high=rows - 1)
        self._check(_are_ids(ids, rows), key, allowed)
        return tuple(ids)

    def sequences(self, key: str, rows: int) -> tuple[tuple[int, ...], ...]:
        """Return a list of lists of ids."""
        value = self.get(key)
        several = [] if value is None else value
        good = isinstance(several, list) and all(
            ids and _are_ids(ids, rows) for ids in several
        )
        allowed = _("a list of lists of ids from 0 to {high:,}", high=rows - 1)
        self._check(good, key, allowed)
        return tuple(map(tuple, several))

    def whole(self, key: str, least: int, most: int = 2**31) -> int | None:
        """Return an integer from ``least`` to ``most``."""
        value: int | None = self.get(key)
        good = value is None or (type(value) is int and least <= value <= most)
        allowed = _("a whole number from {low} to {high:,}", low=least, high=most)
        self._check(good, key, allowed)
        return value

    def number(self, key: str, least: float, most: float, usual: float) -> float:
        """Return a number from ``least`` to ``most``."""
        value = self.get(key)
        if value is None:
            return usual
        # NaN is in no range, and True is no number
        good = type(value) in (int, float) and least <= value <= most
        allowed = _("a number from {low:g} to {high:g}", low=least, high=most)
        self._check(good, key, allowed)
        return float(value)

    def choice(self, key: str, allowed: tuple[Any, ...]) -> Any:
        """Return one of ``allowed``; the first is the default."""
        value = self.get(key)
        if value is None:
            return allowed[0]
        good = any(value is one or value == one == "never" for one in allowed)
        choices = ", ".join(map(json.dumps, allowed))
        self._check(good, key, _("one of {choices}", choices=choices))
        return value

    def _check(self, good: bool, key: str, allowed: str) -> None:
        """Raise CheckpointError about a setting unless it is good."""
        if not good:
            argument = f"{self.name}: {key}"
            raise CheckpointError(wrong_words(argument, self.get(key), allowed))

    def unsupported(self) -> Iterator[str]:
        """Yield a sentence for each setting that Visformer does not support."""
        for key, idle in _IDLE.items():
            value = self.get(key)
            if value is not None and value not in idle:
                shown = short(repr(value), 40)
                words = {"key": key, "value": shown, "file": self.name}
                yield _("{key} = {value} in {file} is ignored", **words)


def _are_ids(value: object, rows: int) -> bool:
    return isinstance(value, list) and all(
        type(id) is int and 0 <= id < rows for id in value
    )


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


FIELDS = tuple(field.name for field in dataclasses.fields(ModelConfig))
NO_TOKENIZER = Path("numbers")  # ids are typed as numbers, even if one is found
_BOTH = ("encoder_layers", "decoder_layers")
_ALIASES: dict[str, tuple[str, ...]] = {  # a tutorial's name -> our ModelConfig fields
    **dict.fromkeys(
        ("num_hiddens", "d_models", "embed_size", "emb_size"), ("d_model",)
    ),
    **dict.fromkeys(("h", "num_heads", "n_head", "n_heads", "nhead"), ("heads",)),
    **dict.fromkeys(
        ("d_ff", "ffn_hidden", "ffn_num_hiddens", "d_diff", "dim_feedforward"),
        ("feed_forward",),
    ),
    **dict.fromkeys(("num_layers", "n_layers", "N"), _BOTH),
    "num_encoder_layers": ("encoder_layers",),
    "num_decoder_layers": ("decoder_layers",),
    "vocab_size": ("source_vocabulary", "target_vocabulary"),
    **dict.fromkeys(("src_vocab_size", "enc_voc_size"), ("source_vocabulary",)),
    **dict.fromkeys(("tgt_vocab_size", "dec_voc_size"), ("target_vocabulary",)),
    **dict.fromkeys(("max_len", "max_seq_len", "seq_len"), ("max_positions",)),
    "is_gated": ("gated",),
    "bias1": ("w1_bias",),
    "bias2": ("w2_bias",),
    "bias_gate": ("gate_bias",),
    "layer_norm_eps": ("norm_eps",),
}
_SPECIAL = {
    **dict.fromkeys(("src_pad_idx", "pad_idx", "padding_idx", "pad"), "pad"),
    **dict.fromkeys(("trg_pad_idx", "tgt_pad_idx"), "target_pad"),
    **dict.fromkeys(("trg_sos_idx", "sos_idx", "bos_idx", "bos"), "bos"),
    **dict.fromkeys(("trg_eos_idx", "eos_idx", "eos"), "eos"),
}
_IGNORED = {  # known from the tensors, or irrelevant for inference
    *("dropout", "drop_prob", "dropout_prob", "device", "bias", "use_bias"),
    *("batch_first", "norm_shape", "key_size", "query_size", "value_size"),
    *("ffn_num_input", "ffn_num_outputs"),
}
_KNOWN = {*FIELDS, *_ALIASES, *_SPECIAL, *_IGNORED}
_ACTIVATIONS = {"swish": "silu"}  # of transformers
_KINDS = {int: (int,), float: (int, float), bool: (bool,)}
_SWITCHES = {name for name, kind in FIELD_TYPES.items() if kind is bool}


@dataclass(frozen=True, kw_only=True)
class GivenOptions:
    """Options from a caller or a config.json."""

    fields: Mapping[str, Any] = field(default_factory=dict)  # of ModelConfig
    pad: int | None = None
    target_pad: int | None = None  # if it differs from the source's
    bos: int | None = None
    eos: int | None = None
    tokenizer: tuple[Path, Path] | None = None  # source, target
    names: Mapping[str, str] = field(default_factory=dict)  # ours -> the file's
    languages: tuple[str | None, str | None] = (None, None)  # source, target
    pairs: Path | None = None  # references that decide unknown settings
    guessed: frozenset[str] = frozenset()  # answers that accept the offered default
    rules: NameRules = field(default=NameRules(), compare=False)  # for tensor names

    @property
    def empty(self) -> bool:
        """Whether only fields of the config are given."""
        return self == GivenOptions(fields=self.fields)


def given_options(
    config: Mapping[str, Any],
    *,
    heads: int | None = None,
    pad: int | tuple[int, int] | None = None,
    bos: int | None = None,
    eos: int | None = None,
    tokenizer: Any = None,
    names: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    ignore: Iterable[str] | None = None,
    place: Mapping[str, str] | None = None,
    pairs: str | Path | None = None,
    guessed: Iterable[str] | None = None,
    weights: str | None = None,
) -> GivenOptions:
    """Read the keywords of ``load``; InputError for an unknown one.

    ``place`` maps modules of a layout to those of the file, as ``proposing`` names
    them.
    """
    if not isinstance(weights, str | None):
        raise wrong_type("weights", weights, _("the name of a set of weights"))
    config, languages = dict(config), _languages(config)
    for name in (SOURCE_LANGUAGE, TARGET_LANGUAGE):
        config.pop(name, None)
    unknown = [key for key in config if key not in _KNOWN]
    if unknown:
        raise InputError(
            "Unknown option: {names}. Use fields of ModelConfig, or the constructor's "
            "own names, such as num_heads or max_len.",
            names=listed(unknown, room=70),
        )
    by_pairs = type(heads) is int and heads == BY_PAIRS
    config |= {} if heads is None or by_pairs else {"heads": heads}
    special = {"pad": pad, "bos": bos, "eos": eos}
    options = _sorted(config, {k: v for k, v in special.items() if v is not None})
    return dataclasses.replace(
        options,
        tokenizer=_pair(tokenizer),
        languages=languages,
        names={} if names is None else _tensor_names(names),
        pairs=None if pairs is None else as_path("pairs", pairs),
        guessed=frozenset(guessed or ()),
        rules=dataclasses.replace(
            name_rules(rename, ignore, place), weights=weights or ""
        ),
    )


def _languages(config: Mapping[str, Any]) -> tuple[str | None, str | None]:
    given = [config.get(name) for name in (SOURCE_LANGUAGE, TARGET_LANGUAGE)]
    for name, code in zip((SOURCE_LANGUAGE, TARGET_LANGUAGE), given, strict=True):
        if not isinstance(code, str | None):
            raise wrong_type(name, code, _("the code of a language, as “fr”"))
    return given[0], given[1]


def _sorted(words: Mapping[str, Any], special: Mapping[str, Any]) -> GivenOptions:
    """Separate model fields from special ids; ``special`` wins."""
    fields: dict[str, Any] = {}
    ids: dict[str, Any] = {}
    for word, value in words.items():
        for name in _ALIASES.get(word, (word,) if word in FIELDS else ()):
            fields[name] = config_value(name, value)
        if word in _SPECIAL:
            ids[_SPECIAL[word]] = value
    ids |= special
    if isinstance(ids.get("pad"), list | tuple) and len(ids["pad"]) == 2:
        ids["pad"], ids["target_pad"] = ids["pad"]
    for name, id in ids.items():
        if type(id) is not int or id < 0:
            raise wrong_value(name, id, _("the id of a token"))
    return GivenOptions(fields=fields, **ids)


def config_value(name: str, value: Any) -> Any:
    """Accept an activation given as a module, a class, a function or a name."""
    if name == "activation":
        word = value if isinstance(value, str) else getattr(value, "__name__", "")
        word = (word or type(value).__name__).lower()
        return _ACTIVATIONS.get(word, word)
    return bool(value) if name in _SWITCHES and type(value) is int else value


def _pair(paths: Any) -> tuple[Path, Path] | None:
    if paths is None:
        return None
    if isinstance(paths, str | Path):
        path = as_path("tokenizer", paths)
        return path, path
    if not isinstance(paths, list | tuple) or len(paths) != 2:
        allowed = _("one path, or two: for the source and the target")
        raise wrong_type("tokenizer", paths, allowed)
    return as_path("tokenizer", paths[0]), as_path("tokenizer", paths[1])


def _tensor_names(names: Any) -> dict[str, str]:
    allowed = _("a dict from our name of a part to the file's")
    if not isinstance(names, Mapping):
        raise wrong_type("names", names, allowed)
    for part in (*names, *names.values()):
        if not isinstance(part, str):
            raise wrong_type("names", part, allowed)
    return dict(names)


def with_config(options: GivenOptions, config: Mapping[str, Any]) -> GivenOptions:
    """Add the options of a config.json to the given ones, which win.

    Unknown keys are ignored: a training script's config.json contains more than sizes.
    """
    said = _sorted({k: v for k, v in config.items() if k in _KNOWN}, {})
    special = {
        name: getattr(said if getattr(options, name) is None else options, name)
        for name in ("pad", "target_pad", "bos", "eos")
    }
    return dataclasses.replace(
        options, fields={**said.fields, **options.fields}, **special
    )


def with_saved(
    options: GivenOptions, saved: Mapping[str, Any], known: Set[str]
) -> GivenOptions:
    """Add the options that a training script saved beside its weights; given ones win.

    There may be many unrelated ones: those in ``known`` and those whose value has
    another type than ours are ignored.
    """
    usable: dict[str, Any] = {}
    for word, value in saved.items():
        names = _ALIASES.get(word, (word,) if word in FIELDS else ())
        if word in _SPECIAL:
            usable |= {word: value} if type(value) is int and value >= 0 else {}
        elif names and known.isdisjoint(names):
            kinds = {n: _KINDS.get(FIELD_TYPES[n], (str,)) for n in names}
            fits = all(type(config_value(n, value)) in kinds[n] for n in names)
            usable |= {word: value} if fits else {}
    return with_config(options, usable)


def possible_heads(width: Any) -> list[int]:
    """Return the numbers of heads that divide a width evenly, up to 256."""
    most = min(width, 256) if type(width) is int else 0
    return [n for n in range(1, most + 1) if width % n == 0]
