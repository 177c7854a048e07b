"""The sentences that explain what is on screen."""
