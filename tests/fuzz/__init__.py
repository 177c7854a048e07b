"""Mutants of every file that Visformer reads, tried in limited processes."""
