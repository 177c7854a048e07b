"""The runs that sentences are heard of: intact, changed, padded, watched, broken."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import visformer
from tests.general_traces import Shape, any_trace
from tests.tiny_models import BOS, EOS, PAD, tiny_checkpoint
from tests.unit.analysis.test_run_comparison import reading, writing
from visformer.analysis.change_report import change_report
from visformer.core.checkpoint import Checkpoint
from visformer.core.decoding import Decoding
from visformer.core.generation import Generation
from visformer.core.lens_rows import read_streams
from visformer.core.passes import GivenMasks, run
from visformer.core.search import named
from visformer.core.side_runs import layer_parameters, run_shuffled
from visformer.errors import InputError
from visformer.values.arrays import Floats
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import KINDS, STACKS, Kind
from visformer.values.layer_weights import LayerParameters
from visformer.values.measured import (
    ATTRIBUTIONS,
    Attribution,
    AttributionPlace,
    Attributions,
    ChangeReport,
)
from visformer.values.step import GREEDY, Candidates, LensRows, Step, Strategy
from visformer.values.trace import Trace

BROKEN = "decoder.layers.0.self_attention.query.weight"
TEXT, LIMIT = "abcdef", 6
WIDTH, WORDS = 16, 30
STRANGE = *("<0xE2>", "<0x82>", "<0xAC>"), *("<unk>", "a", "b", "</s>")
CHANGES = (
    *("causal off", "causal 0", "causal +1", "causal -1", "causal off @ L2"),
    *("cell decoder 2 1 off", "cell decoder 1 1 off", "cell decoder 1 3 on"),
    *("cell cross 2 3 off", "cell encoder 2 1 off", "hide 3", "hide 2 @ L1"),
    *("masked score -1e4", "masked score -1000", "masked score -2", "multiply"),
    *("masked score -inf", "causal +1; masked score -inf", "causal -1; multiply"),
    *("causal -1; masked score -inf",),
    *("scale off", "scale 0", "scale 2", "scale -1 @ L1", "scale 1000"),
    *("positions none", "positions interleaved", "positions halves"),
    *("positions shifted 5", "positions scaled 2", "positions permuted 8 0"),
    *("positions constant 0", "causal off; positions none"),
    *("head cross off @ L2H1", "head decoder only @ L1H2", "head encoder * 3"),
    *("cell cross 2 3 off @ L1H1", "cell cross 2 3 = 0.9", "cell decoder 2 1 * 0 raw"),
    *("row decoder 3 = uniform @ L1", "value cross 2 off", "layer decoder off @ L2"),
    *('embedding source 2 = "q"', "cell decoder 1 3 = 0.5"),
)


@dataclass(frozen=True, eq=False)
class SweptRun:
    """One run, and what the window knows beside its Trace."""

    name: str
    trace: Trace
    checkpoint: Checkpoint | None = None
    strategy: Strategy = GREEDY
    limit: int | None = None  # where the user set it
    baseline: Trace | None = None  # the run without its change
    smoothing: float | None = None  # of the labels in training, where it is known
    search: BeamSearch | None = None  # whose best hypothesis it is
    beside: Trace | None = None  # the run that it is compared with
    measured: Attributions | None = None  # what its tokens do
    fine: bool = False  # heard of every step and cell, of the heads by turns

    @cached_property
    def table(self) -> Floats | None:
        """The model's own encodings [P, D]."""
        if self.checkpoint is None:
            return None
        return self.checkpoint.model.position_table("source").detach().numpy()

    @cached_property
    def parameters(self) -> tuple[LayerParameters, ...]:
        if self.checkpoint is None:
            return ()
        kinds: dict[Any, Kind] = {"encoder": "encoder", "decoder": "decoder"}
        try:
            return tuple(
                layer_parameters(self.checkpoint, stack, layer)
                for stack in STACKS
                for layer in range(self.checkpoint.facts.layers(kinds[stack]))
            )
        except InputError:  # its norms run over several tokens at once
            return ()

    @cached_property
    def shuffles(self) -> list[tuple[tuple[int, ...], Trace, Trace]]:
        """The run's sentence in other orders: the order, as it was, and shuffled."""
        if self.checkpoint is None or not self.trace.source_text:
            return []
        ids = self.trace.target_ids.tolist()
        change = self.trace.intervention or None
        return [
            run_shuffled(self.checkpoint, text, ids, intervention=change)
            for text in (self.trace.source_text, "aaaaaa")
        ]

    def effect(self, step: int) -> ChangeReport | None:
        """Return what its change did to a step; None where it has none."""
        made = self.both_ways
        return None if made is None or not step else change_report(*made, step - 1)

    @cached_property
    def both_ways(self) -> tuple[Trace, Trace] | None:
        """Passes over its tokens without its change and with it."""
        trace, steps = self.trace, bool(self.trace.steps)
        if self.checkpoint is None or not (trace.intervention and steps):
            return None
        source, target = [trace.source_ids.tolist()], [trace.target_ids.tolist()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (own,), (changed,) = (
                run(self.checkpoint, source, target, intervention=change)
                for change in (None, trace.intervention)
            )
        return own, changed

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
        **{"source_vocabulary": 60, "target_vocabulary": 60},
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


def _decoded(
    change: str = "", seed: int = 0, text: str = TEXT, **sizes: Any
) -> SweptRun:
    return _of_model(tiny_checkpoint(seed, **sizes), change, text)


def _of_model(
    checkpoint: Checkpoint, change: str = "", text: Any = TEXT, limit: int = LIMIT
) -> SweptRun:
    decoding = Decoding(checkpoint, text, limit=limit, intervention=change or None)
    own = Decoding(checkpoint, text, limit=limit).finish() if change else None
    return SweptRun("", decoding.finish(), checkpoint, baseline=own, beside=own)


def _forced(change: str = "", token: str = "q") -> SweptRun:
    checkpoint = tiny_checkpoint()
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, intervention=change or None)
    best = decoding.step(2).steps[-1].candidates[0]
    decoding.force(token or best.token)
    return SweptRun("", decoding.step(3), checkpoint)


def _sampled(change: str = "", **choices: Any) -> SweptRun:
    checkpoint = tiny_checkpoint()
    strategy = Strategy("sample", seed=1, **choices)
    made: dict[str, Any] = {"strategy": strategy, "intervention": change or None}
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, **made)
    return SweptRun("", decoding.finish(), checkpoint, strategy)


def _fed(change: str = "", text: str = "qrst", limit: int = LIMIT) -> SweptRun:
    checkpoint = tiny_checkpoint(max_positions=512)
    changed: dict[str, Any] = {"intervention": change or None}
    decoding = Decoding(checkpoint, TEXT, limit=limit, **changed)
    return SweptRun("", decoding.feed(text), checkpoint)


def _ruled(seed: int = 0) -> SweptRun:
    """Return a run whose rules forbid the first token; with a seed, all but it."""
    checkpoint = tiny_checkpoint()
    first = Decoding(checkpoint, TEXT, limit=1).finish().steps[0].id
    forbidden = tuple((id,) for id in range(30) if (id == first) != bool(seed))
    checkpoint = replace(checkpoint, generation=Generation(forbidden=forbidden))
    way = Strategy("sample", seed=seed) if seed else GREEDY
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, strategy=way)
    return SweptRun("", decoding.finish(), checkpoint, way)


def _searched(beams: int = 3, **rules: Any) -> SweptRun:
    """Return the best hypothesis of a search whose tokens differ, and the search."""
    checkpoint = tiny_checkpoint(12, norm_first=True, final_norm=True)
    checkpoint = replace(checkpoint, generation=Generation(**rules))
    way = Strategy("beam", beams=beams)
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, strategy=way)
    trace, found = decoding.finish(), decoding.search
    assert found is not None
    found = named(found, checkpoint.vocabulary)
    return SweptRun("", trace, checkpoint, way, search=found)


def _broken(name: str, factor: float, *further: str) -> SweptRun:
    """Return a run of a model with a weight, or several, of other numbers."""
    checkpoint = tiny_checkpoint()
    with torch.no_grad():
        for each in (name, *further):
            checkpoint.model.get_parameter(each).mul_(factor)
    return SweptRun("", Decoding(checkpoint, "abc", limit=3).step(3), checkpoint)


def _own_table() -> SweptRun:
    """Return a run whose table of positions is no formula of the paper's."""
    checkpoint = tiny_checkpoint()
    made = np.random.default_rng(4).standard_normal((64, 16))
    checkpoint.model.replace_positions(torch.from_numpy(made).float())
    return _of_model(checkpoint)


def _norms_together() -> SweptRun:
    lengths = {"encoder_norm_length": 4, "decoder_norm_length": 5}
    checkpoint = tiny_checkpoint(**lengths)
    traces = run(checkpoint, [[4, 5, 6, EOS]], [[BOS, 7, 8, 9, 10]])
    return SweptRun("", traces[0], checkpoint)


def _read_out() -> SweptRun:
    """Return a run whose output is known to be read out, but not from which streams."""
    trace = any_trace(Shape(hidden=False))
    stack = replace(trace.model.stacks["decoder"], read_out=True)
    model = replace(trace.model, stacks={**trace.model.stacks, "decoder": stack})
    return _of(replace(trace, model=model))


def _smoothed(share: float) -> SweptRun:
    return replace(_decoded(heads=1), smoothing=share)


def _not_computed() -> SweptRun:
    """Return a run whose first row's logits were never computed."""
    trace = any_trace(Shape(kinds=("decoder",)), prompt=2)
    none = Candidates(np.zeros(0), (), np.zeros(0))
    nan: dict[str, Any] = {"probability": np.nan, "entropy": np.nan, "rank": 0}
    steps: list[Step] = list(trace.steps)
    steps[0] = replace(steps[0], origin="reference", candidates=none, **nan)
    return _of(replace(trace, steps=tuple(steps)))


def _filled(*places: int) -> SweptRun:
    best = any_trace().steps[0].candidates
    trace = any_trace(Shape(kinds=("encoder",)), steps=False)
    return _of(replace(trace, fills=dict.fromkeys(places, best)))


def _noticed(text: str, **facts: Any) -> SweptRun:
    """Return a run with another source text, of a model by another name.

    Of its parameters the file says only how many they are.
    """
    intact = _decoded()
    model = replace(intact.trace.model, name=facts.pop("name", "tiny"), blocks=())
    return _of(replace(intact.trace, model=model, source_text=text, **facts))


def _shape(*kinds: Kind, **more: Any) -> Callable[[], SweptRun]:
    sizes = {"heads": 4, "key_heads": more.pop("key_heads", 2)}
    shape = Shape(kinds=kinds, **sizes) if kinds else Shape(**sizes)
    return lambda: _of(any_trace(shape, **more))


def _not_a_number(**sizes: Any) -> SweptRun:
    checkpoint = tiny_checkpoint(**sizes)
    with torch.no_grad():
        named = dict(checkpoint.model.named_parameters())
        named[BROKEN][0, 0] = torch.nan
    return SweptRun("", Decoding(checkpoint, "abc", limit=3).step(3), checkpoint)


def _alone() -> SweptRun:
    checkpoint = tiny_checkpoint()
    return SweptRun("", run(checkpoint, None, [[BOS, 7, 8, 9, 10]])[0])


def _measured(change: str = "") -> SweptRun:
    """Return a run of which it is measured what each token does."""
    checkpoint, known = tiny_checkpoint(12, norm_first=True, final_norm=True), {}
    decoding = Decoding(checkpoint, TEXT, limit=LIMIT, intervention=change or None)
    trace = decoding.finish()
    for how, kind, layer in product(ATTRIBUTIONS, KINDS, (0, 1)):
        try:
            made = decoding.attribution(how, kind, layer)
        except InputError as error:  # of a gradient between source tokens
            made = Attribution(reason=str(error))
        known[AttributionPlace(how, kind, layer)] = made
    measured = Attributions(of=trace.storage, known=known)
    return SweptRun("", trace, checkpoint, measured=measured)


def _beside(beside: Callable[[], SweptRun], of: Callable[[], SweptRun]) -> SweptRun:
    """Return a run that is compared with another one."""
    return replace(of(), beside=beside().trace)


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
    "forced as the model would": lambda: _forced(token=""),
    "under rules": _ruled,
    "drawn under rules": lambda: _ruled(3),
    "beams": _searched,
    "beams that stop early": lambda: _searched(ends=tuple(range(4, 16))),
    "beams that stop by scores": lambda: _searched(
        early_stopping=False, length_penalty=0.5, ends=(9, 20)
    ),
    "one beam, under rules": lambda: _searched(1, repetition_penalty=3.0),
    "drawn": _sampled,
    "drawn, causal off": lambda: _sampled("causal off", temperature=0.7, top_k=3),
    "drawn, hot and cut": lambda: _sampled(temperature=1.5, top_k=5, top_p=0.95),
    "fed": _fed,
    "fed, causal off": lambda: _fed("causal off"),
    "fed, long": lambda: _fed(text="qrst" * 66, limit=300),
    "fed, long, causal off": lambda: _fed("causal off", "qrst" * 66, 300),
    "NaN": _not_a_number,
    "NaN in the embedding": lambda: _broken("source_embedding.weight", np.nan),
    "NaN in the output": lambda: _broken("output.weight", np.nan),
    "too large": lambda: _broken(BROKEN, 1e25, BROKEN.replace("query", "key")),
    "RMS norm": lambda: _decoded(norm="rms", norm_bias=False, norm_first=True),
    "RMS norm after": lambda: _of_model(
        tiny_checkpoint(norm="rms", norm_bias=False, final_norm=True), limit=1
    ),
    "norm without shift": lambda: _decoded(norm="unbiased", norm_bias=False),
    "norms together": _norms_together,
    "positions learned": lambda: _decoded(
        positions="learned", embedding_scale=False, gated=True, activation="silu"
    ),
    "positions by hand": _own_table,
    "no positions at all": lambda: _decoded(
        positions="none", embedding_scale=False, output_bias=True, softmax_output=True
    ),
    "not scaled": lambda: _decoded(
        positions="halves", embedding_scale=False, shared_embedding=False
    ),
    "positions by batch": lambda: _decoded(position_axis="batch", w2_bias=False),
    "positions restart": lambda: _decoded(
        position_axis="restart", encoder_bias="none", decoder_bias="value_output"
    ),
    "one head": lambda: _smoothed(0.1),
    "one layer": lambda: replace(
        _decoded("cell decoder 1 2 on", encoder_layers=1, decoder_layers=1),
        smoothing=0.0,
    ),
    "one token": lambda: replace(
        _of_model(tiny_checkpoint(), text=[EOS], limit=1), limit=1
    ),
    "cut": lambda: _of_model(tiny_checkpoint(max_positions=8), text="abcdefghijkl"),
    "decoder alone": _alone,
    "prompt": lambda: _prompt(1),
    "prompt that reads ahead": lambda: _prompt(3),
    "watched": lambda: _of(_watched(causal=True, encoder=True)),
    "watched leak": lambda: _of(_watched(causal=False, encoder=True)),
    "watched pads": lambda: _of(_watched(causal=True, encoder=True, pads=2)),
    "watched decoder": lambda: _of(_watched(causal=True, encoder=False)),
    "measured": _measured,
    "measured, causal off": lambda: _measured("causal off"),
    "read out without streams": _read_out,
    "beside itself": lambda: _beside(_lively, _lively),
    "beside more of it": lambda: _beside(
        _lively, lambda: _of(_lively().trace.until(3))
    ),
    "beside another sentence": lambda: _beside(
        _lively, lambda: _of_model(tiny_checkpoint(), text="abxdefg")
    ),
    "beside another model": lambda: _beside(
        _lively, lambda: _decoded(decoder_layers=1, heads=4)
    ),
    "beside other pieces": lambda: _beside(
        lambda: _of(reading("unhappy cats", "un", "happy", "cats")),
        lambda: _of(reading("unhappy cats", "unh", "appy", "cats")),
    ),
    "beside pieces that part": lambda: _beside(
        lambda: _of(writing("le", " chat")), lambda: _of(writing("l", "e", " chien"))
    ),
    "beside a decoder": lambda: _beside(_shape(), _shape("decoder")),
    "beside a whole": lambda: _beside(
        lambda: _not_a_number(decoder_layers=1),
        lambda: _decoded(text="abc", decoder_layers=1),
    ),
    "tied": lambda: _decoded(tied_output=True),
    "steps taken away": lambda: _of(replace(_decoded().trace, steps=())),
    "few units": lambda: _decoded(feed_forward=5),
    "factor of 1": lambda: _decoded("head encoder * 1"),
    "text that ends": lambda: _of_model(
        tiny_checkpoint(5, norm_first=True, final_norm=True), "scale 2", "abc", 8
    ),
    "unknown signs": lambda: _of_model(tiny_checkpoint(), text="a1b2"),
    "few words": lambda: _decoded(target_vocabulary=13, shared_embedding=False),
    "positions none, the same text": lambda: _of_model(
        tiny_checkpoint(3), "positions none", limit=2
    ),
    "long": _shape(target=300),
    "encoder alone": lambda: _of(any_trace(Shape(kinds=("encoder",)), steps=False)),
    "encoder of one token": _shape("encoder", source=1, steps=False),
    "cross alone": _shape("cross"),
    "no cross": _shape("encoder", "decoder"),
    "no self-attention of the target": _shape("encoder", "cross"),
    "no self-attention of the source": _shape("decoder", "cross"),
    "all without steps": _shape(steps=False),
    "decoder without steps": _shape("decoder", steps=False),
    "decoder of one token without steps": _shape("decoder", steps=False, target=1),
    "shared by all": _shape(key_heads=1),
    "shared by three": lambda: _of(any_trace(Shape(heads=6))),
    "biased by distance": _shape(bias="distance", key_heads=4),
    "biased": _shape(bias="full"),
    "no streams": lambda: _of(any_trace(Shape(hidden=False, output=False))),
    "not computed": _not_computed,
    "one token filled": lambda: _filled(1),
    "tokens filled": lambda: _filled(1, 3),
    "several sentences": lambda: _noticed("The cat sat. The dog ran."),
    "another script": lambda: _noticed("кот и собака", name="opus-mt-en-fr"),
    "strange signs": lambda: _noticed("ab", source=STRANGE),
    "captured": lambda: _of(any_trace(captured=True)),
    "foreign decoder": lambda: _of(any_trace(Shape(kinds=("decoder",)), prompt=2)),
}


@cache
def swept_run(name: str) -> SweptRun:
    """Return a run by its name, made once."""
    return replace(RUNS[name](), name=name)
