"""The Transformer and its decoding, in PyTorch; knows nothing of windows.

Letters used throughout: ``B`` batch, ``H`` heads, ``S`` source length, ``T`` target
length, ``Q`` and ``K`` query and key length of any attention, ``D`` model width,
``V`` vocabulary. Masks are bool, ``True`` = may attend.
"""
