"""``python -m visformer``."""

from visformer.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
