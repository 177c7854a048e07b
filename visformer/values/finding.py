"""What is unusual or wrong about a checkpoint, as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from visformer.language import _

Severity = Literal["fault", "note"]  # wrong, or only unusual


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis."""

    id: str
    where: str  # the part of the model, or the name of a tensor
    what: str  # a whole sentence: the fact and what follows from it
    remedy: str  # a whole sentence
    severity: Severity = "fault"

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
