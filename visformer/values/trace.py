"""Trace: everything one sentence's pass through the model produced (numpy only).

A Trace keeps causes (queries, keys, values, masks, residual stream) and derives effects
(scores, weights, logits) when asked. Its arrays are read-only float32, time axis first.
Rows are kept side by side as the engine sends them: one row per token, in the columns
that ``Columns`` names. Letters: ``S T`` source and target length, ``Q K`` query and key
length of a kind, ``H`` heads, ``d`` head size, ``D`` model width, ``V`` vocabulary.
Layers and heads count from 0, or from the end where they are negative; a list or a
slice chooses several, None all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from visformer.arguments import (
    Nth,
    as_path,
    name_of,
    one_of,
    place,
    places,
    whole_number,
)
from visformer.errors import InputError
from visformer.files import short
from visformer.language import _
from visformer.values.arrays import (
    Bools,
    Floats,
    Ids,
    log_softmax,
    row_entropy,
    softmax,
    stacked,
)
from visformer.values.attention_heads import (
    AttentionHeads,
    Bias,
    DistanceBias,
    of_heads,
    running_rollout,
    through,
)
from visformer.values.facts import (
    SIDES,
    STACK_OF,
    AttentionFacts,
    Kind,
    ModelFacts,
    SentenceSide,
    StackName,
)
from visformer.values.finding import Certificate
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.memo import Memo, same
from visformer.values.row_columns import Columns, RowsName
from visformer.values.step import Candidates, LensRow, Step, step_origins

_OUTPUT = ("output_weight", "output_bias", "own_logits")  # no file has them
OwnWeights = Callable[[Kind, int, int | None], Floats]  # kind, layer, head or all
# streams [N, L + 1, D], and the ids [N] that those rows chose
OwnLens = Callable[[Floats, Ids], tuple[LensRow, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """One sentence's pass: tokens, steps and every number behind its attention.

    ``target[t]`` is the token that row t consumed; ``steps[t]`` is what row t predicts.
    A model without an encoder has one sequence, the target: its first ``prompt`` tokens
    were given, the others follow from them. A model without a decoder has no target.
    """

    model: ModelFacts
    source_text: str
    source: tuple[str, ...]
    source_ids: Ids  # [S]
    source_spans: tuple[tuple[int, int], ...]  # of source_text; () where ids were given
    target: tuple[str, ...]
    target_ids: Ids  # [T]
    steps: Sequence[Step]  # T of them, or none where they were not kept
    encoder_rows: Floats  # [S, Columns.width("encoder")]
    memory_rows: Floats  # [S, Columns.width("memory")]
    decoder_rows: Floats  # [T, Columns.width("decoder")]
    # of each kind [Q, K], after a layer axis where layers differ; True = may attend
    masks: Mapping[Kind, Bools]
    biases: Mapping[Kind, tuple[Bias, ...]] = field(default_factory=dict)  # by layer
    # [H, Q, K], where the model's weights do not follow from queries, keys and the rest
    captured: Mapping[tuple[Kind, int], Floats] = field(default_factory=dict)
    prompt: int = 0  # how many target tokens were given before the model went on
    fills: Mapping[int, Candidates] = field(default_factory=dict)  # by masked token
    intervention: Intervention = NO_CHANGES  # what modified the run
    truncated_from: int = 0  # source tokens typed, where the model takes fewer
    missing: str = ""  # what its file, cut off or damaged, no longer holds: a sentence
    certificate: Certificate | None = None  # of a watched model: how far it is its own
    output_weight: Floats | None = None  # [V, D]; None in the window and in files
    output_bias: Floats | None = None  # [V]; None also where the model has none
    own_logits: Floats | None = None  # [T or more, V] that a watched model returned
    own_weights: OwnWeights | None = None  # of a pass just run; None: derived here
    own_lens: OwnLens | None = None  # of a model at hand; () where it has none
    # what pictures derived of this run; shared by all Traces cut or grown from one
    memo: Memo = field(default_factory=Memo, repr=False)
    cut_from: Trace | None = field(default=None, repr=False)  # by ``until``

    def __len__(self) -> int:
        """Return the number of decoder rows, T."""
        return len(self.target)

    def __bool__(self) -> bool:
        return True  # also without decoder rows

    @cached_property
    def columns(self) -> Columns:
        """The columns of the rows."""
        return self.memo.made((self.model,), "columns", lambda: Columns(self.model))

    @property
    def text(self) -> str:
        """The translation, up to the last step's choice."""
        return self.steps[-1].text if self.steps else ""

    def until(self, length: int) -> Trace:
        """Return the first ``length`` decoder rows, sharing every array.

        Rows keep what the pass computed: where they read tokens that are cut off, their
        weights sum to less than 1.
        """
        if whole_number("length", length) >= len(self):
            return self
        cut = {"decoder": (slice(length),) * 2, "cross": (slice(length), slice(None))}

        def shortened(kind: Kind, array: NDArray[Any]) -> NDArray[Any]:
            return array[..., *cut[kind]] if kind in cut else array

        def own_weights(kind: Kind, layer: int, head: int | None) -> Floats:
            assert self.own_weights is not None
            return shortened(kind, self.own_weights(kind, layer, head))

        return replace(
            self,
            target=self.target[:length],
            target_ids=self.target_ids[:length],
            steps=self.steps[:length],
            prompt=min(self.prompt, length),
            own_weights=self.own_weights and own_weights,
            cut_from=self.whole,
            decoder_rows=self.decoder_rows[:length],
            masks={kind: shortened(kind, mask) for kind, mask in self.masks.items()},
            biases={
                kind: tuple(
                    bias if isinstance(bias, DistanceBias) else shortened(kind, bias)
                    for bias in biases
                )
                for kind, biases in self.biases.items()
            },
            captured={
                (kind, layer): shortened(kind, weights)
                for (kind, layer), weights in self.captured.items()
            },
        )

    @property
    def whole(self) -> Trace:
        """What this Trace was cut from by ``until``, or itself."""
        return self.cut_from if self.cut_from and self._is_cut else self

    @cached_property
    def _is_cut(self) -> bool:
        """Whether it shares the storage of the Trace that it was cut from."""
        return self.cut_from is not None and same(self.cut_from.storage, self.storage)

    @cached_property
    def storage(self) -> tuple[object, ...]:
        """What all attention of a run follows from, to be compared by identity."""
        grown = self.decoder_rows, *self.masks.values(), *self.captured.values()
        added = (bias for biases in self.biases.values() for bias in biases)
        known = self.model, self.source, self.encoder_rows, self.memory_rows
        return *known, *map(_owner, (*grown, *added))

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the Trace alone, as a file has it: what belongs to others stays."""
        from visformer.trace_file.run_arrays import with_own_weights

        others = dict.fromkeys(("cut_from", "own_weights", "own_lens", *_OUTPUT))
        kept = vars(with_own_weights(self))
        own = {k: v for k, v in kept.items() if k not in ("storage", "_is_cut")}
        return {**own, **others, "memo": Memo()}

    def __repr__(self) -> str:
        source = short(self.source_text or " ".join(self.source), 30)
        read, text = f"“{source}” to " if source else "", short(self.text, 30)
        name = short(self.model.name)
        return f"<Trace of {name}: {read}“{text}”, {len(self)} rows>"

    # ---- what the model has ----------------------------------------------------------

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of attention that the model has, in the order of ``KINDS``."""
        return self.model.kinds

    def layers(self, kind: Kind) -> int:
        """Return the number of layers with attention of this kind; 0 for none."""
        return self.model.layers(kind)

    def heads(self, kind: Kind) -> int:
        """Return the number of heads of each layer of this kind; 0 without layers."""
        return self.model.heads(kind)

    def key_heads(self, kind: Kind) -> int:
        """Return the number of heads of keys and values; fewer in grouped attention."""
        return self._facts(kind).key_heads if self.layers(kind) else 0

    def head_size(self, kind: Kind) -> int:
        """Return the size d of one query or key."""
        return self._facts(kind).head_size

    def scale(self, kind: Kind, layer: int) -> float:
        """Return the factor of q.k: 1 / sqrt(d) in the paper, 1 in T5."""
        at = self._layer(kind, layer)
        return self.intervention.scale(self._facts(kind).scales[at], kind, at)

    def added(self, kind: Kind, layer: int) -> Bias | None:
        """Return the bias that is added to the scaled scores.

        None, a table by distance (``DistanceBias``), or float32 [H or 1, Q, K].
        """
        at, biases = self._layer(kind, layer), self.biases.get(kind)
        return None if biases is None else biases[at]

    def is_captured(self, kind: Kind, layer: int) -> bool:
        """Whether a layer's weights were kept as the model computed them."""
        return (kind, self._layer(kind, layer)) in self.captured

    # ---- attention -------------------------------------------------------------------

    def tokens(self, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the query tokens and the key tokens of a kind."""
        of = {"source": self.source, "target": self.target}
        queries, keys = SIDES[kind]
        return of[queries], of[keys]

    def pads(self, side: SentenceSide) -> Bools:
        """Return which tokens are padding, bool [S or T].

        A token is padding if it has the pad id. The first target token never is: some
        models start from the pad id. Nor is the first of the trailing pads where the
        end-of-sentence token has the pad id.
        """
        model, source = self.model, side == "source"
        pad = model.pad if not source or model.source_pad is None else model.source_pad
        found = np.asarray((self.source_ids if source else self.target_ids) == pad)
        found[: not source] = False
        if pad == model.eos:
            found[: np.flatnonzero(~found).max(initial=-1) + 2] = False
        return found

    @property
    def before_pads(self) -> Bools:
        """Target rows whose next token is padding, bool [T]."""
        pads = self.whole.pads("target")  # of a step, also the token after it
        return np.append(pads[1:], pads[-1:])[: len(self)]

    def mask(self, kind: Kind, layer: Nth = None, head: int | None = None) -> Bools:
        """Return a layer's mask, bool [Q, K], True = may attend; of several [L, Q, K].

        A change of the run may have given a ``head`` another mask than its layer's.
        Raises InputError for a kind or layer that the model does not have, as all
        methods below do.
        """
        layers = places("layer", layer, self._facts(kind).layers)
        mask, each = self.masks[kind], self.masks[kind].ndim == 3

        def made(at: int) -> Bools:
            own = np.asarray(mask[at] if each else mask)
            if head is None:
                return own
            here = replace(self.intervention.at(kind, at), head=head)
            acts = here.acts("head mask")
            return np.asarray(here.apply("head mask", own[None])[0]) if acts else own

        return stacked(layers, made)

    def queries(self, kind: Kind, layer: Nth = None, head: Nth = None) -> Floats:
        """Return one head's queries, float32 [Q, d]; of several [L, H, Q, d]."""

        def made(at: int, head: int | None) -> Floats:
            queries = self._split_queries(kind, at).swapaxes(0, 1)
            return queries if head is None else queries[head]

        return self._each(kind, layer, head, made)

    def keys(self, kind: Kind, layer: Nth = None, head: Nth = None) -> Floats:
        """Return the keys that a head reads, float32 [K, d]; of all [L, H, K, d]."""
        return self._read(kind, layer, head, "keys")

    def values(self, kind: Kind, layer: Nth = None, head: Nth = None) -> Floats:
        """Return the values that a head reads, float32 [K, value size].

        Of several [L, H, K, value size].
        """
        return self._read(kind, layer, head, "values")

    def key_head(self, kind: Kind, head: int) -> int:
        """Return which of the ``key_heads`` a head reads: neighbours share one."""
        facts = self._facts(kind)
        return facts.key_head(place("head", head, facts.heads))

    def attention_heads(
        self, kind: Kind, layer: int, head: int | None = None
    ) -> AttentionHeads:
        """Return what a head's scores and weights follow from; of all heads without."""
        from visformer.values.reading_order import reads_on

        layer, facts = self._layer(kind, layer), self._facts(kind)
        head = None if head is None else place("head", head, facts.heads)
        captured, biases = self.captured.get((kind, layer)), self.biases.get(kind)
        if captured is None and reads_on(self, kind, layer):
            return self.whole.attention_heads(kind, layer, head).first(len(self))
        heads = slice(None) if head is None else slice(head, head + 1)
        keys = self._split_memory(kind, layer, "keys")
        return AttentionHeads(
            self._split_queries(kind, layer)[:, heads],
            keys[:, facts.read_by(head)],
            self.mask(kind, layer),
            facts.masked_value,
            self.scale(kind, layer),
            None if biases is None else of_heads(biases[layer], heads),
            None if captured is None else captured[heads],
            replace(self.intervention.at(kind, layer), head=head or 0),
        )

    def scores(self, kind: Kind, layer: Nth = None, head: Nth = None) -> Floats:
        """Return q.k times the scale plus what is added, before the mask.

        float32 [Q, K]; of all heads [H, Q, K], of all layers [L, H, Q, K].
        """

        def made(at: int, head: int | None) -> Floats:
            scores = self.attention_heads(kind, at, head).scores()
            return scores if head is None else scores[0]

        return self._each(kind, layer, head, made)

    def attention(self, kind: Kind, layer: Nth = None, head: Nth = None) -> Floats:
        """Return the weights, float32 [Q, K], or [H, Q, K] for all heads.

        All layers are [L, H, Q, K], those of one head [L, Q, K]; lists and slices of
        layers and heads keep these axes. Rows sum to 1, together with what ``until``
        cut off. A row that may attend to nothing is what the model makes of it: equal
        weights where masked scores are replaced by a finite number, else NaN. Where a
        pass was just run, its own operations make them again: scores of some hundreds,
        as large embeddings make, leave float32 no room for another order. Where weights
        were captured (``is_captured``) they are the model's own.
        """

        def made(at: int, head: int | None) -> Floats:
            if self.own_weights is not None:
                return self.own_weights(kind, at, head)
            weights = self.attention_heads(kind, at, head).weights()
            return weights if head is None else weights[0]

        return self._each(kind, layer, head, made)

    def z(self, kind: Kind, layer: int, head: int, rows: slice = slice(None)) -> Floats:
        """Return what a head makes of the values that it reads, float32 [rows, d].

        It is the weights times the values, as the run changed them: what W_O reads.
        """
        from visformer.values.reading_order import as_read

        read = as_read(self, kind, [self._layer(kind, layer)])
        if read is not self:
            return read.z(kind, layer, head, slice(*rows.indices(len(self))))
        one = self.attention_heads(kind, layer, head)
        changed = one.changes.acts("heads", "output")  # maybe of all rows
        some = slice(None) if changed else rows
        weights = one.weights(some)[0]  # [Q, K]
        if self.own_weights is not None:
            weights = self.attention(kind, layer, head)[some]
        z: Floats = weights @ one.changes.apply(
            "values", self.values(kind, layer, head)
        )
        z = one.changes.apply("output", one.changes.apply("heads", z[None]))[0]
        return z[rows] if changed else z

    def entropy(
        self, kind: Kind | None = None, layer: Nth = None, head: Nth = None
    ) -> Floats:
        """Return the entropy of each row of ``attention``, in bits: float32 [L, H, Q].

        log2 n where n keys get equal weights, 0 where one gets all; NaN for a row of
        NaN; keys that ``until`` cut off count. Without a kind, that of each row's
        distribution over the next token, [T]; NaN where steps were not kept.
        """
        if kind is not None:
            if kind == "decoder" and self.whole is not self:
                return self.whole.entropy(kind, layer, head)[..., : len(self)]
            return row_entropy(self.attention(kind, layer, head))
        known = [step.entropy for step in self.steps] or [np.nan] * len(self)
        return np.array(known, np.float32)

    def rollout(self, kind: Kind, layer: int = -1) -> Floats:
        """Return the attention rollout up to a layer, float32 [Q, K]; rows sum to 1.

        Abnar & Zuidema 2020: heads are averaged, residuals count one half, layers are
        multiplied. Row q has the share of each token of the first layer's input, but
        of what ``until`` cut off. Cross attention's is its layer's mean through the
        rollout of the whole encoder.
        """
        at = self._layer(kind, layer)
        if kind == "cross":
            return through(self.attention(kind, at).mean(0), self.rollout("encoder"))
        if kind == "decoder" and self.whole is not self:
            return self.whole.rollout(kind, layer)[: len(self), : len(self)]
        *_below, rolled = running_rollout(
            self.attention(kind, below).mean(0) for below in range(at + 1)
        )
        return rolled

    # ---- hidden states and logits ----------------------------------------------------

    def hidden(self, stack: StackName, layer: Nth = None) -> Floats:
        """Return the residual stream, float32 [S or T, D]; of several [L, S or T, D].

        Layer 0 is what enters the first layer, n is what leaves layer n. Raises
        InputError for another stack or layer, and where hidden states were not kept.
        """
        one_of("stack", stack, ("encoder", "decoder"))
        facts = self.model.stacks.get(stack)
        if facts is None or not facts.hidden:
            raise InputError(
                "The {stack}'s hidden states are not in this trace.", stack=stack
            )
        layers = places("layer", layer, facts.hidden)
        return stacked(layers, lambda at: self._part(stack, "hidden", at))

    def streams(self, rows: Sequence[int]) -> Floats:
        """Return the residual stream of some decoder rows, float32 [N, L + 1, D]."""
        layers = range(self.layers("decoder") + 1)
        parts = [self.hidden("decoder", layer)[list(rows)] for layer in layers]
        return np.stack(parts, axis=1)

    @property
    def encoder_output(self) -> Floats:
        """What the decoder reads, float32 [S, D], after any final norm."""
        return self._output("encoder")

    @property
    def decoder_output(self) -> Floats:
        """What the output projection reads, float32 [T, D], after any final norm."""
        return self._output("decoder")

    @property
    def logits(self) -> Floats:
        """Scores of every next token, float32 [T, V].

        They are log-probabilities where the model itself ends in a softmax. Raises
        InputError where the Trace is apart from its model, as when read from a file.
        """
        if self.own_logits is not None:
            return self.own_logits[: len(self)]
        if self.output_weight is None:
            raise InputError(
                "This trace does not contain the model's output projection: run "
                "the model again to get its logits."
            )
        logits = self.decoder_output @ self.output_weight.T
        logits += 0 if self.output_bias is None else self.output_bias
        return log_softmax(logits) if self.model.config.softmax_output else logits

    @property
    def probabilities(self) -> Floats:
        """Softmax of the logits, float32 [T, V]."""
        return softmax(self.logits)

    @property
    def loss(self) -> Floats:
        """Minus the log of each next target token's probability, nats: float32 [T].

        The next token is the one that the step chose or was given. NaN where none is
        known: for padding, after the last token of a target that was given, and where
        steps were not kept.
        """
        losses = [step.loss for step in self.steps] or [np.nan] * len(self)
        made = np.array(losses, np.float32)
        origins = step_origins(self.steps)[max(0, self.prompt - 1) :]
        if set(origins[:-1]) == {"reference"} and origins[-1] == "model":
            made[-1] = np.nan
        if origins and origins[0] == "reference":
            made[self.before_pads] = np.nan  # a loss ignores padding
        return made

    def lens(self, rows: Nth = None) -> tuple[LensRow, ...]:
        """Return what each decoder layer would have predicted at some rows, or all.

        The logit lens: a layer's residual stream through the model's own final norm and
        projection (nostalgebraist 2020). A ``LensRow`` has arrays [L + 1, ...]. Raises
        InputError where the stream was not kept, and where the model is not at hand, or
        predicts something else by now.
        """
        at = places("row", rows, len(self)) if len(self) else []
        chosen = [at] if isinstance(at, int) else at
        steps = [self.steps[row] for row in chosen]
        looks: Sequence[LensRow] = ()
        if self.own_lens is not None:
            ids = np.array([step.id for step in steps], np.int64)
            looks = self.own_lens(self.streams(chosen), ids)
        own = [float(look.chosen_probabilities[-1]) for look in looks]
        predicted = [step.probability for step in steps]
        if len(own) != len(steps) or not np.allclose(own, predicted, 0, 1e-3, True):
            raise InputError(
                "This trace has no logit lens: its model is not at hand, has "
                "changed, or does not make its logits of the last layer alone."
            )
        return tuple(looks)

    if TYPE_CHECKING:  # the package adds what needs pictures, which know this class

        def plot(self, kind: Kind, layer: int, head: int, ax: Any = None) -> Any: ...
        def _repr_mimebundle_(self, **_given: object) -> dict[str, str]: ...

    def save(self, path: str | Path) -> None:
        """Write the Trace to a file, ``*.vis``; InputError where it cannot be."""
        from visformer.trace_file.trace_file import write_trace

        write_trace(self, as_path("path", path))

    def to_numpy(self) -> dict[str, NDArray[Any]]:
        """Return tokens, choices, masks and weights as arrays by name.

        ``about`` is a text in JSON that gives each array's axes and unit, so that
        ``np.savez(path, **trace.to_numpy())`` makes a file that explains itself:
        ``attention_cross`` is float32 [layer, head, query, key]. Raises InputError
        where weights are no longer in the Trace's file.
        """
        from visformer.values.whole_run import as_numpy

        return as_numpy(self)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``to_numpy`` returns as dicts, lists and numbers, for JSON.

        A number that is NaN or infinite is None.
        """
        from visformer.values.whole_run import as_dict

        return as_dict(self)

    def to_dataframe(self, kind: Kind | None = None) -> Any:
        """Return a pandas DataFrame with a row for each choice.

        With a ``kind``, a row for each weight: layer, head, query, key, both tokens and
        the weight; all counts are from 0. Raises InputError without pandas.
        """
        from visformer.values.whole_run import as_frame

        return as_frame(self, kind)

    # ---- rows ------------------------------------------------------------------------

    def _facts(self, kind: Kind) -> AttentionFacts:
        facts = self.model.attention.get(kind) if isinstance(kind, str) else None
        if facts is not None:
            return facts
        message = _(
            "This model has no “{kind}” attention: it has {kinds}.",
            kind=name_of(kind),
            kinds=", ".join(self.kinds),
        )
        raise InputError(message)

    def _split_queries(self, kind: Kind, layer: int) -> Floats:
        """Return the queries of all heads, [Q, H, d]."""
        name = "cross queries" if kind == "cross" else "queries"
        rows = self._part(STACK_OF[kind], name, layer)
        facts = self._facts(kind)
        return rows.reshape(len(rows), facts.heads, facts.head_size)

    def _split_memory(self, kind: Kind, layer: int, name: str) -> Floats:
        """Return the ``"keys"`` or ``"values"`` of all key heads, [K, H', size]."""
        rows = self._part("memory" if kind == "cross" else kind, name, layer)
        facts = self._facts(kind)
        size = facts.head_size if name == "keys" else facts.value_size
        return rows.reshape(len(rows), facts.key_heads, size)

    def _output(self, stack: StackName) -> Floats:
        facts = self.model.stacks.get(stack)
        if facts is None or not (facts.output or facts.hidden):
            raise InputError("The {stack}'s output is not in this trace.", stack=stack)
        return self._rows(stack)[:, self.columns.output(stack)]

    def _part(self, rows: RowsName, name: str, layer: int) -> Floats:
        return self._rows(rows)[:, self.columns.part(rows, name, layer)]

    def _rows(self, rows: RowsName) -> Floats:
        made: Floats = getattr(self, f"{rows}_rows")
        return made

    def _layer(self, kind: Kind, layer: int) -> int:
        return place("layer", layer, self._facts(kind).layers)

    def _each(
        self,
        kind: Kind,
        layer: Nth,
        head: Nth,
        made: Callable[[int, int | None], Floats],
    ) -> Floats:
        """Return ``made`` of a layer and a head, or stacked over several of them."""
        facts = self._facts(kind)
        layers = places("layer", layer, facts.layers)
        if head is None:
            return stacked(layers, lambda at: made(at, None))
        heads = places("head", head, facts.heads)
        return stacked(layers, lambda at: stacked(heads, lambda one: made(at, one)))

    def _read(self, kind: Kind, layer: Nth, head: Nth, name: str) -> Floats:
        facts = self._facts(kind)

        def made(at: int, head: int | None) -> Floats:
            parts = self._split_memory(kind, at, name).swapaxes(0, 1)
            read = facts.read_by(None) if head is None else facts.key_head(head)
            return parts[read]

        return self._each(kind, layer, head, made)


def _owner(array: Any) -> object:
    """Return the array that a slice was cut from: the same one for every slice."""
    base = getattr(array, "base", None)
    return base if hasattr(base, "base") else array  # bytes are no array
