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
        *("{scale}; the first {most:,}", "norms of a v Wₒ"),
    ),
    "it says what to do, or asks, and states nothing": (
        *("Click the block or press Enter to see its numbers on the Masks",),
        *("Click the block or press Enter to see its numbers on the Positions",),
        *("Click a masked token", "Change a mask above", "{kind} mask, {layer}: click"),
        *("Which head reads", "All tokens of this map are", "Change a mask, then step"),
        *("At most {n} curve can", "At most {n} curves can"),
    ),
    "it explains what a strong colour means under any scale, of any weights": (
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
    ),
    "it is a form of a plural that is never taken, since more than one is counted": (
        *("most in {n} head:", "“{query}” reads {n:,} token ({weight})"),
    ),
    "it works out an example of four numbers, the same whatever the run": (
        *("(x − mean) / deviation, without γ and β. Layer norm: over the two",),
        *("Row 1 has mean 1.5 and deviation 0.5:",),
    ),
    "its number is a mean of random draws, computed again beside its picture": (
        "The mean of {draws:,} draws differs from",
    ),
    "it names what the user wanted of a run, whatever came of it": (
        *("drawn, temperature {heat}", "at most {n:,} tokens"),
    ),
    "it compares two runs, which no single run refutes: test_side_by_side does": (
        *("They read different sentences:", "Jensen-Shannon divergence of the rows"),
        *("{kind} attention differs most", "{kind} attention: {n}"),
    ),
    "it writes the numbers of a ChangeReport, whose own tests make them again": (
        *("log p of “{token}”: {was}", "its logit less that of “{other}”"),
        *("rows of weights sum to 1", "rows of weights do not sum to 1"),
    ),
    "it is said before a model is open": ("There is no table of positions:",),
}
