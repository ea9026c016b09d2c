"""`custom_vjp`: a function with a user-defined derivative rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from adcompiler.api.check_grad import check_grad
from adcompiler.api.compile import function
from adcompiler.api.function import Function, SourceFunction
from adcompiler.api.limits import SAMPLE_LENGTH
from adcompiler.api.numba_functions import of_numba
from adcompiler.api.transforms import vjp
from adcompiler.errors import DtypeError, Error, GradientError
from adcompiler.frames import public
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.public_types import AnyFunction, Values
from adcompiler.pytree.containers import leaves_in
from adcompiler.pytree.kinds import ArgType
from adcompiler.runtime.reports.show import default_types


@public
def custom_vjp(
    rule: AnyFunction, *, samples: Sequence[Sequence[Values]] | None = None, check: bool = True
) -> Callable[[AnyFunction], Function]:
    """Decorate a function with its own derivative rule: `rule(*args, result, cotangent)`.

    rule     a def of the language (decorated with `adc.function`, compiled, or a plain Python function):
             from the arguments, the result and its cotangent to the cotangent of each argument, shaped like
             it; None for arguments that are not floats. It must be linear in the cotangent. It is an
             ordinary program: higher derivatives differentiate it
    samples  tuples of arguments at which the rule is checked; by default one, of the annotated types with
             axes of length 3, between 0.5 and 1.5
    check    compare the rule with finite differences of the function, and test that it is linear in the
             cotangent; False for rules that are meant to differ, such as a straight-through estimator

    The function must return one float array or scalar. Its tangents (forward mode) use the transpose of the
    rule. Raises GradientError if the rule is wrong at a sample, and the errors of the language.
    """
    body = _source_function(rule, "the rule")

    @public
    def decorate(f: Any) -> Function:
        given = _source_function(f, "what has a rule")
        closure = replace(given._closure, rule=body._closure)
        static = [p.name for p in given._parameters if p.static]
        made = SourceFunction(closure, static, given._options)
        made.__module__, made.__qualname__ = given.__module__, given.__qualname__
        _check_parameters(made, body)
        if check:
            for sample in samples if samples is not None else [_sample(made)]:
                _check(made, sample, guessed=samples is None)
        return made

    return decorate


def _source_function(f: Any, what: str) -> SourceFunction:
    made = function(f) if isinstance(f, FunctionType) or of_numba(f) is not None else f
    if not isinstance(made, SourceFunction):
        raise DtypeError(f"{what} is a {type(f).__name__}", remedy="decorate a def with @adc.function")
    return made


def _check_parameters(f: Function, rule: Function) -> None:
    wanted = len(f._parameters) + 2
    if len(rule._parameters) != wanted:
        names = ", ".join(f._names)
        raise Error(
            f"the rule of {f.__name__} has {len(rule._parameters)} parameters, not {wanted}",
            remedy=f"it takes ({names}, result, cotangent)",
        )


def _sample(f: Function) -> tuple[Any, ...]:
    """Arguments of the annotated types; scalars where there is no annotation."""
    random = np.random.default_rng(0)
    return tuple(_of_type(t, random) for t in default_types(f))


def _of_type(kind: Any, random: np.random.Generator) -> Any:
    assert isinstance(kind, ArgType)
    shape = tuple(1 if one else SAMPLE_LENGTH for one in kind.ones)
    if is_float(kind.dtype):
        found = random.uniform(0.5, 1.5, shape)
        return found.astype(NUMPY[kind.dtype]) if shape else float(found)
    return np.ones(shape, NUMPY[kind.dtype])[()]


def _check(f: SourceFunction, sample: Sequence[Any], guessed: bool) -> None:
    """Raise if the rule is wrong at a sample, or if the sample is guessed and does not fit."""
    on_numpy = SourceFunction(
        f._closure, [p.name for p in f._parameters if p.static], replace(f._options, backend="numpy")
    )
    try:
        check_grad(on_numpy, *sample, order=1)
        _check_linear(on_numpy, sample)
    except GradientError as error:
        raise GradientError(
            f"the rule of {f.__name__} is wrong: {error.cause}",
            remedy="correct the rule, or pass check=False if it is meant to differ",
        ) from None
    except Error as error:
        if guessed and not all(p.annotation for p in f._closure.definition.parameters):
            raise type(error)(
                f"the rule of {f.__name__} cannot be checked with scalars: {error.cause}",
                remedy="annotate the parameters, or pass samples=[(x, y), ...]",
            ) from error
        raise


def _check_linear(f: SourceFunction, sample: Sequence[Any]) -> None:
    """Raise GradientError if the rule is not linear in the cotangent, at a sample."""
    value, pullback = vjp(f, *sample)
    random = np.random.default_rng(1)
    first = random.uniform(0.5, 1.5, np.shape(value))
    second = 1.0 - first  # their sum is what the rule was compared with differences for
    tried = (
        ("negative", -1.0, 0.0),
        ("larger", 3e4, 0.0),
        ("smaller", 1e-4, 0.0),
        ("summed", 1.0, 1.0),
        ("mixed", 1.0, -2.0),
        ("zero", 0.0, 0.0),
    )
    one, other = _flat(pullback(first)), _flat(pullback(second))
    tolerance = 1e-3 if np.asarray(value).dtype == np.float32 else 1e-8
    for what, a, b in tried:
        found = _flat(pullback(a * first + b * second))
        expected, scale = a * one, abs(a) * np.abs(one)
        if b:
            expected, scale = expected + b * other, scale + abs(b) * np.abs(other)
        # what is not finite for the first cotangent is not for any; else each has to be
        if not np.all((np.abs(found - expected) <= tolerance * scale) | ~np.isfinite(one)):
            k = int(np.argmax(np.abs(found - expected)))
            raise GradientError(
                f"it is not linear in the cotangent: for a {what} one it returns {found[k]:.6g}, not "
                f"{expected[k]:.6g}",
            )


def _flat(gradients: Sequence[Any]) -> np.ndarray:
    """The entries of gradients, of containers too, in one row."""
    parts = [np.ravel(g) for g in leaves_in(tuple(gradients)) if g is not None]
    return np.concatenate([np.zeros(0), *parts]).astype(float)
