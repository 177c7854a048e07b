"""Checkpoint: a native model, and how it reads, runs and searches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import torch

from visformer.analysis.checks.observation import ModelState
from visformer.arguments import wrong_type
from visformer.core.all_tokens import distribution_of, near_words
from visformer.core.check import module_state
from visformer.core.incremental import warm_up
from visformer.core.lens_rows import read_streams
from visformer.core.loaded import Loaded
from visformer.core.models import BatchRow, Extras, SourceTokens
from visformer.core.native_run import NativeRun
from visformer.core.passes import run
from visformer.core.rows import as_ids, source_pieces
from visformer.core.search import search
from visformer.core.side_runs import layer_parameters, run_pairs, run_shuffled
from visformer.core.vocabulary import TokenizerVocabulary
from visformer.errors import InputError
from visformer.language import _
from visformer.text import without_controls
from visformer.values.arrays import Floats, Ids
from visformer.values.beam_search import BeamSearch
from visformer.values.facts import SentenceSide
from visformer.values.intervention import Intervention
from visformer.values.measured import NearWords, WholeDistribution
from visformer.values.not_finite import not_finite_words
from visformer.values.step import LensRow
from visformer.values.trace import Trace


class Checkpoint(Loaded):
    """An open checkpoint, ready to run: ``model`` is in eval mode on its device."""

    @property
    def vocabulary(self) -> NativeVocabulary:
        """Its source and target tokens."""
        return NativeVocabulary(self)

    @property
    def extras(self) -> Extras:
        """What it can answer beyond runs: everything."""
        return Extras(
            lens=self._lens,
            distribution=self._distribution,
            weights=partial(layer_parameters, self),
            shuffle=partial(run_shuffled, self),
            positions=self._positions,
            nearest=self._nearest,
            warm_up=lambda: warm_up(self.packed),
            state=self._state,
        )

    def can(self, change: Intervention, source: SourceTokens) -> None:
        """Raise InputError for a change that does not fit the model or the source."""
        change.check(self.facts, len(source.ids))

    def begin(
        self, source: SourceTokens, change: Intervention, limit: int | None
    ) -> NativeRun:
        """Begin a run; nothing is encoded yet."""
        return NativeRun(self, source, change, limit)

    def batch(
        self, rows: Sequence[BatchRow], changes: Sequence[Intervention] = ()
    ) -> list[Trace]:
        """Run padded rows, each with its change if there are any: a Trace per row."""
        return run_pairs(self, rows, changes)

    def search(
        self,
        sources: Sequence[SourceTokens],
        beams: int | None,
        *,
        scored: bool = True,
    ) -> list[BeamSearch]:
        """Search the target of each source.

        Raises InputError where the model's numbers are not finite.
        """
        rows = [source.ids for source in sources]
        count = beams or self.generation.beams
        found = search(self, rows, beam=count, scored=scored)
        for row, made in zip(rows, found, strict=True):
            if not made.finished:  # its numbers are NaN, as a pass shows
                trace = run(self, [row], [[self.tokenizer.bos]])[0]
                raise InputError(not_finite_words(trace))
        return found

    def _state(self) -> ModelState:
        model, tables = self.model, []
        target = ("target_embedding.weight", model.target_embedding.weight)
        if self.config.tied_output:
            tables.append((*target, "output.weight", model.output.weight))
        if self.config.shared_embedding:
            source = "source_embedding.weight", model.source_embedding.weight
            tables.append((*target, *source))
        return module_state(model, tables)

    def _lens(
        self, hidden: Floats, chosen: Ids, temperature: float
    ) -> tuple[LensRow, ...]:
        return read_streams(self, hidden, chosen, temperature=temperature)

    def _distribution(self, stream: Floats, *_pass: object) -> WholeDistribution:
        return distribution_of(self, stream)

    def _nearest(self, side: SentenceSide, asked: int | str) -> NearWords:
        model, names = self.model, self.tokenizer
        if side == "source":
            return near_words(model.source_embedding.weight, names.source, side, asked)
        return near_words(model.target_embedding.weight, names.target, side, asked)

    def _positions(self) -> Floats:
        table = self.model.position_table("source").detach().cpu().numpy()
        return cast("Floats", table)


class NativeVocabulary(TokenizerVocabulary):
    """The source and target tokens of a native model."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded.tokenizer)
        self._loaded = loaded

    def read(self, source: str | Sequence[int]) -> SourceTokens:
        """Return a source, cut to the model's positions.

        Raises InputError for an empty one, and for ids outside the vocabulary.
        """
        pieces, cut_from = source_pieces(self._loaded, source)
        typed = isinstance(source, str)
        return SourceTokens(
            ids=[piece.id for piece in pieces],
            tokens=tuple(piece.token for piece in pieces),
            spans=tuple((p.start, p.end) for p in pieces) if typed else (),
            cut_from=cut_from,
            text=without_controls(source) if isinstance(source, str) else "",
        )

    def reference(self, target: str | Sequence[int]) -> list[int]:
        """Return the ids of a target; those of a text end with the sentence's end."""
        if isinstance(target, str):
            return [*self.tokenizer.encode_target(target), self.tokenizer.eos]
        return as_ids("reference", target, text=True)


def available_devices() -> tuple[str, ...]:
    """Return the names of this computer's devices, best first."""
    names = []
    if torch.cuda.is_available():
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return (*names, "cpu")


def choose_device(device: str | torch.device | None = None) -> torch.device:
    """Return the device asked for, or the best available: cuda, then mps, then cpu.

    Raises InputError for a device that this computer does not have.
    """
    there = available_devices()
    if isinstance(device, torch.device):
        device = str(device)
    if not isinstance(device, str | None):
        allowed = _("a device of torch, such as {names}", names=", ".join(there))
        raise wrong_type("device", device, allowed)
    if not device:
        return torch.device(there[0])
    if not any(name == device or name.split(":")[0] == device for name in there):
        raise InputError(
            "There is no device “{device}” here. Choose from {choices}.",
            device=device,
            choices=", ".join(there),
        )
    return torch.device(device)
