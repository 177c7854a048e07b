"""Reading and writing runs and sessions as ``.vis`` files."""
