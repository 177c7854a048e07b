"""Text to ids and back (sentencepiece, no Qt)."""
