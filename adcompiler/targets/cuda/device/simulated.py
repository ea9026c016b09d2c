"""Device functions in numba's simulator: the same names as in `intrinsics.py`, in plain Python.

The simulator runs a Python thread for each thread of a block, so warps have few lanes here, and a block is
one warp. Floats are NumPy scalars: 1 / 0 is inf, as on a device.
"""

from __future__ import annotations

import ast
import math as _math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from inspect import isfunction
from operator import add as add_rn
from operator import mul as mul_rn
from operator import sub as sub_rn
from operator import truediv as div_rn
from types import ModuleType
from typing import Any

import numpy as np
from numba import cuda

from adcompiler.loopir.parse import parsed
from adcompiler.ops.rules import bessel as _bessel
from adcompiler.ops.rules import incomplete as _incomplete
from adcompiler.ops.rules import series as _series
from adcompiler.ops.rules.arithmetic import fma
from adcompiler.ops.table import ALIASES

__all__ = ["add_rn", "cuda", "div_rn", "fma", "mul_rn", "np", "sub_rn"]
WARP, TILE = 4, 4


def select(guard: Any, then: Any, otherwise: Any) -> Any:
    """`then if guard else otherwise`."""
    return then if guard else otherwise


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def uint64(value: Any) -> int:
    """An integer as an unsigned one of 64 bits."""
    return int(value) % 2**64


def wide(x: Any) -> Any:
    """A float32 from its stored form: float16, the bits of bfloat16 as an integer, or float32."""
    if isinstance(x, np.int16):
        return np.array([int(x) % 2**16 << 16], np.uint32).view(np.float32)[0]
    return np.float32(x)


def narrow(array: Any, x: Any) -> Any:
    """A float32 in the form an array stores: float16, the bits of bfloat16 as an integer, or unchanged."""
    if array.dtype == np.int16 and isinstance(x, np.floating):
        (found,) = np.array([x], np.float32).view(np.uint32)
        bits = int(found)
        if x != x:
            return np.int16(0x7FFF)
        return np.array([(bits + 0x7FFF + (bits >> 16 & 1)) >> 16], np.uint16).view(np.int16)[0]
    return np.float16(x) if array.dtype == np.float16 else x


def reduce_add(total: Any, value: Any) -> Any:
    """The sum over the lanes of a warp."""
    return total + value


def reduce_min(total: Any, value: Any) -> Any:
    """The least value over the lanes of a warp."""
    return total if total <= value or total != total else value


def reduce_max(total: Any, value: Any) -> Any:
    """The largest value over the lanes of a warp."""
    return total if total >= value or total != total else value


# -- teams: blocks of one warp ---------------------------------------------------------------------


def _block(step: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def function(value: Any) -> Any:
        # Without the compiler's types, the fake module is found under the simulator's name for it.
        from numba.cuda.simulator.kernel import _get_kernel_context

        block = _get_kernel_context()
        slots = vars(block).setdefault("_values", {})
        slots[block.threadIdx.x] = value
        block.syncthreads()
        values = [slots[k] for k in range(block.blockDim.x)]
        block.syncthreads()
        return reduce(step, values)

    return function


def _block_sync() -> None:
    from numba.cuda.simulator.kernel import _get_kernel_context

    _get_kernel_context().syncthreads()


_warp_sync = _block_sync
_block_sum, _block_prod = _block(reduce_add), _block(lambda x, y: x * y)
_block_min, _block_max = _block(reduce_min), _block(reduce_max)
_warp_sum, _warp_prod, _warp_min, _warp_max = _block_sum, _block_prod, _block_min, _block_max


def shared(place: int, length: int, dtype: Any) -> np.ndarray:
    """The shared memory that a line of a kernel declares. The simulator's own lookup and creation is not
    atomic, so two threads could each create it."""
    from numba.cuda.simulator.kernel import _get_kernel_context

    if not length:  # dynamic: allocated at the launch
        memory: np.ndarray = _get_kernel_context().shared._dynshared
        return memory[: memory.size - memory.size % np.dtype(dtype).itemsize].view(dtype)
    arrays = vars(_get_kernel_context()).setdefault("_arrays", {})
    found: np.ndarray = arrays.setdefault(place, np.empty(length, dtype))
    return found


# -- mathematics -----------------------------------------------------------------------------------


def _checked(name: str) -> Callable[[Any], Any]:
    """A function of `math` that returns NaN or inf where Python raises."""
    function = getattr(_math, name)

    def call(x: Any) -> Any:
        kind = np.float32 if isinstance(x, np.float32) else np.float64
        try:
            return kind(function(x))
        except ValueError:
            return kind(_at_pole(name, x))
        except OverflowError:
            return kind(np.inf)

    return call


def _at_pole(name: str, x: Any) -> Any:
    """The values of gamma and lgamma where Python raises."""
    if name == "gamma":
        return np.copysign(np.inf, x) if x == 0 else np.nan
    return np.inf if name == "lgamma" else np.nan


def _mathematics() -> ModuleType:
    found = ModuleType("math")
    by_name = {name: numpy for numpy, name in ALIASES.items() if hasattr(np, numpy)}
    for name in dir(_math):
        ufunc = getattr(np, by_name.get(name, name), None)
        if isinstance(ufunc, np.ufunc):
            setattr(found, name, ufunc)
    for name in ("erf", "erfc", "gamma", "lgamma"):
        setattr(found, name, _checked(name))
    found.inf, found.nan, found.pi = np.float64(np.inf), np.float64(np.nan), np.float64(np.pi)  # type: ignore[attr-defined]
    return found


def _special(module: ModuleType) -> ModuleType:
    """The functions of a module of `ops`, computed in float64; float32 is converted."""
    found = ModuleType(module.__name__)
    for name, function in vars(module).items():
        if isfunction(function):
            setattr(found, name, _either_type(function))
    return found


def _either_type(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        kind = np.float32 if isinstance(args[-1], np.float32) else np.float64
        return kind(function(*(np.float64(a) for a in args)))

    return call


math = _mathematics()
series, bessel, incomplete = _special(_series), _special(_bessel), _special(_incomplete)


# -- launches --------------------------------------------------------------------------------------


class Recorder:
    """A stream that records launches without running them."""

    def __init__(self) -> None:
        self.launches: list[Callable[[Any], None]] = []


def launcher(kernel: Any, blocks: Any, threads: Any, stream: Any, shared: int) -> Any:
    """A kernel configured for a number of threads. In the simulator a kernel is its own launcher, with the
    last configuration requested."""

    def record(*args: Any) -> None:
        stream.launches.append(lambda other: kernel[blocks, threads, other, shared](*args))

    return record if isinstance(stream, Recorder) else kernel[blocks, threads, stream, shared]


@contextmanager
def captured(write: Callable[[Any], None]) -> Iterator[Callable[[Any], bool] | None]:
    """Capture what `write` launches on the given stream, as `graph_capture.captured` does."""
    recorder = Recorder()
    write(recorder)

    def launch(stream: Any) -> bool:
        for one in recorder.launches:
            one(stream)
        return True

    yield launch


# -- source ----------------------------------------------------------------------------------------


class _Simulated(ast.NodeTransformer):
    """Makes the floats of a text NumPy floats, and uses our shared memory."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) != "cuda.shared.array":
            return node
        return ast.Call(ast.Name("_shared", ast.Load()), [ast.Constant(node.lineno), *node.args], [])

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, float):
            return node
        return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), "float64", ast.Load()), [node], [])


def run(source: str) -> dict[str, Any]:
    """The names that a generated module defines."""
    tree = ast.fix_missing_locations(_Simulated().visit(parsed(source)))
    namespace: dict[str, Any] = {"np": np, "_shared": shared}
    exec(compile(tree, "<generated kernel>", "exec"), namespace)  # our own text
    return namespace
