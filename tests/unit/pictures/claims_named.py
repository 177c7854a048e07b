"""Templates about masks, padding, order, drawing, positions, norms and ranks that state
nothing of the run on screen: each by how it begins, with the reason why.
"""

from __future__ import annotations

NAMED: dict[str, tuple[str, ...]] = {
    "it names a block of the diagram, which is called so in the paper whatever a run "
    "does with it": (
        *("Mask of the multi-head", "Norm of the multi-head", "Norm of the feed"),
        *("Mask of the masked", "Norm of the masked", "Residual connection of the ma"),
        *("Final norm of the encoder", "Final norm of the decoder"),
    ),
    "it is the title of what stands below it": (
        *("read by “{query}”", "not read by {title}", "keys, tinted by", "each query,"),
        *("positional encodings, {first}", "similarity of positions:"),
        *("the model's own positions", "the step's token: its rank;"),
        *("the layer's best token", "the rank of the step's token"),
        *("dot product of two positions'", "linear, one range for all three; input"),
        *("{scale}; the first {most:,}", "norms of a v Wₒ", "row {row} of the proba"),
        "linear, from the smallest to the largest",
    ),
    "it says what to do, or asks, and states nothing": (
        *("Click the block or press Enter to see its numbers on the Masks",),
        *("Click the block or press Enter to see its numbers on the Positions",),
        *("Read from the file", "Click a masked token"),
        *("Change a mask above", "{kind} mask, {layer}: click"),
        *("Which head reads", "All tokens of this map are", "Change a mask, then step"),
        *("At most {n} curve can", "At most {n} curves can", "click a row to choose"),
    ),
    "it explains what a strong colour means under any scale, of any weights": (
        *("The largest weight of each head", "Equal steps of colour are"),
        *("Maximum of this layer's heads:", "Mean of all heads of all"),
        *("Mean of this layer's heads:", "The largest weight of each row"),
        *("Norms of a v Wₒ: {strong}", "Gradient × input: {strong}"),
    ),
    "it defines a formula, a rule or a setting, true of every run": (
        "Beam search keeps the likeliest beginnings",
        *(
            "{formula}: the same at every",
            "V: what “{key}” hands over",
            "LayerNorm, va",
        ),
        *("{dimension} ({wave}): wavelength", "Maximum number of target"),
        "The same sentence with other",
        *("inner = {activation}(x W₁)", "evaluation: y = FFN(x); training:"),
        *(
            "MultiHead(Q, K, V) = Concat(head 1, …, head {heads}) W_O, with Q",
            "Seed of",
        ),
        *("Cosine of two embeddings:", "{formulas}: the same X, three weights"),
        *("The rows as they enter layer", "{token}: {added}. Inactive units: the"),
        "{formula}, from {width} to {inner} numbers per token; the gate",
    ),
    "its number is a mean of random draws, computed again beside its picture": (
        "The mean of {draws:,} draws differs from",
    ),
    "it names what the user wanted of a run, whatever came of it": (
        *("drawn, temperature {heat}", "at most {n:,} tokens"),
    ),
    "it compares two runs, which no single run refutes: test_side_by_side does": (
        *("Jensen-Shannon divergence of the rows", "difference, linear, as far"),
        *("Below each run are those made of it", "Two runs side by side. Click"),
    ),
    "it is of a block that has no number of its own in a run": (
        *("These numbers are trained parameters.", "It has no parameters."),
    ),
    "it is of importance, which is computed beside the run: test_importance_maps hears "
    "it": (
        *("It falls most without", "It rises most without", "In “{other}” the same"),
        *("Pin a run whose source", "The gradient is the slope", "What log p of the"),
    ),
    "it is said by a page that cannot be drawn": ("This browser cannot unpack",),
    "it is said before a model is open": (
        *("There is no table of positions:", "In the paper, embedding plus position"),
    ),
}
