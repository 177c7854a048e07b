"""Read a pickle of torch without its classes: nothing is imported, no code of it runs.

``torch.save(model)`` writes a pickle of objects. Here every class and function that it
names becomes an inert stand-in, which accepts any arguments and keeps its state;
tensors become records of a storage, a shape and strides. Only stand-ins and Python's
containers, numbers and texts are ever on the unpickler's stack.

This is the only reader of untrusted pickles that does not use torch's restricted
unpickler. It is Python's unpickler written in Python: the C version allocates whatever
size an index claims. Its opcodes, objects and sizes are limited.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch

MOST_BYTES = 8 << 20  # of a pickle, without the numbers of its tensors
MOST_OBJECTS = 1_000_000
MOST_NAMES = 2_000  # classes and functions
_KEYS = (str, int, float, bytes, bool, type(None))
_CODE = {  # modules of Python whose functions no model needs
    *("os", "posix", "nt", "subprocess", "sys", "runpy", "importlib", "imp", "socket"),
    *("shutil", "ctypes", "_ctypes", "pty", "code", "codeop", "commands", "webbrowser"),
    *(
        "pickle",
        "_pickle",
        "marshal",
        "urllib",
        "http",
        "ftplib",
        "smtplib",
        "requests",
    ),
    *("multiprocessing", "asyncio", "threading", "signal", "site", "pip"),
}
_BUILTINS = {  # harmless ones, which become inert like everything else
    *("set", "frozenset", "list", "dict", "tuple", "int", "float", "str", "bool"),
    *("bytes", "bytearray", "complex", "slice", "range", "object", "type", "getattr"),
    *("Ellipsis", "NotImplemented", "property", "map", "filter", "zip", "print", "sum"),
    *("max", "min", "len", "abs", "round", "sorted", "reversed", "enumerate"),
}


class CodeInFileError(Exception):
    """A pickle names a function that runs code."""


class StorageType(NamedTuple):
    """The element type of a storage."""

    dtype: torch.dtype


class StorageRecord(NamedTuple):
    """A storage that is stored elsewhere in the file."""

    key: str
    dtype: torch.dtype
    numel: int


class StorageBytes(NamedTuple):
    """A storage that plain ``pickle`` embedded: a file within the pickle."""

    data: bytes


class TensorRecord(NamedTuple):
    """A tensor, as a view of a storage; not yet validated."""

    storage: StorageRecord | StorageBytes
    dtype: torch.dtype | None  # None: that of the storage
    offset: Any
    shape: Any
    stride: Any


class Inert:
    """An object of an unknown class, with its arguments and its state."""

    __slots__ = ("arguments", "listed", "mapping", "state")
    qualified = ""

    arguments: tuple[Any, ...]
    listed: list[Any]
    mapping: dict[Any, Any]
    state: Any

    def __new__(cls, *arguments: Any, **_named: Any) -> Self:
        """Accept anything: a pickle creates objects with or without arguments."""
        self = super().__new__(cls)
        self.arguments, self.listed, self.mapping = arguments, [], {}
        self.state = None
        return self

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def append(self, item: Any) -> None:
        """Append an item, like a list."""
        self.listed.append(item)

    add = append

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set an entry, like a dict."""
        self.mapping[key] = value


class InertDict(dict[Any, Any]):
    """An OrderedDict, Counter or defaultdict without its attributes."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        """Drop the state."""


class _Maker:
    """A known function of torch, without settable attributes."""

    __slots__ = ()


class _MakeTensor(_Maker):
    __slots__ = ()

    def __call__(
        self, storage: Any, offset: Any, shape: Any, stride: Any, *_rest: Any
    ) -> Any:
        if isinstance(storage, StorageBytes):
            return TensorRecord(storage, None, offset, shape, stride)
        if not isinstance(storage, StorageRecord):
            raise ValueError("no storage")
        return TensorRecord(storage, storage.dtype, offset, shape, stride)


class _MakeStorage(_Maker):
    __slots__ = ()

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, bytes):
            raise ValueError("no storage")
        return StorageBytes(data)


class _MakeBytes(_Maker):
    """Bytes before protocol 3, which were written as text."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any = "latin1") -> Any:
        if not isinstance(text, str) or encoding != "latin1":
            raise ValueError("no bytes")
        return text.encode("latin1")


class _MakeTyped(_Maker):
    __slots__ = ()

    def __call__(self, storage: Any, *given: Any) -> Any:
        offset, shape, stride, _grad, _hooks, dtype = given[:6]
        if not isinstance(storage, StorageRecord) or not isinstance(dtype, StorageType):
            raise ValueError("no storage")
        return TensorRecord(storage, dtype.dtype, offset, shape, stride)


class _MakeParameter(_Maker):
    __slots__ = ()

    def __call__(self, data: Any, *_rest: Any) -> Any:
        return data


class _MakeOfType(_Maker):
    __slots__ = ()

    def __call__(self, make: Any, _kind: Any, arguments: Any, *_rest: Any) -> Any:
        if not isinstance(make, _MakeTensor | _MakeTyped | _MakeParameter):
            raise ValueError("no tensor")
        return make(*arguments)


class _MakeDict(_Maker):
    __slots__ = ()

    def __call__(self, *given: Any) -> Any:
        made = InertDict()
        if given and isinstance(given[0], dict):
            made.update(given[0])
        return made


class _MakeTuple(_Maker):
    __slots__ = ()

    def __call__(self, *given: Any) -> Any:
        return given[0] if given and isinstance(given[0], tuple) else ()


_MAKERS: dict[tuple[str, str], _Maker] = {
    ("torch._utils", "_rebuild_tensor"): _MakeTensor(),
    ("torch._utils", "_rebuild_tensor_v2"): _MakeTensor(),
    ("torch._utils", "_rebuild_tensor_v3"): _MakeTyped(),
    ("torch._utils", "_rebuild_parameter"): _MakeParameter(),
    ("torch._utils", "_rebuild_parameter_with_state"): _MakeParameter(),
    ("torch._tensor", "_rebuild_from_type_v2"): _MakeOfType(),
    ("torch.storage", "_load_from_bytes"): _MakeStorage(),
    ("_codecs", "encode"): _MakeBytes(),
    ("collections", "OrderedDict"): _MakeDict(),
    ("collections", "defaultdict"): _MakeDict(),
    ("collections", "Counter"): _MakeDict(),
    ("torch", "Size"): _MakeTuple(),
}
_DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Long": torch.int64,
    "Int": torch.int32,
    "Short": torch.int16,
    "Char": torch.int8,
    "Byte": torch.uint8,
    "Bool": torch.bool,
}
_TYPES = {
    **{("torch", f"{name}Storage"): StorageType(t) for name, t in _DTYPES.items()},
    **{("torch", str(t)[6:]): StorageType(t) for t in _DTYPES.values()},
    ("torch.storage", "UntypedStorage"): StorageType(torch.uint8),
}


class InertUnpickler(pickle._Unpickler):
    """Reads one pickle of a stream; any exception means that it cannot be read."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, encoding="utf-8")
        self.storages: dict[str, StorageRecord] = {}
        self._names: dict[tuple[str, str], type[Inert]] = {}
        self._made = 0

    def find_class(self, module: Any, name: Any) -> Any:
        """Return the stand-in for a class or function; nothing is imported."""
        key = (module, name)
        if not (isinstance(module, str) and isinstance(name, str)):
            raise pickle.UnpicklingError("a name that is none")
        if key in _MAKERS:
            return _MAKERS[key]
        if key in _TYPES:
            return _TYPES[key]
        room = module.partition(".")[0]
        builtin = room in ("builtins", "__builtin__", "exceptions")
        if room in _CODE or (builtin and name not in _BUILTINS):
            raise CodeInFileError(f"{module}.{name}")
        if key not in self._names:
            if len(self._names) >= MOST_NAMES or len(module) + len(name) > 400:
                raise pickle.UnpicklingError("too many names")
            told = {"__slots__": (), "qualified": f"{module}.{name}"}
            self._names[key] = type("Inert", (Inert,), told)
        return self._names[key]

    def persistent_load(self, pid: Any) -> Any:
        """Return the record of a storage, or the class of a module with source code."""
        match pid:
            case ("module", kind, *_):
                return kind
            case ("storage", StorageType(dtype), str(key), _, int(numel), *_):
                record = StorageRecord(key, dtype, numel)
                if self.storages.setdefault(key, record) != record:
                    raise pickle.UnpicklingError("a storage of two kinds")
                return record
        raise pickle.UnpicklingError("no storage")

    def count(self) -> None:
        """Count an object towards the limit."""
        self._made += 1
        if self._made > MOST_OBJECTS:
            raise pickle.UnpicklingError("too many objects")


def _counted(load: Callable[[Any], None]) -> Callable[[Any], None]:
    def counted(unpickler: InertUnpickler) -> None:
        unpickler.count()
        load(unpickler)

    return counted


def _check_keys(keys: Any) -> None:
    """Refuse nested tuples as keys: hashing them could take forever."""
    for key in keys:
        parts = key if isinstance(key, tuple) and len(key) < 9 else (key,)
        if not all(isinstance(part, _KEYS) for part in parts):
            raise pickle.UnpicklingError("a key that is not plain")


def _keyed(load: Callable[[Any], None], step: int) -> Callable[[Any], None]:
    """Check the keys above the mark before they are used."""

    def checked(unpickler: Any) -> None:
        _check_keys(unpickler.stack[::step])
        load(unpickler)

    return checked


def _set_item(unpickler: Any) -> None:
    _check_keys(unpickler.stack[-2:-1])
    _LOADS[pickle.SETITEM[0]](unpickler)


def _refuse(unpickler: Any) -> None:
    raise pickle.UnpicklingError("an opcode that torch never writes")


def _bytearray(unpickler: Any) -> None:
    """Read a bytearray; Python's own function allocates the claimed size first."""
    size = int.from_bytes(unpickler.read(8), "little")
    data = unpickler.read(size)
    if len(data) != size:
        raise pickle.UnpicklingError("fewer bytes than there should be")
    unpickler.append(bytearray(data))


_LOADS: dict[int, Callable[[Any], None]] = pickle._Unpickler.dispatch
_MAKING = (
    *(pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.EMPTY_SET, pickle.DICT, pickle.LIST),
    *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.REDUCE),
    *(pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.OBJ, pickle.INST, pickle.MEMOIZE),
    *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.PUT, pickle.BINPERSID, pickle.PERSID),
)
_NEVER = (
    *(pickle.EXT1, pickle.EXT2, pickle.EXT4),
    *(pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
)
InertUnpickler.dispatch = {
    **_LOADS,
    **{code[0]: _counted(_LOADS[code[0]]) for code in _MAKING},
    **{code[0]: _refuse for code in _NEVER},
    pickle.BYTEARRAY8[0]: _counted(_bytearray),
    pickle.SETITEM[0]: _set_item,
    pickle.SETITEMS[0]: _keyed(_LOADS[pickle.SETITEMS[0]], 2),
    pickle.ADDITEMS[0]: _keyed(_LOADS[pickle.ADDITEMS[0]], 1),
    pickle.FROZENSET[0]: _keyed(_LOADS[pickle.FROZENSET[0]], 1),
    pickle.DICT[0]: _keyed(_counted(_LOADS[pickle.DICT[0]]), 2),
}


def read_inert(
    stream: io.BytesIO, *, most: int = MOST_BYTES
) -> tuple[Any, dict[str, StorageRecord]]:
    """Read one pickle from a stream; returns its value and the storages it names."""
    start = stream.tell()
    view = io.BytesIO(stream.getbuffer()[start : start + most])
    unpickler = InertUnpickler(view)
    value = unpickler.load()
    stream.seek(start + view.tell())
    return value, unpickler.storages
