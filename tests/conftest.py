"""What every test needs before Qt or torch is imported."""

from __future__ import annotations

import os
import tempfile

import torch

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# logs and settings of a test never reach the user's folders
for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
    os.environ[name] = tempfile.mkdtemp(prefix="visformer-tests-")
# with two threads on two busy cores, small models run up to a hundred times slower
torch.set_num_threads(1)
