"""The layouts: one ``LayoutSpec`` per module, all listed in ``LAYOUTS``."""

from visformer.formats.layout_spec import LayoutSpec
from visformer.formats.layouts.d2l import D2L
from visformer.formats.layouts.handout import HANDOUT
from visformer.formats.layouts.labml import LABML
from visformer.formats.layouts.marian import MARIAN
from visformer.formats.layouts.modular import MODULAR
from visformer.formats.layouts.native import NATIVE
from visformer.formats.layouts.scratch import SCRATCH
from visformer.formats.layouts.torch import TORCH
from visformer.formats.layouts.transformers import TRANSFORMERS

TUTORIALS = {spec.name: spec for spec in (HANDOUT, D2L, LABML, MODULAR, SCRATCH)}
LAYOUTS: dict[str, LayoutSpec] = {
    NATIVE.name: NATIVE,
    **TUTORIALS,
    **{spec.name: spec for spec in (TORCH, MARIAN, TRANSFORMERS)},
}
