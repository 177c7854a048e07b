"""The five tutorials' models, written anew from what their texts describe, to run.

One set for all tests: names of tensors, masks and faults are the tutorials' own. Every
attention keeps the weights that it used as ``seen``, [B, H, Q, K].
"""
