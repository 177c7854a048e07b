"""What is unusual or wrong about a checkpoint, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnosis; ``str`` makes a sentence of it, after its id."""

    id: str
    where: str
    what: str
    why: str
    remedy: str

    def __str__(self) -> str:
        """Return "id: where: what, why; remedy."."""
        return f"{self.id}: {self.where}: {self.what}, {self.why}; {self.remedy}."
