"""A compiled function of scalars as a C callback: numba's `cfunc` of generated source.

Parameters are C scalars in order (double unless annotated). One result is returned, `double f(double, ...)`;
several are written in order, `void f(double, ..., double *out)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adcompiler.errors import DtypeError, ShapeError
from adcompiler.ir.nodes import Func
from adcompiler.ir.types import NUMPY
from adcompiler.kernels.emit.names import Names
from adcompiler.targets.cpu.jitted import module_of
from adcompiler.targets.numba import modules


def c_callback(func: Func, params: Sequence[str], backend: str) -> Any:
    """The numba `CFunc` of a program of scalars."""
    _scalars(func)
    mangled = Names()
    names = [mangled.fresh(p) for p in params]
    given = ", ".join(f"types.{NUMPY[i.dtype]}" for i in func.inputs)
    kinds = list(dict.fromkeys(f"types.{NUMPY[r.dtype]}" for r in func.results))
    called = f"call({', '.join(names)})"
    if len(func.results) == 1:
        return _entry(func, backend, f"{kinds[0]}({given})", names, [f"return {called}[0]"])
    if len(kinds) != 1:
        raise DtypeError(
            f"{func.name} returns values of several types", remedy="return only floats: write k * 1.0"
        )
    signature = f"types.void({given}{', ' * bool(given)}types.CPointer({kinds[0]}))"
    out, found = mangled.fresh("out"), mangled.fresh("found")
    body = [f"{found} = {called}", *(f"{out}[{k}] = {found}[{k}]" for k in range(len(func.results)))]
    return _entry(func, backend, signature, [*names, out], body)


def c_integrand(func: Func, backend: str) -> Any:
    """The numba `CFunc` `double f(int n, double *xx)` of a program of n scalars, for `scipy.integrate`.

    If n is not the number of parameters, the result is NaN and nothing is read.
    """
    _scalars(func)
    for name, given in zip(func.input_names, func.inputs, strict=True):
        if given.dtype != "f64":
            raise DtypeError(
                f"{func.name}: the parameter {name} is {given.dtype}", remedy="annotate it as f64"
            )
    results = [r.dtype for r in func.results]
    if results != ["f64"]:
        what = f"{len(results)} results" if len(results) != 1 else results[0]
        remedy = 'return one float; for one part of a gradient choose it, as in grad(f, "x")'
        raise DtypeError(f"{func.name} returns {what}, not a double", remedy=remedy)
    count = len(func.inputs)
    values = ", ".join(f"xx[{k}]" for k in range(count))
    body = [f"if n != {count}:", "    return math.nan", f"return call({values})[0]"]
    return _entry(
        func, backend, "types.float64(types.intc, types.CPointer(types.float64))", ["n", "xx"], body
    )


def _scalars(func: Func) -> None:
    """Require that all arguments and results are scalars."""
    for names, arrays in ((func.input_names, func.inputs), (func.result_names, func.results)):
        for name, array in zip(names, arrays, strict=True):
            if array.rank:
                raise ShapeError(
                    f"{func.name} is not a function of scalars: {name} is an array",
                    remedy="a C callback takes and returns scalars: for arrays use f.jitted in @njit code",
                )


def _entry(func: Func, backend: str, signature: str, params: Sequence[str], body: Sequence[str]) -> Any:
    """The generated module's C entry: `body` may call `call`, which returns a flat tuple."""
    lines = [f"signature = {signature}", "", "", f"def entry({', '.join(params)}):"]
    after = "\n".join([*lines, *("    " + line for line in body), ""])
    return modules.callback(module_of(func, backend, after=after))
