"""What is unusual or wrong about a model, and what certifies one that was watched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from visformer.language import N_, _, ngettext

Severity = Literal["fault", "note"]  # wrong, or only unusual
Verdict = Literal["passed", "note", "fault", "not applicable"]


class EvidencePlace(NamedTuple):
    """Where a finding shows in a run; all from 0, None where it is all of them."""

    kind: str = ""  # of attention; "" where it is none
    layer: int | None = None
    head: int | None = None
    row: int | None = None  # a query
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis."""

    id: str
    where: str  # the part of the model, or the name of a tensor
    what: str  # a whole sentence: the fact and what follows from it
    remedy: str  # a whole sentence
    severity: Severity = "fault"
    at: EvidencePlace | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return "id: where: what remedy", on one line; of a note, "id (note): …"."""
        return f"{self.title}: {self.where}: {self.what} {self.remedy}"

    @property
    def title(self) -> str:
        """The id, and whether it is only a note."""
        return self.id if self.severity == "fault" else _("{id} (note)", id=self.id)

    def translated(self) -> Finding:
        """Return one of a table, marked with ``N_``, in the language in use."""
        return replace(
            self, where=_(self.where), what=_(self.what), remedy=_(self.remedy)
        )


VERDICTS: dict[Verdict, str] = {  # what matters first, and its word on screen
    "fault": N_("fault"),
    "note": N_("note"),
    "passed": N_("passed"),
    "not applicable": N_("not applicable"),
}


class CheckResult(NamedTuple):
    """What one check of a table says, also where nothing is wrong."""

    id: str
    title: str  # what ought to be so
    verdict: Verdict
    where: str = ""
    what: str = ""  # the evidence, or why it is not applicable: a whole sentence
    remedy: str = ""
    at: EvidencePlace | None = None
    measured: float | None = None  # the number of the evidence, if it is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was checked of one call, or of several."""

    worst: float  # the largest difference of an attention; 0 without any
    output_difference: float | None  # watched against unwatched; None: not compared
    tolerance: float  # what both may be
    attentions: int  # how many were found
    missed: tuple[str, ...]  # sentences about what is not shown
    findings: tuple[Finding, ...]
    checks: tuple[str, ...] = ()  # sentences about other calls that were made for it

    @property
    def difference(self) -> float:
        """The larger of both differences."""
        return max(self.worst, self.output_difference or 0.0)

    @property
    def passed(self) -> bool:
        """Whether attention was found and all its numbers are the model's own."""
        return self.attentions > 0 and self.difference <= self.tolerance

    @property
    def ok(self) -> bool:
        """Whether it passed, nothing was missed, and no finding is a fault."""
        faults = any(one.severity == "fault" for one in self.findings)
        return self.passed and not self.missed and not faults

    @property
    def sentence(self) -> str:
        """One sentence for a title or a page."""
        if not self.attentions:
            return _("No attention was found.")
        if not self.passed:
            return _(
                "Of {n:,} attentions the numbers differ from the model's own by up to "
                "{worst:.2g}.",
                n=self.attentions,
                worst=self.difference,
            )
        return ngettext(
            "All numbers of {n:,} attention are the model's own, within {worst:.2g}.",
            "All numbers of {n:,} attentions are the model's own, within {worst:.2g}.",
            self.attentions,
            worst=self.difference,
        )

    def __str__(self) -> str:
        """Return the sentence and the checks, then what is not shown, then findings."""
        said = (self.sentence, *self.checks, *self.missed)
        return "\n".join((*said, *map(str, self.findings)))
