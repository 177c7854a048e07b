"""The changes that a run can have, one file per kind; ``CHANGES`` lists them."""
