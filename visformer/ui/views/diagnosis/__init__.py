"""Views: the Diagnosis tab."""
