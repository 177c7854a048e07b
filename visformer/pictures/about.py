"""What is known about the open model, in words: sizes, assumptions, findings."""

from __future__ import annotations

from pathlib import PurePath

from visformer.engine.messages import Opened
from visformer.values.finding import Finding


def opened_words(opened: Opened, *, changed: bool = False) -> str:
    """Say what is worth knowing right after opening; "" where nothing is.

    ``changed``: the answers used were given for other weights under the same name.
    """
    said = []
    if changed:
        said.append(
            f"{PurePath(opened.path).name} has changed since its answers were given: "
            "check them under File, “Change the answers…”."
        )
    if opened.numbers:
        said.append(
            f"No tokenizer: type {ids_words(opened)}, or choose one in the File menu."
        )
    if opened.findings:
        said.append(str(opened.findings[0]))
    if len(opened.findings) > 1:
        said.append(f"More under “{count_words(opened)}”.")
    return " ".join(said)


def ids_words(opened: Opened) -> str:
    """Say what the source line takes from a model whose tokens are numbers."""
    return f"token ids, 0 to {opened.numbers - 1:,}, separated by blanks"


def source_hint(opened: Opened | None) -> str:
    """Say what is typed into the source line."""
    if opened is None or not opened.numbers:
        return "Type a sentence and press Enter"
    return f"Type {ids_words(opened)}, and press Enter"


def readable(sentence: str, opened: Opened) -> bool:
    """Tell whether the model can read a sentence: numbers, where it reads only those.

    Whether they are within its vocabulary, the engine says.
    """
    words = sentence.split()
    return not opened.numbers or all(w.isascii() and w.isdigit() for w in words)


def count_words(opened: Opened) -> str:
    """Name the button that leads to the findings."""
    count = len(opened.findings)
    return f"{count} finding{'s' if count != 1 else ''}" if count else "About"


def about_text(opened: Opened) -> str:
    """Return all that is known about the model, as paragraphs of plain text."""
    assumed = "\n".join(opened.assumed) or "Nothing."
    findings = "\n\n".join(map(_finding, opened.findings)) or "Nothing."
    parts = (
        ("The model", _facts(opened)),
        ("Taken for granted, because nobody told", assumed),
        ("Unusual or wrong", findings),
    )
    return "\n\n".join(f"{title.upper()}\n\n{text}" for title, text in parts) + "\n"


def _facts(opened: Opened) -> str:
    model = opened.model
    config = model.config
    tokens = (
        "numbers, since no tokenizer was given" if opened.numbers else "its tokenizer's"
    )
    norms = "before each sublayer" if config.norm_first else "after each sublayer"
    lines = (
        f"{model.name}, layout {model.layout}",
        opened.path,
        f"{config.encoder_layers} + {config.decoder_layers} layers, "
        f"{config.heads} heads, width {config.d_model:,}, "
        f"feed-forward {config.feed_forward:,}, {model.parameters:,} parameters",
        f"{config.source_vocabulary:,} source and {config.target_vocabulary:,} target "
        f"tokens: {tokens}",
        f"pad {model.source_pad}, of the target {model.pad}; start {model.bos}; end "
        f"{model.eos}",
        f"positions {config.positions}, at most {config.max_positions:,}; "
        f"norms {norms}; activation {config.activation}",
        f"SHA-256 of the weights {model.digest}" if model.digest else "",
    )
    return "\n".join(line for line in lines if line)


def _finding(finding: Finding) -> str:
    """Set the parts of a finding on lines of their own."""
    return f"{finding.id}  {finding.where}\n{finding.what}\n{finding.remedy}"
