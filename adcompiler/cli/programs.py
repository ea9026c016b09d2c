"""What `adc build` exports of a function: its value and derivatives, each a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

from adcompiler.api.export import pullback, pushforward
from adcompiler.api.function import Function
from adcompiler.api.modes import hessian, jacobian, product
from adcompiler.api.transforms import grad, value_and_grad
from adcompiler.cli.errors import UsageError
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Func
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.reports.foreign import for_c, prepared, traced_for_c
from adcompiler.runtime.reports.show import default_types

Wrt = tuple[str, ...] | None
WHATS: dict[str, Callable[[Function, Wrt], Function]] = {
    "value": lambda f, wrt: f,
    "grad": grad,
    "value_and_grad": value_and_grad,
    "hvp": product,
    "jacobian": jacobian,
    "hessian": hessian,
}
DIRECTIONAL = ("jvp", "vjp")  # along directions, of any results
NAMES_OF_WHATS = {
    "gradient": "grad", "value_and_gradient": "value_and_grad", "hess": "hessian", "jac": "jacobian",
    "hessian_vector_product": "hvp", "f": "value",
}  # fmt: skip
NAMES_OF_FORMS = {
    "C": "c", "c99": "c", "lib": "library", "so": "library", "shared": "library", "py": "python",
    "numba": "python", "tex": "latex", "graphviz": "dot",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportedProgram:
    """One function of a library: what it is of the source, and the lengths that a call compares."""

    what: str
    func: Func
    compared: Sequence[Constraint]


def programs_of(f: Function, name: str, what: str | None, wrt: Wrt) -> dict[str, ExportedProgram]:
    """The programs that `what` lists, by the names of their C functions.

    By default the value, and for a scalar result the value with the gradient. Raises UsageError for a word
    that is not in WHATS or DIRECTIONAL, ShapeError and DtypeError like the transforms.
    """
    if what is not None:
        wanted = listed(what, "--what", (*WHATS, *DIRECTIONAL), NAMES_OF_WHATS)
        return {_called(name, one): _program(f, one, wrt) for one in wanted}
    found = {name: _program(f, "value", None)}
    try:
        found[_called(name, "value_and_grad")] = _program(f, "value_and_grad", wrt)
    except (ShapeError, DtypeError):  # no scalar, or nothing to differentiate
        if wrt:
            raise
    return found


def _called(name: str, what: str) -> str:
    return name if what == "value" else f"{name}_{what}"


def _program(f: Function, what: str, wrt: Wrt) -> ExportedProgram:
    compared: list[Constraint] = []
    if what in DIRECTIONAL:
        return ExportedProgram(what, _directional(f, what, wrt, compared), compared)
    return ExportedProgram(what, _named(for_c(WHATS[what](f, wrt), compared), what, f, wrt), compared)


def _directional(f: Function, what: str, wrt: Wrt, compared: list[Constraint]) -> Func:
    """The tangents along directions `v_x`, or the cotangents for cotangents `v_r`."""
    types = default_types(f)
    _, wanted = f._wanted(wrt, types)
    if not wanted:
        raise DtypeError(f"{f.__name__} has no float parameter", remedy="annotate one f64")
    transform = pushforward if what == "jvp" else pullback
    return prepared(f.__name__, transform(traced_for_c(f), wanted, "v", what), compared)


def _named(func: Func, what: str, f: Function, wrt: Wrt) -> Func:
    """The program with names that tell in a header what stands where: `v_x` is a direction, `hvp_x` a product
    with it, `h_x_y` and `j_x` are blocks, those of several results `j0_x`."""
    if what not in ("hvp", "hessian", "jacobian"):
        return func
    names = [f._parameters[k].name for k in f._positions(wrt, default_types(f))]
    if what == "hvp":
        given = (*func.input_names[: -len(names)], *(f"v_{n}" for n in names))
        return func.with_(input_names=given, result_names=tuple(f"hvp_{n}" for n in names))
    count = len(func.results) // len(names)
    rows = names if what == "hessian" else range(count) if count > 1 else ("",)
    prefix = "h_" if what == "hessian" else "j"
    return func.with_(result_names=tuple(f"{prefix}{row}_{n}" for row in rows for n in names))


def listed(text: str, option: str, known: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """The words that an option lists, as in `value,hvp`; each is one of those that are known, or one of its
    other `names`."""
    words = list(dict.fromkeys(names.get(word, word) for word in text.replace(",", " ").split()))
    if unknown := [word for word in words if word not in known]:
        near = get_close_matches(unknown[0], known, 1)
        also = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"{option} got unknown {', '.join(unknown)}", remedy=f"{also}it takes {', '.join(known)}"
        )
    if not words:
        raise UsageError(f"{option} is empty", remedy=f"it takes {', '.join(known)}")
    return words
