"""Mutation testing: single faults that the tests must catch, each seeded into a copy of the checkout.

`python -m tests.mutations` prints for each fault the test that fails, and how long that took. The tests of
the fault's own folder run first, then all of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 1800  # seconds for all tests: a fault that makes them take longer counts as caught
INHERITED = ("ADC_TEST_CACHE", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
COPIED = ("adcompiler", "docs", "examples", "grammar", "tests")


@dataclass(frozen=True, slots=True)
class Fault:
    """One replacement in a module of the package; `old` occurs there exactly once."""

    module: str
    old: str
    new: str

    @property
    def path(self) -> str:
        return f"adcompiler/{self.module}.py"

    @property
    def tests(self) -> Path:
        """The folder of the tests that mirrors the module's."""
        folder = Path("tests", self.module).parent
        while not list((ROOT / folder).rglob("test_*.py")):
            folder = folder.parent
        return folder

    def seeded(self, text: str) -> str:
        """The module's text with the fault."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.path} has {self.old!r} {text.count(self.old)} times: bring FAULTS up to date"
            )
        return text.replace(self.old, self.new)


FAULTS = (
    # rules
    Fault("ops/rules/elementary", '"tan", "x", "1 + r * r"', '"tan", "x", "1 - r * r"'),
    Fault("ops/rules/elementary", "1 / hypot(x, 1)", "1 / hypot(x, 1.001)"),
    Fault("ops/rules/piecewise", 'where(x > y, 1, 0))",\n           "where(x == y, 0.5, where(y > x, 1, 0))"',
          'where(x > y, 1, 0))",\n           "where(x == y, 1, where(y > x, 1, 0))"'),
    Fault("ops/rules/activation", '"1 / (x * (1 - x))"', '"1 / (x * (1 + x))"'),
    Fault("ops/rules/special", '"gamma", "x", "r * digamma(x)"', '"gamma", "x", "digamma(x)"'),
    # differentiation
    Fault("ad/liveness", "both(under, guard), both(under, negation(guard))",
          "both(under, guard), both(under, guard)"),
    Fault("ad/loops", "            if not any(changes):\n                break\n        if self.exact",
          "            break\n        if self.exact"),
    Fault("ad/loops", "mask(element_of(a), live[a])", "mask(const(0, a.dtype), live[a])"),
    Fault("ad/read_inverse", "if abs(scale) > 1:", "if abs(scale) > 2:"),
    Fault("ad/guards", "within(negation(element.guard), otherwise)", "within(element.guard, otherwise)"),
    Fault("ad/vjp", "both(guard, element.guard), both(guard, negation(element.guard))",
          "both(guard, element.guard), guard"),
    Fault("ad/jvp", 'some = apply("maximum", count, const(1, body.dtype))', "some = const(1, body.dtype)"),
    Fault("ad/products", "while len(domain) > product.rank:", "if len(domain) > product.rank:"),
    Fault("ad/partials", 'return apply("negative", cotangent)', "return cotangent"),
    # passes and analyses
    Fault("analysis/regions", "(x0, y0): most - more + less", "(x0, y0): most - more - less"),
    Fault("analysis/intervals", "most = linear(modulus) - linear_constant(1)",
          "most = linear(modulus) - linear_constant(2)"),
    Fault("passes/algebra/fold", "(around | known, {**ranges", "(self.known | known, {**ranges"),
    Fault("passes/algebra/decide", 'if made.op == "minimum" else (y, x)',
          'if made.op == "maximum" else (y, x)'),
    Fault("kernels/emit/range_cuts", "else _Edge(0, last, step == -1)", "else _Edge(0, last, step == 1)"),
    Fault("passes/algebra/canonical", "return sign != other, self", "return sign == other, self"),
    Fault("passes/algebra/reciprocal", 'apply("divide", g, apply("multiply", ratio, y))',
          'apply("divide", g, ratio)'),
    Fault("passes/arrays/contract", "conjunction((*_range(place, array.domain[axis], array), *rest))",
          "conjunction(rest)"),
    Fault("passes/arrays/prune", "{c.slot for c in small.carried} <= {c.slot for c in large.carried}",
          "True"),
    Fault("passes/order/triangles", "const(most + 1,", "const(most,"),
    Fault("passes/recurrences/updates", 'return x, apply("negative", y)', "return x, y"),
    Fault("passes/recurrences/checkpoint", 'apply("add", done, Read(local, ()))', "Read(local, ())"),
    Fault("ad/final_reads", "there * -1 - linear_constant(1)", "there * -1"),
    # lowering
    Fault("frontend/indexing/subscripts", "if abs(step) != 1:", "if abs(step) > 2:"),
    Fault("frontend/indexing/subscripts", "advanced[-1] - advanced[0] + 1 == len(advanced)", "True"),
    Fault("frontend/lowering/loops", "_both(Read(going, ()), _sound(made))) if made else going",
          "_both(Read(going, ()), Read(going, ()))) if made else going"),
    # loop IR
    Fault("loopir/dependence", "set.intersection(*({k for", "set.union(*({k for"),
    Fault("loopir/dependence", "if len(found) == 1 and found <= ORDERLESS", "if found <= ORDERLESS"),
    Fault("loopir/transforms/tiled", "and not depends(inner, loop_variant(loop))", ""),
    Fault("loopir/transforms/versioning", "name not in stored and ", ""),
    Fault("passes/arrays/horizontal_fusion", "if plain or len(", "if len("),
)  # fmt: skip


def copied(folder: Path, fault: Fault) -> None:
    """Copy the checkout to a folder, with the fault in it."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (f for f in ROOT.iterdir() if f.is_file()):
        shutil.copy(file, folder)
    path = folder / fault.path
    path.write_text(fault.seeded(path.read_text(encoding="utf-8")), encoding="utf-8")


def caught(fault: Fault) -> str | None:
    """The first test found to fail with the fault, or why the tests did not end; None if all pass."""
    with tempfile.TemporaryDirectory(prefix="adc-mutation-") as folder:
        copied(Path(folder), fault)
        return failure(Path(folder), str(fault.tests)) or failure(Path(folder), "tests")


def failure(folder: Path, tests: str) -> str | None:
    """The first test that fails in a checkout, or why the tests did not end; None if all pass."""
    environment = {k: v for k, v in os.environ.items() if k not in INHERITED}
    environment |= {"PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"no end after {PATIENCE} s"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[2] if failed else f"exit status {done.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="faults of modules whose names contain this")
    faults = [f for f in FAULTS if parser.parse_args().only in f.module]
    survivors = 0
    for fault in faults:
        begun = time.perf_counter()
        test = caught(fault)
        survivors += test is None
        print(
            f"{fault.module}: {fault.new!r}\n    {test or 'SURVIVES'}, {time.perf_counter() - begun:.0f} s",
            flush=True,
        )
    print(f"{len(faults) - survivors} of {len(faults)} faults are caught")
    raise SystemExit(bool(survivors))


if __name__ == "__main__":
    main()
