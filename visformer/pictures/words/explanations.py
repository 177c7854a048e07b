"""One plain sentence per tab, page and stage: what is shown, and what to look for.

The sentences name the tokens and numbers on screen.
"""

import math
from collections.abc import Callable

from visformer.analysis.leaks import leaks
from visformer.language import N_, _, ngettext, sentences
from visformer.pictures.attention.maps import layer_and_head
from visformer.pictures.beam_tree import beam_tree, step_words
from visformer.pictures.cache import recomputes
from visformer.pictures.output import current_row, settled_layer
from visformer.pictures.selection import Form
from visformer.pictures.token_names import chosen_name, is_open, word, writes
from visformer.pictures.words.absent import has_target
from visformer.pictures.words.choices import is_fed, short_choice
from visformer.pictures.words.role_text import role_text
from visformer.pictures.words.scene import Reads, Scene, computed, reads
from visformer.values.changes.position_change import adds_positions
from visformer.values.changes.run_change import ActingPoint
from visformer.values.facts import STACK_OF, Kind
from visformer.values.reading_order import as_read, reads_later
from visformer.values.trace import Trace
from visformer.words import masked_value_text, number, probability

TabPage = tuple[str, ...]  # a tab, and its page if it has pages
START = N_("Type a sentence and press Enter: the model translates it word by word.")
UNWRITTEN = N_("Nothing is written yet: press → to write the first word.")
STRONG: dict[Form, str] = {  # how a large weight looks
    "map": N_("strong cells"),
    "arcs": N_("thick arcs"),
    "text": N_("strongly tinted words"),
}


def explanation(place: TabPage, scene: Scene) -> str:
    """Return the sentence of a place; "" if there is none."""
    if scene.trace is None and place[0] not in ("architecture", "positions"):
        return _(START)
    found = EXPLAINED.get(place, "")
    return _(found) if isinstance(found, str) else found(scene)


def _unwritten(scene: Scene) -> bool:
    trace = scene.trace
    return trace is not None and has_target(trace) and not len(trace)


# ---- attention -------------------------------------------------------------------

_ROWS: dict[Kind, str] = {  # without a row in focus
    "encoder": N_("Each row is a source word; {strong} are the words that it reads."),
    "decoder": N_("Each row is a target word; {strong} are the words that it reads."),
    "cross": N_(
        "Each row is a target word; {strong} are the source words it looks at."
    ),
}
_WRITTEN = N_(
    "Each row is a word being written; {strong} are the source words it looks at."
)
_READS: dict[Kind, str] = {
    "encoder": N_(
        "“{query}” reads “{key}” most ({weight}): rows are source words; {strong} show "
        "what they read."
    ),
    "decoder": N_(
        "“{query}” reads “{key}” most ({weight}): rows are target words; {strong} show "
        "what they read, never later ones."
    ),
    "cross": N_(
        "After “{query}” it looks at “{key}” most ({weight}): rows are words being "
        "written; {strong} show where they look."
    ),
}
_WRITES: dict[str, str] = {  # by who chose the token written there
    "": N_(
        "Writing “{query}”, this head looks at “{key}” most ({weight}): rows are words "
        "being written; {strong} show where they look."
    ),
    "fed": N_(
        "Where “{query}” was fed, this head looks at “{key}” most ({weight}): rows are "
        "words being written; {strong} show where they look."
    ),
    "open": N_(
        "The best next token would be “{query}”. There this head looks at “{key}” most "
        "({weight}); {strong} show where rows look."
    ),
}
_READS_LATER = N_(
    "“{query}” reads “{key}” most ({weight}): rows are target words; {strong} show "
    "what they read, in this layer also later ones."
)
READS_NAN = N_("The weights of “{query}” are NaN: what it reads most is unknown.")
_ASKED = N_(
    "In this head “{query}” reads “{key}” with {weight}. Click another source token to "
    "find the head that reads that one."
)
_SUMMARISED: dict[str, str] = {
    "mean": N_(
        "Mean of this layer's heads: {strong} are tokens that many heads read or one "
        "head reads strongly."
    ),
    "max": N_(
        "Maximum of this layer's heads: {strong} are tokens that any head reads."
    ),
    "all": N_(
        "Mean of all heads of all layers: {strong} are tokens that they read most on "
        "average."
    ),
    "rollout": N_(
        "Rollout: {strong} are tokens that reach a row through all layers up to this "
        "one."
    ),
    "zeroing": N_(
        "Value zeroing: {strong} are tokens without whose values this layer's output "
        "would point elsewhere."
    ),
    "norms": N_(
        "Norms of a v Wₒ: {strong} are tokens whose values this attention adds with "
        "the greatest length."
    ),
    "gradient": N_(
        "Gradient × input: {strong} are tokens whose embeddings log p of the written "
        "token answers to most, for it or against it."
    ),
    "rollout of cross": N_(
        "Rollout: {strong} are source words that reach a row through the encoder and "
        "this layer."
    ),
}


def _attention(scene: Scene) -> str:
    strong, kind = _(STRONG[scene.look.form]), scene.selection.kind
    if kind != "encoder" and _unwritten(scene):
        return _(UNWRITTEN)
    summary: str = scene.look.summary
    if summary in _SUMMARISED:
        if (summary, kind) == ("rollout", "cross"):
            summary = "rollout of cross"
        return _(_SUMMARISED[summary], strong=strong)
    cell = scene.selection.cell
    if kind == "encoder" and scene.look.raw and cell is not None and cell.kind == kind:
        asked = computed(scene)
        if asked is not None:
            return _(_ASKED, **_names(asked))
    found = reads(scene) if scene.look.raw else None
    if found is None:
        written = scene.trace is not None and writes(scene.trace, kind)
        return _(_WRITTEN if written else _ROWS[kind], strong=strong)
    if math.isnan(found.weight):
        return _(READS_NAN, query=found.query)
    if found.alike > 1:
        return _hued(alike_words(found.alike, **_names(found)), found)
    told = _READS[kind]
    if scene.trace is not None:
        layer, _head = layer_and_head(scene.trace, scene.selection, kind)
        told = told_of_row(scene.trace, kind, layer, found.row)
    return _hued(_(told, strong=strong, **_names(found)), found)


def alike_words(count: int, **fields: str) -> str:
    """Say what a query reads that gives several keys the same weight, and most."""
    return ngettext(
        "“{query}” reads {n:,} token ({weight}) and no other more.",
        "“{query}” reads {n:,} tokens alike ({weight} each) and no other more.",
        count,
        **fields,
    )


def told_of_row(trace: Trace, kind: Kind, layer: int, row: int) -> str:
    """Return the sentence on what a row reads most; it is not yet translated."""
    if writes(trace, kind):
        who = "fed" if is_fed(trace.steps[row]) else ""
        return _WRITES["open" if is_open(trace, row) else who]
    if kind == "decoder" and reads_later(trace, layer):
        return _READS_LATER
    return _READS[kind]


def _hued(sentence: str, found: Reads) -> str:
    return role_text(sentence, query=f"“{found.query}”", key=f"“{found.key}”")


def _names(found: Reads) -> dict[str, str]:
    weight = probability(found.weight)
    return {"query": found.query, "key": found.key, "weight": weight}


# ---- architecture and positions --------------------------------------------------


def _architecture(scene: Scene) -> str:
    trace = scene.trace
    if trace is None or not len(trace) or not trace.steps:
        return _("Numbers flow from bottom to top; click a block to see its numbers.")
    return _(
        "The lit path is step {step}: “{read}” enters the decoder below; the next "
        "token is {choice}. Click a block.",
        step=len(trace),
        read=word(trace, "target", -1),
        choice=short_choice(trace),
    )


_TABLES: dict[bool, str] = {  # by whether the encodings are sines and cosines
    True: N_(
        "Each row is a position: fast waves in some dimensions, slow ones in others, "
        "so that no two rows are alike."
    ),
    False: N_(
        "Each row is a position: a vector of its own among the model's weights, not a "
        "formula."
    ),
}
_INPUTS = {  # by whether positions are added, and whether by token
    (True, True): N_("{embedding}, plus its position's row, is what enters layer 1."),
    (True, False): N_(
        "{embedding}, plus a row of the table of positions, is what enters layer 1."
    ),
    (False, True): N_("{embedding} is what enters layer 1: no position is added."),
    (False, False): N_("{embedding} is what enters layer 1: no position is added."),
}


def _positions(scene: Scene) -> str:
    known, trace = None if scene.model is None else scene.model.known, scene.trace
    if scene.model is not None and (known is None or known.positions == "none"):
        return ""  # without a table
    words = _(_TABLES[known is None or known.positions in ("sinusoidal", "halves")])
    if trace is None or trace.intervention.positions is None:
        return words
    change = trace.intervention.positions
    return sentences((words, _("Changed in this run: {change}.", change=change)))


def _position_input(scene: Scene) -> str:
    model, trace = scene.model, scene.trace
    if model is None:
        return _("In the paper, embedding plus position is what enters layer 1.")
    change = None if trace is None else trace.intervention.positions
    added, config = adds_positions(model, change), model.known
    if config is None or added is None:
        return ""  # only its attention is known
    embedding = _("A token's embedding")
    if config.embedding_scale:
        embedding = _(
            "A token's embedding times √{width} = {scale}",
            width=config.d_model,
            scale=number(config.d_model**0.5),
        )
    own = change is None and config.position_axis == "time"
    return _(_INPUTS[added, own], embedding=embedding)


# ---- computation -----------------------------------------------------------------

_STAGES: dict[str, str] = {
    "input": N_(
        "The rows as they enter layer {layer}: one vector per token, the same for all "
        "heads."
    ),
    "projections": N_(
        "Rows three ways: what “{query}” asks for (Q), what “{key}” offers (K) and "
        "hands over (V)."
    ),
    "query": N_("Q: what “{query}” asks for. Its row of X times W_Q, {d} numbers."),
    "key": N_("K: what “{key}” offers to be found by. Its row times W_K, {d} numbers."),
    "value": N_("V: what “{key}” hands over when it is read. Its row times W_V."),
    "product": N_(
        "Each score is a query times a key: the better “{query}” and a key match, the "
        "larger."
    ),
    "scale": N_(
        "Scores times {scale}: 1 / √{d}, as sums of {d} independent products spread "
        "√{d} times as wide as one."
    ),
    "another scale": N_("Scores times {scale}: in the paper it would be 1 / √{d}."),
    "scale of one": N_(
        "Scores are not scaled: nothing divides them by √{d}, the square root of the "
        "head's width."
    ),
    "mask": N_(
        "{open} of {keys} keys are open to “{query}”; the scores of the others become "
        "{masked}."
    ),
    "mask of nothing": N_(
        "All {keys} keys are open to “{query}”: no score is masked in this row."
    ),
    "softmax": N_(
        "Softmax turns a row of scores into weights that sum to 1: “{query}” gives "
        "“{key}” {weight}."
    ),
    "softmax of NaN": N_(
        "Softmax turns a row of scores into weights: those of “{query}” are NaN."
    ),
    "captured weights": N_(
        "The weights as the model gave them, not the softmax alone: “{query}” gives "
        "“{key}” {weight}."
    ),
    "weighted": N_(
        "The head's output for “{query}” is the weighted sum of all values; “{key}” "
        "counts {weight}."
    ),
    "concat": N_("The outputs of all {heads} heads, side by side, make one row again."),
    "output": N_("W_O mixes what the {heads} heads found into one row for “{query}”."),
    "residual": N_(
        "What “{query}” read is added to what it was: the residual. Then comes the "
        "norm."
    ),
    "residual before a norm": N_(
        "What “{query}” read is added to what it was: the residual. No norm follows: "
        "in a pre-norm model it comes before."
    ),
    "w1": N_(
        "Now each token is taken by itself: W₁ asks {inner} questions of its row."
    ),
    "activation": N_(
        "The activation bends each answer separately; below is the number of units "
        "that it sets to 0."
    ),
    "w2": N_("W₂ writes what the active units stand for back into a row."),
    "dropout": N_(
        "Dropout acts in training only: it sets numbers to 0 at random, so that what "
        "follows cannot rely on any single one."
    ),
    "feed_residual": N_("What the network found is added to the row too."),
    "sublayers": N_(
        "How much each sublayer turns and lengthens the row: a long bar means that it "
        "adds much."
    ),
    "norms": N_(
        "The norm of this layer takes the mean over one token's numbers, not over a "
        "batch."
    ),
    "norms of several tokens": N_(
        "The norm of this layer takes the mean over the numbers of several tokens at "
        "once."
    ),
}


_CHANGED: dict[str, tuple[tuple[ActingPoint, ...], str]] = {  # in a changed run
    "softmax": (
        ("weights",),
        N_(
            "Softmax turns a row of scores into weights, as far as “{change}” does not "
            "change them: “{query}” gives “{key}” {weight}."
        ),
    ),
    "weighted": (
        ("heads", "output"),
        N_(
            "The head's output for “{query}” is the weighted sum of all values, as far "
            "as “{change}” does not change it; “{key}” counts {weight}."
        ),
    ),
    "feed_residual": (
        ("stream",),
        N_(
            "What the network found is added to the row too; “{change}” changes what "
            "leaves the layer."
        ),
    ),
}
_OF_WEIGHTS = {"product", "scale", "mask", "softmax", "weighted"}  # need nothing else


def _computation(scene: Scene) -> str:
    found, trace = computed(scene), scene.trace
    if trace is None or found is None:
        return _(UNWRITTEN)
    kind, known = scene.selection.kind, trace.model.known
    if scene.stage not in _STAGES or (known is None and scene.stage not in _OF_WEIGHTS):
        return ""
    layer, head = layer_and_head(trace, scene.selection, kind)
    trace = as_read(trace, kind, [layer])
    facts, scale = trace.model.attention[kind], trace.scale(kind, layer)
    allowed = trace.mask(kind, layer, head)[found.row]
    told = _told(scene.stage, trace, kind, layer, found)
    points, changed = _CHANGED.get(told, ((), ""))
    of = STACK_OF[kind] if "stream" in points else kind
    change = trace.intervention.here(of, layer, *points, head=head)
    sentence = _(
        changed if change else _STAGES[told],
        **_names(found),
        change=change,
        layer=layer + 1,
        d=facts.head_size,
        heads=facts.heads,
        scale=number(scale),
        open=int(allowed.sum()),
        keys=len(allowed),
        masked=masked_value_text(facts.masked_value),
        inner="?" if known is None else f"{known.feed_forward:,}",
    )
    return _hued(sentence, found)


def _told(stage: str, trace: Trace, kind: Kind, layer: int, found: Reads) -> str:
    """Return the entry of ``_STAGES`` that applies to a run."""
    known, scale = trace.model.known, trace.scale(kind, layer)
    if stage == "scale" and not trace.model.attention[kind].is_root(scale):
        return "scale of one" if scale == 1 else "another scale"
    if stage == "mask" and trace.mask(kind, layer)[found.row].all():
        return "mask of nothing"
    if stage == "softmax" and math.isnan(found.weight):
        return "softmax of NaN"
    if stage == "softmax" and trace.is_captured(kind, layer):
        return "captured weights"
    if stage == "norms" and known is not None:
        lengths = known.encoder_norm_length, known.decoder_norm_length
        return "norms of several tokens" if lengths[kind != "encoder"] else stage
    if stage == "residual" and known is not None and known.norm_first:
        return "residual before a norm"
    return stage


# ---- masks and output ------------------------------------------------------------


def _masks(scene: Scene) -> str:
    trace = scene.trace
    if trace is not None and leaks(trace):
        return _(
            "A framed cell is a token that the row reads but must not: padding, or a "
            "later word, which is not known yet when the row's own word is written."
        )
    if trace is not None and reads_later(trace):
        return _("Which columns each row may read: those where the mask is True.")
    return _(
        "Which columns each row may read: a causal mask hides later target tokens, "
        "a padding mask hides padding."
    )


def _output(scene: Scene) -> str:
    trace = scene.trace
    if _unwritten(scene):
        return _(UNWRITTEN)
    if trace is None or not trace.steps:
        return ""
    settled = settled_layer(trace, scene.lens)
    if settled is None:
        choice = short_choice(trace)
        if current_row(trace, scene.lens) is None:  # there are no maps
            return _("A longer bar is a likelier next token: {choice}.", choice=choice)
        return _(
            "A longer bar is a likelier next token: {choice}. The maps show what each "
            "layer would have said.",
            choice=choice,
        )
    return _(
        "A longer bar is a likelier next token; “{token}” is the best from layer "
        "{layer} of {layers} on.",
        token=chosen_name(trace),
        layer=settled,
        layers=trace.layers("decoder"),
    )


def _search(scene: Scene) -> str:
    if scene.trace is None or scene.search is None:
        return _("Beam search keeps the likeliest beginnings, not the best word alone.")
    return step_words(beam_tree(scene.search, scene.trace), len(scene.trace))


def _cache(scene: Scene) -> str:
    trace = scene.trace
    if trace is None or not has_target(trace):
        return ""
    if not len(trace) or trace.model.known is None or recomputes(trace):
        return _("The keys and values of all tokens read so far, head by head.")
    return _(
        "No key and no value is computed twice: those of earlier tokens stay as they "
        "are, and the framed row is new."
    )


EXPLAINED: dict[TabPage, str | Callable[[Scene], str]] = {
    ("attention",): _attention,
    ("architecture",): _architecture,
    ("positions", "table"): _positions,
    ("positions", "input"): _position_input,
    ("positions", "words"): N_(
        "An embedding has one row of numbers per token; near tokens have rows that "
        "point in similar directions."
    ),
    ("positions", "lab"): N_(
        "The same sentence with other positions: if only they are changed and it "
        "differs, the model relies on them."
    ),
    ("computation",): _computation,
    ("masks", "masks"): _masks,
    ("masks", "lab"): N_(
        "Change a mask, then step on: anything it reads but must not see is "
        "reported as a leak."
    ),
    ("output", "next"): _output,
    ("output", "search"): _search,
    ("output", "cache"): _cache,
    ("runs", "tree"): N_(
        "Below each run are those made of it; the first word that differs is "
        "underlined."
    ),
    ("runs", "compare"): N_(
        "Two runs side by side. Click a head in one of the grids to see its map in "
        "both, and their difference."
    ),
    ("diagnosis", "sentences"): N_(
        "Pairs of a file, those that the model finds unlikely first: the stronger a "
        "token's colour, the less it was expected."
    ),
    ("diagnosis", "checks"): N_(
        "What is unusual or wrong with the model, what follows, and what to do."
    ),
    ("diagnosis", "training"): N_(
        "One sentence along a training: drag the slider to see its run at each point "
        "in every tab."
    ),
    ("diagnosis", "importance"): N_(
        "What log p of the same tokens loses (below 0) or gains without one head: "
        "click it, double-click to see its attention."
    ),
    ("diagnosis", "heads"): N_(
        "Each point is a head of the model, over the pairs of a file: click it to see "
        "its numbers and sentences."
    ),
}
