"""Views: the Runs tab."""
