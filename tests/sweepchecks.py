"""What the sweep asks of a random program: each check raises where something does not hold."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from judges.compared import has_oracles_value, leaves, totalled
from judges.threads import same_bits
from oracle import evaluate
from programs import Program
from programs import extrema as randomextrema
from programs import ragged as randomragged

import adcompiler as adc

PATIENCE = 30  # seconds that a child may take
LATE = 2  # seconds in which a signal arrives
ROUNDS = 9  # interrupts of a program


def same(found: Any, expected: Any, relative: float = 1e-7, together: bool = False) -> None:
    """Integers and truth values exactly, floats but for rounding; what is not finite at the same places.

    Rounding is told by the largest number of a result, or of all `together`: a derivative may be a difference
    of numbers as large as another one's.
    """
    largest = max((_largest(e) for e in leaves(expected) if e is not None), default=1.0) if together else 0
    for k, (one, other) in enumerate(zip(leaves(found), leaves(expected), strict=True)):
        assert (one is None) == (other is None), f"result {k}: {one} is not {other}"
        if one is None:
            continue
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype.kind == other.dtype.kind, f"result {k}: {one.dtype} is not {other.dtype}"
        rtol = relative if other.dtype.kind == "f" else 0.0
        size = largest or _largest(other)
        np.testing.assert_allclose(one, other, rtol, rtol * size, err_msg=f"result {k}")


def _largest(value: Any) -> float:
    """The largest finite magnitude, at least 1."""
    value = np.asarray(value)
    return float(np.max(np.abs(value), initial=1.0, where=np.isfinite(value)))


def bits(value: Any) -> list[bytes]:
    """All bits but the sign of zeros."""
    return [b"" if v is None else (np.asarray(v) + 0).tobytes() for v in leaves(value)]


def floats(args: Sequence[Any]) -> tuple[int, ...]:
    """The arguments that have a derivative."""
    return tuple(
        k for k, a in enumerate(args) if np.asarray(a[0] if isinstance(a, list) else a).dtype.kind == "f"
    )


def narrowed(program: Program) -> Program:
    """In float32."""
    args = [np.asarray(a, np.float32)[()] if np.asarray(a).dtype.kind == "f" else a for a in program.args]
    return Program(program.source.replace("f64", "f32"), tuple(args))


# -- forward and reverse mode ----------------------------------------------------------------------------

MODES: tuple[dict[str, Any], ...] = ({}, {"save": "auto"}, {"memory": 1}, {"memory": 300})


def adjoint(program: Program) -> None:
    """Forward and reverse mode agree, however reverse mode saves values: for a program, and in one of these
    modes for the gradient of its sum."""
    args, wrt = program.args, floats(program.args)
    if not wrt:
        return
    for mode in MODES:
        with suppress(adc.LimitError):  # segments may be refused
            identity(adc.compile(program.source, backend="numpy", **mode), args, wrt)
    if any(isinstance(a, list) for a in args):  # of which the gradient is a list, too
        return
    mode = MODES[len(program.source) % len(MODES)]
    with suppress(adc.LimitError):
        total = adc.compile(totalled(program).source, name="total", backend="numpy", **mode)
        identity(adc.grad(total, wrt), args, wrt)


def identity(f: adc.Function, args: Sequence[Any], wrt: Sequence[int]) -> None:
    """⟨u, J v⟩ = ⟨Jᵀ u, v⟩, where forward mode gives J v and reverse mode Jᵀ u; or neither is finite."""
    random = np.random.default_rng(len(wrt))
    tangents = tuple(direction(a, random) if k in wrt else None for k, a in enumerate(args))
    value, pushed = adc.jvp(f, args, tangents)
    seeds = direction(value, random)
    pulled = adc.vjp(f, *args, wrt=tuple(wrt))[1](seeds)
    forward = np.concatenate([[0.0], *products(seeds, pushed)])
    reverse = np.concatenate([[0.0], *products(pulled, tuple(tangents[k] for k in wrt))])
    finite = bool(np.isfinite(forward).all())
    assert finite == np.isfinite(reverse).all(), f"{pushed} by jvp, {pulled} by vjp"
    relative = 1e-3 if any(np.asarray(p).dtype == np.float32 for p in leaves(pushed)) else 1e-8
    scale = max(1.0, np.abs(forward).sum(), np.abs(reverse).sum())
    apart = abs(forward.sum() - reverse.sum()) if finite else 0.0
    assert apart <= relative * scale, f"{forward.sum()} by jvp, {reverse.sum()} by vjp"


def direction(value: Any, random: np.random.Generator) -> Any:
    """Random floats where a value has floats, None where it has integers; nested as the value."""
    if isinstance(value, list | tuple):
        return type(value)(direction(part, random) for part in value)
    dtype = np.asarray(value).dtype
    return random.uniform(-1, 1, np.shape(value)).astype(dtype)[()] if dtype.kind == "f" else None


def products(one: Any, other: Any) -> Iterator[np.ndarray]:
    """The products of elements at the same places, where neither is None."""
    if one is None or other is None:
        return
    if isinstance(one, list | tuple):
        for pair in zip(one, other, strict=True):
            yield from products(*pair)
    else:
        yield np.multiply(one, other, dtype=float).ravel()


def finite_derivatives(program: Program) -> None:
    """Where a function of a number and its finite differences are finite, so are its derivatives of both
    orders, in all modes, and they are the differences."""
    f, (p, *rest) = adc.compile(program.source, "f", backend="numpy"), program.args
    slope = adc.grad(f, 0)

    def difference(of: Callable[..., Any]) -> float:
        step = 1e-6
        return float((of(p + step, *rest) - of(p - step, *rest)) / (2 * step))

    first = difference(f)
    if not np.isfinite([f(p, *rest), first]).all():
        return
    ways = (1.0, *(None for _ in rest))
    tangent = adc.jvp(f, (p, *rest), ways)[1]
    same((slope(p, *rest), tangent), (np.float64(first),) * 2, 1e-4)
    same((slope(p, *rest),), (tangent,), 1e-9)
    second = difference(slope)
    if np.isfinite(second):
        found = adc.hessian(f, 0)(p, *rest), adc.grad(slope, 0)(p, *rest)
        same(found, (np.float64(second),) * 2, 1e-3)
        same((adc.taylor(f, (p, *rest), ways, 2)[2],), found[:1], 1e-7)


# -- extrema -------------------------------------------------------------------------------------------


def exact_extrema(program: Program) -> None:
    """Comparisons with extrema are those of the interpreter; so are derivatives, of both orders."""
    source, args = program.source, program.args
    relative = 2e-2 if args[0].dtype == np.float32 else 1e-6
    fast, plain = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    same(fast(*args), plain(*args), relative)
    alone = randomextrema.last_alone(source)
    fast, plain = (adc.compile(alone, backend=b) for b in ("cpu", "numpy"))
    wrt = floats(args)
    ways = tuple(np.cos(np.asarray(args[k])).astype(np.asarray(args[k]).dtype) for k in wrt)
    same(adc.grad(fast, wrt)(*args), adc.grad(plain, wrt)(*args), relative, together=True)
    same(backward(fast, args), backward(plain, args), relative, together=True)
    same(adc.hvp(fast, wrt)(args, ways), adc.hvp(plain, wrt)(args, ways), 100 * relative, together=True)


def backward(f: adc.Function, args: Sequence[Any]) -> Any:
    """The gradient by forward and propagate apart."""
    return f.split().propagate(f.split().forward(*args)[1], 1.0)


# -- routines ------------------------------------------------------------------------------------------


def same_routines(program: Program) -> None:
    """Values and derivatives of both orders are those of the interpreter."""
    args, wrt = program.args, floats(program.args)
    relative = 2e-2 if args[0].dtype == np.float32 else 1e-7
    fast, plain = (adc.compile(program.source, backend=b) for b in ("cpu", "numpy"))
    value = plain(*args)
    same(fast(*args), value, relative)
    slopes = [adc.vjp(f, *args, wrt=wrt)[1](cotangents(value)) for f in (fast, plain)]
    same(*slopes, relative)
    fast, plain = (adc.compile(summed(program.source), backend=b) for b in ("cpu", "numpy"))
    ways = tuple(np.cos(np.asarray(args[k])).astype(np.asarray(args[k]).dtype) for k in wrt)
    same(adc.grad(fast, wrt)(*args), adc.grad(plain, wrt)(*args), relative)
    same(adc.hvp(fast, wrt)(args, ways), adc.hvp(plain, wrt)(args, ways), 10 * relative)


def summed(source: str) -> str:
    """A program that returns a vector v and a number s, as one number."""
    return source.replace("return v, s", "return sum(v * v) + s")


# -- results that are written to -----------------------------------------------------------------------


def unharmed(program: Program) -> None:
    """Writing to results, to arguments and to the memory below read-only views changes no gradient."""
    f = adc.compile(program.source)
    wrt = floats(program.args)
    value, pullback = adc.vjp(f, *copies(program.args), wrt=wrt)
    seeds = cotangents(value)
    expected = bits(pullback(seeds))
    for below in (copies(program.args), tuple(map(widened, program.args))):
        args = tuple(map(narrow_view, below, program.args))
        value, pullback = adc.vjp(f, *args, wrt=wrt)
        overwrite((value, below))
        assert bits(pullback(seeds)) == expected, "vjp"
    args = copies(program.args)
    kept = bits(f.split().propagate(f.split().forward(*args)[1], seeds))
    value, saved = f.split().forward(*args)
    overwrite((value, args))
    assert bits(f.split().propagate(saved, seeds)) == kept, "split"
    again = adc.vjp(f, *copies(program.args), wrt=wrt)[1]
    found = again(seeds)
    overwrite(found)
    assert bits(again(seeds)) == expected, "a second pullback"


def widened(value: Any) -> Any:
    """Memory of twice the size, with the elements at every other place."""
    return np.repeat(value, 2, axis=-1) if isinstance(value, np.ndarray) and value.ndim else value


def narrow_view(memory: Any, value: Any) -> Any:
    """The memory itself, or a read-only view of it, with the shape of a value."""
    if np.shape(memory) == np.shape(value):
        return memory
    view = memory[..., ::2]
    view.flags.writeable = False
    return view


def copies(args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def overwrite(value: Any) -> None:
    """All arrays that can be written to."""
    for leaf in leaves(value):
        if isinstance(leaf, np.ndarray) and leaf.flags.writeable:
            leaf[...] = np.nan if leaf.dtype.kind == "f" else 1


def cotangents(value: Any) -> Any:
    """Of floats some numbers, of others None; nested as the value."""
    if isinstance(value, tuple):
        return tuple(map(cotangents, value))
    array = np.asarray(value)
    return np.cos(1.0 + np.arange(array.size)).reshape(array.shape)[()] if array.dtype.kind == "f" else None


# -- ragged sums ---------------------------------------------------------------------------------------


def second_orders(program: Program) -> None:
    """Values by the interpreter; Jacobians and Hessians, dense and sparse, by differences of it."""
    args, wrt = program.args, (0, 2)
    f, plain = (adc.compile(program.source, backend=b) for b in ("cpu", "numpy"))
    same(f(*args), plain(*args))
    expected = differences(plain, args, wrt)
    blocks = adc.jacobian(f, wrt)(*args)
    same(blocks, expected, 1e-6)
    sparse = sparsely(lambda: adc.jacobian(f, wrt, sparse=True)(*args))
    same(sparse or expected, expected, 1e-6)
    source = randomragged.total(program.source)
    f, plain = (adc.compile(source, backend=b) for b in ("cpu", "numpy"))
    slope = adc.grad(plain, wrt)
    same(adc.grad(f, wrt)(*args), slope(*args))
    rows = [differences(lambda *a, k=k: slope(*a)[k], args, wrt) for k in range(len(wrt))]
    same(tuple(adc.hessian(f, wrt)(*args)), tuple(rows), 1e-5)
    same(sparsely(lambda: adc.hessian(f, wrt, sparse=True)(*args)) or tuple(rows), tuple(rows), 1e-5)


def same_rows(program: Program) -> None:
    """Of lists of rows: values are the oracle's, derivatives of both orders those of the interpreter."""
    args, wrt = program.args, (0, 2)
    fast, plain = (adc.compile(program.source, backend=b) for b in ("cpu", "numpy"))
    value = plain(*args)
    same(value, np.multiply(1.0, evaluate(program.source, *args)))  # a sum over no element has no type there
    same(fast(*args), value)
    weights = np.cos(np.arange(np.size(value))).reshape(np.shape(value))
    pulled = [adc.vjp(f, *args, wrt=wrt)[1](weights) for f in (fast, plain)]
    same(*(_joined(g) for g in pulled))
    one = ([np.cos(r) for r in args[0]], np.sin(args[2]))
    same(*(adc.jvp(f, args, (one[0], None, one[1], None))[1] for f in (fast, plain)))
    if np.ndim(value) == 0:
        same(*(_joined(adc.hvp(f, wrt)(args, one)) for f in (fast, plain)), 1e-6)


def _joined(gradients: Any) -> tuple[Any, ...]:
    """A gradient by a list of rows as one array."""
    return tuple(np.concatenate(g) if isinstance(g, list) else g for g in gradients)


def sparsely(call: Callable[[], Any]) -> Any:
    """Dense blocks of sparse ones; None where the compiler says that there is no pattern to speak of."""
    try:
        return dense(call())
    except adc.LimitError:
        return None


def dense(value: Any) -> Any:
    return tuple(map(dense, value)) if isinstance(value, tuple) else value.toarray()


def differences(f: Callable[..., Any], args: Sequence[Any], wrt: Sequence[int]) -> tuple[np.ndarray, ...]:
    """The Jacobian of a vector by central differences with a Richardson step."""
    found = []
    for k in wrt:
        columns = []
        for place in range(args[k].size):
            sides = {}
            for step in (2e-3, -2e-3, 1e-3, -1e-3):
                moved = args[k].copy()
                moved[place] += step
                sides[step] = np.asarray(f(*args[:k], moved, *args[k + 1 :]))
            wide, close = ((sides[h] - sides[-h]) / (2 * h) for h in (2e-3, 1e-3))
            columns.append((4 * close - wide) / 3)
        found.append(np.stack(columns, axis=-1))
    return tuple(found)


# -- threads, and memory -------------------------------------------------------------------------------


def same_on_all_threads(program: Program) -> None:
    """One thread or several, as often as they are asked: all bits are the same."""
    f = adc.compile(program.source)
    for _ in range(3):
        same_bits(lambda: tuple(everything(f, program.args)))


def same_or_refused(program: Program) -> None:
    """A program gives NumPy's values, or is refused for a store in elements that names share."""
    remedy = ".copy()"
    try:
        adc.compile(program.source, backend="numpy")(*program.args)
    except adc.ParseError as error:
        remedy = error.remedy or ""
    else:
        has_oracles_value(program, "numpy")
    assert ".copy()" in remedy


def same_in_segments(program: Program) -> None:
    """Loops that run in segments of any length give the same bits, and the same derivatives but for the order
    of sums, unless the compiler refuses segments."""
    values, derivatives = derived(adc.compile(program.source), program.args)
    narrow = any(np.asarray(d).dtype == np.float32 for d in derivatives)
    relative = 1e-4 if narrow else 1e-12
    for budget in (1, 200, 3000):
        with suppress(adc.LimitError):
            found, part = derived(adc.compile(program.source, memory=budget), program.args)
            assert bits(found) == bits(values), f"memory={budget}"
            same(part, derivatives, relative, together=True)


# -- forks ---------------------------------------------------------------------------------------------


def survives_forks(program: Program) -> None:
    """A child of a process that ran, or whose thread compiles, gives the same bits; so does the parent."""
    f = adc.compile(program.source)
    again = lambda: everything(f, program.args)  # noqa: E731
    anew = lambda: everything(adc.compile(program.source), program.args)  # noqa: E731
    expected = again()
    in_child(again, expected)
    other = threading.Thread(target=anew)
    other.start()
    in_child(again, expected)
    in_child(anew, expected)
    other.join()
    assert again() == expected, "the parent"


def everything(f: adc.Function, args: Sequence[Any]) -> list[bytes]:
    """The bits of a call's results and of a gradient."""
    return bits(derived(f, args))


def derived(f: adc.Function, args: Sequence[Any]) -> tuple[Any, Any]:
    """A call's results, twice, and a gradient."""
    value, pullback = adc.vjp(f, *args, wrt=floats(args))
    return (f(*args), value), pullback(cotangents(value))


def in_child(call: Callable[[], Any], expected: Any) -> None:
    """A call in a fork of this process, which has to end in time."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = 0 if call() == expected else 3
        finally:
            os._exit(code)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            assert code == 0, f"the child ended with {code}" if code != 3 else "the child has other bits"
            return
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


# -- interrupts ----------------------------------------------------------------------------------------


class Interrupt(BaseException):
    """What the handler of a signal raises."""


def survives_interrupts(program: Program) -> None:
    """What a signal's handler raises arrives, wherever it strikes, and the next call gives the same bits."""
    f = adc.compile(program.source)
    again = lambda: everything(f, program.args)  # noqa: E731
    anew = lambda: everything(adc.compile(program.source), program.args)  # noqa: E731
    expected = again()
    lost = 0  # one may be: Python drops what is raised in a finaliser
    for k in range(ROUNDS):
        call = (lambda: f(*program.args), again, lambda: f(*program.args), anew)[k % 4]
        lost += not interrupted(call, 0.0005 * 2**k)
        assert lost < 2, "exceptions of a signal's handler got lost"
        assert again() == expected, "after an interrupt"
    assert anew() == expected, "compiled after interrupts"


def interrupted(call: Callable[[], Any], after: float) -> bool:
    """Calls until a signal's exception arrives: whether it did in time."""

    def strike(number: int, frame: Any) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGALRM, strike)
    end = time.monotonic() + after + LATE
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        while time.monotonic() < end:
            call()
        return False
    except Interrupt:
        return True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
