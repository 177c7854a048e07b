"""Layer norm and batch norm of four numbers that a tutorial computes by hand."""

from __future__ import annotations

import numpy as np

from visformer.analysis.formulas import batch_standard, layer_standard
from visformer.language import _
from visformer.pictures.computation.stage_picture import (
    StageMap,
    StagePicture,
    signed_shading,
)
from visformer.pictures.picture import Matrix, Numbers
from visformer.values.arrays import Floats

EXAMPLE: Floats = np.array([[1, 2], [2, 3]], np.float32)  # two tokens, two features


def example_picture() -> StagePicture:
    """Show both norms of ``EXAMPLE`` exactly, with eps = 0, without gamma and beta."""
    own, batch = layer_standard(EXAMPLE, 0).values, batch_standard(EXAMPLE, 0).values
    norms = _("layer norm"), _("batch norm")
    return StagePicture(
        formula=_(
            "(x − mean) / deviation, without γ and β. Layer norm: over the two numbers "
            "of a row. Batch norm: over the two numbers of a column. eps = 0; with "
            "PyTorch's eps = 1e−05 every ±1 is ±0.99998"
        ),
        maps=(
            _map("", "x", EXAMPLE),
            _map(_("→ along rows"), norms[0], own),
            _map(_("or along columns"), norms[1], batch),
        ),
        words=_(
            "Row 1 has mean 1.5 and deviation 0.5: it becomes (1 − 1.5) / 0.5 = −1 and "
            "(2 − 1.5) / 0.5 = 1. Column 1 also holds 1 and 2, so batch norm turns it "
            "into the same −1 and 1, one below the other."
        ),
        table=Numbers(
            rows=("x", *norms),
            columns=("[1, 1]", "[1, 2]", "[2, 1]", "[2, 2]"),
            values=np.stack([part.ravel() for part in (EXAMPLE, own, batch)]),
            axis="",
        ),
    )


def _map(sign: str, name: str, values: Floats) -> StageMap:
    """Return a map of four numbers, which are not linked to the sentence."""

    def make() -> Matrix:
        shading = signed_shading(values, 3.0)
        rows, columns = (_("row"), _("column"))
        return Matrix(
            title=f"{name} [2, 2]",
            values=values,
            shade=shading.shade,
            rows=("1", "2"),
            columns=("1", "2"),
            row_axis=_("token (row)"),
            column_axis=_("feature (column)"),
            row_unit=rows,
            column_unit=columns,
            ends=shading.ends,
            signed=True,
            note="",
        )

    return StageMap(sign=sign, key=("example", name), make=make, axes=("", ""))
