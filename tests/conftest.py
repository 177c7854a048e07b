"""What every test needs before Qt or torch is imported."""

from __future__ import annotations

import os

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import torch

# with two threads on two busy cores, small models run up to a hundred times slower
torch.set_num_threads(1)
