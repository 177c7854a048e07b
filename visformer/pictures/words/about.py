"""Everything known about the open model: sizes, assumptions, findings, checks."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from visformer.engine.messages import Opened
from visformer.language import N_, _, ngettext, sentences
from visformer.values.config import ModelConfig
from visformer.values.facts import WATCHED
from visformer.values.finding import (
    VERDICTS,
    CheckResult,
    EvidencePlace,
    Finding,
    Verdict,
)
from visformer.values.trace import Trace

_NUMBERS = {  # what to type without a tokenizer, by whether a program runs the model
    False: N_(
        "There is no tokenizer: type token ids from 0 to {last:,}, separated by "
        "spaces, or choose a tokenizer in the File menu."
    ),
    True: N_(
        "There is no tokenizer: type token ids from 0 to {last:,}, separated by "
        "spaces, or give encode= and decode= to visformer.wrap."
    ),
}


def opened_words(opened: Opened, *, changed: bool = False) -> str:
    """Report what is notable right after opening; "" if nothing is.

    ``changed`` means that the answers used were given for other weights of the same
    name.
    """
    said = []
    if changed:
        said.append(
            _(
                "{name} has changed since you answered the questions about it. Check "
                "them with “Answer the file's questions again…” in the File menu.",
                name=PurePath(opened.path).name,
            )
        )
    if opened.numbers:
        said.append(
            _(_NUMBERS[opened.model.layout == WATCHED], last=opened.numbers - 1)
        )
    if opened.findings:
        said.append(str(sorted(opened.findings, key=lambda x: x.severity)[0]))
    if len(opened.findings) > 1:
        said.append(_("More under “{button}”.", button=count_words(opened.findings)))
    return sentences(said)


def source_hint(opened: Opened | None) -> str:
    """Return the hint in the empty source line."""
    if opened is None or not opened.numbers:
        return _("Type a sentence and press Enter")
    return _(
        "Type token ids from 0 to {last:,}, separated by spaces, and press Enter",
        last=opened.numbers - 1,
    )


def readable(sentence: str, opened: Opened) -> bool:
    """Whether the model can read a sentence; models without a tokenizer read ids.

    The engine checks that they are within its vocabulary.
    """
    words = sentence.split()
    return not opened.numbers or all(w.isascii() and w.isdigit() for w in words)


def count_words(findings: Sequence[Finding]) -> str:
    """Return the label of the button that shows the findings."""
    count = len(findings)
    return ngettext("{n} finding", "{n} findings", count) if count else _("About")


def findings_text(findings: Iterable[Finding]) -> str:
    """Return what is unusual or wrong, as paragraphs; that there is nothing, if so."""
    return "\n\n".join(map(_finding, findings)) or _("Nothing.")


def about_text(opened: Opened) -> str:
    """Return everything known about the model, as paragraphs of plain text."""
    nothing = _("Nothing.")
    parts = (
        _("THE MODEL"),
        _facts(opened),
        _("ASSUMED (not stated in the file or by you)"),
        "\n".join(opened.assumed) or nothing,
        _("UNUSUAL OR WRONG"),
        findings_text(opened.findings),
    )
    return "\n\n".join(parts) + "\n"


def watched_text(trace: Trace) -> str:
    """Return everything known about a watched model's run, as paragraphs."""
    certificate, nothing = trace.certificate, _("Nothing.")
    if certificate is None:
        return ""
    parts = (
        _("THE MODEL"),
        _("{name}, watched while it ran", name=trace.model.name),
        _("ARE THESE ITS OWN NUMBERS?"),
        "\n".join((certificate.sentence, *certificate.checks)),
        _("NOT SHOWN"),
        "\n".join(certificate.missed) or nothing,
        _("UNUSUAL OR WRONG"),
        findings_text(certificate.findings),
    )
    return "\n\n".join(parts) + "\n"


def _facts(opened: Opened) -> str:
    model = opened.model
    config = model.config
    lines = (
        _("{name}, layout {layout}", name=model.name, layout=model.layout),
        opened.path,
        _(
            "{encoder} + {decoder} layers, {heads}, width {width:,}, feed-forward "
            "{inner:,}, {parameters:,} parameters",
            encoder=config.encoder_layers,
            decoder=config.decoder_layers,
            heads=ngettext("{n} head", "{n} heads", config.heads),
            width=config.d_model,
            inner=config.feed_forward,
            parameters=model.parameters,
        ),
        _vocabulary_words(opened),
        _(
            "pad {source_pad} in the source and {pad} in the target, start {bos}, end "
            "{eos}",
            source_pad=model.source_pad,
            pad=model.pad,
            bos=model.bos,
            eos=model.eos,
        ),
        _position_words(config),
        _("SHA-256 of the weights {digest}", digest=model.digest)
        if model.digest
        else "",
    )
    return "\n".join(line for line in lines if line)


def _vocabulary_words(opened: Opened) -> str:
    config = opened.model.config
    sizes = {"source": config.source_vocabulary, "target": config.target_vocabulary}
    if opened.numbers:
        return _(
            "{source:,} source tokens and {target:,} target tokens: numbers, because "
            "no tokenizer was given",
            **sizes,
        )
    return _(
        "{source:,} source tokens and {target:,} target tokens, from the tokenizer",
        **sizes,
    )


def _position_words(config: ModelConfig) -> str:
    fields = {
        "positions": config.positions,
        "most": config.max_positions,
        "activation": config.activation,
    }
    if config.norm_first:
        return _(
            "positions {positions}, at most {most:,}; norms before each sublayer; "
            "activation {activation}",
            **fields,
        )
    return _(
        "positions {positions}, at most {most:,}; norms after each sublayer; "
        "activation {activation}",
        **fields,
    )


def _finding(finding: Finding) -> str:
    """Put the parts of a finding on separate lines."""
    return f"{finding.title}  {finding.where}\n{finding.what}\n{finding.remedy}"


# ---- the checks ----

SIGNS: dict[Verdict, str] = {"fault": "✗", "note": "!", "passed": "✓"}


class CheckRow(NamedTuple):
    """One check, or a finding about the file."""

    id: str
    verdict: Verdict
    words: tuple[str, str, str, str]  # verdict, check, where, evidence and advice
    at: EvidencePlace | None


def check_rows(
    results: Iterable[CheckResult], findings: Iterable[Finding]
) -> tuple[CheckRow, ...]:
    """Return a row for each; of findings of the file those that no check has made."""
    several = [*results]
    known = {one.id for one in several}
    several += [
        CheckResult(one.id, _("Read from the file"), one.severity, *_said(one))
        for one in findings
        if one.id not in known
    ]
    order = [*VERDICTS]
    several.sort(key=lambda one: order.index(one.verdict))
    return tuple(map(_row, several))


def _said(one: Finding) -> tuple[str, str, str]:
    return one.where, one.what, one.remedy


def _row(one: CheckResult) -> CheckRow:
    sign = SIGNS.get(one.verdict, "–")
    verdict = f"{sign} {_(VERDICTS[one.verdict])}"
    said = "\n".join(filter(None, (one.what, one.remedy)))
    return CheckRow(one.id, one.verdict, (verdict, one.title, one.where, said), one.at)


def checks_words(rows: Iterable[CheckRow]) -> str:
    """Count the verdicts; say how to see the evidence, where there is a place."""
    listed = [*rows]
    verdicts = [row.verdict for row in listed]
    counts = _(
        "Faults: {faults}; notes: {notes}; passed: {passed}; not applicable: {others}.",
        faults=verdicts.count("fault"),
        notes=verdicts.count("note"),
        passed=verdicts.count("passed"),
        others=verdicts.count("not applicable"),
    )
    click = _("Click an underlined place to see the evidence.")
    return sentences((counts, click if any(row.at for row in listed) else ""))
