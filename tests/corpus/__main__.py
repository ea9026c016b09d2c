"""The corpus on this checkout and another one: which artefacts differ, and where to read them.

    python -m tests.corpus --against CHECKOUT
    python -m tests.corpus --against CHECKOUT --kinds random --count 60 --seed 3 --out FOLDER

Each checkout computes in a process of its own, with an empty cache. The texts of both stay in FOLDER, in
`this/` and `other/`; `diff -r` shows all of them.
"""

from __future__ import annotations

import argparse
import difflib
import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(HERE / "tests"))

from corpus.programs import KINDS, Program, corpus  # noqa: E402

SHOWN = 12  # lines of the first difference


def made(checkout: Path, programs: Path, folder: Path) -> None:
    """The artefacts of a checkout. Raises CalledProcessError where its process ends early."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adc-corpus-") as cache:
        environment = {**os.environ, "PYTHONPATH": str(checkout), "ADC_CACHE_DIR": cache, "ADC_STRICT": "1"}
        worker = [sys.executable, str(HERE / "tests/corpus/worker.py"), str(programs), str(folder)]
        subprocess.run(worker, env=environment, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def differing(this: Path, other: Path, programs: Sequence[Program]) -> dict[str, list[str]]:
    """The artefacts that differ, by name, and the programs that they are of."""
    found: dict[str, list[str]] = {}
    for program in programs:
        names = {p.name for side in (this, other) for p in (side / program.folder).glob("*")}
        for name in sorted(names):
            if text(this / program.folder / name) != text(other / program.folder / name):
                found.setdefault(name, []).append(program.folder)
    return found


def text(path: Path) -> str | None:
    """What stands in a file; None if there is none."""
    return path.read_text("utf-8") if path.exists() else None


def report(this: Path, other: Path, programs: Sequence[Program]) -> bool:
    """Print how many artefacts of each name are equal, and the first difference of each."""
    found = differing(this, other, programs)
    total = Counter(path.name for path in this.glob("*/*/*"))
    for name in sorted(total | Counter(found.keys())):
        print(
            f"{name:10} {total[name] - len(found.get(name, ())):5} equal {len(found.get(name, ())):5} differ"
        )
    for name, places in found.items():
        print(f"\n{name}: {', '.join(places[:8])}{' ...' * (len(places) > 8)}")
        both = [(text(side / places[0] / name) or "").splitlines() for side in (other, this)]
        lines = difflib.unified_diff(*both, "other", "this", n=1, lineterm="")
        print("\n".join(f"  {line[:160]}" for line, _ in zip(lines, range(SHOWN), strict=False)))
    return bool(found)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where anything differs."""
    parser = argparse.ArgumentParser("python -m tests.corpus", description=__doc__.partition("\n")[0])
    parser.add_argument("--against", required=True, type=Path, help="the folder of another checkout")
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas: %(default)s")
    parser.add_argument("--count", type=int, default=300, help="of random programs")
    parser.add_argument("--seed", type=int, default=1, help="of random programs")
    parser.add_argument("--out", type=Path, help="where the texts stay; else in a new folder")
    given = parser.parse_args(arguments)
    kinds = given.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kinds {', '.join(sorted(unknown))}: there are {', '.join(KINDS)}")
    out = (given.out or Path(tempfile.mkdtemp(prefix="adc-corpus-"))).resolve()
    this, other = out / "this", out / "other"
    out.mkdir(parents=True, exist_ok=True)
    programs = corpus(kinds, given.count, given.seed)
    (out / "programs.pickle").write_bytes(pickle.dumps(programs))
    print(f"{len(programs)} programs; texts in {out}", flush=True)
    for checkout, side in ((HERE, this), (given.against.resolve(), other)):
        made(checkout, out / "programs.pickle", side)
    return int(report(this, other, programs))


if __name__ == "__main__":
    sys.exit(main())
