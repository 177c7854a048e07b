"""What is worth knowing of a sentence and its run, said without being asked."""

from __future__ import annotations

import re

from visformer.language import _, ngettext
from visformer.pictures.choices import is_fed
from visformer.pictures.teacher_forcing import is_taught
from visformer.values.trace import Trace
from visformer.words import percent

UNKNOWN = "<unk"  # what the token of an unknown sign begins with
BYTE = "<0x"  # of one that is written byte by byte
MANY_BYTES = 0.3  # of the tokens: the script is a strange one
FEWEST_LETTERS = 4  # of which a script can be told
# texts: large ranges take milliseconds to compile, and a start needs few of these
_LANGUAGES = r"\b([a-z]{2})(?:>|-|_| to )[a-z]{2}$"  # in a model's name
_SCRIPTS = {  # of a source language; the others are written in Latin letters
    **dict.fromkeys(("zh", "ja"), "[\u3040-\u30ff\u3400-\u9fff]"),
    "ko": "[\uac00-\ud7af]",
    **dict.fromkeys(("ru", "uk", "bg"), "[\u0400-\u04ff]"),
    **dict.fromkeys(("ar", "fa"), "[\u0600-\u06ff]"),
    "el": "[\u0370-\u03ff]",
    "he": "[\u0590-\u05ff]",
}
_LATIN = "[A-Za-z\u00c0-\u024f]"
_END = r"\w{3,}[.!?…]+[\"'”’»)]*\s+(?=\S)|[。！？]+[”’」』]*\s*(?=\S)"


def source_notice(trace: Trace) -> str:
    """Say what the model may not be able to read in its source; "" for nothing.

    It is kept with the run: no step changes it.
    """

    def made() -> str:
        said = (_cut(trace), _unknown(trace), _strange(trace), _several(trace))
        return " ".join(filter(None, said))

    name = "notice", trace.source_text, trace.truncated_from
    return trace.memo.made((trace.source,), name, made)


def end_notice(trace: Trace, limit: int) -> str:
    """Say that a run ended at its limit without the end token; "" if it did not."""
    eos = trace.model.eos
    if not trace.steps or eos < 0 or len(trace) < limit or is_taught(trace):
        return ""
    last = trace.steps[-1]
    if last.id == eos or is_fed(last):
        return ""
    return ngettext(
        "The run ended at its limit of {n:,} token, without the end token.",
        "The run ended at its limit of {n:,} tokens, without the end token.",
        limit,
    )


def _cut(trace: Trace) -> str:
    if not trace.truncated_from:
        return ""
    return ngettext(
        "The sentence has {n:,} token, the model {positions:,} positions: it is cut.",
        "The sentence has {n:,} tokens, the model {positions:,} positions: it is cut.",
        trace.truncated_from,
        positions=trace.model.config.max_positions,
    )


def _unknown(trace: Trace) -> str:
    count = sum(token.startswith(UNKNOWN) for token in trace.source)
    if not count:
        return ""
    return ngettext(
        "{n:,} of {tokens:,} source tokens ({share}) is unknown to this model.",
        "{n:,} of {tokens:,} source tokens ({share}) are unknown to this model.",
        count,
        tokens=len(trace.source),
        share=percent(count / len(trace.source)),
    )


def _strange(trace: Trace) -> str:
    """Say that the sentence is in another script than the model reads."""
    letters = [sign for sign in trace.source_text if sign.isalpha()]
    named = re.search(_LANGUAGES, trace.model.name)
    if named is not None and len(letters) >= FEWEST_LETTERS:
        script = _SCRIPTS.get(named[1], _LATIN)
        known = sum(bool(re.match(script, sign)) for sign in letters)
        if known < len(letters) / 2:
            return _(
                "This model's source language is “{language}”; the sentence is in "
                "another script.",
                language=named[1],
            )
    count = sum(token.startswith(BYTE) for token in trace.source)
    if count <= MANY_BYTES * len(trace.source):
        return ""
    return _(
        "{share} of the source tokens are single bytes: the model was hardly trained "
        "on these characters.",
        share=percent(count / len(trace.source)),
    )


def _several(trace: Trace) -> str:
    """Say that several sentences are read as one."""
    count = len(re.findall(_END, trace.source_text)) + 1
    if count < 2:
        return ""
    return _(
        "{count:,} sentences are read as one: a model that was trained on single "
        "sentences may leave some out.",
        count=count,
    )
