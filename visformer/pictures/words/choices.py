"""Who chose a step's token: the model, its rules, the user or a reference.

A token that the user forced or that was fed from a reference is never called predicted:
the text says what the model predicted instead.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from visformer.language import N_, _, listed, sentences
from visformer.pictures.picture import Label
from visformer.pictures.token_names import (
    FED_SIGN,
    candidate,
    chosen_name,
    is_open,
    marks,
)
from visformer.text import visible
from visformer.values.memo import Made
from visformer.values.pieces import WordMarks, plain
from visformer.values.step import Draw, Origin, Step, chosen_tokens, step_origins
from visformer.values.trace import Trace
from visformer.words import number, probability

FED: frozenset[Origin] = frozenset(("forced", "reference"))  # teacher-forced
WHO: dict[Origin, str] = {  # translated when shown
    "model": N_("chosen"),
    "drawn": N_("drawn"),
    "rule": N_("by the generation rules"),
    "beam": N_("by beam search"),
    "forced": N_("forced by you"),
    "reference": N_("fed from the reference"),
}
# for each origin: whether the token is the model's most probable one
_SHORT: dict[tuple[Origin, bool], str] = {
    ("model", True): N_("“{token}” {p}"),
    ("model", False): N_(
        "chosen with what was read by then: “{token}”, now {p}; most probable now: "
        "“{best}” {best_p}"
    ),
    ("drawn", True): N_("drawn: “{token}”, the most probable; softmax {p}"),
    ("drawn", False): N_(
        "drawn: “{token}”, softmax {p}; most probable: “{best}” {best_p}"
    ),
    ("rule", True): N_("by the generation rules: “{token}” {p}"),
    ("rule", False): N_(
        "by the generation rules: “{token}” {p}; most probable: “{best}” {best_p}"
    ),
    ("beam", True): N_("by beam search: “{token}” {p}, the most probable"),
    ("beam", False): N_(
        "by beam search: “{token}” {p}; most probable: “{best}” {best_p}"
    ),
    ("forced", True): N_("forced: “{token}” {p}; the model would say the same"),
    ("forced", False): N_(
        "forced: “{token}” {p}; the model would say: “{best}” {best_p}"
    ),
    ("reference", True): N_("fed: “{token}” {p}; the model would say the same"),
    ("reference", False): N_(
        "fed: “{token}” {p}; the model would say: “{best}” {best_p}"
    ),
}
_SENTENCES: dict[tuple[Origin, bool], str] = {
    ("model", True): N_("The softmax of the row's logits predicts “{token}” ({p})."),
    ("model", False): N_(
        "“{token}” was chosen with the tokens that were read by then. In the row as it "
        "is now it has {p}, rank {rank:,}; the most probable token is “{best}” "
        "({best_p})."
    ),
    ("drawn", True): N_(
        "“{token}” was drawn; it is also the most probable token by the softmax of the "
        "row's logits ({p})."
    ),
    ("drawn", False): N_(
        "“{token}” was drawn; the softmax of the row's logits gives it {p}, rank "
        "{rank:,}; the most probable token is “{best}” ({best_p})."
    ),
    ("rule", True): N_("The generation rules led to “{token}” ({p})."),
    ("rule", False): N_(
        "The generation rules led to “{token}” ({p}, rank {rank:,}); the softmax of "
        "the row's logits predicts “{best}” ({best_p})."
    ),
    ("beam", True): N_(
        "“{token}” is in the hypothesis that beam search found; it is also the most "
        "probable token by the softmax of the row's logits ({p})."
    ),
    ("beam", False): N_(
        "“{token}” ({p}, rank {rank:,}) is in the hypothesis that beam search found; "
        "the softmax of the row's logits predicts “{best}” ({best_p})."
    ),
    ("forced", True): N_(
        "“{token}” ({p}) was forced by you; the softmax of the row's logits predicts "
        "it too."
    ),
    ("forced", False): N_(
        "“{token}” ({p}, rank {rank:,}) was forced by you; the softmax of the row's "
        "logits predicts “{best}” ({best_p})."
    ),
    ("reference", True): N_(
        "“{token}” ({p}) is fed from the reference; the softmax of the row's logits "
        "predicts it too."
    ),
    ("reference", False): N_(
        "“{token}” ({p}, rank {rank:,}) is fed from the reference; the softmax of the "
        "row's logits predicts “{best}” ({best_p})."
    ),
}
_MARKED: dict[Origin, str] = {
    "forced": N_("{token} (forced)"),
    "reference": N_("{token} (fed)"),
}
_TOLD: dict[tuple[Origin, bool], str] = {  # with the model's prediction
    ("forced", True): N_("{token} (forced; the model would say the same)"),
    ("forced", False): N_("{token} (forced; the model would say: {best})"),
    ("reference", True): N_("{token} (fed; the model would say the same)"),
    ("reference", False): N_("{token} (fed; the model would say: {best})"),
}


def is_fed(step: Step) -> bool:
    """Whether a step's token is not the model's own choice."""
    return step.origin in FED


def is_best(step: Step) -> bool:
    """Whether a step's token is the model's most probable one."""
    return not step.candidates or step.candidates[0].id == step.id


def short_choice(trace: Trace, row: int = -1) -> str:
    """Name a step's token, who chose it, and the model's own if it differs."""
    step, fields = trace.steps[row], _fields(trace, row)
    if not step.computed:
        return _("“{token}”; no logits were computed", **fields)
    if math.isnan(step.probability):
        return _("“{token}”; all probabilities are NaN", **fields)
    return _(_SHORT[step.origin, is_best(step)], **fields)


def choice_sentence(trace: Trace, row: int = -1) -> str:
    """Say the same as a full sentence."""
    step, fields = trace.steps[row], _fields(trace, row)
    if not step.computed:
        return _(
            "The model computed no logits for this row; the step's token is “{token}”.",
            **fields,
        )
    if math.isnan(step.probability):
        return _(
            "All its probabilities are NaN: it predicts nothing; the step's token is "
            "“{token}”.",
            **fields,
        )
    said = _(_SENTENCES[step.origin, is_best(step)], **fields)
    return said if step.drawn is None else sentences((said, draw_words(step.drawn)))


def marked_token(trace: Trace, row: int) -> Label:
    """Name a step's token, and whether it was forced or fed; in full form, by whom."""
    step = trace.steps[row]
    token, raw = str(chosen_name(trace, row)), visible(step.token)
    if step.origin in _MARKED:
        token, raw = (_(_MARKED[step.origin], token=x) for x in (token, raw))
    told = told_token(trace, row)
    return Label(token, full=told, raw=raw, saved=told.raw)


def told_token(trace: Trace, row: int) -> Label:
    """Name a step's token and, if it was forced or fed, the model's own."""
    step, token = trace.steps[row], chosen_name(trace, row)
    told = _TOLD.get((step.origin, is_best(step)))
    if not step.computed:  # the model's prediction is unknown
        told = _MARKED.get(step.origin)
    if told is None:
        return token
    shown, raw = (
        _(told, token=x, best=model_says(trace, row)) for x in (token, token.raw)
    )
    return Label(shown, raw=raw)


def model_says(trace: Trace, row: int = -1) -> str:
    """Name the model's most probable token and its probability."""
    if not trace.steps[row].candidates:
        return ""
    return _("“{best}” {best_p}", **_fields(trace, row))


def written_names(trace: Trace, rows: Iterable[int]) -> tuple[Label, ...]:
    """Label rows by the tokens of their steps, which are written there."""
    tokens, origins = chosen_tokens(trace.steps), step_origins(trace.steps)
    how = marks(trace, "target")
    return tuple(
        [
            _written(
                tokens[row],
                trace.target[row],
                how,
                kept_of_step(trace, row, "told", told_token)
                if origins[row] in FED
                else None,
                unchosen=is_open(trace, row),
            )
            for row in rows
        ]
    )


@lru_cache(maxsize=1024)  # most recur from step to step
def _written(
    token: str, read: str, how: WordMarks, fed: Label | None, *, unchosen: bool
) -> Label:
    """Label a row; in full with the token that it read, and who fed the next one."""
    text, raw, after = plain(token, how), visible(token), plain(read, how)
    saved = f"{visible(read)} → {fed.raw if fed else raw}"
    full = _("“{token}” after “{read}”", token=text, read=after)
    if fed:
        text, raw = f"{FED_SIGN} {text}", f"{FED_SIGN} {raw}"
        full = _("{token}, after “{read}”", token=fed, read=after)
    elif unchosen:
        full = _(
            "“{token}”, the best next token after “{read}”", token=text, read=after
        )
    return Label(text, full=full, raw=raw, saved=saved, faint=unchosen)


def kept_of_step(
    trace: Trace, row: int, name: str, make: Callable[[Trace, int], Made]
) -> Made:
    """Cache a value computed from a row's step with its run: later steps show it too.

    ``name`` is the cache key.
    """
    kept: dict[int, tuple[Step, Made]] = trace.memo.made(trace.storage, name, dict)
    step = trace.steps[row]
    if row not in kept or kept[row][0] is not step:
        kept[row] = step, make(trace, row)
    return kept[row][1]


def has_fed(steps: Sequence[Step]) -> bool:
    """Whether any step's token is not the model's own choice."""
    return not FED.isdisjoint(step_origins(steps))


def written_axis(trace: Trace) -> str:
    """Describe the labels of ``written_names`` beside a map of attention."""
    if has_fed(trace.steps):
        return _("query: word being written, ⇢ fed")
    return _("query: word being written")


def draw_words(draw: Draw) -> str:
    ways = [_("temperature {heat}", heat=number(draw.temperature))]
    if draw.top_k:
        ways.append(_("top-k {top_k:,}", top_k=draw.top_k))
    if draw.top_p < 1:
        ways.append(_("top-p {top_p}", top_p=number(draw.top_p)))
    share = probability(draw.probability)
    return _("It was drawn with {p} ({ways}).", p=share, ways=listed(ways))


def _fields(trace: Trace, row: int) -> dict[str, object]:
    step, how = trace.steps[row], marks(trace, "target")
    best = step.candidates[0] if step.candidates else step
    return {
        "token": candidate(step.token, how),
        "p": probability(step.probability),
        "rank": step.rank,
        "best": candidate(best.token, how),
        "best_p": probability(best.probability),
    }
