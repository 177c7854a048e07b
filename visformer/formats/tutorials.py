"""Weight files without a config: the five tutorials and torch.nn.Transformer."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from visformer.core.assembly import build_model
from visformer.core.checkpoint import Checkpoint
from visformer.core.model import Transformer
from visformer.errors import CheckpointError
from visformer.files import listed
from visformer.formats.diagnoses import findings_of
from visformer.formats.found_vocabularies import FoundSides, sides_of
from visformer.formats.given_options import GivenOptions
from visformer.formats.layout_spec import Files, LayoutSpec
from visformer.formats.layouts.native import CONFIG, TokenizerFiles, halved, write_files
from visformer.formats.names import their_name
from visformer.formats.proposing import checked
from visformer.formats.tutorial_files import (
    TutorialFiles,
    config_of,
    read_files,
    sizes_of,
)
from visformer.formats.weight_file import Weights
from visformer.language import N_, _
from visformer.tokenizers.sides import special_ids
from visformer.tokenizers.tokenizer import Tokenizer
from visformer.values.config import ModelConfig
from visformer.values.finding import Severity
from visformer.values.questions import keyword

FindingParts = tuple[str, str, str, Severity]

DROPPED: FindingParts = (
    N_("Attention"),
    N_(
        "The original program computes the attention weights and discards them, so it "
        "has nothing to show."
    ),
    N_("Nothing to do: Visformer computes them itself."),
    "note",
)
UNSCALED: FindingParts = (
    N_("Embeddings"),
    N_(
        "Embeddings are not multiplied by sqrt(d_model) as in the paper, so their size "
        "relative to the positions is whatever training made it."
    ),
    N_("Leave it as trained."),
    "note",
)
QUERY_ROWS: FindingParts = (
    N_("Masks"),
    N_(
        "Padding is masked in the query rows, so a padded row attends equally to every "
        "key, including future ones."
    ),
    N_("Mask the keys instead: unsqueeze(1).unsqueeze(2)."),
    "fault",
)
DROPOUT: FindingParts = (
    N_("Dropout"),
    N_(
        "A dropout argument is ignored, which matters only when training with another "
        "rate."
    ),
    N_("Pass it on to the dropout layer."),
    "note",
)


def read_tutorial(
    spec: LayoutSpec, files: Files, options: GivenOptions, device: torch.device
) -> Checkpoint:
    """Open one file, or a model's two, of a layout; CheckpointError says what is wrong.

    Missing fields, ids and tokenizers are assumed.
    """
    read = read_files(spec, files, options)
    if read.half:
        other = "decoder" if read.half == "encoder" else "encoder"
        raise CheckpointError(
            "{file} holds only the {half}; the {other} is missing. Give both files, as "
            "(encoder file, decoder file).",
            file=read.name,
            half=_(read.half),
            other=_(other),
        )
    width = read.options.fields.get("d_model", sizes_of(read.tensors)["d_model"])
    spec.check(read.tensors, width, read.name, read.spelling)
    checked(read)
    config = config_of(read)
    model = build_model(
        config,
        read.parameters,
        device=device,
        name=read.name,
        spelling=read.spelling,
        table=_table(read, config),
    )
    tokenizer, guessed = _tokenizer(read, config)
    accepted = sorted(read.options.guessed & read.options.fields.keys())
    pads = (tokenizer.source_pad, tokenizer.pad)
    return Checkpoint(
        name=read.name,
        layout=spec.name,
        config=config,
        model=model,
        tokenizer=tokenizer,
        digest=_digest(read.weights),
        assumed=(
            *_sets(read),
            *(_accepted(field, getattr(config, field)) for field in accepted),
            *(_assumed(field, getattr(config, field)) for field in read.unsaid),
            *read.assumed,
            *guessed,
        ),
        findings=(
            *(() if read.renamed else spec.findings_of(config)),
            *findings_of(config, read.tensors, pads, read.spelling),
        ),
    )


def _accepted(name: str, value: object) -> str:
    return _(
        "{name} = {value} (the usual value, accepted: the file does not say)",
        name=name,
        value=value,
    )


def _assumed(name: str, value: object) -> str:
    return _("{name} = {value} (the file does not say)", name=name, value=value)


def _sets(read: TutorialFiles) -> list[str]:
    """Report which set of weights was read if a file has several."""
    return [
        _(
            "weights = {name} (the file also holds {others}; give {given} to choose)",
            given=keyword("weights"),
            name=part.chosen,
            others=listed([*part.others], room=70),
        )
        for part in read.weights
        if part.others and not read.options.rules.weights
    ]


def _digest(weights: Sequence[Weights]) -> str:
    if len(weights) == 1:
        return weights[0].digest
    return hashlib.sha256("".join(w.digest for w in weights).encode()).hexdigest()


def _table(read: TutorialFiles, config: ModelConfig) -> Tensor | None:
    """Return the file's own positions [P, D]; CheckpointError for a wrong shape."""
    table = read.tensors.get("positions")
    if table is None or config.positions == "learned":
        return None
    if table.dim() != 2 or table.shape[1] != config.d_model:
        raise CheckpointError(
            "{file} does not fit its config: {tensor} has shape {found} instead of "
            "{expected}.",
            file=read.name,
            tensor=read.spelling("positions"),
            found=list(table.shape),
            expected=[config.max_positions, config.d_model],
        )
    if len(table) < config.max_positions:
        raise CheckpointError(
            "{file} stores {n:,} positions, fewer than max_positions = {most:,}. Give "
            "a smaller max_positions.",
            file=read.name,
            n=len(table),
            most=config.max_positions,
        )
    return table[: config.max_positions]


def _tokenizer(
    read: TutorialFiles, config: ModelConfig
) -> tuple[Tokenizer, tuple[str, ...]]:
    """Return the given or found tokenizer, and what was assumed."""
    options = read.options
    sides = sides_of(read, (config.source_vocabulary, config.target_vocabulary))
    ids, usual = _ids(read, config, sides)
    tokenizer = Tokenizer(
        sides.source,
        sides.target,
        pad=ids["pad"] if options.target_pad is None else options.target_pad,
        bos=ids["bos"],
        eos=ids["eos"],
        source_pad=ids["pad"],
        ends_source=sides.given and read.spec.ends_source,
    )
    return tokenizer, (*sides.said, *(_assumed(name, ids[name]) for name in usual))


def _ids(
    read: TutorialFiles, config: ModelConfig, sides: FoundSides
) -> tuple[dict[str, int], list[str]]:
    """Return the special ids, and the names of the assumed ones."""
    options = read.options
    named = special_ids(sides.target) if sides.given else {}
    ids = read.spec.usual_ids(named)
    given = {n: id for n in ids if (id := getattr(options, n)) is not None}
    usual = [name for name in ids if name not in given and name not in named]
    ids |= given
    _check_ids(ids | {"target_pad": options.target_pad}, config)
    return ids, usual


def _check_ids(ids: Mapping[str, int | None], config: ModelConfig) -> None:
    for name, id in ids.items():
        rows = config.source_vocabulary if name == "pad" else config.target_vocabulary
        if id is not None and id >= rows:
            raise CheckpointError(
                "{name} is {id}, which is outside the vocabulary. Give {given}, an id "
                "from 0 to {high:,}.",
                name=name,
                given=keyword(name),
                id=id,
                high=rows - 1,
            )


def write_tutorial(
    folder: Path, spec: LayoutSpec, model: Transformer, tokenizer: TokenizerFiles
) -> None:
    """Write a folder of a model as a layout's own program would name its tensors.

    ``config.json`` has what the tensors do not show. Raises InputError if writing
    fails.
    """
    tensors = halved(model)
    if "positions" in spec.names.tensors.values():
        tensors["positions"] = model.positions.cpu()[None]  # [1, P, D]
    stored = {their_name(spec.names, name): t for name, t in tensors.items()}
    unsaid = {name: getattr(model.config, name) for name in ("heads", *spec.left_open)}
    files = {
        f"{spec.name}.safetensors": save(stored),
        **tokenizer.contents,
        CONFIG: (json.dumps(unsaid, indent=2) + "\n").encode(),
    }
    write_files(folder, files)


# ---- findings that several tutorials share: where, what, remedy, severity ------------
