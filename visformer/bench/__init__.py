"""``visformer bench``: the speed of Visformer on this computer, compared with peers."""
