"""Laws that hold for every program, whatever its lengths. Operations, bytes and accesses are counted in the
kernels' schedules and in their loop IR; nothing is compiled to machine code or timed.

Counted are operations by their weight (an addition, or a function as ten of them), selects, elements that
loops store or add up, and iterations of while loops, whose test takes an operation. Selects and stores take
as long as additions: a gradient adds up where a value only selects.

- A value and its gradient take at most six times the operations and stores of the value.
- A product with the Hessian takes at most six times those of the gradient.
- No innermost loop divides integers where it can count instead.
- An innermost loop goes along the contiguous axes of what it reads and stores, if the order is free.
- A function is computed once for each point, unless storing it takes longer.

`python -m pytest -m slow -k many_random tests/programs/test_laws.py` judges two thousand random programs, the
same ones at each run, in about eleven minutes of processor time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
from bench.cliffs import every
from hypothesis import given, seed, settings
from judges import costs, laws
from judges.compared import totalled
from judges.subject import JOINT, PRODUCT, VALUE, Subject, UnknownError

import adcompiler as adc
from programs import Program, written_products
from programs.exceptions import CLIFFS, PRODUCTS, STORES, WRITTEN, Exceptions
from programs.loops import loop_programs
from programs.written_loops import PROGRAMS, X

SCALES = (4, 16, 64)  # factors of all lengths, so that another order of growth shows
MOST = 6  # times the work of what is differentiated
RANDOM_PARTS, RANDOM_EXAMPLES = 40, 50  # random programs: seeds, and programs of each
MOST_TIMES = 3  # loops that compute one function: it is written once and read by each of the others
QUICK = ("poisson", "trimmed")
QUICK_WRITTEN = ("table", "rows", "scatter")
QUICK_PRODUCTS = ("suffixes", "functions of prefixes", "slices", "prefixes of rows", "running, from each on")

# Loops whose derivatives once took more operations, or another order of them.
LOOPS = {
    "every element times the first": """
        z[i] *= z[0]""",
    "maxima of suffixes": """
        for j in range(n):
            s += tanh(max(z[j:]))
        z = sin(z)""",
    "a factor that a condition selects": """
        for j in range(n):
            z = z * (x[0] if j % 2 == 0 else x[-1] if x[0] > 0.1 else s)""",
    "places that a while loop counts": """
        q = n
        while q > 0:
            s += cos(z[q % n] * z[0])
            q -= 1""",
    "reads at computed places of an array that is stored in": """
        z[i] = tanh(sum(z[(i * i + k) % n] * x[k % n] for k in range(3)))""",
    "sums at computed places in a branch": """
        if z[i] > 0.1:
            z[i // 2] = sin(sum(z[(i * i + k) % n] ** 2 for k in range(3)))""",
    "a mask over a whole array": """
        z[x > 0.2] *= cos(x[i] * x[n - 1 - i])""",
    "a while loop": """
        q = 3
        while q > 0:
            z[i] = tanh(z[i] + x[0])
            q -= 1""",
}
LOOP = """
def f(x: f64[n]):
    s, z = 0.5, 2 * x
    for i in range(n):{}
    return s * sum(z)
"""

Found = dict[str, tuple[float, str]]  # for each law that is broken, how badly, and where


def broken(program: Program) -> Found:
    """The laws that a program or its derivatives break."""
    subject = Subject(adc.compile(program.source), program.args)
    return {**dear(subject), **careless(subject, (VALUE, JOINT, PRODUCT), SCALES)}


def dear(subject: Subject) -> Found:
    """The derivatives that cost more than `MOST` times what they are derivatives of."""
    found: Found = {}
    for law, ratios in (("gradient", costs.of_gradient), ("product", costs.of_product)):
        try:
            each = ratios(subject, SCALES)
        except UnknownError:
            continue
        if max(each) > MOST:
            found[law] = max(each), f"{[round(float(one), 2) for one in each]} at {SCALES}"
    return found


def careless(subject: Subject, orders: Sequence[str], scales: Sequence[int]) -> Found:
    """The laws of loops that any of the kernels breaks, with the number of nests that do."""
    lines: dict[str, list[str]] = {"divisions": [], "strides": [], "work twice": []}
    for what in orders:
        compiled = {id(one): (one, scale) for scale in scales if (one := subject.kernel(what, scale))}
        for one, scale in compiled.values():
            kernel, made = one.kernel, one.made
            here = f"{what}, lengths times {scale}: "
            lines["divisions"] += [here + line for line in laws.divisions(kernel)]
            lines["strides"] += [here + line for line in laws.strides(made, kernel)]
            lines["work twice"] += [here + line for line in laws.work_twice(made)]
        for one in costs.repeated(subject, what, scales[-1]):
            if int(one.split("(")[1].split()[0]) > MOST_TIMES:
                lines["work twice"].append(f"{what}: {one}")
    return {law: (len(where), "\n".join(where)) for law, where in lines.items() if where}


def keeps(program: Program, known: Exceptions) -> None:
    """A program breaks the laws that it is known to break, no worse than that, and no other."""
    found = broken(program)
    new = {law: where for law, (_, where) in found.items() if law not in known}
    assert not new, "\n".join([program.source, *(f"{law}: {where}" for law, where in new.items())])
    assert found.keys() == known.keys(), f"no longer broken: {known.keys() - found.keys()}"
    worse = {law: where for law, (how, where) in found.items() if how > known[law][0]}
    assert not worse, f"worse than before: {worse}"


@pytest.mark.parametrize("name", LOOPS)
def test_loops_keep_the_laws(name: str) -> None:
    keeps(Program(LOOP.format(LOOPS[name]), (X,)), STORES.get(name, {}))


@pytest.mark.slow_when(lambda name: name not in QUICK_WRITTEN)
@pytest.mark.parametrize("name", PROGRAMS)
def test_written_programs(name: str) -> None:
    keeps(totalled(PROGRAMS[name]), WRITTEN.get(name, {}))


@pytest.mark.slow_when(lambda name: name not in QUICK_PRODUCTS)
@pytest.mark.parametrize("name", written_products.PROGRAMS)
def test_products_of_slices(name: str) -> None:
    keeps(written_products.PROGRAMS[name], PRODUCTS.get(name, {}))


@pytest.mark.slow_when(lambda name: name not in QUICK)
@pytest.mark.parametrize("name", [name for name in every() if not name.endswith("-f32")])
def test_programs_as_users_write_them(name: str) -> None:
    program = every()[name]
    keeps(Program(program.source, program.arguments("tiny")), CLIFFS.get(name, {}))


@settings(max_examples=6)
@given(loop_programs())
def test_loops_of_random_programs(program: Program) -> None:
    program = totalled(program)
    found = careless(Subject(adc.compile(program.source), program.args), (JOINT,), SCALES[:1])
    assert not found, f"{program.source}\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(RANDOM_PARTS))
def test_many_random_programs(first: int) -> None:
    @seed(first)
    @settings(max_examples=RANDOM_EXAMPLES, database=None)
    @given(loop_programs())
    def judged(program: Program) -> None:
        with suppress(adc.ParseError):  # a store in elements that names share
            program = totalled(program)
            found = broken(program)
            assert not found, f"{program.source}\n{found}"

    judged()
