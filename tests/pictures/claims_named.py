"""Templates about masks, padding, order, drawing, positions, norms and ranks that claim
nothing which a run's arrays could refute: how each begins, by the reason.
"""

from __future__ import annotations

NAMED: dict[str, tuple[str, ...]] = {
    "it states settings of the model, as they are": (
        "pad {source_pad} in the source",
        "LayerNorm, variance over",
        "Every later step reuses the",
        "Step {n}: the decoder reads {n:,} token;",
        "Step 0: the encoder has read {n:,} source token in",
        "Step 0: the encoder has read {n:,} source tokens",
        "The encoder has read {n:,} token in",
        "The encoder has read {n:,} tokens",
        "The decoder has read {n:,} token;",
        "The decoder has read {n:,} tokens;",
    ),
    "it says what a trace or a model lacks, which its own doors ask": (
        "This trace does not contain what",
        "There is no logit lens: this trace has no hidden",
    ),
    "it says what to do, or what there is to see": (
        "All tokens of this map are",
        "“{token}”, the best next token after",
        "Click the block or press Enter to see its numbers on the Masks",
        "Click the block or press Enter to see its numbers on the Positions",
        "{formula}: the same at every",
        "A query may attend to a key",
        "{encoding}; {positions:,} positions",
        "In this head “{query}” reads",
        "Each row is a source word;",
        "Each row is a target word;",
        "Mean of this layer's heads:",
        "Maximum of this layer's heads:",
        "Mean of all heads of all",
        "Each row is a position: a",
        "The same sentence with other",
        "V: what “{key}” hands over",
        "The norm of this layer takes the mean over one",
        "The norm of this layer takes the mean over the",
        "Change a mask, then step",
        "“{query}” reads {n:,} token ({weight})",
        "The model's best tokens in this place.",
        "Click a masked token in the",
        "The model's best tokens in this place. Click",
        "Change a mask above to see",
        "{kind} mask, {layer}: click",
        "From decoder row {row} on,",
    ),
    "its numbers are computed where it is said, and tested beside that picture": (
        "{kind} · {head} · {query} reads",
        "{title} · {query} reads",
        "{title} · hidden ({done})",
        "{value}, masked; this query may attend to nothing, so all its weights are NaN",
        "{value}, masked; this query may attend to nothing, so all its weights are 0",
        "Which head reads “{key}”",
        "most in {head}: {weight}",
        "most in {n} head: {weight}",
        "most in {n} heads alike:",
        "reads the token before: {weight}",
        "reads the token after: {weight}",
        "Correlation of a query's",
        "in reverse order {measure}",
        "by the generation rules: “{token}” {p};",
        "The generation rules led to “{token}” ({p},",
        "The captured weight is {weight};",
        "softmax over each row: exp(score",
        "This is the output of {layer};",
        (
            "What each sublayer adds to a token's stream: its size (L2 norm) and "
            "its direction (cosine with the stream x). norm in, norm out: the "
            "size before and after its norm, which is applied to the"
        ),
        (
            "What each sublayer adds to a token's stream: its size (L2 norm) and "
            "its direction (cosine with the stream x). norm in, norm out: the "
            "size before and after its norm, which is applied to x"
        ),
        "{token}: {element} = {sum} = {result};",
        "This cell contributes {weight}",
        "Its size (L2 norm) is {size};",
        "{token}: x is embedding + position (x − position is the embedding).",
        "{token}: x is the embedding;",
        "{token}: {element} = {sum} = {result}.",
        "Z [{rows}, {width}], rows {first} to {rows}: row",
        "The mean of {draws:,} draws differs from evaluation by",
        "Z [{rows}, {width}], rows {first} to {rows}: some",
        (
            "The best {best} hold {listed} of the probability, the other {n:,} "
            "token {others}."
        ),
        "The best {best} hold {listed} of the probability, the other {n:,} tokens",
    ),
    "it names what is shown": (
        "query: source token that",
        "key: source token that is",
        "query: target token that",
        "key: target token that is",
        "{tokens} hidden, not renormalised",
        "maximum of {n} heads: rows",
        "read by “{query}” · {title}",
        "not read by {title}",
        "keys, tinted by what “{query}”",
        "each query, tinted by how",
        "{origin}: “{token}”, rank",
        "{query} reads {key} · no",
        "layer / batch norm",
        "RMS / batch norm",
        "{shape} all masked: equal",
        "{shape} all masked: NaN",
        "Mask of the multi-head attention",
        "Norm of the multi-head attention",
        "Mask of the multi-head cross-attention",
        "Norm of the multi-head cross-attention",
        "Norm of the feed-forward",
        "Mask of the masked multi-head",
        "Residual connection of the masked",
        "Norm of the masked multi-head",
        "Final norm of the encoder",
        "Final norm of the decoder",
        "Row 0 is what enters the",
        "the layer's best token",
        "the rank of the step's token",
        "all steps: each layer's best",
        "steps {first} to {last}: each",
        "all steps: the rank of the",
        "steps {first} to {last}: the",
        "Step {step}, after {place}:",
        "Logit lens: each layer's stream through",
        "the step's token: its rank;",
        "{count:,} positions × {width:,} dimensions,",
        "dot product of two positions'",
        "There is no table of positions:",
        "{dimension} ({wave}): wavelength",
        "{scale}; the first {most:,}",
        "This model adds no positional",
        "positional encodings, {first}",
        "similarity of positions:",
        "At most {n} curve can be",
        "At most {n} curves can be",
        "rank {rank:,}: “{token}”,",
        "“{token}”, p = NaN",
    ),
    "it defines a measure, a mask or a formula, of no run": (
        "most in order first: correlation",
        "most weight on a neighbour",
        (
            "The norm subtracts the mean, {mean}, divides by the deviation, "
            "{deviation}, and applies γ and"
        ),
        "norm: (x − mean) / √(variance + {eps}) · γ +",
        "(x − mean) / deviation, without γ and β. Layer norm: over the two",
        "Row 1 has mean 1.5 and deviation 0.5:",
        (
            "(x − mean) / √(variance + eps), without γ and β. Layer norm, as in "
            "the model: over the {width} numbers of a token (variance with "
            "divisor {divisor}). Batch norm: over the {n:,} token of"
        ),
        (
            "(x − mean) / √(variance + eps), without γ and β. Layer norm, as in "
            "the model: over the {width} numbers of a token (variance with "
            "divisor {divisor}). Batch norm: over the {n:,} tokens"
        ),
        "{token}: its row has mean",
        "The norm divides by the root",
        (
            "The norm subtracts the mean, {mean}, divides by the deviation, "
            "{deviation}, and applies γ."
        ),
        "norm: x / √(mean of x² +",
        "norm: (x − mean) / √(variance + {eps}) · γ;",
        (
            "Without γ and β. RMS norm, as in the model: x / √(mean of x² + "
            "eps), over the {width} numbers of a token. Batch norm: (x − mean) / "
            "√(variance + eps), over the {n:,} token of"
        ),
        (
            "Without γ and β. RMS norm, as in the model: x / √(mean of x² + "
            "eps), over the {width} numbers of a token. Batch norm: (x − mean) / "
            "√(variance + eps), over the {n:,} tokens"
        ),
        "{token}: its row has the",
        "Each step appends the token chosen",
        "Each step appends the token of",
        "The mask that the model used; the rules",
        "Padding mask. False where",
        "Causal mask. False where",
        "Combined mask: the one that",
        "False (hidden: score replaced",
        "The softmax of only −∞ is",
        "The largest weight of each row",
        "Maximum of heads: for each",
        "Rollout of cross-attention:",
        "Logit z: a token's score, the last row of Z times its column of W;",
        "Maximum number of target",
        "Temperature T: p = softmax(z",
        "Top-k: only the k most probable",
        "Top-p: only the fewest tokens",
        "At most {limit:,} target",
    ),
    "it speaks of two runs, or of a sentence before its run": (
        "+ position [{rows}, {columns}]",
        "It is the same sentence again,",
        "Outputs that are NaN say",
        "The outputs are the same",
        "The outputs differ, but the",
        "The outputs differ: the model",
        "the model's own positions",
        "Without positions “{original}”",
        "Shuffled, with the model's",
        "linear, one range for all three; input",
        "Without positions the text",
        "The sentence has {n:,} token,",
        "The sentence has {n:,} tokens,",
        "The source looks like several",
        "By its name this model reads",
    ),
}
