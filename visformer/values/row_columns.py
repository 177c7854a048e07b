"""Which columns of a row hold what; the same in the engine, the window and the file."""

from typing import Literal

from visformer.values.facts import ModelFacts, StackName

RowsName = Literal["encoder", "decoder", "memory"]
SELF = ("queries", "keys", "values")


class Columns:
    """The columns of a Trace's rows, by name.

    An encoder row holds ``queries``, ``keys`` and ``values`` of each layer's self
    attention, then the residual stream (``hidden``). A decoder row holds the same, with
    the cross attention's queries (``cross queries``) after each layer's. A memory row
    (one per source token) holds the cross attention's ``keys`` and ``values`` of each
    layer. A stack's ``output`` follows its residual stream where it is kept apart. What
    a model does not have takes no columns.
    """

    def __init__(self, model: ModelFacts) -> None:
        self._parts: dict[RowsName, dict[tuple[str, int], slice]] = {}
        self._widths: dict[RowsName, int] = {}
        self._model = model
        for stack in ("encoder", "decoder"):
            self._lay_out(stack, self._stack(stack))
        self._lay_out("memory", self._memory())

    def width(self, rows: RowsName) -> int:
        """Columns of an ``"encoder"``, ``"decoder"`` or ``"memory"`` row."""
        return self._widths[rows]

    def names(self, rows: RowsName) -> list[tuple[str, int]]:
        """Name the parts of a row in their order: ``("queries", layer)`` and so on."""
        return list(self._parts[rows])

    def part(self, rows: RowsName, name: str, layer: int) -> slice:
        """Columns of a part of a layer; of ``hidden``, 0 is before the first layer."""
        return self._parts[rows][name, layer]

    def has(self, rows: RowsName, name: str, layer: int) -> bool:
        """Tell whether rows hold a part."""
        return (name, layer) in self._parts[rows]

    def output(self, stack: StackName) -> slice:
        """Columns of a stack's output, after any final norm."""
        facts, parts = self._model.stacks[stack], self._parts[stack]
        if facts.output:
            return parts["output", 0]
        return parts["hidden", facts.hidden - 1]

    def _lay_out(self, rows: RowsName, parts: list[tuple[str, int, int]]) -> None:
        stop, slices = 0, {}
        for name, layer, width in parts:
            slices[name, layer] = slice(stop, stop + width)
            stop += width
        self._parts[rows], self._widths[rows] = slices, stop

    def _stack(self, stack: StackName) -> list[tuple[str, int, int]]:
        """Return name, layer and width of each part."""
        model = self._model
        own = model.attention.get(stack)
        cross = model.attention.get("cross") if stack == "decoder" else None
        parts: list[tuple[str, int, int]] = []
        for layer in range(max(f.layers if f else 0 for f in (own, cross))):
            if own is not None and layer < own.layers:
                keys = own.key_heads * own.head_size
                widths = own.heads * own.head_size, keys, own.key_heads * own.value_size
                parts += zip(SELF, (layer,) * 3, widths, strict=True)
            if cross is not None and layer < cross.layers:
                width = cross.heads * cross.head_size
                parts.append(("cross queries", layer, width))
        if stack in model.stacks:
            stream = model.stacks[stack]
            parts += [("hidden", at, stream.d_model) for at in range(stream.hidden)]
            if stream.output:
                parts.append(("output", 0, stream.d_model))
        return parts

    def _memory(self) -> list[tuple[str, int, int]]:
        cross = self._model.attention.get("cross")
        if cross is None:
            return []
        sizes = {"keys": cross.head_size, "values": cross.value_size}
        return [
            (name, layer, cross.key_heads * size)
            for layer in range(cross.layers)
            for name, size in sizes.items()
        ]
