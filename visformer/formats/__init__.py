"""Readers of checkpoints and tokenizers, one per layout."""
