"""Folders of transformers: read with care, run by their own classes (extra ``hf``)."""
