"""What sentences claim of a beam search: who was kept, dropped or finished, and why.

Each is asked of the arrays alone, without the tree that is drawn.
"""

from __future__ import annotations

import math

import numpy as np

from tests.unit.pictures.sweep import Claims, Said
from visformer.values.beam_search import BeamSearch
from visformer.words import decimals, number


def search_of(said: Said) -> BeamSearch:
    found = said.run.search
    assert found is not None
    return found


def column(said: Said, key: str = "step") -> int:
    """Return the search's step, from 0, of the step that is named."""
    return int(said.fields[key]) - len(search_of(said).given)


def candidates(found: BeamSearch, step: int) -> list[tuple[int, int, float, int]]:
    """Return beam before, id, sum and place of all candidates; -1: it has finished."""
    rows = zip(found.parents[step], found.ids[step], found.sums[step], strict=True)
    listed = [(int(p), int(i), float(s), at) for at, (p, i, s) in enumerate(rows)]
    ended = [o for o in found.finished if o.step == step]
    return [c for c in listed if c[2] > -math.inf] + [
        (o.beam, o.id, o.logprob, -1) for o in ended
    ]


def before(found: BeamSearch, step: int, beam: int) -> float:
    return float(found.sums[step - 1, beam]) if step else 0.0


def is_candidate(said: Said) -> bool:
    found, step = search_of(said), column(said)
    return any(
        said.fields["sum"] == decimals(total, 2)
        and said.fields["token"].raw == found.pieces[id]
        and math.isclose(
            float(said.fields["p"].replace("−", "-")),
            math.exp(total - before(found, step, beam)),
            abs_tol=6e-5,
        )
        for beam, id, total, _at in candidates(found, step)
    )


def is_beam(said: Said) -> bool:
    found = search_of(said)
    return int(said.fields["beams"]) == found.beams >= int(said.fields["rank"]) > 0


def leads_nowhere(said: Said) -> bool:
    """Whether all candidates after this beam were dropped."""
    found, after, rank = search_of(said), column(said, "next"), said.fields["rank"]
    own = [c for c in candidates(found, after) if c[0] == rank - 1]
    return is_beam(said) and all(at >= found.beams for *_c, at in own)


def is_left(said: Said) -> bool:
    found = search_of(said)
    return is_beam(said) and bool(found.sums[-1, said.fields["rank"] - 1] > -math.inf)


def last_kept(found: BeamSearch, step: int) -> float:
    kept = found.sums[step, : found.beams]
    return float(kept[np.isfinite(kept)].min())


def was_dropped(said: Said) -> bool:
    found, step = search_of(said), column(said)
    behind = [last_kept(found, step) - c for c in found.sums[step, found.beams :]]
    said_gap = said.fields["gap"]
    return any(gap >= 0 and decimals(float(gap), 2) == said_gap for gap in behind)


def was_outranked(said: Said) -> bool:
    """Whether one that was dropped has a higher sum than one that was not."""
    found, step = search_of(said), column(said)
    assert said.run.checkpoint is not None
    every = candidates(found, step)
    ours = min(c[2] for c in every if c[3] < found.beams)
    theirs = max(c[2] for c in every if c[3] >= found.beams)
    return theirs > ours and said.run.checkpoint.generation.restricts


def ended_late(said: Said) -> bool:
    """Whether so many candidates of the step have a sum as high or higher."""
    found, step = search_of(said), column(said)
    every = candidates(found, step)
    late = [
        c
        for c in every
        if c[3] >= found.beams and (c[1] in found.ends or step + 1 == found.limit)
    ]
    ahead = [sum(c[2] <= other[2] for other in every) - 1 for c in late]
    return bool(late) and min(ahead) >= found.beams


def has_ended(said: Said) -> bool:
    found = search_of(said)
    told = {name: said.fields[name] for name in ("sum", "length", "score")}
    return any(
        told
        == {
            "sum": decimals(one.logprob, 2),
            "length": one.step + 1,
            "score": number(one.logprob / (one.step + 1) ** found.length_penalty),
        }
        for one in found.finished
    )


def counts(said: Said) -> bool:
    """Whether the counts are those of the step's candidates."""
    found, step = search_of(said), column(said)
    told = [said.fields[name] for name in ("going", "gone", "ended")]
    kept = int(np.isfinite(found.sums[step, : found.beams]).sum())
    gone = int(np.isfinite(found.sums[step, found.beams :]).sum())
    return told == [kept, gone, sum(one.step == step for one in found.finished)]


def has_penalty(said: Said) -> bool:
    """Whether the scores of the finished hypotheses have this length penalty."""
    found = search_of(said)
    own = [
        one.logprob / (one.step + 1) ** found.length_penalty for one in found.finished
    ]
    same = np.allclose([one.score for one in found.finished], own, rtol=1e-5)
    return bool(same) and said.fields["penalty"] == number(found.length_penalty)


CLAIMS: Claims = {
    "Step {step}: “{token}”, p {p}; log p so far {sum}.": is_candidate,
    "It is beam {rank} of {beams}.": is_beam,
    "It is beam {rank} of {beams}; all that went on from it was dropped at step "
    "{next}.": leads_nowhere,
    "It is beam {rank} of {beams}, unfinished when the search stopped.": is_left,
    "It was dropped at step {step}, {gap} behind the last kept.": was_dropped,
    "It was dropped at step {step}: by the generation rules others come first.": (
        was_outranked
    ),
    "It ends here, but is not among the best {beams} of step {step}: it was dropped.": (
        ended_late
    ),
    "It ends here: sum {sum}, length {length} with what ends it, score {score}.": (
        has_ended
    ),
    "The wider an edge, the likelier its token. Step {step}: {going} kept, {gone} "
    "dropped, {ended} ended.": counts,
    "score = sum of log p / length^{penalty}; log is natural, and what ends the "
    "sentence counts.": has_penalty,
}
