"""What a file is: told by its first bytes, whatever its name.

The name decides only between readers that refuse bytes of which nothing is known.
"""

import re
from pathlib import Path
from typing import Literal, NamedTuple

from visformer.errors import CheckpointError, VisformerError
from visformer.files import exists, is_folder, real_path, refuse_foreign, short
from visformer.language import N_, _
from visformer.paths import LESSON
from visformer.trace_file.file_blocks import MAGIC, RegularFile

FileKind = Literal["model", "trace", "page", "lesson", "tokenizer", "pairs", "other"]
START = 4096  # bytes that are looked at
LEAST = 9  # of a text: fewer may be what is left of numbers
RECORDED = "trace", "page"  # kinds that hold runs

DISTRIBUTED = N_(
    "{name} is a distributed checkpoint (DCP). Run dcp_to_torch_save(folder, "
    "“model.pt”) of torch.distributed.checkpoint.format_utils, and open model.pt."
)
IN_PYTORCH = N_(
    "{name} was made for {program}, which is not read. If the model exists in "
    "PyTorch, load it there and call visformer.watch(model)(…) or visformer.wrap."
)
_TOKENIZER = N_(
    "{name} is a tokenizer, not a model. Open the model; if it does not find its "
    "tokenizer, choose both files together, or give this one as --tokenizer."
)
_PAIRS = N_(
    "{name} holds pairs of sentences, not a model: “visformer scan” looks for faults "
    "in them, “visformer train” learns from them, --pairs compares a model with them."
)
_OTHER = N_(
    "{name} is {what}. Visformer opens models (folders, .pt, .safetensors), recorded "
    "runs (.vis) and lessons (.lesson.md)."
)
_PROGRAMS = (  # program, a pattern of the first bytes, the end of a name
    ("GGUF", rb"GGUF", ".gguf"),
    ("ONNX", rb"\x08[\x03-\x20]\x12[\x02-\x40][ -~]{2}", ".onnx"),
    ("TensorFlow Lite", rb".{4}TFL3", ".tflite"),
    ("Keras", rb"\x89HDF", ".h5"),
    ("Keras 3", rb"", ".keras"),
    ("TensorFlow", rb"", ".pb"),
    ("NumPy", rb"\x93NUMPY|PK\x03\x04.{26}[^\0]{1,99}\.npy", ".npz"),
    ("Flax", rb"", ".msgpack"),
    ("CTranslate2", rb".{6,40}Spec\0", ""),  # after the model's name
    ("OpenVINO", rb"", ".xml"),
    ("Core ML", rb"", ".mlmodel"),
    ("PaddlePaddle", rb"", ".pdparams"),
)
_OTHERS = (  # what it is, a pattern of the first bytes
    (N_("an image"), rb"\x89PNG|\xff\xd8\xff|GIF8|BM.{4}\0{4}|II\*\0|MM\0\*"),
    (N_("an image"), rb"RIFF....WEBP|(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)?<svg"),
    (N_("sound or a film"), rb"RIFF|OggS|fLaC|ID3|\x1aE\xdf\xa3|.{4}ftyp"),
    (N_("a PDF file"), rb"%PDF"),
    (N_("an office document"), rb"PK\x03\x04.{26}(\[Con|_rels|mimetype)|\xd0\xcf\x11"),
    (N_("a program"), rb"\x7fELF|MZ.{58}|\xca\xfe\xba\xbe|[\xce\xcf]\xfa\xed\xfe|#!"),
    (N_("a database"), rb"SQLite format|PAR1|ARROW1"),
)
_WEIGHTS = re.compile(rb"PK\x03\x04|\x80[\x02-\x05]|.{5}\0{3}\{", re.DOTALL)
_CONTROLS = re.compile(rb"[\0-\x08\x0e-\x1a]")  # in no text
_PIECES = re.compile(rb"\n[\x05-\x7f]\n[\x01-\x7b]", re.DOTALL)  # of sentencepiece
_HEADED = re.compile(rb"\s*---\s.*?^visformer-lesson\s*:", re.DOTALL | re.MULTILINE)
_OURS = b'<meta name="generator" content="Visformer'
_IDS = re.compile(rb'\s*(\{\s*"[^"]*"\s*:\s*\d+\s*[,}]|\[\s*"[^"]*"\s*[,\]])')
_TOKENIZERS = re.compile(rb'"(added_tokens|tokenizer_class|bos_token|unk_token)"\s*:')
_PARTS = re.compile(r"config\.json|.*\.index\.json")  # that stand for a model


class Recognised(NamedTuple):
    """What a file is, and why it is not opened by itself: "" where it is."""

    kind: FileKind
    problem: str = ""


def recognised(path: Path) -> Recognised:
    """Tell what lies at a path; the first bytes of a file are read.

    A folder is a model's. What does not exist is what its name promises: its reader
    says what is wrong.
    """
    try:
        if is_folder(path):
            return Recognised("model")
        if not exists(path):
            real_path(path)
            return _promised(path)
        start = RegularFile(path).read(0, START)
    except VisformerError as error:
        return Recognised("other", str(error))
    except ValueError:  # a NUL in its name
        return _promised(path)
    return told(start, path)


def holds_runs(path: Path) -> bool:
    """Tell whether there are runs, rather than a model; CheckpointError for neither."""
    kind, problem = recognised(path)
    if kind == "lesson":
        problem = _(
            "{name} is a lesson: open it in the window, or check it with “visformer "
            "lesson check”.",
            name=short(path.name),
        )
    if problem:
        raise CheckpointError(problem)
    return kind in RECORDED


def told(start: bytes, path: Path) -> Recognised:
    """Tell what the first bytes of a file are; ``path`` is where it lies."""
    name = short(path.name)
    if not start:
        problem = _("{file} is empty. Download or copy it again.", file=name)
        return Recognised("other", problem)
    if start.startswith(MAGIC):
        return Recognised("trace")
    text = start.removeprefix(b"\xef\xbb\xbf")
    if _HEADED.match(text):
        return Recognised("lesson")
    if _OURS in text:
        return Recognised("page")
    for program, pattern, ending in _PROGRAMS:
        named = ending and path.name.lower().endswith(ending)
        if named or (pattern and re.match(pattern, start, re.DOTALL)):
            return Recognised("other", _(IN_PYTORCH, name=name, program=program))
    if path.name.lower().endswith((".distcp", ".metadata")):
        return Recognised("other", _(DISTRIBUTED, name=name))
    for what, pattern in _OTHERS:
        if re.match(pattern, start, re.DOTALL):
            return _other(name, _(what))
    try:
        refuse_foreign(start, name)
    except CheckpointError as error:
        return Recognised("other", str(error))
    if _PIECES.match(start) and start[3] < start[1]:
        return Recognised("tokenizer", _(_TOKENIZER, name=name))
    if _WEIGHTS.match(start):
        return Recognised("model")
    binary = len(start) < LEAST or _CONTROLS.search(start)
    return _promised(path) if binary else _told_text(text, path)


def _promised(path: Path) -> Recognised:
    """Tell by the name alone."""
    if path.name.endswith(LESSON):
        return Recognised("lesson")
    return Recognised("trace" if path.suffix == ".vis" else "model")


def _told_text(start: bytes, path: Path) -> Recognised:
    """Tell what text is: by its lines, the last of which may be cut off."""
    name = short(path.name)
    if path.name.endswith(LESSON) or _PARTS.fullmatch(path.name):
        return Recognised("lesson" if path.name.endswith(LESSON) else "model")
    lines = [line for line in start.splitlines()[:50] if line.strip()]
    lines = lines[:-1] if len(start) >= START - 3 and len(lines) > 1 else lines
    cells = [line.split(b"\t") for line in lines]
    if start.lstrip()[:1] in (b"{", b"["):
        known = _IDS.match(start) or _TOKENIZERS.search(start)
        if known:
            return Recognised("tokenizer", _(_TOKENIZER, name=name))
        return _other(name, "JSON")
    counted = all(re.fullmatch(rb"\S+[\t ]-?[\d.e-]+", line) for line in lines)
    alone = len(lines) > 1 and all(len(line.split()) == 1 for line in lines)
    if counted or alone or start.startswith(b"#version:"):
        return Recognised("tokenizer", _(_TOKENIZER, name=name))
    if all(len(row) > 1 and row[0].strip() and row[1].strip() for row in cells):
        return Recognised("pairs", _(_PAIRS, name=name))
    return _other(name, _("text"))


def _other(name: str, what: str) -> Recognised:
    return Recognised("other", _(_OTHER, name=name, what=what))
