"""``visformer bench``: how fast this computer runs Visformer, against named peers."""
