"""`python tests/bench --products`: sums that are matrix products, beside the same products in BLAS and JAX.

Each form is a product of two matrices as it stands in a program: of transposed or gathered operands, in
batches, with a bias and an activation, in a loop, or of windows. Times are those of a result, and of both
gradients of a weighted sum of it. BLAS computes the products alone, of contiguous operands, by NumPy; what
stands around them costs it nothing. For a convolution these are the products of copied windows.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bench.isolate import Outcome, Task, spawn
from bench.runner import PATIENCE
from bench.workload import Run

SIDES = (128, 256, 512, 1024)
DTYPES = ("f64", "f32")
CASES = 4  # of the batched product, and iterations of the loop
SECONDS, ROUNDS = 0.6, 3  # of an entry, at least
WHAT = ("result", "gradients")
PEERS = ("ours", "BLAS", "JAX")

Lengths = tuple[int, int, int]  # rows, terms and columns


class Form(NamedTuple):
    """A product as a program writes it: its name, the program, its inputs, what it is in array functions, the
    products of a result and of its gradients."""

    name: str
    text: str
    inputs: Callable[[np.random.Generator, int], tuple[Any, ...]]
    result: Callable[..., Any]
    products: int = 1
    gradients: int = 2
    lengths: Callable[[int], Lengths] = lambda n: (n, n, n)
    backwards: Callable[[int], Sequence[Lengths]] | None = None  # of the products of gradients, if others


def two(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return tuple(rng.standard_normal((2, n, n)))


def rows(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return *two(rng, n), rng.integers(0, n, n)


def layer(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return *two(rng, n), rng.standard_normal(n)


def batch(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    return tuple(rng.standard_normal((2, CASES, n, n)))


def steps(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
    a, b = two(rng, n)
    return a, b / n**0.5


def in_loop(xp: Any, a: Any, b: Any) -> Any:
    for _ in range(CASES):
        a = xp.tanh(a @ b)
    return a


def images(channels: int, outputs: int) -> Callable[[np.random.Generator, int], tuple[Any, ...]]:
    """Four images whose sides are a quarter of the side, and two for the border, and windows."""

    def made(rng: np.random.Generator, n: int) -> tuple[Any, ...]:
        shapes = (CASES, channels, n // 4 + 2, n // 4 + 2), (outputs, channels, 3, 3)
        return tuple(rng.standard_normal(shape) for shape in shapes)

    return made


def convolved(xp: Any, a: Any, b: Any, step: int = 1) -> Any:
    if xp is np:
        windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3), axis=(2, 3))[:, :, ::step, ::step]
        return np.einsum("nchwuv,ocuv->nohw", windows, b, optimize=True)
    from jax import lax

    return lax.conv(a, b, (step, step), "VALID")


def convolution(channels: int, outputs: int, step: int = 1) -> Form:
    """A convolution of windows of 3 x 3 elements, `step` apart."""
    text = (
        "def f(a: f64[n, c, h, w], b: f64[o, c, 3, 3]):\n"
        "    return [[[[sum(a[s, q, STEP * i + u, STEP * j + v] * b[r, q, u, v]\n"
        "                   for q in range(c) for u in range(3) for v in range(3))\n"
        "               for j in range((w - 3) // STEP + 1)] for i in range((h - 3) // STEP + 1)]\n"
        "             for r in range(o)] for s in range(n)]"
    )
    text = (
        text.replace("STEP", str(step))
        if step > 1
        else (
            text.replace("STEP * ", "")
            .replace("(w - 3) // STEP + 1", "w - 2")
            .replace("(h - 3) // STEP + 1", "h - 2")
        )
    )

    def places(n: int) -> int:
        return CASES * ((n // 4 - 1) // step + 1) ** 2

    def backwards(n: int) -> Sequence[Lengths]:
        """With a step, the gradient of the image adds what the product holds, window by window."""
        image = (places(n), outputs, 9 * channels) if step > 1 else (channels, 9 * outputs, places(n))
        return image, (outputs, places(n), 9 * channels)

    return Form(
        f"convolution, {channels} to {outputs} channels" + f", stride {step}" * (step > 1),
        text,
        images(channels, outputs),
        partial(convolved, step=step),
        lengths=lambda n: (outputs, 9 * channels, places(n)),
        backwards=backwards,
    )


FORMS = (
    Form("plain", "def f(a: f64[n, n], b: f64[n, n]):\n    return a @ b", two, lambda xp, a, b: a @ b),
    Form(
        "written as a sum",
        "def f(a: f64[n, n], b: f64[n, n]):\n"
        "    return [[sum(a[i, k] * b[k, j] for k in range(n)) for j in range(n)] for i in range(n)]",
        two,
        lambda xp, a, b: a @ b,
    ),
    Form("left transposed", "def f(a: f64[n, n], b: f64[n, n]):\n    return a.T @ b", two,
         lambda xp, a, b: a.T @ b),
    Form("right transposed", "def f(a: f64[n, n], b: f64[n, n]):\n    return a @ b.T", two,
         lambda xp, a, b: a @ b.T),
    Form("gathered rows", "def f(a: f64[n, n], b: f64[n, n], k: i64[n]):\n    return a[k] @ b", rows,
         lambda xp, a, b, k: a[k] @ b),
    Form("bias and tanh", "def f(a: f64[n, n], b: f64[n, n], c: f64[n]):\n    return tanh(a @ b + c)", layer,
         lambda xp, a, b, c: xp.tanh(a @ b + c), gradients=3),
    Form("bias and maximum",
         "def f(a: f64[n, n], b: f64[n, n], c: f64[n]):\n    return maximum(a @ b + c, 0)", layer,
         lambda xp, a, b, c: xp.maximum(a @ b + c, 0), gradients=3),
    Form("batch of 4", "def f(a: f64[c, n, n], b: f64[c, n, n]):\n    return a @ b", batch,
         lambda xp, a, b: a @ b, CASES, 2 * CASES),
    Form(
        "loop of 4",
        "def f(a: f64[n, n], b: f64[n, n]):\n    for k in range(4):\n        a = tanh(a @ b)\n    return a",
        steps,
        in_loop,
        CASES,
        3 * CASES,
    ),
    convolution(3, 16),
    convolution(16, 32),
    convolution(16, 32, 2),
)  # fmt: skip


def product(task: Task) -> Outcome:
    """In a process of its own: the rates of a form in GFLOP/s by side, then by peer and what is computed."""
    return {str(side): rates(task, side) for side in task["sides"]}


def rates(task: Task, side: int) -> Outcome:
    """The rates of a form of one size in GFLOP/s, by peer and what is computed."""
    form = next(f for f in FORMS if f.name == task["form"])
    wide = task["dtype"] == "f64"
    given = form.inputs(np.random.default_rng(0), side)
    if not wide:
        given = tuple(a.astype(np.float32) if a.dtype == np.float64 else a for a in given)
    weights = np.random.default_rng(1).standard_normal(form.result(np, *given).shape).astype(given[0].dtype)
    peers = {
        "ours": partial(ours, form.text if wide else form.text.replace("f64", "f32")),
        "BLAS": partial(blas, form),
        **({"JAX": partial(jax, form.result)} if task["jax"] else {}),
    }
    runs = {
        (peer, what): run
        for peer, build in peers.items()
        for what, run in zip(WHAT, build(given, weights), strict=True)
    }
    count = {"result": form.products, "gradients": form.gradients}
    return {
        f"{peer} {what}": count[what] * 2e-9 * math.prod(form.lengths(side)) / seconds
        for (peer, what), seconds in least(runs).items()
    }


def least(runs: Mapping[tuple[str, str], Run]) -> dict[tuple[str, str], float]:
    """The shortest time of a call of each, in seconds: all in turn, as they meet the same machine."""
    for run in (*runs.values(), *runs.values()):
        run()
    found = dict.fromkeys(runs, math.inf)
    rounds, begin = 0, time.perf_counter()
    while rounds < ROUNDS or time.perf_counter() - begin < SECONDS:
        rounds += 1
        for key, run in runs.items():
            start = time.perf_counter()
            run()
            found[key] = min(found[key], time.perf_counter() - start)
    return found


def show(found: Mapping[tuple[str, str, int], Outcome]) -> str:
    """A table of the rates; ours is bold below half of BLAS's."""
    lines = ["| form | dtype | side | " + " | ".join(f"{what}, {p}" for what in WHAT for p in PEERS) + " |"]
    lines.append("|---" * 9 + "|")
    for (form, dtype, side), outcome in found.items():
        cells = [cell(outcome, what, peer) for what in WHAT for peer in PEERS]
        lines.append(f"| {form} | {dtype} | {side} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(outcome: Outcome, what: str, peer: str) -> str:
    """One rate."""
    rate, least = outcome.get(f"{peer} {what}"), outcome.get(f"BLAS {what}", 0) / 2
    if rate is None:
        return "—"
    return f"**{rate:.1f}**" if peer == "ours" and rate < least else f"{rate:.1f}"


def run(sides: Sequence[int], threads: int, jax: bool, say: Callable[[str], None]) -> None:
    """Measure all forms, each in a process of its own, and say what was found, as a table at the end."""
    found: dict[tuple[str, str, int], Outcome] = {}
    for form, dtype in itertools.product(FORMS, DTYPES):
        task = {"kind": "product", "form": form.name, "sides": sides, "dtype": dtype, "threads": threads}
        outcome = spawn({**task, "jax": jax}, PATIENCE * len(sides))
        say(f"{form.name}, {dtype}: {outcome.get('skipped', 'measured')}")
        found |= {(form.name, dtype, side): outcome.get(str(side), {}) for side in sides}
    say("\n" + show(found))


def ours(text: str, given: Sequence[Any], weights: Any) -> Iterator[Callable[[], Any]]:
    import adcompiler as adc

    f = adc.compile(text)
    yield lambda: f(*given)
    inputs = text[text.index("(") + 1 : text.index("):")]
    names = ", ".join(re.findall(r"(\w+):", inputs))
    shape = ", ".join(f"m{k}" for k in range(weights.ndim))
    kind = "f64" if weights.dtype == np.float64 else "f32"
    loss = adc.compile(f"{text}\n\ndef loss({inputs}, w: {kind}[{shape}]):\n    return sum(w * f({names}))")
    gradient = adc.grad(loss, wrt=("a", "b"))
    yield lambda: gradient(*given, weights)


def blas(form: Form, given: Sequence[Any], weights: Any) -> Iterator[Callable[[], Any]]:
    """The products alone."""
    a, b = (np.ascontiguousarray(x) for x in given[:2])
    if form.backwards is not None:
        side = 4 * (a.shape[-1] - 2)
        for each in ([form.lengths(side)], form.backwards(side)):
            yield multiplied([ones(lengths, a.dtype) for lengths in each])
        return
    cases = 1 if a.ndim == 3 else form.products
    yield multiplied([(a, b)] * cases)
    yield multiplied([(a, b)] * (form.gradients // (CASES if a.ndim == 3 else 1)))


def ones(lengths: Lengths, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The factors of a product."""
    rows, terms, columns = lengths
    return np.ones((rows, terms), dtype), np.ones((terms, columns), dtype)


def multiplied(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Callable[[], None]:
    """Products, each stored where the last one of that shape is."""
    shapes = [(*a.shape[:-1], b.shape[-1]) for a, b in pairs]
    made = {shape: np.empty(shape, a.dtype) for shape, (a, _) in zip(shapes, pairs, strict=True)}

    def run() -> None:
        for shape, (a, b) in zip(shapes, pairs, strict=True):
            np.matmul(a, b, out=made[shape])

    return run


def jax(result: Callable[..., Any], given: Sequence[Any], weights: Any) -> Iterator[Callable[[], Any]]:
    from bench.frameworks import jax_call

    def of(xp: Any) -> Callable[..., Any]:
        return partial(result, xp)

    def gradient(xp: Any) -> Callable[..., Any]:
        import jax as library

        def loss(a: Any, b: Any, *rest: Any) -> Any:
            *others, w = rest
            return xp.sum(w * result(xp, a, b, *others))

        return library.grad(loss, argnums=(0, 1))

    yield jax_call(of)(tuple(given), "cpu")
    yield jax_call(gradient)((*given, weights), "cpu")
