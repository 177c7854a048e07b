"""Trace: everything one sentence's pass through a model produced (numpy only).

A Trace keeps causes (queries, keys, values, masks, residual stream) and derives effects
(scores, weights, logits) when asked. Its arrays are read-only float32, time axis first.
Rows are kept side by side as the engine sends them: one row a token, in the columns
that ``Columns`` names. Letters: ``S T`` source and target length, ``Q K`` query and key
length of a kind, ``H`` heads, ``D`` model width, ``V`` vocabulary. Layers and heads
count from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from visformer.errors import InputError
from visformer.values.arrays import Bools, Floats, Ids, log_softmax, softmax
from visformer.values.attention_heads import AttentionHeads
from visformer.values.facts import KINDS, Kind, ModelFacts
from visformer.values.intervention import NO_CHANGES, Intervention
from visformer.values.memo import Memo, same
from visformer.values.step import Step

OwnWeights = Callable[[Kind, int, int | None], Floats]  # kind, layer, head or all


class Columns:
    """Which columns of a row hold what; the same in the engine and in the window.

    Encoder row: q, k, v of each layer, then the residual stream. Decoder row: q, k, v
    and the cross attention's q of each layer, then the residual stream. Memory row (one
    a source token): the cross attention's k, v of each layer. A stack's output follows
    its residual stream where a final norm makes it differ from the last of it. A
    decoder that ran alone has no cross attention's q, and no memory.
    """

    def __init__(self, model: ModelFacts) -> None:
        self._width = model.config.d_model
        self._final = model.config.final_norm
        self._parts = {"encoder": 3, "decoder": 3 + model.cross, "memory": 2}
        self._layers = {
            "encoder": model.layers("encoder"),
            "decoder": model.layers("decoder"),
            "memory": model.layers("cross"),
        }

    def width(self, rows: str) -> int:
        """Columns of an ``"encoder"``, ``"decoder"`` or ``"memory"`` row."""
        blocks = self._parts[rows] * self._layers[rows]
        if rows != "memory":
            blocks += self._layers[rows] + 1 + self._final
        return blocks * self._width

    def part(self, rows: str, layer: int, index: int) -> slice:
        """Columns of projection ``index`` (q, k, v, cross q; or k, v) of a layer."""
        return self._block(self._parts[rows] * layer + index)

    def hidden(self, rows: str, layer: int) -> slice:
        """Columns of the residual stream: 0 before the first layer, n after layer n."""
        return self._block(self._parts[rows] * self._layers[rows] + layer)

    def output(self, rows: str) -> slice:
        """Columns of the stack's output, after any final norm."""
        return self.hidden(rows, self._layers[rows] + self._final)

    def _block(self, number: int) -> slice:
        return slice(number * self._width, (number + 1) * self._width)


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """One sentence's pass: tokens, steps and every number behind its attention.

    ``target[t]`` is the token that row t consumed; ``steps[t]`` is what row t predicts.
    """

    model: ModelFacts
    source_text: str
    source: tuple[str, ...]
    source_ids: Ids  # [S]
    source_spans: tuple[tuple[int, int], ...]  # of source_text; () where ids were given
    target: tuple[str, ...]
    target_ids: Ids  # [T]
    steps: tuple[Step, ...]  # T of them
    encoder_rows: Floats  # [S, Columns.width("encoder")]
    memory_rows: Floats  # [S, Columns.width("memory")]
    decoder_rows: Floats  # [T, Columns.width("decoder")]
    # [S, S], [T, T], [T, S], after a layer axis where layers differ; True = may attend
    masks: Mapping[Kind, Bools]
    intervention: Intervention = NO_CHANGES  # what modified the run
    truncated_from: int = (
        0  # source tokens typed, where more than the model's positions
    )
    output_weight: Floats | None = None  # [V, D]; None in the window and in files
    output_bias: Floats | None = None  # [V]; None also where the model has none
    own_weights: OwnWeights | None = None  # of a pass just run; None: derived here
    # what pictures derived of this run; shared by all Traces cut or grown from one
    memo: Memo = field(default_factory=Memo, repr=False)
    cut_from: Trace | None = field(default=None, repr=False)  # by ``until``

    def __len__(self) -> int:
        """Return T, the number of decoder rows."""
        return len(self.target)

    def __bool__(self) -> bool:
        """Return True: what has no decoder row yet is a Trace all the same."""
        return True

    @cached_property
    def columns(self) -> Columns:
        """The columns of the rows."""
        return Columns(self.model)

    @property
    def text(self) -> str:
        """The translation, up to the last step's choice."""
        return self.steps[-1].text if self.steps else ""

    def until(self, length: int) -> Trace:
        """Return the first ``length`` decoder rows, sharing every array."""
        if length >= len(self):
            return self
        return replace(
            self,
            target=self.target[:length],
            target_ids=self.target_ids[:length],
            steps=self.steps[:length],
            own_weights=None,
            cut_from=self.whole,
            decoder_rows=self.decoder_rows[:length],
            masks={
                "encoder": self.masks["encoder"],
                "decoder": self.masks["decoder"][..., :length, :length],
                "cross": self.masks["cross"][..., :length, :],
            },
        )

    @property
    def whole(self) -> Trace:
        """The Trace that this one was cut from by ``until``, or itself."""
        whole = self.cut_from
        if whole is None or not same(whole.storage, self.storage):
            return self
        return whole

    @property
    def storage(self) -> tuple[object, ...]:
        """What the Traces of one run share, to be compared by identity.

        Attention follows from it, of as many rows as a Trace has.
        """
        grown = self.decoder_rows, self.masks["decoder"], self.masks["cross"]
        encoder = self.encoder_rows, self.memory_rows, self.masks["encoder"]
        return self.model, self.source, *encoder, *map(_owner, grown)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the Trace alone: what is shared with others stays here."""
        return {**self.__dict__, "memo": Memo(), "cut_from": None}

    def layers(self, kind: Kind) -> int:
        """Return the number of layers with attention of this kind."""
        return self.model.layers(kind)

    def heads(self, kind: Kind) -> int:
        """Return the number of heads of each layer of this kind; 0 without layers."""
        return self.model.config.heads if self.layers(kind) else 0

    def tokens(self, kind: Kind) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the query tokens and the key tokens of a kind."""
        queries = self.source if kind == "encoder" else self.target
        return queries, self.target if kind == "decoder" else self.source

    def mask(self, kind: Kind, layer: int) -> Bools:
        """Return a layer's mask, bool [Q, K], True = may attend."""
        self._check(kind, layer, 0)
        mask = self.masks[kind]
        return mask[layer] if mask.ndim == 3 else mask

    def queries(self, kind: Kind, layer: int, head: int) -> Floats:
        """Return one head's queries, float32 [Q, D / H]."""
        rows, name = self.encoder_rows, "encoder"
        if kind != "encoder":
            rows, name = self.decoder_rows, "decoder"
        part = self.columns.part(name, layer, 3 if kind == "cross" else 0)
        return self._head(kind, layer, head, rows[:, part])

    def keys(self, kind: Kind, layer: int, head: int) -> Floats:
        """Return one head's keys, float32 [K, D / H]."""
        return self._head(kind, layer, head, self._memory(kind, layer, 0))

    def values(self, kind: Kind, layer: int, head: int) -> Floats:
        """Return one head's values, float32 [K, D / H]."""
        return self._head(kind, layer, head, self._memory(kind, layer, 1))

    def attention_heads(
        self, kind: Kind, layer: int, head: int | None = None
    ) -> AttentionHeads:
        """Return what a head's scores and weights follow from; of all heads without."""
        self._check(kind, layer, head or 0)
        rows, name = self.encoder_rows, "encoder"
        if kind != "encoder":
            rows, name = self.decoder_rows, "decoder"
        queries = rows[:, self.columns.part(name, layer, 3 if kind == "cross" else 0)]
        keys = self._memory(kind, layer, 0)
        heads = slice(None) if head is None else slice(head, head + 1)
        shape = self.heads(kind), self.model.config.head_size
        return AttentionHeads(
            queries.reshape(len(queries), *shape)[:, heads],
            keys.reshape(len(keys), *shape)[:, heads],
            self.mask(kind, layer),
            self.model.config.masked_value,
        )

    def scores(self, kind: Kind, layer: int, head: int | None = None) -> Floats:
        """Return q.k / sqrt(d_k), before the mask: [Q, K]; all heads [H, Q, K]."""
        scores = self.attention_heads(kind, layer, head).scores()
        return scores if head is None else scores[0]

    def attention(self, kind: Kind, layer: int, head: int | None = None) -> Floats:
        """Return the weights, float32 [Q, K], or [H, Q, K] for all heads.

        Rows sum to 1. A row that may attend to nothing is what the model makes of it:
        equal weights where masked scores are replaced by a finite number, else NaN.
        Where a pass was just run, its own operations make them again: scores of some
        hundreds, as large embeddings make, leave float32 no room for another order.
        """
        self._check(kind, layer, head or 0)
        if self.own_weights is not None:
            return self.own_weights(kind, layer, head)
        weights = self.attention_heads(kind, layer, head).weights()
        return weights if head is None else weights[0]

    def hidden(self, stack: Literal["encoder", "decoder"], layer: int) -> Floats:
        """Return the residual stream, float32 [S or T, D].

        Layer 0 is embedding + position, n is what leaves layer n.
        """
        self._check(stack, max(0, layer - 1), 0)
        rows = self.encoder_rows if stack == "encoder" else self.decoder_rows
        return rows[:, self.columns.hidden(stack, layer)]

    @property
    def encoder_output(self) -> Floats:
        """What the decoder reads, float32 [S, D], after any final norm."""
        return self.encoder_rows[:, self.columns.output("encoder")]

    @property
    def decoder_output(self) -> Floats:
        """What the output projection reads, float32 [T, D], after any final norm."""
        return self.decoder_rows[:, self.columns.output("decoder")]

    @property
    def logits(self) -> Floats:
        """Scores of every next token, float32 [T, V].

        They are log-probabilities where the model itself ends in a softmax.
        Raises InputError where the Trace is apart from its model (read from a file).
        """
        if self.output_weight is None:
            raise InputError(
                "this Trace was read from a file, without the model's output "
                "projection: run the model again to have its logits."
            )
        logits = self.decoder_output @ self.output_weight.T
        if self.output_bias is not None:
            logits = logits + self.output_bias
        return log_softmax(logits) if self.model.config.softmax_output else logits

    @property
    def probabilities(self) -> Floats:
        """Softmax of the logits, float32 [T, V]."""
        return softmax(self.logits)

    def save(self, path: str | Path) -> None:
        """Write the Trace to a file; InputError where it cannot be written."""
        from visformer.values.trace_file import write_trace

        write_trace(self, Path(path))

    def _memory(self, kind: Kind, layer: int, index: int) -> Floats:
        """Keys (0) or values (1) of all heads, [K, D]."""
        if kind == "cross":
            return self.memory_rows[:, self.columns.part("memory", layer, index)]
        rows = self.encoder_rows if kind == "encoder" else self.decoder_rows
        return rows[:, self.columns.part(kind, layer, 1 + index)]

    def _head(self, kind: Kind, layer: int, head: int, joined: Floats) -> Floats:
        self._check(kind, layer, head)
        size = self.model.config.head_size
        return joined[:, head * size : (head + 1) * size]

    def _check(self, kind: Kind, layer: int, head: int) -> None:
        if kind not in KINDS:
            raise InputError(f"kind is {kind!r}: it must be one of {', '.join(KINDS)}.")
        if not self.layers(kind):
            raise InputError(
                f"the decoder ran without an encoder: there is no {kind} attention."
            )
        if not 0 <= layer < self.layers(kind) or not 0 <= head < self.heads(kind):
            raise InputError(
                f"there is no layer {layer}, head {head}: {kind} attention has layers "
                f"0 to {self.layers(kind) - 1} and heads 0 to {self.heads(kind) - 1}."
            )


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array that a slice was cut from: the same one for every slice."""
    return array.base if type(array.base) is np.ndarray else array
