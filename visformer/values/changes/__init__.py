"""The changes that a run can have, by what they act on; ``CHANGES`` lists them."""
