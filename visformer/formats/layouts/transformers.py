"""Folders in the format of transformers, run by transformers itself (extra ``hf``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from visformer.core.generation import Generation
from visformer.core.presets import OTHERS
from visformer.errors import CheckpointError, InputError
from visformer.files import listed, short
from visformer.formats.given_options import GivenOptions, Settings, read_generation
from visformer.formats.hugging_face.folder_files import (
    CONFIG,
    check_beside,
    check_counts,
    read_config,
    read_tensors,
)
from visformer.formats.hugging_face.folder_model import FolderLimits, FolderModel
from visformer.formats.hugging_face.modules import (
    LoadedModule,
    config_of,
    explained,
    library,
    load_module,
)
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.language import _, ngettext
from visformer.tokenizers.sides import NumberSide
from visformer.tokenizers.tokenizer import Tokenizer, TokenizerSide
from visformer.tokenizers.transformers_side import TransformersSide
from visformer.values.questions import (
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    Question,
    Questionnaire,
)


def _read(
    spec: LayoutSpec, files: Files, options: GivenOptions, device: torch.device
) -> Any:
    """Open a folder; the result is used like a ``Checkpoint``."""
    folder = _folder(files, options)
    name = short(folder.resolve().name)
    library()
    config = read_config(folder)
    check_beside(folder)
    weights, file = read_tensors(folder, files[0].reader)
    check_counts(config, weights.tensors)
    with explained(name):
        own = config_of(config)
        loaded = load_module(own, weights.tensors, file)
        inner = _loaded_tokenizer(folder, own)
        fallback = library().GenerationConfig.from_model_config(own).to_dict()
        loaded.module.generation_config = library().GenerationConfig()
        loaded.module.to(device)
        model = _model(folder, name, loaded, inner, fallback, weights.digest, options)
        model.try_out()
    return model


_OF_TOKENIZERS = re.compile(  # names of vocabulary files
    r"(tokenizer|tekken)\.json|.*\.(model|spm|bpe|tiktoken|vocab|codes)|merges\.txt|"
    r".*(vocab|dict|bpe|sentencepiece).*\.(json|txt|pkl)",
    re.IGNORECASE,
)


def _folder(files: Files, options: GivenOptions) -> Path:
    path = files[0].path
    if not replace(options, languages=(None, None)).empty or options.fields:
        raise InputError(
            "A folder of transformers says everything itself: give only its path."
        )
    return path if path.is_dir() else path.parent


def _loaded_tokenizer(folder: Path, config: Any) -> Any | None:
    """Return a folder's tokenizer; None if it has none, and ids are typed.

    Where files are missing, transformers raises or returns a tokenizer that knows
    nothing.
    """
    there = any(_OF_TOKENIZERS.fullmatch(file.name) for file in folder.iterdir())
    try:
        inner = library().AutoTokenizer.from_pretrained(
            str(folder), config=config, local_files_only=True, trust_remote_code=False
        )
    except Exception:
        if there:
            raise
        return None
    return inner if there or not inner.vocab_files_names else None


def _model(
    folder: Path,
    name: str,
    loaded: LoadedModule,
    inner: Any,
    fallback: Mapping[str, Any],
    digest: str,
    options: GivenOptions,
) -> FolderModel:
    """Return the module with its tokenizer and its generation rules."""
    embeddings: Any = loaded.module.get_input_embeddings()  # type: ignore[operator]
    rows = len(embeddings.weight)
    settings = Settings(folder, fallback, CONFIG)
    rules = Generation()
    assumed: list[str] = []
    source: TokenizerSide = NumberSide(rows)
    target: TokenizerSide = source
    if inner is None:
        assumed.append(_("tokenizer = numbers (the folder has none: type ids)"))
    else:
        _check_tokenizer(inner, rows, name)
        source = TransformersSide(inner, rows)
        target = TransformersSide(inner, rows, target=True)
    special: Any = loaded.module.config if inner is None else inner
    ids = {id: _id(getattr(special, f"{id}_token_id", None)) for id in ("pad", "bos")}
    ids["eos"] = -1
    if loaded.task in ("seq2seq", "prompt"):
        found = settings.ids("eos_token_id", rows)
        ids["eos"] = found[0] if found else -1
        rules, said = read_generation(settings, ids["eos"], rows)
        assumed += said
    if loaded.task == "seq2seq":
        ids["bos"] = _start(loaded, settings, rows)
    languages = chosen(languages_of(inner, rows, rules.forced_first), options)
    if languages is not None:
        start, first = set_languages(inner, languages)
        ids["bos"] = ids["bos"] if start is None else start
        rules = rules if first is None else replace(rules, forced_first=first)
        assumed += _said_of(languages, options)
    assumed += _run_as(loaded)
    return FolderModel(
        folder=name,
        model=loaded.module,
        task=loaded.task,
        tokenizer=Tokenizer(
            source, target, pad=ids["pad"], bos=ids["bos"], eos=ids["eos"]
        ),
        digest=digest,
        generation=rules,
        limits=_limits(loaded, settings),
        assumed=tuple(assumed),
        multilingual=languages is not None,
    )


def _check_tokenizer(inner: Any, rows: int, folder: str) -> None:
    """Raise CheckpointError for a tokenizer that knows few of a model's tokens.

    If files are missing, transformers may return one with special tokens only.
    """
    known = len(inner)
    if 10 * known < rows or not {*inner.get_vocab()} - {*inner.all_special_tokens}:
        raise CheckpointError(
            "The tokenizer in {folder} knows {n:,} tokens, and the model has "
            "{rows:,}: its files are missing or belong to another model. Copy them "
            "into the folder.",
            folder=folder,
            n=known,
            rows=rows,
        )


def _start(loaded: LoadedModule, settings: Settings, rows: int) -> int:
    """Return the decoder's start id; CheckpointError if it is not specified."""
    own = getattr(loaded.module.config, "decoder_start_token_id", None)
    start = settings.id("decoder_start_token_id", rows)
    start = own if start is None and type(own) is int else start
    start = settings.id("bos_token_id", rows) if start is None else start
    if start is None:
        raise CheckpointError(
            "{file} does not say with which token the decoder starts: add "
            "decoder_start_token_id.",
            file=settings.name,
        )
    return start


def _run_as(loaded: LoadedModule) -> list[str]:
    """Report the class that runs the folder, and the tensors that it ignores."""
    names = getattr(loaded.module.config, "architectures", None) or ()
    made = type(loaded.module).__name__
    said = []
    if names and made not in names:
        told = {"file": CONFIG, "name": short(str(names[0]))}
        said.append(_("run as {made} ({file} says {name})", made=made, **told))
    if not loaded.unused:
        return said
    return [
        *said,
        ngettext(
            "{n} tensor of the file is not used: {names}",
            "{n} tensors of the file are not used: {names}",
            len(loaded.unused),
            names=listed([*loaded.unused], room=70),
        ),
    ]


def _said_of(languages: Languages, options: GivenOptions) -> list[str]:
    """Report which languages were not given."""
    given = zip(
        (SOURCE_LANGUAGE, TARGET_LANGUAGE),
        (languages.source, languages.target),
        options.languages,
        strict=True,
    )
    return [
        _("{name} = {code} (not given)", name=name, code=code or _("none"))
        for name, code, told in given
        if told is None
    ]


def _ask(files: Files, options: GivenOptions, every: bool) -> Questionnaire | None:
    """Ask for the languages of a multilingual model."""
    folder = _folder(files, options)
    if read_config(folder).get("model_type") not in MULTILINGUAL:
        return None
    if all(options.languages) and not every:
        return None
    check_beside(folder)
    with explained(short(folder.resolve().name)):
        own = config_of(read_config(folder))
        inner = _loaded_tokenizer(folder, own)
        fallback = library().GenerationConfig.from_model_config(own).to_dict()
        rows = own.vocab_size
        forced = Settings(folder, fallback, CONFIG).id("forced_bos_token_id", rows)
        languages = chosen(languages_of(inner, rows, forced), options)
    if languages is None:
        return None
    return language_questions(languages, options, every=every)


def _id(given: object) -> int:
    return given if type(given) is int else -1


def _limits(loaded: LoadedModule, settings: Settings) -> FolderLimits:
    """Return the length limits; rules about a prompt's length count the prompt too."""
    config: Any = loaded.module.config
    positions = getattr(config, "max_position_embeddings", None)
    positions = None if positions == -1 else positions  # XLNet has no limit
    for name, part in loaded.module.named_modules():
        offset = getattr(part, "padding_idx", None)
        if name.endswith("position_embeddings") and offset is not None and positions:
            positions -= offset + 1  # RoBERTa counts positions from the pad id
            break
    if loaded.task != "prompt":
        return FolderLimits(positions=positions)
    new = settings.whole("max_new_tokens", 1)
    fewest = settings.whole("min_new_tokens", 0)
    return FolderLimits(
        positions=positions,
        length=settings.whole("max_length", 2) if new is None else None,
        fewest=settings.whole("min_length", 0) if fewest is None else None,
    )


TRANSFORMERS = LayoutSpec(name="transformers", preset=OTHERS, read=_read, ask=_ask)
MULTILINGUAL = ("m2m_100", "mbart", "nllb-moe", "plbart")  # multilingual model types
_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")  # NLLB's codes of languages


class Languages(NamedTuple):
    """The language codes that a tokenizer knows, and the chosen ones."""

    ids: dict[str, int]
    source: str
    target: str  # "" if unspecified


def languages_of(inner: Any, rows: int, forced: int | None) -> Languages | None:
    """Return the languages of a transformers tokenizer; None if it has none.

    ``rows`` is the size of the model's vocabulary, ``forced`` the first target id that
    the folder's rules prescribe.
    """
    source = getattr(inner, "src_lang", None)
    if not isinstance(source, str):
        return None
    ids = dict(getattr(inner, "lang_code_to_id", None) or {})
    if not ids:
        named = filter(_CODE.fullmatch, inner.get_vocab())
        ids = {code: inner.convert_tokens_to_ids(code) for code in named}
    ids = {str(code): int(ids[code]) for code in sorted(ids) if ids[code] < rows}
    own = getattr(inner, "tgt_lang", None)
    target = next((code for code, id in ids.items() if id == forced), own)
    return Languages(ids, source, str(target or "")) if ids else None


def chosen(known: Languages | None, options: GivenOptions) -> Languages | None:
    """Return the languages with the given ones chosen; InputError for unknown ones."""
    given = options.languages
    for name, code in zip((SOURCE_LANGUAGE, TARGET_LANGUAGE), given, strict=True):
        if code is None:
            continue
        if known is None:
            raise InputError(
                "{name} is for models of several languages.", name=f"{name}=…"
            )
        if code not in known.ids:
            raise InputError(
                "{name} is “{code}”, but this model knows {codes}.",
                name=name,
                code=short(str(code), 24),
                codes=short(", ".join(known.ids), 90),
            )
    if known is None:
        return None
    return known._replace(
        source=given[0] or known.source, target=given[1] or known.target
    )


def set_languages(inner: Any, languages: Languages) -> tuple[int | None, int | None]:
    """Set a tokenizer's languages.

    Returns the decoder's start id, or the forced first id of the target, whichever the
    tokenizer uses to mark the target language; None for the other.
    """
    inner.src_lang = languages.source
    if not languages.target:
        return None, None
    inner.tgt_lang = languages.target
    code = languages.ids[languages.target]
    ids = inner(text_target="a")["input_ids"]
    return (code, None) if ids[-1] == code else (None, code)


def language_questions(
    languages: Languages, options: GivenOptions, *, every: bool
) -> Questionnaire | None:
    """Ask for the languages that were not given, or, if ``every``, for both."""
    told = zip(
        (SOURCE_LANGUAGE, TARGET_LANGUAGE),
        # i18n: the labels of two fields: source language, target language
        (_("From"), _("To")),
        (
            _("The language of the text, which the encoder is given as a token."),
            _("The target language, set by its first token."),
        ),
        (languages.source, languages.target),
        options.languages,
        strict=True,
    )
    codes = tuple((code, code) for code in languages.ids)
    questions = tuple(
        Question(
            name=name,
            label=label,
            kind="choice",
            why=why,
            default=default or None,
            choices=codes,
            mandatory=not default,
        )
        for name, label, why, default, given in told
        if every or given is None
    )
    if not questions:
        return None
    return Questionnaire(
        layout=_("transformers, a multilingual model"),
        sizes="",
        introduction=_(
            "It knows {n:,} languages. Choose the source and the target language.",
            n=len(languages.ids),
        ),
        questions=questions,
    )
