"""The Transformer and its decoding, in PyTorch, independent of windows and files.

Suggested reading order: ``values/config.py`` (the choices), ``position_rules``,
``mask_rules``, ``parts`` (attention, feed-forward, norms, and the order in which a
layer runs them), ``model`` (layer, stack, Transformer, logits). Then decoding:
``packed`` and ``incremental`` (the same layers with a cache, and the fast path of one
row on a CPU), ``decoding`` (step, back, force, feed, finish).

Letters used throughout: ``B`` batch, ``H`` heads, ``S`` source length, ``T`` target
length, ``Q`` and ``K`` query and key length of any attention, ``D`` model width, ``d``
head width, ``F`` feed-forward width, ``V`` vocabulary, ``L`` layers. Masks are bool,
``True`` = may attend.
"""
