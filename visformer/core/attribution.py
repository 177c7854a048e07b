"""What tokens do to a run: value zeroing, norms, gradients, the share of the source.

Letters: ``Q`` queries, ``K`` keys, ``S`` source and ``T`` target tokens, ``D`` width.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from visformer.core.loaded import Loaded, native
from visformer.core.long_work import in_turn
from visformer.core.mask_rules import RULES
from visformer.core.models import Model, Reached, SourceTokens, WorkDone
from visformer.core.modified import modified_checkpoint
from visformer.core.next_tokens import NextTokens
from visformer.core.parts import ROWS_BLOCK
from visformer.core.passes import allowed_masks
from visformer.core.rows import host
from visformer.core.threads import few_threads
from visformer.errors import InputError
from visformer.files import amount
from visformer.language import _
from visformer.values.arrays import Doubles, Floats, read_only
from visformer.values.changes.head_changes import ValueOff
from visformer.values.changes.run_change import LocalChanges, RunChange
from visformer.values.changes.weight_changes import HeadScale
from visformer.values.encodings import PASS_LOOKUP, STEP_LOOKUP
from visformer.values.facts import STACK_OF, Kind, ModelFacts
from visformer.values.intervention import Intervention
from visformer.values.layer_weights import AttentionWeights
from visformer.values.measured import Attribution, AttributionPlace
from visformer.values.trace import Trace

MOST_KEPT = 1 << 30  # bytes that gradients of a run may take
LEAST_COPIES = 8  # of a layer's input that run together, however long it is


class KnownRun(NamedTuple):
    """A run by what it read, and the token that each row chose [T]."""

    source: SourceTokens
    target: Sequence[int]  # ids that its decoder consumes
    chosen: Sequence[int]
    change: Intervention
    fed: bool  # in one whole pass, where that gives rows other positions
    given: int = 0  # how many choices are a prompt's


Working = Generator[WorkDone, None, Floats]


def attributed(
    model: Model, run: KnownRun, place: AttributionPlace, *, shared: bool
) -> Generator[WorkDone, None, Attribution]:
    """Compute a measure of a run; each yield is a place to stop.

    ``shared``: with the share of the source, which is the same of each measure. Raises
    InputError, in one sentence, where the model cannot tell.
    """
    how, kind, layer = place
    match how:
        case "zeroing":
            values = yield from value_zeroing(model, run, kind, layer)
        case "norms":
            values = yield from weighted_norms(model, run, kind, layer)
        case "gradient":
            values = yield from gradient_times_input(model, run, kind)
    share = None
    if shared:
        with contextlib.suppress(InputError):  # a change that it cannot make
            share = read_only(source_share(model, run))
    return Attribution(values=read_only(values), share=share)


def _reached(
    model: Model, run: KnownRun, *more: RunChange
) -> tuple[Reached, NextTokens]:
    """Run it once more, with more changes; InputError for one that is out of reach."""
    change = Intervention(*run.change, *more)
    model.can(change, run.source)
    return model.begin(run.source, change, None).to(run.target, fed=run.fed)


def _passed(model: Model, run: KnownRun, *more: RunChange) -> Trace:
    """Return its Trace then, without steps."""
    reached, _following = _reached(model, run, *more)
    return reached.trace((), len(run.target))


def value_zeroing(model: Model, run: KnownRun, kind: Kind, layer: int) -> Working:
    """Return how far each key's value turns each row of a layer's output, [Q, K].

    For each key, its value is made zero in all heads of the layer; 1 - cosine of the
    layer's output before and after, rows divided by their sum. Layers are independent:
    what enters the layer is that of the run. Mohebbi et al. 2023, "Quantifying Context
    Mixing in Transformers".
    """
    stack = STACK_OF[kind]
    whole = _passed(model, run)
    facts = whole.model.stacks.get(stack)
    if facts is None or not facts.hidden:
        raise InputError(
            "Value zeroing compares residual streams, which runs of this model do not "
            "show."
        )
    keys = len(whole.tokens(kind)[1])
    if isinstance(model, Loaded):
        made = _zeroed_layer(model, whole, kind, layer)
    else:
        made = _zeroed_runs(model, run, whole, kind, layer)
    turned: list[Doubles] = []
    for before, after in made:
        turned += [turn(before, one) for one in after]
        yield WorkDone(len(turned), keys, _("tokens"))
    return shares(np.stack(turned, 1))


def _zeroed_runs(
    model: Model, run: KnownRun, whole: Trace, kind: Kind, layer: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield a layer's output, [Q, D], and that of a run without a value, [1, Q, D]."""
    stack = STACK_OF[kind]
    before = whole.hidden(stack, layer + 1)
    for key in range(len(whole.tokens(kind)[1])):
        one = _passed(model, run, ValueOff(kind=kind, key=key, layer=layer))
        yield before, one.hidden(stack, layer + 1)[None]


@dataclass(frozen=True)
class _OneValueOff(RunChange):
    """Zero another key's value in each sentence of a batch; the last keeps all."""

    point = "values"

    kind: Kind
    layer: int
    key: int  # of the first sentence

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Zero the token's row of the values, [B, H, K, d]."""
        x[:-1].diagonal(self.key, 0, 2).zero_()
        return x


def _zeroed_layer(
    loaded: Loaded, whole: Trace, kind: Kind, layer: int
) -> Iterator[tuple[Floats, Floats]]:
    """Yield a layer's output, [Q, D], and those without a value each, [n, Q, D].

    The layer alone runs, over copies of what enters it. It gives its own output, too: a
    row that no value reaches is then the same to the last bit.
    """
    stack, device = STACK_OF[kind], loaded.device
    x, *masks = (
        torch.tensor(array, device=device)[None]
        for array in (
            whole.hidden(stack, layer),
            *(whole.mask(one, layer) for one in whole.kinds if STACK_OF[one] == stack),
        )
    )  # [1, Q, D] and [1, Q, K] each
    memory = torch.tensor(whole.encoder_output, device=device)[None]  # [1, S, D]
    read = [memory, masks.pop()] if stack == "decoder" else []
    queries, keys = map(len, whole.tokens(kind))
    count = max(LEAST_COPIES, ROWS_BLOCK // queries)
    for key in range(0, keys, count):
        off = _OneValueOff(kind, layer, key)
        made = modified_checkpoint(loaded, Intervention(*whole.intervention, off)).model
        run_layer = [*(made.encoder if stack == "encoder" else made.decoder)][layer]
        copies = min(count, keys - key) + 1
        work = copies * queries * sum(p.numel() for p in run_layer.parameters())
        with torch.inference_mode(), few_threads(work):
            batch = [one.expand(copies, -1, -1) for one in (x, *masks, *read)]
            output = host(run_layer(*batch)[0])  # [copies, Q, D]
        yield output[-1], output[:-1]


def turn(before: Floats, after: Floats) -> Doubles:
    """Return 1 - cosine of rows [Q, D]; exactly 0 where a row stays as it is."""
    a, b = before.astype(np.float64), after.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine = (a * b).sum(1) / lengths
    turned: Doubles = np.where((a == b).all(1), 0, np.maximum(0, 1 - cosine))
    return turned


def shares(values: Doubles) -> Floats:
    """Divide rows [Q, K] by their sum; rows of zeros stay."""
    total = values.sum(1, keepdims=True)
    return (values / np.where(total == 0, 1, total)).astype(np.float32)


def weighted_norms(model: Model, run: KnownRun, kind: Kind, layer: int) -> Working:
    """Return the length of what each key adds to each row through W_O, [Q, K].

    ||sum over heads of a v W_O||, rows divided by their sum. Kobayashi et al. 2020,
    "Attention is Not Only a Weight".
    """
    if model.extras.weights is None:
        raise InputError(
            "Norms of a v W_O need the weights of W_O, which this model does not give."
        )
    parameters = model.extras.weights(STACK_OF[kind], layer)
    weights = parameters.cross_attention if kind == "cross" else None
    trace = _passed(model, run)
    return (yield from _norms(trace, weights or parameters.self_attention, kind, layer))


def _norms(trace: Trace, weights: AttentionWeights, kind: Kind, layer: int) -> Working:
    queries = len(trace.tokens(kind)[0])
    heads, output = range(trace.heads(kind)), weights.output.weight  # [D, D]
    read = [trace.attention(kind, layer, head) for head in heads]  # [Q, K] each
    changes = trace.intervention.at(kind, layer)
    if changes.acts("heads", "output"):
        raise InputError(
            "Norms of a v W_O are of weights and values, but “{changes}” changes what "
            "comes after them.",
            changes=trace.intervention,
        )
    values = []
    for head in heads:
        own = trace.values(kind, layer, head)[None]  # [1, K, d]
        values.append(replace(changes, head=head).apply("values", own)[0])
    width = len(output) // len(heads)
    added = np.stack(
        [
            value @ output[head * width : (head + 1) * width]
            for head, value in zip(heads, values, strict=True)
        ]
    )  # [H, K, D]

    def lengths(query: int) -> Doubles:
        weight = np.stack([one[query] for one in read])  # [H, K]
        summed = (weight[..., None] * added).sum(0)  # [K, D]
        found: Doubles = np.linalg.norm(summed, axis=-1).astype(np.float64)
        return found

    return shares(np.stack((yield from in_turn(range(queries), _("rows"), lengths))))


@dataclass(frozen=True, eq=False)
class _Leaf(RunChange):
    """Keep what embeds a side's tokens, to be derived by; it changes nothing."""

    point = "embedding"
    everywhere = ("source", "target")

    kept: dict[str, Tensor] = field(default_factory=dict)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Return it as a leaf, [..., T, D]."""
        self.kept[place.of] = leaf = x.detach().requires_grad_()
        return leaf


def gradient_times_input(model: Model, run: KnownRun, kind: Kind) -> Working:
    """Return gradient x input of the log p of each row's choice: [T, S] or [T, T].

    Per token the gradient with respect to its embedding, times the embedding, summed
    over its dimensions: signed, in nats. Positions are held. Of the encoder there is
    none: it writes no token.
    """
    if kind == "encoder":
        raise InputError(
            "Gradient × input is of the written token: between source tokens there is "
            "none."
        )
    loaded, leaf = native(model, _("Gradient × input")), _Leaf()
    with torch.inference_mode(False), torch.enable_grad():
        log_p = forced_log_p(loaded, run, leaf)[0].unbind()  # T of them
    x = leaf.kept["source" if kind == "cross" else "target"]  # [1, K, D]

    def of_row(p: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(p, x, retain_graph=True)
        return (gradient * x.detach()).sum(-1)[0]

    return host(torch.stack((yield from in_turn(log_p, _("rows"), of_row))))


def forced_log_p(
    loaded: Loaded, run: KnownRun, *more: RunChange, rows: int = 1
) -> Tensor:
    """Return the log p of each choice in one pass, float64 [rows, T].

    It can be derived where gradients are enabled; InputError where those would have no
    room. ``more`` may change each of ``rows`` copies of the sentence in another way,
    encoders where they concern them.
    """
    if torch.is_grad_enabled():
        _check_room(loaded.facts, len(run.source.ids), len(run.target))
    change = Intervention(*run.change, *more)
    made = modified_checkpoint(loaded, change)
    source, target = (
        torch.tensor([ids], device=loaded.device)
        for ids in (run.source.ids, [*run.target])
    )
    model, config = made.model, made.config
    lengths = [source.shape[1]] if RULES[config.mask_rule].by_length else None
    allowed = allowed_masks(made, source, target, lengths, {}, change)
    reads = rows if any("encoder" in one.kinds for one in more) else 1
    lookup = (PASS_LOOKUP if run.fed else STEP_LOOKUP)[config.position_axis]
    # each sentence is embedded alone: positions may run along the batch
    x = model.embed("source", source).expand(reads, -1, -1)  # [B, S, D]
    memory = model.encoder(x, allowed.encoder).output.expand(rows, -1, -1)
    y = model.embed("target", target, lookup=lookup).expand(rows, -1, -1)  # [B, T, D]
    output = model.decoder(y, allowed.decoder, memory, allowed.cross).output
    logits: Tensor = model.output(output)  # [B, T, V]
    chosen = torch.tensor([*run.chosen], device=loaded.device)[None, :, None]
    score = logits.gather(2, chosen.expand(rows, -1, -1))[..., 0]  # [B, T]
    return score.cpu().double() - logits.logsumexp(-1).cpu().double()


def _check_room(facts: ModelFacts, source: int, target: int) -> None:
    """Raise InputError where gradients of a run would take more than MOST_KEPT.

    They need every weight of every head, and as many scores.
    """
    sizes = {"encoder": source**2, "decoder": target**2, "cross": target * source}
    weights = sum(facts.layers(x) * facts.heads(x) * sizes[x] for x in facts.kinds)
    if (kept := 8 * weights) > MOST_KEPT:
        raise InputError(
            "Gradients keep all weights of a run, which takes {size} of memory with "
            "{source:,} source and {target:,} target tokens. Choose a shorter text.",
            size=amount(kept),
            source=source,
            target=target,
        )


@dataclass(frozen=True)
class _OwnAlone(RunChange):
    """Zero what rows of the decoder read of other rows; their own weight stays."""

    point = "weights"
    everywhere = ("decoder",)

    def apply(self, x: Any, place: LocalChanges) -> Any:
        """Keep the weight of each row's own key, [..., H, Q, K]."""
        kept = x.diagonal(place.first, -2, -1).clone()
        x.zero_().diagonal(place.first, -2, -1).copy_(kept)
        return x


def source_share(model: Model, run: KnownRun) -> Floats:
    """Return the share of the source in each choice, [T], in [0, 1].

    |log p - log p without cross values| over the sum of that and the same for the
    decoder's self-attention values, each row's own kept. NaN where neither counts.
    """
    log_p = chosen_log_p(model, run)
    without = [
        np.abs(log_p - chosen_log_p(model, run, off))
        for off in (HeadScale("cross", 0.0), _OwnAlone())
    ]
    with np.errstate(invalid="ignore"):
        share: Doubles = without[0] / (without[0] + without[1])
    single: Floats = share.astype(np.float32)
    return single


def chosen_log_p(model: Model, run: KnownRun, *more: RunChange) -> Doubles:
    """Return the log p of each choice, [T], with more changes."""
    _rows, following = _reached(model, run, *more)
    logits = following.logits[-len(run.chosen) :]  # [T, V]
    rows = logits.double().log_softmax(-1)
    chosen = torch.tensor([*run.chosen])
    values: Doubles = rows.gather(1, chosen[:, None])[:, 0].numpy()
    return values
