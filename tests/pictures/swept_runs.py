"""The runs that sentences are heard of: intact, changed, padded, watched, broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import visformer
from tests.general_traces import Shape, any_trace
from tests.models import BOS, EOS, PAD, tiny_checkpoint
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.lens_rows import read_streams
from visformer.core.passes import GivenMasks, run
from visformer.core.side_runs import layer_parameters
from visformer.values.arrays import Floats
from visformer.values.facts import STACKS
from visformer.values.layer_weights import LayerParameters
from visformer.values.lens import LensRows
from visformer.values.strategy import GREEDY, Strategy
from visformer.values.trace import Trace

BROKEN = "decoder.layers.0.self_attention.query.weight"
TEXT, LIMIT = "abcdef", 6
WIDTH, WORDS = 16, 30
CHANGES = (
    *("causal off", "causal 0", "causal +1", "causal -1", "causal off @ layer 2"),
    *("cell decoder 2 1 off", "cell decoder 1 1 off", "cell decoder 1 3 on"),
    *("cell cross 2 3 off", "cell encoder 2 1 off", "hide 3", "hide 2 @ layer 1"),
    *("masked score -1e4", "masked score -1000", "masked score -2", "multiply"),
    *("masked score -inf", "causal +1; masked score -inf", "causal -1; multiply"),
    *("scale off", "scale 0", "scale 2", "scale -1 @ layer 1", "scale 1000"),
    *("positions none", "positions interleaved", "positions halves"),
    *("positions shifted 5", "positions scaled 2", "positions permuted 8 0"),
    *("positions constant 0", "causal off; positions none"),
)


@dataclass(frozen=True, eq=False)
class SweptRun:
    """One run, and what the window knows beside its Trace."""

    name: str
    trace: Trace
    checkpoint: Checkpoint | None = None
    strategy: Strategy = GREEDY
    limit: int | None = None  # where the user set it

    @property
    def table(self) -> Floats | None:
        """The model's own encodings [P, D]."""
        if self.checkpoint is None:
            return None
        return self.checkpoint.model.position_table("source").detach().numpy()

    @property
    def parameters(self) -> tuple[LayerParameters, ...]:
        if self.checkpoint is None:
            return ()
        return tuple(
            layer_parameters(self.checkpoint, stack, layer)
            for stack in STACKS
            for layer in range(2)
        )

    def lens(self, shown: Trace) -> LensRows | None:
        """Return the lens of the last row shown; None where there is none."""
        if self.checkpoint is None or not len(shown) or not shown.steps:
            return None
        heat, row = self.strategy.temperature, len(shown) - 1
        ids = np.array([shown.steps[row].id], np.int64)
        hidden = shown.streams([row])
        read = read_streams(self.checkpoint, hidden, ids, temperature=heat)
        return LensRows(of=shown.storage, strategy=self.strategy, rows={row: read[0]})


class Speaker(nn.Module):
    """A decoder, alone or with an encoder, with a causal mask or without."""

    def __init__(self, *, causal: bool, encoder: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        sizes: dict[str, Any] = {"dropout": 0.0, "batch_first": True}
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.place = nn.Embedding(32, WIDTH)
        self.causal, self.encoder = causal, None
        layer: nn.Module = nn.TransformerEncoderLayer(WIDTH, 2, 32, **sizes)
        if encoder:
            self.encoder = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(WIDTH, 2, 32, **sizes),
                2,
                enable_nested_tensor=False,
            )
            layer = nn.TransformerDecoderLayer(WIDTH, 2, 32, **sizes)
        self.layers = nn.ModuleList([layer, layer])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, *given: Tensor) -> Tensor:
        rows = [
            self.embed(ids) + self.place(torch.arange(ids.shape[1])) for ids in given
        ]
        memory = () if self.encoder is None else (self.encoder(rows[0]),)
        x, length = rows[-1], given[-1].shape[1]
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        mask = hidden if self.causal else None
        for layer in self.layers:
            x = layer(x, *memory, mask)
        return self.head(x)  # type: ignore[no-any-return]


def _watched(*, causal: bool, encoder: bool, pads: int = 0) -> Trace:
    model = Speaker(causal=causal, encoder=encoder).eval()
    ids = torch.tensor([[5, 6, 7, 8, 9][: 5 - pads] + [PAD] * pads])
    given = (torch.tensor([[4, 5, 6, 7]]), ids) if encoder else (ids,)
    watcher = visformer.watch(model, pad=PAD)
    with torch.no_grad(), watcher as seen:
        model(*given)
    (trace,) = seen.traces
    return trace


def _padded(masks: bool = False, **sizes: Any) -> SweptRun:
    checkpoint = tiny_checkpoint(**sizes)
    source = [[4, 5, 6, EOS, PAD, PAD], [4, 5, 6, 7, 8, EOS]]
    target = [[BOS, 7, 8, EOS, PAD, PAD], [BOS, 7, 8, 9, 10, EOS]]
    ones: GivenMasks = {"decoder": torch.ones(2, 6, 6, dtype=torch.bool)}
    traces = run(checkpoint, source, target, masks=ones if masks else None)
    return SweptRun("", traces[0], checkpoint)


def _marian_model() -> Checkpoint:
    sizes: dict[str, Any] = {
        **{"d_model": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 2},
        **{"feed_forward": 32, "max_positions": 32},
        **{"source_vocabulary": 32, "target_vocabulary": 32},
    }
    return visformer.build("marian", **sizes)


def _marian() -> SweptRun:
    checkpoint = _marian_model()
    pad = checkpoint.tokenizer.pad
    target = [[pad, 9, 10, 11, pad], [pad, 9, 10, 11, 12]]
    traces = run(checkpoint, [[5, 6, 7, 0, pad], [5, 6, 7, 8, 0]], target)
    return SweptRun("", traces[0], checkpoint)


def _marian_decoded() -> SweptRun:
    checkpoint = _marian_model()
    return SweptRun(
        "", Decoding(checkpoint, [5, 6, 7, 0], limit=4).finish(), checkpoint
    )


def _decoded(change: str = "", seed: int = 0, **sizes: Any) -> SweptRun:
    checkpoint = tiny_checkpoint(seed, **sizes)
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, intervention=change or None)
    return SweptRun("", decoding.finish(), checkpoint)


def _forced(change: str = "") -> SweptRun:
    checkpoint = tiny_checkpoint()
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, intervention=change or None)
    decoding.step(2)
    decoding.force("q")
    return SweptRun("", decoding.step(3), checkpoint)


def _sampled(change: str = "", **choices: Any) -> SweptRun:
    checkpoint = tiny_checkpoint()
    strategy = Strategy("sample", seed=1, **choices)
    made: dict[str, Any] = {"strategy": strategy, "intervention": change or None}
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, **made)
    return SweptRun("", decoding.finish(), checkpoint, strategy)


def _fed(change: str = "") -> SweptRun:
    checkpoint = tiny_checkpoint()
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, intervention=change or None)
    return SweptRun("", decoding.feed("qrst"), checkpoint)


def _not_a_number() -> SweptRun:
    checkpoint = tiny_checkpoint()
    with torch.no_grad():
        named = dict(checkpoint.model.named_parameters())
        named[BROKEN][0, 0] = torch.nan
    return SweptRun("", Decoding(checkpoint, "abc", limit=3).step(3), checkpoint)


def _alone() -> SweptRun:
    checkpoint = tiny_checkpoint()
    return SweptRun("", run(checkpoint, None, [[BOS, 7, 8, 9, 10]])[0])


def _lively(change: str = "") -> SweptRun:
    """Return a run of a pre-norm model whose tokens differ, and so do its choices."""
    return _decoded(change, seed=12, norm_first=True, final_norm=True)


def _prompt(ahead: int) -> SweptRun:
    """Return a decoder's run; the first ``ahead`` tokens may read each other."""
    trace = any_trace(Shape(kinds=("decoder",)), target=5, prompt=3)
    mask = trace.masks["decoder"].copy()
    mask[:ahead, :ahead] = True
    return SweptRun("", replace(trace, masks={"decoder": mask}))


def _of(trace: Trace) -> SweptRun:
    return SweptRun("", trace)


RUNS: dict[str, Callable[[], SweptRun]] = {
    "intact": _decoded,
    "pre-norm": _lively,
    "masked by -1e9": lambda: _decoded(masked_value=-1e9),
    **{change: lambda change=change: _decoded(change) for change in CHANGES},  # type: ignore[misc]
    **{
        f"pre-norm, {change}": lambda change=change: _lively(change)  # type: ignore[misc]
        for change in CHANGES
    },
    "causal off, masked by -1e9": lambda: _decoded("causal -1", masked_value=-1e9),
    "causal off by masks": lambda: _padded(masks=True),
    "padded": _padded,
    "padded, all hidden": lambda: _padded(mask_rule="rows_and_keys"),
    "marian, padded": _marian,
    "marian": _marian_decoded,
    "forced": _forced,
    "forced, causal off": lambda: _forced("causal off"),
    "drawn": _sampled,
    "drawn, causal off": lambda: _sampled("causal off", temperature=0.7, top_k=3),
    "drawn, hot and cut": lambda: _sampled(temperature=1.5, top_k=5, top_p=0.95),
    "fed": _fed,
    "fed, causal off": lambda: _fed("causal off"),
    "NaN": _not_a_number,
    "decoder alone": _alone,
    "prompt": lambda: _prompt(1),
    "prompt that reads ahead": lambda: _prompt(3),
    "watched": lambda: _of(_watched(causal=True, encoder=True)),
    "watched leak": lambda: _of(_watched(causal=False, encoder=True)),
    "watched pads": lambda: _of(_watched(causal=True, encoder=True, pads=2)),
    "watched decoder": lambda: _of(_watched(causal=True, encoder=False)),
    "encoder alone": lambda: _of(any_trace(Shape(kinds=("encoder",)), steps=False)),
    "captured": lambda: _of(any_trace(captured=True)),
    "foreign decoder": lambda: _of(any_trace(Shape(kinds=("decoder",)), prompt=2)),
}


@cache
def swept_run(name: str) -> SweptRun:
    """Return a run by its name, made once."""
    return replace(RUNS[name](), name=name)
