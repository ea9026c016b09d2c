"""SymPy expressions as definitions of the language."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from adcompiler.errors import ParseError, Source, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.values.values import Closure
from adcompiler.ir.walk import postorder

HERE = Span(1, 1, 1, 1)
# From SymPy's names to ours. Names that agree are found in the rule table.
CALLS = {
    "Abs": "abs", "Max": "maximum", "Min": "minimum", "ceiling": "ceil", "Heaviside": "heaviside",
    "loggamma": "lgamma", "Mod": "remainder", "acosh": "acosh", "asinh": "asinh", "atanh": "atanh",
    "besselj": "jn", "besseli": "iv",
}  # fmt: skip
SAME = frozenset((
    "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "sign",
    "floor", "erf", "erfc", "erfinv", "erfcinv", "gamma", "digamma", "polygamma", "beta",
))  # fmt: skip
RECIPROCALS = {"sec": "cos", "csc": "sin", "cot": "tan", "sech": "cosh", "csch": "sinh", "coth": "tanh"}
UNEVALUATED = frozenset(("Derivative", "Product", "Subs", "Sum"))  # not integrals: SymPy may search for hours
RELATIONS = {
    "StrictLessThan": "<", "LessThan": "<=", "StrictGreaterThan": ">", "GreaterThan": ">=", "Equality": "==",
    "Unequality": "!=",
}  # fmt: skip
NUMBERS = {
    "Pi": math.pi,
    "Exp1": math.e,
    "Infinity": math.inf,
    "NegativeInfinity": -math.inf,
    "NaN": math.nan,
    "BooleanTrue": True,
    "BooleanFalse": False,
}


def is_sympy(source: Any) -> bool:
    """Whether `source` is a SymPy expression or matrix; SymPy itself is not imported."""
    return any(str(base.__module__).partition(".")[0] == "sympy" for base in type(source).__mro__)


def closure_from_sympy(source: Any, name: str | None, args: Sequence[str] | None) -> Closure:
    """The definition of a SymPy expression, or of a matrix of them (an array).

    Its parameters are its symbols, sorted by name, unless `args` names them. Raises ParseError for functions
    that the language lacks.
    """
    source = source.as_immutable() if hasattr(source, "as_immutable") else source
    if UNEVALUATED.intersection(type(node).__name__ for node in postorder([source], lambda n: n.args)):
        source = source.doit()
    text = Source(_text(source), "<sympy>")
    parts = source.tolist() if hasattr(source, "tolist") else source
    body = _nested(parts, text)
    found = sorted(s.name for s in source.free_symbols)
    twice = sorted({name for name in found if found.count(name) > 1})
    if twice:
        raise ParseError(
            f"several different symbols are called {twice[0]!r}",
            remedy="their assumptions differ, or they are Dummies: rename one",
            source=text,
            span=HERE,
        )
    names = found if args is None else list(args)
    missing = sorted(set(found) - set(names))
    if missing:
        raise ParseError(
            f"args does not contain {', '.join(missing)}", remedy="name every symbol", source=text, span=HERE
        )
    parameters = tuple(tree.Parameter(HERE, n, None) for n in names)
    return Closure(tree.Def(HERE, name or "f", parameters, (tree.Return(HERE, body),), None), {}, text)


def _text(source: Any) -> str:
    """A SymPy expression as text; SymPy prints recursively."""
    try:
        return str(source)
    except RecursionError:
        return f"a {type(source).__name__} that nests too deep to be printed"


def _nested(part: Any, source: Source) -> tree.Expression:
    """Stack lists of expressions into arrays."""
    if isinstance(part, list):
        return _call("stack", tree.Sequence(HERE, "tuple", tuple(_nested(p, source) for p in part)))
    made: dict[Any, tree.Expression] = {}
    for node in postorder([part], _parts):
        made[node] = _made(node, [made[p] for p in _parts(node)], source)
    return made[part]


def _parts(node: Any) -> Sequence[Any]:
    """The parts of an expression; those of a Piecewise are flat: value, condition, value, ..."""
    if type(node).__name__ == "Piecewise":
        return [part for pair in node.args for part in pair.args]
    return () if node.is_Atom or not _has_meaning(type(node).__name__) else node.args


def _has_meaning(kind: str) -> bool:
    """Whether the language supports a SymPy class."""
    return kind in CALLS or kind in SAME or kind in RELATIONS or kind in BUILD


def _made(node: Any, args: list[tree.Expression], source: Source) -> tree.Expression:
    kind = type(node).__name__
    if node.is_Symbol:
        return tree.Name(HERE, node.name)
    if kind in NUMBERS:
        return tree.Number(HERE, NUMBERS[kind])
    if node.is_Integer:
        return tree.Number(HERE, int(node))
    if node.is_Rational:
        return tree.Binary(HERE, "/", tree.Number(HERE, int(node.p)), tree.Number(HERE, int(node.q)))
    if node.is_Float:
        return tree.Number(HERE, float(node))
    if kind in RELATIONS:
        return tree.Compare(HERE, (RELATIONS[kind],), tuple(args))
    if kind in BUILD:
        return BUILD[kind](args)
    name = CALLS.get(kind) or (kind if kind in SAME else None)
    if name is None or (kind == "log" and len(args) > 1):
        raise ParseError(
            f"SymPy's {kind} is not part of the language",
            remedy="rewrite it: expr.rewrite(...) or expr.doit()",
            source=source,
            span=HERE,
        )
    return _call(name, *args)


def _call(name: str, *args: tree.Expression) -> tree.Expression:
    return tree.Call(HERE, tree.Name(HERE, name), tuple(args), ())


def _chain(op: str) -> Callable[[list[tree.Expression]], tree.Expression]:
    return lambda args: reduce(lambda a, b: tree.Binary(HERE, op, a, b), args)


def _extremum(name: str) -> Callable[[list[tree.Expression]], tree.Expression]:
    return lambda args: reduce(lambda a, b: _call(name, a, b), args)


def _power(args: list[tree.Expression]) -> tree.Expression:
    """A power; x**(1/2) is the square root, x**(-1) a quotient."""
    base, exponent = args
    match exponent:
        case tree.Binary(op="/", left=tree.Number(value=1), right=tree.Number(value=2)):
            return _call("sqrt", base)
        case tree.Number(value=-1):
            return tree.Binary(HERE, "/", tree.Number(HERE, 1), base)
    return tree.Binary(HERE, "**", base, exponent)


def _one_over(name: str) -> Callable[[list[tree.Expression]], tree.Expression]:
    return lambda args: tree.Binary(HERE, "/", tree.Number(HERE, 1), _call(name, *args))


def _plus_one(x: tree.Expression) -> tree.Expression:
    return tree.Binary(HERE, "+", x, tree.Number(HERE, 1))


def _piecewise(args: list[tree.Expression]) -> tree.Expression:
    """The first value whose condition holds; nan if none does."""
    result: tree.Expression = tree.Number(HERE, math.nan)
    for value, condition in reversed(list(zip(args[::2], args[1::2], strict=True))):
        certain = isinstance(condition, tree.Number) and condition.value
        result = value if certain else _call("where", condition, value, result)
    return result


BUILD: dict[str, Callable[[list[tree.Expression]], tree.Expression]] = {
    "Add": _chain("+"),
    "Mul": _chain("*"),
    "Pow": _power,
    "Max": _extremum("maximum"),
    "Min": _extremum("minimum"),
    "And": lambda args: tree.Boolean(HERE, "and", tuple(args)),
    "Or": lambda args: tree.Boolean(HERE, "or", tuple(args)),
    **{kind: _one_over(name) for kind, name in RECIPROCALS.items()},
    "factorial": lambda args: _call("gamma", _plus_one(args[0])),
    "re": lambda args: args[0],  # symbols are real here
    "conjugate": lambda args: args[0],
    "Not": lambda args: tree.Unary(HERE, "not", args[0]),
    "Piecewise": _piecewise,
    # SymPy's is sin(x) / x.
    "sinc": lambda args: _call("sinc", tree.Binary(HERE, "/", args[0], tree.Number(HERE, math.pi))),
}
