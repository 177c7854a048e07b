"""The languages of a multilingual folder: from which to which it translates."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from visformer.errors import InputError
from visformer.files import short
from visformer.formats.given_options import GivenOptions
from visformer.language import _
from visformer.values.questions import (
    SOURCE_LANGUAGE,
    TARGET_LANGUAGE,
    Question,
    Questionnaire,
)

MULTILINGUAL = ("m2m_100", "mbart", "nllb-moe", "plbart")  # types of such models
_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")  # as NLLB names its languages


class Languages(NamedTuple):
    """The languages that a tokenizer knows, by its codes, and those that are chosen."""

    ids: dict[str, int]
    source: str
    target: str  # "" where nothing says it


def languages_of(inner: Any, rows: int, forced: int | None) -> Languages | None:
    """Return what a tokenizer of transformers says; None if it names no languages.

    ``rows`` is how many tokens the model has, ``forced`` the id that a target begins
    with by the folder's own rules.
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
    """Return the languages with those that were given; InputError for unknown ones."""
    given = options.languages
    for name, code in zip((SOURCE_LANGUAGE, TARGET_LANGUAGE), given, strict=True):
        if code is None:
            continue
        if known is None:
            raise InputError(
                _("{name} is for models of several languages.", name=f"{name}=…")
            )
        if code not in known.ids:
            raise InputError(
                _(
                    "{name} is “{code}”, but this model knows {codes}.",
                    name=name,
                    code=short(str(code), 24),
                    codes=short(", ".join(known.ids), 90),
                )
            )
    if known is None:
        return None
    return known._replace(
        source=given[0] or known.source, target=given[1] or known.target
    )


def set_languages(inner: Any, languages: Languages) -> tuple[int | None, int | None]:
    """Let a tokenizer split for these languages.

    Returns the id that the decoder starts with, or else the one that a target begins
    with, as the tokenizer marks the language of a target; None for what is not told.
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
    """Ask for the languages that were not given, or, with ``every``, for both."""
    told = zip(
        (SOURCE_LANGUAGE, TARGET_LANGUAGE),
        (_("From"), _("To")),
        (
            _("The language of the text: the encoder is told it by a token."),
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
        layout=_("transformers, a model of several languages"),
        sizes="",
        introduction=_(
            "It knows {n:,} languages. Choose the source and the target language.",
            n=len(languages.ids),
        ),
        questions=questions,
    )
