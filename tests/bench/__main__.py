"""`python tests/bench` from a checkout: the benchmark suite. `--help` says what it can do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        from bench.worker import main

        main(sys.argv[2])
    else:
        from bench.cli import app

        app()
