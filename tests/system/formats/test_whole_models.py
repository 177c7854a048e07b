"""Models saved whole, and models in memory: read without any class of theirs."""

from __future__ import annotations

import io
import pickle
import pickletools
import struct
import sys
import time
import tracemalloc
import warnings
import zipfile
import zlib
from collections import Counter, OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from tests.system.formats import layout_models as models
from tests.system.formats.hostile import Evil, refused, zipped
from tests.system.formats.layout_files import opened, saved, weights
from tests.system.formats.layout_models import MAKERS, WIDTH, state
from visformer.errors import CheckpointError
from visformer.formats.inert_pickle import MOST_BYTES
from visformer.formats.loading import checkpoint_files, load
from visformer.formats.weight_file import read_weights
from visformer.formats.whole_model import MAGIC, read_whole

WAYS: dict[str, dict[str, Any]] = {
    "zip": {},
    "legacy": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
    "legacy, protocol 5": {
        "_use_new_zipfile_serialization": False,
        "pickle_protocol": 5,
    },
}


def module(layout: str) -> nn.Module:
    """Return a model of a layout with weights that do not look fresh."""
    made = MAKERS[layout]()
    made.load_state_dict(state(MAKERS[layout]))
    return made


@pytest.mark.parametrize("layout", MAKERS)
@pytest.mark.parametrize("way", WAYS)
def test_a_whole_model_is_its_state_dict(tmp_path: Path, layout: str, way: str) -> None:
    whole = module(layout)
    plain = opened(saved(tmp_path / "plain.pt", whole.state_dict()))
    torch.save(whole, tmp_path / "m.pt", **WAYS[way])
    made = opened(tmp_path / "m.pt")
    assert made.layout == layout
    for name, weight in weights(plain).items():
        assert torch.equal(weights(made)[name], weight), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("way", WAYS)
def test_numbers_of_other_precision(
    tmp_path: Path, dtype: torch.dtype, way: str
) -> None:
    whole = module("handout").to(dtype)
    torch.save(whole, tmp_path / "m.pt", **WAYS[way])
    found = read_weights(tmp_path / "m.pt").tensors
    assert {*found} == {*whole.state_dict()}
    for name, tensor in whole.state_dict().items():
        assert found[name].dtype == dtype
        assert torch.equal(found[name], tensor)


class Recorder:
    """Notes when anything of it runs while a file is opened."""

    ran: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.value = 3

    def __setstate__(self, state: object) -> None:
        Recorder.ran.append("setstate")

    def __new__(cls) -> Recorder:
        Recorder.ran.append("new")
        return super().__new__(cls)


class Wrapped(nn.Module):
    """A student's program around a model, with odd things beside it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.net, self.note, self.recorder = inner, "mine", Recorder()
        self.seen = {"losses": [0.5], "words": Counter("aab"), "kinds": {1, 2}}
        self.order = OrderedDict(a=1)


@pytest.mark.parametrize("way", WAYS)
def test_a_class_that_no_longer_exists(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is imported and nothing of the file's classes runs."""
    gone = ModuleType("gone_program")
    for kind in (Wrapped, Recorder):
        monkeypatch.setattr(kind, "__module__", gone.__name__)
        setattr(gone, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, gone.__name__, gone)
    whole = Wrapped(module("scratch"))
    with warnings.catch_warnings(action="ignore"):  # of a class without a source
        torch.save({"model": whole, "epoch": 7}, tmp_path / "m.pt", **WAYS[way])
    monkeypatch.delitem(sys.modules, gone.__name__)
    Recorder.ran.clear()
    made = opened(tmp_path / "m.pt")
    assert (made.layout, Recorder.ran) == ("scratch", [])
    assert gone.__name__ not in sys.modules


def test_shared_tensors_and_views(tmp_path: Path) -> None:
    whole = module("torch")
    source = torch.randn(30, WIDTH)
    whole.src_tok_emb.embedding.weight = nn.Parameter(source[5:16])  # type: ignore
    whole.generator.weight = whole.tgt_tok_emb.embedding.weight  # type: ignore
    torch.save(whole, tmp_path / "m.pt")
    found = read_weights(tmp_path / "m.pt").tensors
    assert torch.equal(found["src_tok_emb.embedding.weight"], source[5:16])
    tied = found["generator.weight"], found["tgt_tok_emb.embedding.weight"]
    assert torch.equal(*tied)


def test_settings_answer_the_form(tmp_path: Path) -> None:
    """Heads, activation, norms and pad are read; what two parts say is not."""
    whole = models.around()
    whole.transformer = nn.Transformer(
        *(WIDTH, 4, 2, 2, 12),
        activation="gelu",
        layer_norm_eps=1e-3,
        norm_first=False,
        batch_first=True,
    )
    whole.src_tok_emb.embedding.padding_idx = 5  # type: ignore
    torch.save(whole, tmp_path / "m.pt")
    made = load(tmp_path / "m.pt", device="cpu")
    assert (made.config.heads, made.config.activation) == (4, "gelu")
    assert (made.config.norm_eps, made.tokenizer.pad) == (1e-3, 5)
    form = checkpoint_files(str(tmp_path / "m.pt"), ()).questionnaire()
    assert form is not None
    asked = {question.name for question in form.questions}
    assert asked.isdisjoint({"heads", "activation", "norm_eps", "norm_first", "pad"})
    whole.transformer.decoder.layers[1].self_attn.num_heads = 2
    torch.save(whole, tmp_path / "m.pt")
    with pytest.raises(CheckpointError, match="does not say how many heads"):
        load(tmp_path / "m.pt", device="cpu")


@pytest.mark.parametrize("layout", MAKERS)
def test_a_module_in_memory(layout: str) -> None:
    whole = module(layout)
    made = load(whole, heads=2, device="cpu")
    assert made.layout == layout
    stored = load(whole.state_dict(), heads=2, device="cpu").digest
    assert (stored == made.digest) == (layout != "labml")  # whose waves are not stored
    before = {name: weight.clone() for name, weight in weights(made).items()}
    with torch.no_grad():
        for parameter in whole.parameters():
            parameter.add_(1)
    assert all(torch.equal(weights(made)[name], before[name]) for name in before)
    assert load(whole, heads=2, device="cpu").digest != made.digest
    assert load({"model": whole.state_dict()}, heads=2).layout == layout


def test_what_is_in_memory_says_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config.json in the current folder is not its own."""
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text('{"heads": 8}')
    whole = module("scratch")
    for part in whole.modules():
        vars(part).pop("num_heads", None)
    with pytest.raises(CheckpointError, match="Scratch does not say how many heads"):
        load(whole)
    whole.num_heads = 2  # type: ignore
    assert load(whole).config.heads == 2
    assert load(whole, heads=4).config.heads == 4
    with pytest.raises(CheckpointError, match="Linear holds 2 tensors"):
        load(nn.Linear(2, 2))
    with pytest.raises(CheckpointError, match="state_dict holds no state dict"):
        load({})
    renamed = {k.replace("W_q", "q"): t for k, t in whole.state_dict().items()}
    assert load(renamed, heads=2, rename={r"\bq\b": "W_q"}).layout == "scratch"


# hostile pickles


def archive(path: Path, pickled: bytes, blocks: dict[str, bytes] | None = None) -> Path:
    files = {"m/data.pkl": pickled, "m/version": b"3\n"}
    files |= {f"m/data/{key}": block for key, block in (blocks or {}).items()}
    path.write_bytes(zipped(files))
    return path


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def name(module: str, word: str) -> bytes:
    return f"c{module}\n{word}\n".encode()


def tensor(key: str, numel: int, shape: bytes, stride: bytes, offset: int = 0) -> bytes:
    kind = text("storage") + name("torch", "FloatStorage") + text(key) + text("cpu")
    storage = b"(" + kind + pickled_int(numel) + b"tQ"
    given = storage + pickled_int(offset) + shape + stride + b"\x89)t"
    return name("torch._utils", "_rebuild_tensor_v2") + b"(" + given + b"R"


def pickled_int(value: int) -> bytes:
    return pickle.dumps(value, 2)[2:-1]


def numbers(*values: int) -> bytes:
    return b"(" + b"".join(map(pickled_int, values)) + b"t"


def whole(parameters: bytes) -> bytes:
    """Pickle an object of an unknown class with these parameters."""
    inside = text("_parameters") + b"}(" + parameters + b"u" + text("_modules") + b"}"
    return b"\x80\x02" + name("x", "M") + b")\x81}(" + inside + b"ub."


def test_a_sound_handmade_file_is_read(tmp_path: Path) -> None:
    made = whole(text("w") + tensor("0", 6, numbers(2, 3), numbers(3, 1)))
    block = torch.arange(6.0).numpy().tobytes()
    found = read_weights(archive(tmp_path / "m.pt", made, {"0": block})).tensors
    assert torch.equal(found["w"], torch.arange(6.0).view(2, 3))


BLOCK = {"0": bytes(24)}
CODE = "would run code"
UNKNOWN = name("x", "M")
HOSTILE: dict[str, tuple[bytes, str]] = {
    "a call of the system": (b"\x80\x02cposix\nsystem\n(X\x01\x00\x00\x00atR.", CODE),
    "eval": (b"\x80\x02cbuiltins\neval\n(X\x01\x00\x00\x00atR.", CODE),
    "eval of Python 2": (b"\x80\x02c__builtin__\neval\n(X\x01\x00\x00\x00atR.", CODE),
    **{
        f"a call of {room}": (b"\x80\x02" + name(room, "f") + b")R.", CODE)
        for room in ("importlib", "subprocess", "ctypes", "runpy", "pickle", "socket")
    },
    "an index of the memo": (
        b"\x80\x02}r\xff\xff\xff\xff" + UNKNOWN + b"0.",
        "",
    ),
    "a byte array": (b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b".", ""),
    "an extension": (b"\x80\x02\x82\x01.", ""),
    "a key without end": (
        b"\x80\x02" + UNKNOWN + b"0)" + b"2\x86" * 60 + b"}(" + b"2K\x01u.",
        "",
    ),
    "a set of them": (
        b"\x80\x04\x8f()" + b"2\x86" * 60 + b"\x90" + UNKNOWN + b"0.",
        "",
    ),
    "a long text": (b"\x80\x02" + UNKNOWN + b"0X\xff\xff\xff\x7fa.", ""),
    "nothing on the stack": (b"\x80\x02" + UNKNOWN + b"00R.", ""),
    "a maker is changed": (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00aK\x01sb"
        + UNKNOWN
        + b"0.",
        "",
    ),
    "a negative shape": (
        whole(text("w") + tensor("0", 6, numbers(-1), numbers(1))),
        "",
    ),
    "a huge shape": (
        whole(text("w") + tensor("0", 6, numbers(1 << 50), numbers(1))),
        "",
    ),
    "an expanded tensor": (
        whole(text("w") + tensor("0", 6, numbers(1 << 30), numbers(0))),
        "",
    ),
    "beyond its storage": (
        whole(text("w") + tensor("0", 6, numbers(2, 3), numbers(3, 1), 1)),
        "",
    ),
    "a storage that is larger": (
        whole(text("w") + tensor("0", 1 << 30, numbers(2), numbers(1))),
        "",
    ),
    "a storage that is not there": (
        whole(text("w") + tensor("../x", 6, numbers(2), numbers(1))),
        "",
    ),
    "a shape of texts": (
        whole(text("w") + tensor("0", 6, b"(" + text("a") + b"t", numbers(1))),
        "",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_pickles_are_refused(tmp_path: Path, what: str) -> None:
    pickled, words = HOSTILE[what]
    path = archive(tmp_path / "m.pt", pickled, BLOCK)
    tracemalloc.start()
    start = time.monotonic()
    sentence = refused(path)
    seconds = time.monotonic() - start
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert words in sentence
    assert seconds < 5
    assert most < 50 << 20


def test_numbers_that_stand_in_each_other_are_refused(tmp_path: Path) -> None:
    """Of an archive whose entries overlap: together they are longer than it is."""
    inner = zipfile.ZipInfo("m/data/100")
    block = bytes(1 << 16)
    inner.CRC, inner.file_size = zlib.crc32(block), len(block)
    inner.compress_size = len(block)
    outer = inner.FileHeader() + block
    several = (("w", "0", len(outer) // 4), ("v", "100", len(block) // 4))
    tensors = (
        text(name) + tensor(key, n, numbers(n), numbers(1)) for name, key, n in several
    )
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as overlapping:
        overlapping.writestr("m/data.pkl", whole(b"".join(tensors)))
        overlapping.writestr("m/data/0", outer)
        first = overlapping.filelist[-1]
        inner.header_offset = first.header_offset + len(first.FileHeader())
        overlapping.filelist.append(inner)
    refused(tmp_path / "m.pt")


def grown(count: int) -> bytes:
    """Pickle modules that each hold the next one twice: 2 ** count names."""
    inner = name("x", "M") + b")\x81}(" + text("_parameters") + b"}" + text("_modules")
    inner += b"}ub"
    for level in range(count):
        put, get = b"q" + bytes([level]), b"h" + bytes([level])
        children = b"}(" + text("a") + get + text("b") + get + b"u"
        inner += put + b"0" + name("x", "M") + b")\x81}(" + text("_parameters") + b"}"
        inner += text("_modules") + children + b"ub"
    return b"\x80\x02" + inner + b"."


@pytest.mark.parametrize("count", [40, 100])
def test_modules_without_end_are_refused(tmp_path: Path, count: int) -> None:
    start = time.monotonic()
    assert refused(archive(tmp_path / "m.pt", grown(count))).endswith('"model.pt").')
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "code",
    [
        b"}",
        *(
            pytest.param(code, marks=pytest.mark.slow)
            for code in (b"]", b")\x85", b"K\x01\x94", b"\x8f", b"\x8c\x00")
        ),
    ],
)
def test_many_objects_are_refused_within_bounds(tmp_path: Path, code: bytes) -> None:
    """As many as the file may have bytes."""
    many = code * (MOST_BYTES // len(code) - 9)
    pickled = b"\x80\x04" + name("x", "M") + b"0" + many + b"."
    start = time.monotonic()
    refused(archive(tmp_path / "m.pt", pickled))
    assert time.monotonic() - start < 20
    refused(archive(tmp_path / "m.pt", pickled + bytes(20)))


def test_the_makers_cannot_be_changed(tmp_path: Path) -> None:
    good = whole(text("w") + tensor("0", 6, numbers(6), numbers(1)))
    state = b"(N}" + text("__call__") + b"K\x01stb"  # slots of an object
    bad = b"\x80\x02" + name("torch._utils", "_rebuild_tensor_v2") + state
    refused(archive(tmp_path / "m.pt", bad + name("x", "M") + b"0.", BLOCK))
    found = read_weights(archive(tmp_path / "m.pt", good, BLOCK)).tensors
    assert found["w"].shape == (6,)


@pytest.mark.parametrize("way", WAYS)
def test_code_in_a_whole_model_does_not_run(tmp_path: Path, way: str) -> None:
    canary = tmp_path / "canary"
    made = module("scratch")
    made.evil = Evil(canary)  # type: ignore
    torch.save(made, tmp_path / "m.pt", **WAYS[way])
    assert CODE in refused(tmp_path / "m.pt")
    assert not canary.exists()


def test_a_pickle_with_the_magic_alone(tmp_path: Path) -> None:
    out = io.BytesIO()
    parts: list[object] = [MAGIC, 1001, {}, {"a": 1}, []]
    for part in parts:
        pickle.dump(part, out, 2)
    (tmp_path / "m.pt").write_bytes(out.getvalue())
    assert refused(tmp_path / "m.pt").startswith("m.pt holds no state dict")


def test_tensors_of_other_kinds_are_no_weights(tmp_path: Path) -> None:
    made = module("scratch")
    made.register_buffer("thin", torch.eye(3).to_sparse())
    torch.save(made, tmp_path / "m.pt")
    found: dict[str, Tensor] = read_weights(tmp_path / "m.pt").tensors
    assert {*found} == {*state(MAKERS["scratch"])}


def test_a_key_twice_in_a_legacy_file_is_refused() -> None:
    made, numbers = io.BytesIO(), torch.arange(3.0)
    torch.save({"w": numbers}, made, _use_new_zipfile_serialization=False)
    made.seek(0)
    for _part in range(4):  # magic, version, system, value
        assert [*pickletools.genops(made)]
    start = made.tell()
    keys, rest = pickle.load(made), made.read()
    head = made.getvalue()[:start]
    once = read_whole(head + pickle.dumps(keys, 2) + rest)
    assert torch.equal(once.value["w"], numbers)
    with pytest.raises(ValueError, match="a storage of another size"):
        read_whole(head + pickle.dumps(2 * keys, 2) + 2 * rest)
