"""What sentences claim about what a decoder keeps between steps."""

from __future__ import annotations

import numpy as np

from tests.unit.pictures.claims_numbers import number
from tests.unit.pictures.sweep import Claims, Said


def keeps(said: Said) -> bool:
    """Whether the rows of this step were computed one by one, and none again.

    A change of anything but positions is run in whole passes, and so is a row that may
    attend to nothing where masked scores are finite.
    """
    trace = said.trace
    whole = any(change.point != "positions" for change in trace.intervention)
    if trace.model.known is None or whole:
        return False
    empty = "decoder" in trace.kinds and (~trace.mask("decoder").any(-1)).any()
    return not empty or np.isinf(trace.model.config.masked_value)


def is_fed(said: Said) -> bool:
    return {step.origin for step in said.trace.steps} == {"reference"}


def costs(said: Said) -> bool:
    """Whether two counts of multiply-adds follow from the sizes of the layers."""
    trace, sizes = said.trace, said.trace.model.config
    d, inner = sizes.d_model, sizes.feed_forward * (3 if sizes.gated else 2)
    rows, source = len(trace), len(trace.source) if "cross" in trace.kinds else 0
    crosses = bool(source)
    each = 4 * d * d + 2 * d * d * crosses + inner * d + 2 * d * (rows + source)
    kept = sizes.decoder_layers * each
    again = sizes.decoder_layers * (rows * each + 2 * source * d * d)
    told = said.fields["kept"], said.fields["again"]
    times = abs(number(said.fields["times"]) - again / kept) < 0.051
    return told == (kept, again) and times


CLAIMS: Claims = {
    "The keys and values of all tokens read so far, head by head.": lambda s: (
        not len(s.trace) or not keeps(s)
    ),
    "This model was recorded in passes over all tokens: nothing is kept from step to "
    "step.": lambda s: s.trace.model.known is None or not s.trace.steps,
    "This run keeps nothing: with its change or its mask, each step recomputes all "
    "rows.": lambda s: not keeps(s),
    "The reference is read in one pass, all {rows:,} rows at once: nothing needs to be "
    "kept.": lambda s: is_fed(s) and s.fields["rows"] == len(s.trace),
    "At step {step} only row {step} is new: its key and value join those that were "
    "kept, and no earlier row is computed again.": lambda s: (
        keeps(s) and not is_fed(s) and s.fields["step"] == len(s.trace)
    ),
    "No key and no value is computed twice: those of earlier tokens stay as they are, "
    "and the framed row is new.": keeps,
    "Multiply-adds of step {step} in all decoder layers: {kept:,.0f} with a cache; "
    "{again:,.0f} if it computes all rows again, {times} times as many.": costs,
}
