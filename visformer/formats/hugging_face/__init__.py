"""Folders in the format of transformers, run by their own classes (extra ``hf``)."""
