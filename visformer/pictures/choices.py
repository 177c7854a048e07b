"""Who chose a step's token, in words: the model, its rules, the user or a reference.

A token that the user forced or a reference fed is never called predicted: the words say
what the model would have said in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from visformer.language import N_, _
from visformer.pictures.picture import TokenPair
from visformer.text import visible
from visformer.values.memo import Made
from visformer.values.step import Draw, Origin, Step, chosen_tokens, step_origins
from visformer.values.trace import Trace
from visformer.words import number, probability

FED: frozenset[Origin] = frozenset(("forced", "reference"))  # not the model's own
WHO: dict[Origin, str] = {  # translated where it is shown
    "model": N_("chosen"),
    "drawn": N_("drawn"),
    "rule": N_("by the generation rules"),
    "forced": N_("forced by you"),
    "reference": N_("fed from the reference"),
}
# of each: whether the token is the model's most probable one
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
_TOLD: dict[tuple[Origin, bool], str] = {  # with what the model would have said
    ("forced", True): N_("{token} (forced; the model would say the same)"),
    ("forced", False): N_("{token} (forced; the model would say: {best})"),
    ("reference", True): N_("{token} (fed; the model would say the same)"),
    ("reference", False): N_("{token} (fed; the model would say: {best})"),
}


def is_fed(step: Step) -> bool:
    """Tell whether a step's token is not the model's own choice."""
    return step.origin in FED


def is_best(step: Step) -> bool:
    """Tell whether a step's token is the model's most probable one."""
    return not step.candidates or step.candidates[0].id == step.id


def short_choice(step: Step) -> str:
    """Name a step's token, who chose it, and the model's own where it is another."""
    if not step.computed:
        return _("“{token}”; no logits were computed", token=visible(step.token))
    if math.isnan(step.probability):
        return _("“{token}”; all probabilities are NaN", token=visible(step.token))
    return _(_SHORT[step.origin, is_best(step)], **_fields(step))


def choice_sentence(step: Step) -> str:
    """Say the same as a whole sentence."""
    if not step.computed:
        return _(
            "The model computed no logits for this row; the step's token is “{token}”.",
            token=visible(step.token),
        )
    if math.isnan(step.probability):
        return _(
            "All its probabilities are NaN: it predicts nothing; the step's token is "
            "“{token}”.",
            token=visible(step.token),
        )
    said = _(_SENTENCES[step.origin, is_best(step)], **_fields(step))
    return said if step.drawn is None else f"{said} {_draw_words(step.drawn)}"


def marked_token(step: Step) -> str:
    """Name a step's token, and whether it was forced or fed."""
    token, who = visible(step.token), step.origin
    return _(_MARKED[who], token=token) if who in _MARKED else token


def told_token(step: Step) -> str:
    """Name a step's token and, where it was forced or fed, the model's own."""
    told = _TOLD.get((step.origin, is_best(step)))
    token = visible(step.token)
    return _(told, token=token, best=model_says(step)) if told else token


def best_token(step: Step) -> str:
    """Return the model's most probable token, as it is shown."""
    return visible(step.candidates[0].token) if step.candidates else ""


def model_says(step: Step) -> str:
    """Name the model's most probable token, and its probability."""
    if not step.candidates:
        return ""
    best = step.candidates[0]
    return _(
        "“{token}” {p}", token=visible(best.token), p=probability(best.probability)
    )


def token_pairs(
    trace: Trace, names: Sequence[str], rows: Iterable[int]
) -> tuple[TokenPair, ...]:
    """Label target rows: what each read, and the token of the step in ``rows``."""
    tokens, origins = chosen_tokens(trace.steps), step_origins(trace.steps)
    return tuple(
        [
            _pair(
                name,
                visible(tokens[row]),
                kept_of_step(trace, row, "choice", short_choice)
                if origins[row] in FED
                else "",
            )
            for name, row in zip(names, rows, strict=True)
        ]
    )


def kept_of_step(
    trace: Trace, row: int, name: str, make: Callable[[Step], Made]
) -> Made:
    """Return what is made of a row's step, kept with its run: later ones show it too.

    ``name``: what it is kept by.
    """
    kept: dict[int, tuple[Step, Made]] = trace.memo.made(trace.storage, name, dict)
    step = trace.steps[row]
    if row not in kept or kept[row][0] is not step:
        kept[row] = step, make(step)
    return kept[row][1]


_pair = lru_cache(maxsize=4096)(TokenPair)  # most are those of the step before


def has_fed(steps: Sequence[Step]) -> bool:
    """Tell whether any step's token is not the model's own choice."""
    return not FED.isdisjoint(step_origins(steps))


def pairs_axis(steps: Sequence[Step]) -> str:
    """Say what the labels of ``token_pairs`` name beside a map of attention."""
    origins = set(step_origins(steps))
    if origins and origins <= FED:
        return _("query: target read ⇢ fed")
    if origins & FED:
        return _("query: target read → chosen, ⇢ fed")
    return _("query: target read → chosen")


def _draw_words(draw: Draw) -> str:
    ways = [_("temperature {heat}", heat=number(draw.temperature))]
    if draw.top_k:
        ways.append(_("top-k {top_k:,}", top_k=draw.top_k))
    if draw.top_p < 1:
        ways.append(_("top-p {top_p}", top_p=number(draw.top_p)))
    share = probability(draw.probability)
    return _("It was drawn with {p} ({ways}).", p=share, ways=", ".join(ways))


def _fields(step: Step) -> dict[str, object]:
    best = step.candidates[0] if step.candidates else step
    return {
        "token": visible(step.token),
        "p": probability(step.probability),
        "rank": step.rank,
        "best": visible(best.token),
        "best_p": probability(best.probability),
    }
