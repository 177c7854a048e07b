"""The window: Qt, no torch, no tokenizer."""

import os

os.environ.setdefault("QT_API", "pyside6")
os.environ.setdefault("PYQTGRAPH_QT_LIB", "PySide6")
