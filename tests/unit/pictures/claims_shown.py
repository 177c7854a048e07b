"""What sentences claim of a run's choices, output, lens, diagram, labs and notices."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.existing import existing
from tests.unit.pictures.claims_masks import (
    above,
    cell_of,
    is_empty,
    is_share,
    key_pads,
    pads,
    reads_later,
    some_step,
)
from tests.unit.pictures.claims_numbers import (
    adds,
    is_near,
    lens_row,
    log_softmax,
    mask,
    number,
    place,
)
from tests.unit.pictures.claims_stated import is_step, no_number, table
from tests.unit.pictures.sweep import Claims, Predicate, Said
from visformer.pictures.masks import part_mask
from visformer.pictures.words.choices import told_token
from visformer.values.arrays import Floats
from visformer.values.facts import Kind
from visformer.values.trace import Trace
from visformer.words import masked_value_text

FED = "forced", "reference"

# ---- who chose ---------------------------------------------------------------------


def without_number(origin: str, *, best: bool) -> Predicate:
    """Ask who chose the token named, and whether it is the best of its row."""
    return lambda said: some_step(
        said,
        lambda one: (
            one.origin == origin
            and best == (not one.candidates or one.candidates[0].id == one.id)
        ),
    )


def last_rank(said: Said) -> bool:
    """Whether the last step's token has the rank said."""
    step, rank = said.trace.steps[-1], int(said.fields["rank"])
    best = step.candidates[:rank]
    if rank <= len(step.candidates):
        return bool(best[-1].id == step.id)
    return all(one.probability >= step.probability for one in step.candidates)


def is_bar(said: Said) -> bool:
    """Whether the token of a bar has its rank and its probability."""
    step, rank = said.trace.steps[-1], int(said.fields["rank"])
    if rank <= len(step.candidates):
        return is_share(said, "p", step.candidates[rank - 1].probability)
    return is_share(said, "p", step.probability) and step.rank == rank


def all_chosen(said: Said) -> bool:
    """Whether each token but the first was chosen in the step before it."""
    steps, trace = said.trace.steps, said.trace
    given = [step.origin for step in steps[:-1] if step.origin in FED]
    return len(steps) == len(trace) and not given and trace.prompt < 2


def is_open_row(said: Said) -> bool:
    """Whether the run is a pass over ids: the best token after the last is not read."""
    *before, last = said.trace.whole.steps
    fed = all(step.origin == "reference" for step in before)
    return fed and last.origin == "model" and last.candidates[0].id == last.id


# ---- the output, the lens ----------------------------------------------------------


def is_loss(said: Said) -> bool:
    """Whether cross-entropy, perplexity and what agrees are those of real tokens."""
    trace = said.trace
    if trace.own_logits is None and trace.output_weight is None:
        return True
    logs, after = log_softmax(trace.logits), pads(trace.whole, "target")
    losses, agreed = [], 0
    for at, step in enumerate(trace.steps):
        read = at + 1 < len(after)
        if step.origin == "reference" and not (read and after[at + 1]):
            if trace.model.pad == step.id and not read:
                continue
            losses.append(-logs[at, step.id])
            agreed += bool(logs[at].argmax() == step.id)
    mean = float(np.mean(losses))
    return (
        said.fields["n"] == len(losses)
        and said.fields["agreed"] == agreed
        and is_near(said, "mean", mean)
        and math.isclose(
            number(said.fields["perplexity"]), math.exp(mean), rel_tol=1e-2
        )
    )


def is_entropy(said: Said) -> bool:
    trace = said.trace
    if trace.own_logits is None and trace.output_weight is None:
        return True
    logs = log_softmax(trace.logits[-1]) / math.log(2)
    bits = -float((np.exp2(logs) * logs)[np.isfinite(logs)].sum())
    most = said.fields.get("most", math.log2(len(logs)))
    return is_near(said, "bits", math.nan if np.isnan(logs).any() else bits) and (
        math.isclose(number(most), math.log2(len(logs)), abs_tol=6e-3)
    )


def is_lens_cell(said: Said) -> bool:
    """Whether some layer gives the step's token the rank and probability said."""
    look = lens_row(said)
    rank = str(said.fields["rank"]).replace("–", "0").replace(",", "")
    return any(
        int(rank) == one and is_share_or_nan(said, "p", float(p))
        for one, p in zip(look.chosen_ranks, look.chosen_probabilities, strict=True)
    )


def is_share_or_nan(said: Said, field: str, wanted: float) -> bool:
    told = number(said.fields[field])
    return math.isnan(told) if math.isnan(wanted) else is_share(said, field, wanted)


def is_models_own(said: Said) -> bool:
    """Whether the lens ends with what the model itself predicts."""
    look = lens_row(said)
    if look is None:
        return True
    own = said.trace.steps[-1].candidates.numbers[1]
    count = min(len(own), look.probabilities.shape[1])
    end = look.probabilities[-1][:count]
    return bool(np.allclose(own[:count], end, atol=1e-3, equal_nan=True))


def is_best_part(said: Said) -> bool:
    look = lens_row(said)
    listed = float(look.probabilities[-1].sum())
    return is_share_or_nan(said, "listed", listed)


# ---- masks -------------------------------------------------------------------------


def replaced(said: Said, kind: Kind) -> bool:
    """Whether masked scores of a kind, in some layer, are the number said."""
    told = str(said.fields["value"])
    return any(all(one in told for one in layer) for layer in masked(said.trace, kind))


@cache
def masked(trace: Trace, kind: Kind) -> list[set[str]]:
    """Return of each layer what its hidden scores are, as it is written."""
    found = []
    for layer in range(trace.layers(kind)):
        heads = trace.attention_heads(kind, layer, 0)
        hidden = ~trace.mask(kind, layer)
        values = {*heads.masked()[0][hidden].tolist()} or {heads.masked_value}
        found.append({masked_value_text(float(f"{one:.6g}")) for one in values})
    return found


def is_rule(said: Said) -> bool:
    """Whether the causal mask that is shown hides what is later, of the decoder."""
    for kind in said.trace.kinds:
        shown = part_mask(said.trace, kind, "causal", 0)
        later = bool(above(~shown).any())
        wanted = np.ones(shown.shape, bool)
        wanted = np.tril(wanted) if kind == "decoder" else wanted
        if not (shown == wanted).all() or (later and kind != "decoder"):
            return False
    return True


def is_rule_of_pads(said: Said) -> bool:
    trace = said.trace
    return all(
        bool((part_mask(trace, kind, "padding", 0) != key_pads(trace, kind)).all())
        for kind in trace.kinds
    )


def empty_rows(said: Said) -> list[Floats]:
    """Return the weights of rows that may attend to nothing, of every layer."""
    trace = said.trace
    return [
        trace.attention(kind, layer)[:, ~trace.mask(kind, layer).any(-1)]
        for kind in trace.kinds
        for layer in range(trace.layers(kind))
    ]


def is_block_of_nothing(said: Said) -> bool:
    """Whether a row of a layer may attend to nothing, and what it becomes."""
    wanted = math.nan if "NaN" in said.template else 0.0
    return any(
        len(one) and one.size and np.allclose(np.ptp(one, -1), wanted, equal_nan=True)
        for one in empty_rows(said)
    )


# ---- runs and models ---------------------------------------------------------------


def kinds_are(*kinds: Kind) -> Predicate:
    return lambda said: said.trace.kinds == kinds


def first_difference(said: Said) -> bool:
    """Whether the runs read different tokens from the row said on, and not before."""
    assert said.run.baseline is not None
    own, changed = said.run.baseline.target_ids, said.trace.target_ids
    at = int(said.fields["row"]) - 1
    return bool((own[:at] == changed[:at]).all()) and own[at] != changed[at]


def same_text(said: Said) -> bool:
    assert said.run.baseline is not None
    return said.run.baseline.text == said.trace.text


def effect(said: Said) -> bool:
    """Whether the step's numbers are those of both runs, which read the same before."""
    row, baseline = int(said.fields["step"]) - 1, existing(said.run.baseline)
    was, now = baseline.steps[row], said.trace.steps[row]
    before = next(one.probability for one in was.candidates if one.id == now.id)
    moved = math.log(now.probability / before)
    higher = sum(one.probability > before for one in was.candidates)
    ids = (run.target_ids[: row + 1].tolist() for run in (baseline, said.trace))
    return (
        next(ids) == next(ids)
        and said.fields["token"] == told_token(said.trace, row)
        and is_near(said, "effect", moved, 1e-5 + 6e-3 * abs(moved))
        and number(said.fields["was"]) >= 1 + higher
        and number(said.fields["now"]) == now.rank
    )


def no_effect(said: Said) -> bool:
    """Whether a step's best tokens are as probable as without the change."""
    row, baseline = int(said.fields["step"]) - 1, existing(said.run.baseline)
    was, now = baseline.steps[row].candidates, said.trace.steps[row].candidates
    known = {one.id: one.probability for one in now}
    return all(abs(known[one.id] - one.probability) < 1e-4 for one in was[:5])


def without_positions(said: Said, *, same: bool) -> bool:
    only = str(said.trace.intervention) == "positions none"
    return only and not (said.run.checkpoint and adds(said)) and same == same_text(said)


def some_shuffle(test: Callable[[Any, Any, float], bool]) -> Predicate:
    """Ask of a shuffled run: itself, as it was, and the largest relative difference."""

    def asked(said: Said) -> bool:
        for order, own, moved in said.run.shuffles:
            pairs = (
                (own.encoder_output[list(order)], moved.encoder_output),
                (own.decoder_output, moved.decoder_output),
            )
            apart = [
                float(np.abs(one - other).max() / max(1.0, np.abs(one).max()))
                for one, other in pairs
            ]
            if test(own, moved, math.nan if np.isnan(apart).any() else max(apart)):
                return True
        return False

    return asked


def origin_count(origin: str) -> Predicate:
    return lambda said: (
        said.fields["n"] == sum(step.origin == origin for step in said.trace.steps)
    )


def finite(said: Said, stack: Any, layer: int) -> bool:
    return bool(np.isfinite(said.trace.hidden(stack, layer)).all())


def is_first_broken(said: Said) -> bool:
    """Whether a layer is the first whose numbers are not finite, and all after it."""
    stack: Any = said.fields["stack"]
    layer, trace = int(said.fields.get("layer", 0)), said.trace
    before = all(finite(said, stack, one) for one in range(layer))
    after = range(layer, trace.layers("encoder" if stack == "encoder" else "decoder"))
    return before and not any(finite(said, stack, one) for one in after)


def tied(said: Said, one: str, other: str) -> bool:
    assert said.run.checkpoint is not None
    model = said.run.checkpoint.model
    return bool(getattr_path(model, one) is getattr_path(model, other))


def getattr_path(model: Any, path: str) -> Any:
    for name in path.split("."):
        model = getattr(model, name)
    return model


TABLES = "source_embedding.weight", "target_embedding.weight"


def is_tied(said: Said, *, both: bool, output: bool) -> bool:
    if said.run.checkpoint is None:
        config = said.trace.model.config
        return (config.shared_embedding, config.tied_output) == (both, output)
    return both == tied(said, *TABLES) and output == any(
        tied(said, "output.weight", one) for one in TABLES
    )


def is_cut(said: Said) -> bool:
    trace = said.trace
    most = trace.model.config.max_positions
    return bool(said.fields["n"] == trace.truncated_from > most == len(trace.source))


def certified(said: Said) -> bool:
    trace, certificate = said.trace, existing(said.trace.certificate)
    count = sum(trace.layers(kind) for kind in trace.kinds)
    within = bool(said.fields["worst"] <= certificate.tolerance)
    return within and bool(said.fields["n"] == count)


def rows_from(said: Said, most: int) -> bool:
    return bool(said.fields["first"] == len(said.trace) - most + 1)


CLAIMS: Claims = {
    # who chose
    "by beam search: “{token}” {p}, the most probable": is_step("beam", best=True),
    "by beam search: “{token}” {p}; most probable: “{best}” {best_p}": (
        is_step("beam", best=False)
    ),
    "“{token}” is in the hypothesis that beam search found; it is also the most "
    "probable token by the softmax of the row's logits ({p}).": (
        is_step("beam", best=True)
    ),
    "“{token}” ({p}, rank {rank:,}) is in the hypothesis that beam search found; the "
    "softmax of the row's logits predicts “{best}” ({best_p}).": (
        is_step("beam", best=False)
    ),
    "by the generation rules: “{token}” {p}": is_step("rule", best=True),
    "by the generation rules: “{token}” {p}; most probable: “{best}” {best_p}": (
        is_step("rule", best=False)
    ),
    "The generation rules led to “{token}” ({p}).": is_step("rule", best=True),
    "The generation rules led to “{token}” ({p}, rank {rank:,}); the softmax of the "
    "row's logits predicts “{best}” ({best_p}).": is_step("rule", best=False),
    **{
        f"{words}: “{{token}}” {{p}}; the model would say the same": is_step(
            origin, best=True
        )
        for words, origin in (("forced", "forced"), ("fed", "reference"))
    },
    **{
        f"{words}: “{{token}}” {{p}}; the model would say: “{{best}}” {{best_p}}": (
            is_step(origin, best=False)
        )
        for words, origin in (("forced", "forced"), ("fed", "reference"))
    },
    **{
        f"{{token}} ({words}; the model would say the same)": without_number(
            origin, best=True
        )
        for words, origin in (("forced", "forced"), ("fed", "reference"))
    },
    **{
        f"{{token}} ({words}; the model would say: {{best}})": without_number(
            origin, best=False
        )
        for words, origin in (("forced", "forced"), ("fed", "reference"))
    },
    "the model would say the same": lambda s: (
        s.trace.steps[-1].origin in FED
        and s.trace.steps[-1].candidates[0].id == s.trace.steps[-1].id
    ),
    "“{token}”; no logits were computed": lambda s: some_step(
        s, lambda one: not one.candidates
    ),
    "The model computed no logits for this row; the step's token is “{token}”.": (
        lambda s: some_step(s, lambda one: not one.candidates)
    ),
    "“{token}”, the best next token after “{read}”": is_open_row,
    "{origin}: “{token}”, rank {rank}": last_rank,
    "rank {rank:,}: “{token}”, p = {p}": is_bar,
    "“{token}”, p = NaN": no_number,
    "Each step appends the token chosen in the step before.": all_chosen,
    "Each step appends the token of the step before, chosen, forced or fed from the "
    "reference.": lambda s: any(step.origin in FED for step in s.trace.steps),
    "The tokens were given: none was chosen in the step before.": lambda s: (
        not s.trace.steps
    ),
    "The first {n:,} tokens were given; each step appends the token of the step "
    "before.": lambda s: s.fields["n"] == s.trace.prompt > 1,
    "teacher forcing: {n:,} tokens are fed from the reference": origin_count(
        "reference"
    ),
    "The run ended at its limit of {n:,} tokens, without the end token.": lambda s: (
        s.fields["n"] == len(s.trace) and s.trace.steps[-1].id != s.trace.model.eos
    ),
    # how far a run is
    "Step 0: the encoder has read {n:,} source tokens in one pass; the decoder has not "
    "started yet.": lambda s: not len(s.trace) and s.fields["n"] == len(s.trace.source),
    "The encoder has read {n:,} tokens in one pass.": lambda s: (
        s.trace.kinds == ("encoder",) and s.fields["n"] == len(s.trace.source)
    ),
    "The decoder has read {n:,} tokens; what it predicted is not in this trace.": (
        lambda s: not s.trace.steps and s.fields["n"] == len(s.trace)
    ),
    "Every later step reuses the encoder's output.": lambda s: (
        len(s.trace) == 1 and "cross" in s.trace.kinds
    ),
    "The encoder's output is used again.": lambda s: (
        len(s.trace) > 1 and "cross" in s.trace.kinds
    ),
    # kinds and what a trace lacks
    "This is an encoder-only model: it has no decoder and no steps.": kinds_are(
        "encoder"
    ),
    "This model ran decoder-only: it has no encoder and no cross-attention.": (
        kinds_are("decoder")
    ),
    "This trace has no self-attention, only cross-attention.": kinds_are("cross"),
    "This trace has no cross-attention.": kinds_are("encoder", "decoder"),
    "This trace has no decoder self-attention.": kinds_are("encoder", "cross"),
    "This trace has no encoder self-attention.": kinds_are("decoder", "cross"),
    "This trace does not contain what the model predicted.": lambda s: (
        bool(len(s.trace)) and not s.trace.steps
    ),
    "This trace does not contain the decoder's output.": lambda s: not has_stream(s),
    "There is no logit lens: this trace has no decoder stack.": lambda s: (
        "decoder" not in s.trace.model.stacks
    ),
    "There is no logit lens: only the attention of “{model}” is known, not its output "
    "projection.": lambda s: s.trace.model.known is None and s.scene.lens is None,
    # the output
    "Z [{rows}, {width}], rows {first} to {rows}: row t read tokens 1..t, predicts t + "
    "1": lambda s: not reads_later(s.trace) and rows_from(s, 256),
    "Z [{rows}, {width}], rows {first} to {rows}: some rows of this run read later "
    "tokens": lambda s: reads_later(s.trace) and rows_from(s, 256),
    "The best {best} hold {listed} of the probability, the other {n:,} tokens "
    "{others}.": is_best_part,
    "This model ends in a softmax of its own: it returns the probabilities p; z is "
    "what enters that softmax.": lambda s: np.allclose(
        np.exp(s.trace.logits).sum(-1), 1, atol=1e-3
    ),
    "Cross-entropy {mean} per token ({total} nats), perplexity {perplexity}, "
    "{agreed:,} of {n:,} as the model says": is_loss,
    "Entropy H = −Σ p log₂ p over all {tokens:,} tokens: now {bits} bits, as uncertain "
    "as between {alike} equally likely tokens. 0 is certain, {most} bits is no idea.": (
        is_entropy
    ),
    "Logit z: a token's score, the last row of Z times its column of W; of “{token}” "
    "{z}.\nLSE (log-sum-exp) = ln Σ exp(z) over all logits = {total}: it makes the "
    "probabilities sum to 1.\np = exp(z − LSE) = exp({gap}) = {p}.": lambda s: (
        is_share_or_nan(s, "p", float(lens_row(s).chosen_probabilities[-1]))
    ),
    "Sampling at temperature {heat}: softmax(z / {heat}) gives exp({logit} / {heat} − "
    "{total}) = {drawn}.": lambda s: (
        s.trace.steps[-1].drawn is not None
        and is_near(s, "heat", s.run.strategy.temperature)
    ),
    "Temperature T: p = softmax(z / T) of the logits z; now T = {temperature}. Below 1 "
    "the best token gains, above 1 all come closer together; near 0 sampling is "
    "greedy.": lambda s: is_near(s, "temperature", s.run.strategy.temperature),
    "Top-p: only the fewest tokens whose probabilities add up to p can be drawn; now "
    "p = {p}, and 1 keeps all. Their probabilities are divided by their sum.": (
        lambda s: is_near(s, "p", s.run.strategy.top_p)
    ),
    "Top-k: only the k most probable tokens can be drawn ({now}); their probabilities "
    "are divided by their sum.": lambda s: (
        f"{s.run.strategy.top_k or 'all'}" in str(s.fields["now"])
    ),
    "At most {limit:,} target tokens.": lambda s: (
        s.fields["limit"] == s.run.limit and len(s.trace) <= s.fields["limit"]
    ),
    # the lens
    "Logit lens: each layer's stream through the model's own final norm, if it has "
    "one, its output projection and softmax.": lambda s: s.trace.model.known is None,
    "Step {step}, after {place}: {best}. Its token, {token}: rank {rank}, p {p}, logit "
    "{logit}, LSE {total}.": is_lens_cell,
    "Row 0 is what enters the first layer; the last row is the model's own prediction. "
    "The rows before it are a lens, not what the model computes there: it reads out "
    "only the last.": is_models_own,
    "all steps: each layer's best token": lambda s: len(s.trace) <= 128,
    "all steps: the rank of the step's token": lambda s: len(s.trace) <= 128,
    "steps {first} to {last}: each layer's best token": lambda s: rows_from(s, 128),
    "steps {first} to {last}: the rank of the step's token": lambda s: rows_from(
        s, 128
    ),
    # masks
    "A query may attend to a key where the mask is True. Where it is False, the score "
    "is replaced by {value} before the softmax.": lambda s: replaced(s, place(s)[0]),
    "False (hidden: score replaced by {value} before the softmax)": lambda s: all(
        replaced(s, kind) for kind in s.trace.kinds
    ),
    "Padding mask. False where the key only fills up a row of the batch, which no "
    "query should read.": is_rule_of_pads,
    "Causal mask. False where the key comes after the query, as the decoder's "
    "self-attention should hide it; the others have none.": is_rule,
    "Combined mask: the one that the model used.": lambda s: bool(
        (part_mask(s.trace, place(s)[0], "combined", place(s)[1]) == mask(s)).all()
    ),
    "The mask that the model used; the rules behind it are unknown.": lambda s: (
        s.trace.model.known is None
    ),
    "There is none: every query may attend to every key.": lambda s: (
        place(s)[0] != "decoder"
    ),
    "{kind}, {layer}: query {query} may not attend to key {key}.": lambda s: (
        not cell_of(s)[0]
    ),
    "The softmax of only −∞ is NaN, and so is all that follows.": lambda s: (
        is_empty(s) and any(np.isnan(one).any() for one in empty_rows(s))
    ),
    "Every score is {value}, so every key gets the same weight, {weight}.": lambda s: (
        any(
            one.size
            and bool((np.ptp(one, -1) < 1e-6).all())
            and is_near(s, "weight", float(one.ravel()[0]))
            for one in empty_rows(s)
        )
    ),
    "{shape} rows all masked: NaN": is_block_of_nothing,
    "{shape} rows all masked: equal": is_block_of_nothing,
    # labs
    "From decoder row {row} on, the runs read different tokens (“{original}” "
    "originally, “{modified}” in the modified run). Attention is compared up to there; "
    "the next token's probabilities follow different beginnings.": first_difference,
    "Modified run: {changes}. The text stays the same.": same_text,
    "step {step}: log p of “{token}” {effect:+.3g}, rank {was} → {now}": effect,
    "no effect on step {step}": no_effect,
    "Original and modified, the same text: {text}": same_text,
    "Original: {original}\nModified: {modified}": lambda s: not same_text(s),
    "With {change} the text stays “{modified}”.": same_text,
    "With {change} “{original}” becomes “{modified}”.": lambda s: not same_text(s),
    "Without positions the text stays “{modified}”.": lambda s: without_positions(
        s, same=True
    ),
    "Without positions “{original}” becomes “{modified}”: nothing is added that says "
    "where each word stands.": lambda s: without_positions(s, same=False),
    "Shuffled, with the model's own positions: {tokens}.": lambda s: (
        not s.trace.intervention
    ),
    "Shuffled, under “{changes}”: {tokens}.": lambda s: bool(s.trace.intervention),
    "It is the same sentence again, which says nothing about order.": some_shuffle(
        lambda own, moved, _apart: own.source == moved.source
    ),
    "Outputs that are NaN say nothing about order.": some_shuffle(
        lambda _own, _moved, apart: math.isnan(apart)
    ),
    "The outputs are the same in another order: to the model the sentence is a bag of "
    "words.": some_shuffle(
        lambda own, moved, apart: own.source != moved.source and apart < 1e-3
    ),
    "The outputs differ: the model knows the order.": some_shuffle(
        lambda own, moved, apart: (
            own.source != moved.source
            and apart > 1e-3
            and not any(change.tokens for change in own.intervention)
        )
    ),
    "The outputs differ, but the run was changed at places where other words stand "
    "now: that says nothing about order.": some_shuffle(
        lambda own, _moved, apart: (
            apart > 1e-3 and any(c.tokens for c in own.intervention)
        )
    ),
    # positions
    "{encoding}; {positions:,} positions × {dimensions:,} dimensions.": lambda s: (
        s.run.table is None
        or table(s).shape == (s.fields["positions"], s.fields["dimensions"])
    ),
    "+ position [{rows}, {columns}]": lambda s: (
        s.fields["columns"] == table(s).shape[1]
    ),
    "This model adds no positional encoding: its input does not say where a token is, "
    "so there is no table to show.": lambda s: not adds(s),
    "{count:,} positions × {width:,} dimensions, learned: parameters of the model, no "
    "formula; every figure is measured from the table. This is the source's table; the "
    "target has its own.": lambda s: (
        not tied(s, "source_positions", "target_positions")
    ),
    "Each row is a position: a vector of its own among the model's weights, not a "
    "formula.": lambda s: any(
        one.shape == table(s).shape and np.array_equal(one.detach().numpy(), table(s))
        for one in s.run.checkpoint.model.parameters()  # type: ignore[union-attr]
    ),
    # the model
    "one embedding table per side; output projection not tied": lambda s: is_tied(
        s, both=False, output=False
    ),
    "one embedding table for both sides; output projection not tied": lambda s: is_tied(
        s, both=True, output=False
    ),
    "The numbers of {stack} layer {layer} and all that follow are not finite (NaN or "
    "infinity), so that the predictions mean nothing.": is_first_broken,
    "The {stack}'s input is not finite (NaN or infinity), so that the predictions mean "
    "nothing: look at the embeddings.": is_first_broken,
    "The logits are not finite (NaN or infinity), so that the predictions mean "
    "nothing: look at the output projection.": lambda s: (
        bool(np.isfinite(s.trace.decoder_output).all()) and no_number(s)
    ),
    # sources and certificates
    "pad {source_pad} in the source and {pad} in the target, start {bos}, end {eos}": (
        lambda s: (
            s.trace.model.pad == s.fields["pad"]
            and (not len(s.trace) or s.trace.target_ids[0] == s.fields["bos"])
        )
    ),
    "The source looks like several sentences, which are read as one: a model that was "
    "trained on single sentences may leave some out.": lambda s: (
        len(re.findall(r"[.!?](?= )", s.trace.source_text)) > 0
    ),
    "There is no logit lens: this trace has no hidden states.": lambda s: (
        not s.trace.model.stacks["decoder"].hidden
    ),
    "The sentence has {n:,} tokens, the model {positions:,} positions: it is cut.": (
        is_cut
    ),
    "Judging by its name, this model reads “{language}”; the sentence is in another "
    "script.": (lambda s: not re.search("[a-z]", s.trace.source_text)),
    "{share} of the source tokens are single bytes: the vocabulary has no other token "
    "for these characters.": lambda s: (
        3 * sum("<0x" in one for one in s.trace.source) > len(s.trace.source) * 0.9
    ),
    "All numbers of {n:,} attentions are the model's own, within {worst:.2g}.": (
        certified
    ),
    "The model's best tokens in this place.": lambda s: len(s.trace.fills) == 1,
    "The model's best tokens in this place. Click another masked token in the source "
    "strip to see those in its place.": lambda s: len(s.trace.fills) > 1,
}


def has_stream(said: Said) -> bool:
    facts = said.trace.model.stacks.get("decoder")
    return facts is not None and bool(facts.output or facts.hidden)
