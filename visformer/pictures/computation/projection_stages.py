"""The stages from a sublayer's input to its queries, keys and values."""

from collections.abc import Callable
from typing import Literal

from visformer.analysis.formulas import size
from visformer.language import N_, _, p_, sentences
from visformer.pictures.computation.norms import norm_steps, norm_words
from visformer.pictures.computation.stage_picture import (
    StageMap,
    StagePicture,
    columns_words,
    difference,
    plus,
    projected_part,
    projected_terms,
    queries,
    stage_map,
    vectors,
    with_bias,
)
from visformer.pictures.computation.subject import Projected, Subject
from visformer.pictures.picture import Axis
from visformer.pictures.position_lab import token_positions
from visformer.values.arrays import Floats
from visformer.values.changes.position_change import adds_positions
from visformer.values.facts import SIDES
from visformer.words import dimension_words, layer_words, number

LETTERS: dict[Projected, str] = {"query": "Q", "key": "K", "value": "V"}


def input_stage(subject: Subject) -> StagePicture:
    """Show the rows that queries, keys and values are projected from."""
    rows, model = subject.rows(), subject.trace.model
    residual = rows.attention(subject.kind).residual
    maps = [*_embedding(subject, residual.x)]
    maps.append(queries(subject, "=" if maps else "", _("stream x"), residual.x))
    names, values = [_("x of the query")], [residual.x[subject.at]]
    if model.config.norm_first:
        maps.append(queries(subject, _("→ norm"), "X", residual.reads))
        steps = norm_steps(model, residual.norm, residual.x[subject.at], "x")
        names += [*steps, _("X = norm(x) of the query")]
        values += [*steps.values(), residual.reads[subject.at]]
    memory = rows.memory(subject.kind, subject.keys)
    if subject.kind == "cross":
        encoded = _("M (encoder output)")
        maps.append(
            stage_map(
                subject,
                p_("between pictures", "and"),
                encoded,
                lambda: memory,
                ("key", "model"),
            )
        )
    names.append(_("M of the key") if subject.kind == "cross" else _("X of the key"))
    values.append(memory[subject.key - subject.keys.start])
    sizes = _(
        "Its size (L2 norm) is {size}; the key's row, {key}, has size {key_size}.",
        size=number(float(size(residual.x[subject.at]))),
        key=subject.token("key"),
        key_size=number(float(size(values[-1]))),
    )
    return StagePicture(
        formula=_input_formula(subject),
        maps=tuple(maps),
        words=sentences((_input_words(subject), sizes)),
        table=vectors(subject, "model", names, values),
    )


def _input_formula(subject: Subject) -> str:
    """Say what queries, keys and values are projected from."""
    across = subject.kind == "cross"
    if not subject.trace.model.config.norm_first:
        if across:
            return _(
                "The queries are projected from the residual stream x; the keys and "
                "values from M, the encoder's output."
            )
        return _("Queries, keys and values are projected from the residual stream x.")
    if across:
        return _(
            "The queries are projected from X, the normalised stream ({norm}); the "
            "keys and values from M, the encoder's output.",
            norm=norm_words(subject),
        )
    return _(
        "Queries, keys and values are projected from X, the normalised stream "
        "({norm}).",
        norm=norm_words(subject),
    )


def _embedding(subject: Subject, x: Floats) -> tuple[StageMap, ...]:
    """Split the first layer's input, if the position table is known."""
    if subject.positions is None or subject.layer or subject.kind == "cross":
        return ()
    if not adds_positions(subject.trace.model, subject.trace.intervention.positions):
        return ()
    side = SIDES[subject.kind][0]
    given = token_positions(subject.trace, subject.positions, side)
    if given is None:
        return ()
    positions = given[subject.queries]
    return (
        queries(subject, "", _("x − position"), subject.cut(x) - positions),
        queries(subject, "+", _("position"), positions),
    )


def _input_words(subject: Subject) -> str:
    token = subject.token("query")
    if subject.kind == "cross":
        return _(
            "{token}: x is the stream after this layer's self-attention.", token=token
        )
    if subject.layer:
        return _(
            "{token}: x is the output of {layer}.",
            token=token,
            layer=layer_words(subject.layer - 1),
        )
    model, change = subject.trace.model, subject.trace.intervention.positions
    added = bool(adds_positions(model, change))
    return _(_EMBEDDED[added, model.config.embedding_scale], token=token)


_EMBEDDED = {  # by whether positions are added, and whether embeddings are scaled
    (True, True): N_(
        "{token}: x is embedding + position (x − position is the scaled embedding)."
    ),
    (True, False): N_(
        "{token}: x is embedding + position (x − position is the embedding)."
    ),
    (False, True): N_("{token}: x is the scaled embedding; no position is added."),
    (False, False): N_("{token}: x is the embedding; no position is added."),
}


def projection_stage(part: Projected) -> Callable[[Subject], StagePicture]:
    """Return the stage that projects the input to queries, keys or values."""

    def stage(subject: Subject) -> StagePicture:
        return _projection(subject, part)

    return stage


def _projection(subject: Subject, part: Projected) -> StagePicture:
    letter, rows = LETTERS[part], subject.rows()
    token: Literal["query", "key"] = "query" if part == "query" else "key"
    whole = getattr(rows.attention_weights(subject.kind), part)
    columns = subject.columns(part)
    linear = projected_part(whole, columns)
    reads, result, at = _projected(subject, part)
    source = _source(subject, part)
    product = reads[at] @ linear.weight  # [d]
    values, names = [product, result[at]], [f"{source} W_{letter}", letter.lower()]
    if linear.bias is not None:
        values.insert(1, linear.bias)
        names.insert(1, f"b_{letter}")
    d, small = subject.dimension("head", result.shape[1]), letter.lower()
    words = _(
        "{token}: {element} = {sum} = {result}. Recomputed here, {vector} differs from "
        "the model's own by at most {difference}.",
        token=subject.token(token),
        element=f"{small}[{dimension_words(d)}]",
        sum=projected_terms(reads[at], linear, d),
        result=number(result[at, d]),
        vector=small,
        difference=difference(linear(reads[at]), result[at]),
    )
    return StagePicture(
        formula=_(
            "{formula}  ·  head {head} of {heads} has {columns} of {matrix}",
            formula=with_bias(f"{letter} = {source} W_{letter}", linear, f"b_{letter}"),
            head=subject.head + 1,
            heads=subject.facts.heads,
            columns=columns_words(columns),
            matrix=f"W_{letter}",
        ),
        maps=_projection_maps(subject, part),
        words=words,
        table=vectors(subject, "head", names, values, by="all"),
    )


def _source(subject: Subject, part: Projected) -> str:
    """Name what a part is projected from."""
    return "M" if subject.kind == "cross" and part != "query" else "X"


def _projection_maps(subject: Subject, part: Projected) -> tuple[StageMap, ...]:
    """Return input, weight and result; the last two in the hue of the part."""
    letter, rows = LETTERS[part], subject.rows()
    side: Axis = "query" if part == "query" else "key"
    whole = getattr(rows.attention_weights(subject.kind), part)
    linear = projected_part(whole, subject.columns(part))
    reads, result, _at = _projected(subject, part)
    return (
        stage_map(subject, "", _source(subject, part), lambda: reads, (side, "model")),
        stage_map(
            *(subject, "×", f"W_{letter}", lambda: linear.weight, ("model", "head")),
            key=(rows.parameters, subject.kind, subject.head),
            role=part,
        ),
        stage_map(
            *(subject, plus(linear), letter, lambda: result, (side, "head")), role=part
        ),
    )


def _equation(subject: Subject, part: Projected) -> str:
    """Write the equation of a part, with its bias if it has one."""
    letter = LETTERS[part]
    weights = getattr(subject.rows().attention_weights(subject.kind), part)
    bias = "" if weights.bias is None else f" + b_{letter}"
    return f"{letter} = {_source(subject, part)} W_{letter}{bias}"


def projections_stage(subject: Subject) -> StagePicture:
    """Show queries, keys and values side by side: one input, three weights."""
    parts: tuple[Projected, ...] = ("query", "key", "value")
    names, values = [], []
    for part in parts:
        _reads, result, at = _projected(subject, part)
        names.append(LETTERS[part].lower())
        values.append(result[at])
    formulas = ", ".join(_equation(subject, part) for part in parts)
    same = len({len(vector) for vector in values}) == 1
    return StagePicture(
        formula=_(
            "{formulas}: three weights; X is the decoder's stream, M the encoder's "
            "output",
            formulas=formulas,
        )
        if subject.kind == "cross"
        else _("{formulas}: the same X, three weights", formulas=formulas),
        maps=tuple(one for part in parts for one in _projection_maps(subject, part)),
        words=_(
            "{query} asks with its q, {key} is found by its k and gives its v. Head "
            "{head} of {heads} has {columns}.",
            query=subject.token("query"),
            key=subject.token("key"),
            head=subject.head + 1,
            heads=subject.facts.heads,
            columns=columns_words(subject.columns("query")),
        ),
        table=vectors(
            *(subject, "head", names if same else names[:2]),
            values if same else values[:2],
            by="all",
        ),
        columns=3,
    )


def _projected(subject: Subject, part: Projected) -> tuple[Floats, Floats, int]:
    """Return a projection's input and result, and the cell's row in both."""
    trace, rows = subject.trace, subject.rows()
    where = subject.layer, subject.head
    if part == "query":
        reads = rows.attention(subject.kind).residual.reads
        result = trace.queries(subject.kind, *where)[subject.queries]
        return subject.cut(reads), result, subject.at
    every = trace.keys if part == "key" else trace.values
    memory = rows.memory(subject.kind, subject.keys)
    result = every(subject.kind, *where)[subject.keys]
    return memory, result, subject.key - subject.keys.start
