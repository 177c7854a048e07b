"""Opening checkpoints of every layout: what a path means, and the reader for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn

from visformer.arguments import as_path, wrong_type, wrong_value
from visformer.core.checkpoint import Checkpoint, choose_device
from visformer.errors import CheckpointError, InputError
from visformer.files import short
from visformer.formats.asking import questionnaire_for
from visformer.formats.fitting import (
    Fit,
    ReferencePair,
    best_fits,
    far_off,
    plainest,
    read_references,
)
from visformer.formats.given_options import GivenOptions, given_options
from visformer.formats.in_memory import name_in_memory, weights_in_memory
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.formats.layouts import LAYOUTS
from visformer.formats.layouts.transformers import chosen
from visformer.formats.misfits import remedy_where_needed
from visformer.formats.recognising import (
    Location,
    name_of_files,
    recognised_layout,
    resolved,
)
from visformer.formats.tutorial_files import known_config, read_files
from visformer.formats.weight_file import WeightFile, WeightReader
from visformer.language import _
from visformer.values.finding import Finding
from visformer.values.questions import (
    Overrides,
    Questionnaire,
    keyword,
    location_and_keywords,
)

_RULES = ("rename", "ignore", "place", "pairs", "guessed", "weights")


def load(
    path: Location | nn.Module | Mapping[str, Any],
    *,
    layout: str | None = None,
    heads: int | None = None,
    pad: int | tuple[int, int] | None = None,
    bos: int | None = None,
    eos: int | None = None,
    tokenizer: str | Path | tuple[str | Path, str | Path] | None = None,
    names: Mapping[str, str] | None = None,
    rename: Mapping[str, str] | None = None,
    ignore: Iterable[str] | None = None,
    pairs: str | Path | None = None,
    weights: str | None = None,
    device: str | torch.device | None = None,
    **config: Any,
) -> Checkpoint:
    """Open a checkpoint: a folder, a file of weights, or an encoder's and a decoder's.

    A folder that transformers wrote is run by transformers itself (extra ``hf``), but
    for the usual Marian ones: what is returned then is a ``FolderModel``, whose every
    Trace is of a watched pass. A module or a state dict is opened as it is now: its
    tensors are copied. A copy of a module is called once on ids [B, S] and [B, T] (or
    with rows second), and settings that agree with it are taken; else a finding tells.

    ``layout`` is a key of ``LAYOUTS``, recognised if not given; ``pad`` one id, or one
    for source and target each; ``tokenizer`` a sentencepiece model, a tokenizer.json or
    a vocabulary (JSON, text or pickle), or one for each side: without it, those in the
    file or beside it are used where they fit, else (or with "numbers") ids are typed;
    ``names`` what a file calls its embeddings, positions and output;
    ``rename`` maps patterns (regular expressions) of names of tensors to replacements,
    and ``ignore`` lists patterns of names to leave out; ``pairs`` is a file of
    reference pairs (source, tab, target), and settings that nothing says are then those
    under which the references are likeliest; ``weights`` names one of several sets in
    a file, such as averaged ones; ``source_language`` and
    ``target_language`` are codes of a multilingual model's tokenizer; ``device`` as
    torch names it, by default the best available. ``config`` are fields of ModelConfig,
    or the tutorials' own names for them; they win over a config.json beside the file,
    which wins over options saved in the file. What the tensors determine need not be
    given, and what remains unknown is assumed and listed in ``assumed``: only ``heads``
    is mandatory. Raises CheckpointError with one sentence about what is wrong or
    missing, InputError for an unknown layout, device or keyword.
    """
    options = given_options(
        config,
        heads=heads,
        pad=pad,
        bos=bos,
        eos=eos,
        tokenizer=tokenizer,
        names=names,
        rename=rename,
        ignore=ignore,
        pairs=pairs,
        weights=weights,
    )
    where = choose_device(device)
    if isinstance(path, nn.Module | Mapping):
        return _in_memory(path, layout, options).load(where)
    return opening(path, layout, options, WeightReader(options.rules)).load(where)


@dataclass(frozen=True)
class CheckpointFiles:
    """The checkpoint at a path, before it is opened: each file is read once."""

    path: Location
    spec: LayoutSpec
    files: Files
    options: GivenOptions
    module: nn.Module | None = None  # that the weights are of, in memory

    def load(self, device: torch.device) -> Checkpoint:
        """Open it; CheckpointError says what is wrong or missing."""
        with _said_if_too_large(self.path, device):
            if self.module is not None and self.asks:
                return self._agreeing(self.module, device)
            options, chosen, said = self._by_pairs()
            checkpoint = self.spec.read(self.spec, self.files, options, device)
            self.files[0].reader.check_rules()
            return _adding(checkpoint, chosen, said)

    def _agreeing(self, module: nn.Module, device: torch.device) -> Checkpoint:
        from visformer.formats.agreeing import agreement  # few have a module

        read = read_files(self.spec, self.files, self.options)
        made = agreement(module, read, self.options, self._read)
        checkpoint = replace(self, options=made.options, module=None).load(device)
        return _adding(checkpoint, (), made.findings)

    @cached_property
    def fits(self) -> list[Fit]:
        """The settings under which ``pairs`` are likeliest, the best first.

        Raises CheckpointError where there are none, or no answer could open the file.
        """
        pairs = self._pairs()
        known = read_files(self.spec, self.files, self.options).options.fields
        fields = {"heads": 1, **known} | dict(self.options.fields)
        opened = self._read(replace(self.options, fields=fields))
        return best_fits(opened, known, pairs)

    def _pairs(self) -> tuple[ReferencePair, ...]:
        if self.options.pairs is None or not self.asks:
            raise InputError(
                _(
                    "{given} is for files of weights that do not say their settings.",
                    given=keyword("pairs"),
                )
            )
        return read_references(self.options.pairs)

    def _read(self, options: GivenOptions) -> Checkpoint:
        return self.spec.read(self.spec, self.files, options, torch.device("cpu"))

    def _by_pairs(self) -> tuple[GivenOptions, tuple[str, ...], tuple[Finding, ...]]:
        """Choose what nothing says by the references, and say by which losses."""
        if self.options.pairs is None:
            return self.options, (), ()
        first = plainest(self.fits)
        fields = {**self.options.fields, **first.settings}
        rows = known_config(read_files(self.spec, self.files, self.options))
        findings = far_off(first.loss, rows.target_vocabulary)
        others = [fit for fit in self.fits if fit != first][:3]
        words = _(
            "{settings} (loss {loss:.3g} of the reference pairs; {others})",
            settings=first.words.replace("=", " = "),
            loss=first.loss,
            others="; ".join(
                f"{o.words or _('as it is')}: {o.loss:.3g}" for o in others
            ),
        )
        chosen = (words,) if first.settings else ()
        return replace(self.options, fields=fields), chosen, findings

    def proposed(self) -> dict[str, Any]:
        """Return keywords of ``load`` under which a misfit would fit; {} if none."""
        if not self.asks:
            return {}
        read = read_files(self.spec, self.files, self.options)
        remedy = remedy_where_needed(read)
        if remedy is None:
            return {}
        return {"rename": dict(remedy.rename), "ignore": [*remedy.ignore]}

    @property
    def guessed_heads(self) -> int:
        """The number of heads, if it is only the usual one; 0 if it is known."""
        guessed = "heads" in self.options.guessed
        return int(self.options.fields.get("heads", 0)) if guessed else 0

    @property
    def asks(self) -> bool:
        """Whether files of its layout may leave something open."""
        return bool(self.spec.title)

    def questionnaire(self, *, every: bool = False) -> Questionnaire | None:
        """Return what to ask before opening it; None if there is nothing to ask.

        ``every`` asks the answered questions again. Folders say everything themselves.
        Raises CheckpointError if no answer could open it.
        """
        if self.spec.ask is not None:
            return self.spec.ask(self.files, self.options, every)
        if not self.asks:
            return None
        with _said_if_too_large(self.path, torch.device("cpu")):
            read = read_files(self.spec, self.files, self.options)
            return questionnaire_for(read, every=every)


def _adding(
    checkpoint: Checkpoint, assumed: tuple[str, ...], findings: tuple[Finding, ...]
) -> Checkpoint:
    """Say more of a checkpoint, if there is more; a folder's is of its own kind."""
    if not assumed and not findings:
        return checkpoint
    return replace(
        checkpoint,
        assumed=(*assumed, *checkpoint.assumed),
        findings=(*checkpoint.findings, *findings),
    )


def checkpoint_files(path: str, overrides: Overrides) -> CheckpointFiles:
    """Return the checkpoint at a path, with what the window knows about it.

    Raises CheckpointError and InputError as ``load``.
    """
    location, words = location_and_keywords(path, overrides)
    layout, options = layout_and_options(words)
    return opening(location, layout, options, WeightReader(options.rules))


def layout_and_options(words: dict[str, Any]) -> tuple[str | None, GivenOptions]:
    """Sort the keywords of ``load``, except the device."""
    layout = words.pop("layout", None)
    own = ("heads", "pad", "bos", "eos", "tokenizer", "names", *_RULES)
    return layout, given_options(words, **{key: words.pop(key, None) for key in own})


def _in_memory(
    source: nn.Module | Mapping[str, Any], layout: str | None, options: GivenOptions
) -> CheckpointFiles:
    """Return the checkpoint that a module or a state dict is."""
    _check_layout(layout)
    path = name_in_memory(source)
    with _said_if_too_large(path, torch.device("cpu")):
        reader = WeightReader(
            options.rules, {path: weights_in_memory(source, options.rules.weights)}
        )
        files: Files = (WeightFile(path, reader),)
        name = layout or recognised_layout(files) or "native"
        reader.check_rules()
    module = source if isinstance(source, nn.Module) else None
    return CheckpointFiles(path, LAYOUTS[name], files, options, module)


def opening(
    path: Location, layout: str | None, options: GivenOptions, reader: WeightReader
) -> CheckpointFiles:
    path = as_location(path)
    _check_layout(layout)
    with _said_if_too_large(path, torch.device("cpu")):
        name, files = resolved(path, layout, reader)
        reader.check_rules()
    if any(options.languages) and LAYOUTS[name].ask is None:
        chosen(None, options)
    return CheckpointFiles(path, LAYOUTS[name], files, options)


def _check_layout(layout: object) -> None:
    if not isinstance(layout, str | None):
        raise wrong_type("layout", layout, ", ".join(LAYOUTS))
    if layout is not None and layout not in LAYOUTS:
        raise InputError(
            _(
                "There is no layout “{layout}”. Choose from {choices}.",
                layout=short(layout),
                choices=", ".join(LAYOUTS),
            )
        )


def as_location(path: Location) -> Location:
    """Return the path of a checkpoint, or of its two halves, ``~`` expanded."""
    if not isinstance(path, tuple | list):
        return as_path("path", path)
    if len(path) != 2:
        allowed = _("one path, or those of an encoder and a decoder")
        raise wrong_value("path", path, allowed)
    return as_path("path[0]", path[0]), as_path("path[1]", path[1])


@contextlib.contextmanager
def _said_if_too_large(path: Location, where: torch.device) -> Iterator[None]:
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise CheckpointError(
            _(
                "{name} does not fit into the memory of {device}. Close other programs "
                "or choose a smaller model.",
                name=name_of_files(path),
                device=where,
            )
        ) from error
