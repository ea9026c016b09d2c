"""Random programs for Hypothesis in which everything of the index notation meets.

Each has a comprehension under a condition, a gather, a loop that carries numbers and arrays, stores and a
branch, and besides what `programs.loops` draws: sums of two clauses, tables with two axes, functions with
loops as long as an index says, roots and logarithms of what a condition tells to be positive, running totals.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program
from programs.loops import PARAMETERS, Writer

HELPER = """\
def g(p, q, k: i64):
    r = p
    for j in range(k):
        r = sin(r) + 0.5 * q * r if j % 2 == 0 else tanh(r * p)
    return r

"""
GUARDED = (
    "(sqrt({0}) if {0} > 0.2 else {1})",
    "({1} if {0} < 0.2 else log({0}))",
    "where({0} > 0.2, {0}**0.5, {1})",
    "where({0} > 0.2, {1} / {0}, {1})",
)
RUNNING = (
    "cumsum({})", "0.5 * {}[::-1]", "tanh({} @ {}) * {}", "concatenate([{}[1:], {}[:1]])",
    "roll({}, 1) * {}", "flip({}) + pad({}[1:], (0, 1))", "take({}, [0, -1])[0] * tile({}, (2, 1))[1]",
    "softmax({}) * {}", "log_softmax({})", "convolve({}, [0.5, -1.0])[1:]",
    "sort(x) * {}", "median(x) * {}", "np.diff({}, prepend=0.5)", "diff({}, append=0.3) * {}",
    "cummax(x) * {}", "diagonal(outer({}, {}))", "norm(x) * {}", "kron({}, [0.5])",
)  # fmt: skip
FILTERED = ("sum", "prod", "sum", "max", "min", "logsumexp", "mean")


@dataclass
class Mixed(Writer):
    """Writes with a table `m`, as long as x and as wide as y, and a function `g` besides."""

    tables: list[str] = field(default_factory=lambda: ["y"])

    # -- expressions -----------------------------------------------------------------------------

    def scalar(self, depth: int = 2) -> str:
        kind = self.draw(st.integers(0, 11)) if depth else 11
        match kind:
            case 0 if len(self.indices) < 2:
                return self.filtered(depth)
            case 1:
                return f"g({self.scalar(0)}, {self.scalar(0)}, {self.iterations()})"
            case 2:
                return str(self.pick(GUARDED).format(self.scalar(0), self.scalar(depth - 1)))
            case 3:
                return f"sin(sum({self.pick(self.vectors)}[at] * {self.scalar(0)}))"
            case 4:
                return f"{self.pick(self.tables)}[{self.index()}, {self.pick(('0', '-1'))}]"
        return super().scalar(depth)

    def iterations(self) -> str:
        return f"{self.pick(self.indices)} % 3" if self.indices else "2"

    def filtered(self, depth: int) -> str:
        """A reduction under a condition that the first index fulfils, or a sum of two clauses."""
        k, j = self.fresh("k"), self.fresh("k")
        name = self.pick(FILTERED)
        self.indices.append(k)
        if name == "sum" and self.draw(st.booleans()):
            inner = self.span()
            self.indices.append(j)
            clauses = f"for {k} in range(n) for {j} in {inner} if {self.condition()}"
            body = self.scalar(depth - 1)
            self.indices.pop()
        else:
            body = self.scalar(depth - 1)
            test = self.condition() if name in ("sum", "prod") else f"{k} % 2 == 0"
            clauses = f"for {k} in range(n) if {test}"
        self.indices.pop()
        return f"tanh({name}({body} {clauses}))"

    def vector(self) -> str:
        kind = self.draw(st.integers(0, 5))
        if kind == 0:
            names = [self.pick(self.vectors) for _ in range(3)]
            return str(self.pick(RUNNING).format(*names))
        if kind == 1:
            k = self.fresh("k")
            self.indices.append(k)
            text = f"[{self.filtered(1)} for {k} in range(n)]"
            self.indices.pop()
            return text
        return super().vector()

    # -- statements ------------------------------------------------------------------------------

    def store(self, depth: int) -> None:
        if self.draw(st.booleans()):
            return super().store(depth)
        place = self.pick([f"m[{self.index()}, 0]", f"m[{self.index()}, -1]", f"m[{self.index()}]"])
        return self.write(depth, f"{place} {self.pick(['=', '+=', '*='])} {self.scalar(1)}")

    def everything(self) -> None:
        """The loop, with a store and a branch in it, after a gather under a condition."""
        k, i = self.fresh("k"), self.fresh("i")
        self.indices.append(k)
        gathered = f"{self.pick(self.vectors)}[at[{k} % len(at)]] * {self.scalar(1)}"
        self.write(0, f"z = [{gathered} if {self.condition()} else {self.scalar(1)} for {k} in range(n)]")
        self.indices.pop()
        self.write(0, f"for {i} in {self.span()}:")
        self.indices.append(i)
        self.write(1, f"s = {self.scalar()}")
        self.store(1)
        self.branch(1)
        self.indices.pop()


@st.composite
def mixed_programs(draw: Draw) -> Program:
    """A def in which comprehensions, gathers, loops, stores and branches meet, and arguments."""
    writer = Mixed(draw)
    for name, start, names in (
        ("s", "0.5", writer.scalars),
        ("z", "zeros(n)", writer.vectors),
        ("m", "zeros((n, d))", writer.tables),
        ("c", "0", writer.counts),
    ):
        writer.write(0, f"{name} = {start}")
        names.append(name)
    writer.everything()
    for _ in range(draw(st.integers(0, 2))):
        writer.statement(0)
    writer.write(0, "return s, z * w, x, m, c")
    source = "\n".join([f"{HELPER}def f({draw(st.sampled_from(PARAMETERS))}):", *writer.lines])
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    n, d = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    pool = random.permutation(np.arange(301, 1999, 2) / 1000) * random.choice((-1, 1), 849)
    x, y, w = pool[:n], pool[n : n + n * d].reshape(n, d), float(pool[-1])
    return Program(source, (x, y, w, random.integers(-n, n, draw(st.integers(1, 3)))))
