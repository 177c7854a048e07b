"""Unrequested notices about a sentence and its run."""

import re
import unicodedata

from visformer.language import _, ngettext, sentences
from visformer.pictures.attention.mosaic import is_large
from visformer.pictures.words.choices import is_fed
from visformer.pictures.words.modified_run import is_taught
from visformer.values.arrays import later
from visformer.values.reading_order import reads_on, sealed
from visformer.values.trace import Trace
from visformer.words import percent

UNKNOWN = "<unk"  # the beginning of the token for unknown characters
BYTE = "<0x"  # the beginning of a token for a single byte
MANY_BYTES = 0.3  # share of byte tokens in a sentence of an unfamiliar script
FEWEST_LETTERS = 4  # needed to recognise a script
_LANGUAGES = r"\b([a-z]{2})(?:>|-|_| to )([a-z]{2})$"  # in a model's name
# language -> words in the Unicode names of its letters; other languages, and those
# written in several scripts, are not checked
_WRITTEN = {
    "LATIN": "af ca cs cy da de en eo es et eu fi fr ga gl hr hu id is it la lb lt lv "
    "mt nb nl nn no pl pt ro sk sl sq sv sw tl tr vi",
    "CYRILLIC": "be bg mk ru uk",
    "DEVANAGARI": "hi mr ne",
    "ARABIC": "ar fa ps ur",
    "BENGALI": "as bn",
    "ETHIOPIC": "am ti",
    "HEBREW": "he yi",
    "CJK BOPOMOFO": "zh",
    "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA": "ja",
    "HANGUL CJK": "ko",
    **{"GREEK": "el", "ARMENIAN": "hy", "GEORGIAN": "ka", "THAI": "th", "LAO": "lo"},
    **{"KHMER": "km", "MYANMAR": "my", "TAMIL": "ta", "TELUGU": "te", "SINHALA": "si"},
    **{"GUJARATI": "gu", "KANNADA": "kn", "MALAYALAM": "ml"},
}
_SCRIPTS = {
    language: set(scripts.split())
    for scripts, languages in _WRITTEN.items()
    for language in languages.split()
}
# a word, its full stop and what begins after it; in Chinese only the stop
_END = r"(\w{3,})([.!?]+)[\"'”’»)]*\s+[\"'“‘«(¿¡]*(?=(\w))|[。！？]+[”’」』]*\s*(?=\S)"
_WHOLE = 5  # letters of a capitalised word that is unlikely to be an abbreviation


def source_notice(trace: Trace) -> str:
    """Report parts of the source that the model may be unable to read; "" if none.

    Cached with the run, as no step changes it.
    """

    def made() -> str:
        said = (_cut(trace), _unknown(trace), _strange(trace), _several(trace))
        return sentences(said)

    name = "notice", trace.source_text, trace.truncated_from
    return trace.memo.made((trace.source,), name, made)


def end_notice(trace: Trace, limit: int) -> str:
    """Report that a run ended at its limit without the end token; "" if it did not."""
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


def kept_pass_notice(trace: Trace) -> str:
    """Report that a decoded run's rows may read tokens of later steps; "" if none.

    Then each step changes the rows before it, and a Trace has those of the last one.
    """
    length, first = len(trace), max(1, trace.prompt)
    steps = length > first and bool(trace.steps) and not is_taught(trace)
    if "decoder" not in trace.kinds or not steps:
        return ""
    after = later(length, length)
    after[:, :first] = False
    layers = range(trace.layers("decoder"))
    derived = [one for one in layers if not trace.is_captured("decoder", one)]
    unsure = [one for one in derived if not sealed(trace, "decoder", one, after)]
    cuts = map(trace.until, range(first, length) if unsure else ())
    large = bool(unsure) and is_large(trace, "decoder")  # it takes long to look
    if not large and not any(
        reads_on(cut, "decoder", one) for cut in cuts for one in unsure
    ):
        return ""
    return _(
        "Each step of this run may change the rows before it: its file has those of "
        "the last step, {n:,}, and earlier steps show them, too.",
        n=length,
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
    """Report that the sentence is in another script than the model reads."""
    letters = [sign for sign in trace.source_text if sign.isalpha()]
    named = re.search(_LANGUAGES, trace.model.name)
    known = named is not None and {named[1], named[2]} <= _SCRIPTS.keys()
    if named is not None and known and len(letters) >= FEWEST_LETTERS:
        words = (unicodedata.name(sign, "").split() for sign in letters)
        own = sum(not _SCRIPTS[named[1]].isdisjoint(name) for name in words)
        if own < len(letters) / 2:
            return _(
                "Judging by its name, this model reads “{language}”; the sentence is "
                "in another script.",
                language=named[1],
            )
    count = sum(token.startswith(BYTE) for token in trace.source)
    if count <= MANY_BYTES * len(trace.source):
        return ""
    return _(
        "{share} of the source tokens are single bytes: the vocabulary has no other "
        "token for these characters.",
        share=percent(count / len(trace.source)),
    )


def _several(trace: Trace) -> str:
    """Report that the source looks like several sentences."""
    if not any(map(_ends, re.finditer(_END, trace.source_text))):
        return ""
    return _(
        "The source looks like several sentences, which are read as one: a model that "
        "was trained on single sentences may leave some out."
    )


def _ends(found: re.Match[str]) -> bool:
    """Whether a sentence ends: not after “Prof.” or “etc.”, nor at “...”."""
    word, stop, following = found.groups()
    if word is None:
        return True
    whole = not word[0].isupper() or len(word) >= _WHOLE
    ended = whole if stop == "." else ".." not in stop
    return ended and following.isalpha() and not following.islower()
