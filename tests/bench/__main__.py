"""``python -m tests.bench``; processes cannot be sent functions of this module."""

import sys

from tests.bench.bench_command import main

sys.exit(main())
