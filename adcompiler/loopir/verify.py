"""The invariants of the loop IR, as tables: transforms may rely on them and must preserve them.

`verify` is for tests and debugging: a violation is a bug in the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from adcompiler.ir.textform.verify import VerifyError
from adcompiler.ir.types import DTYPES
from adcompiler.loopir.nodes import (
    Access,
    Allocate,
    AssignAll,
    Binary,
    Break,
    Compare,
    Expr,
    For,
    Foreign,
    Function,
    If,
    Literal,
    Logical,
    Node,
    Return,
    Stmt,
    UnsupportedError,
    Update,
    Verbatim,
    While,
)
from adcompiler.loopir.printer import BINARY, lines, source, text
from adcompiler.loopir.types import Type, types_of_kernel
from adcompiler.loopir.walk import assigned, named, read_by, sets, statements, stores_of

COMPARISONS: Final = frozenset(("<", "<=", ">", ">=", "==", "!="))
LOGICAL: Final = frozenset(("and", "or"))
OPERATORS: Final = frozenset(BINARY) - COMPARISONS - LOGICAL


def verify(function: Function) -> None:
    """Raise `VerifyError` at the first broken invariant of a function that no transform has changed."""
    for sentence, of_function in FUNCTION_INVARIANTS:
        _require(of_function(function), sentence, function.name, function)
    for statement in statements(function.body):
        where = next(lines([statement]), "")
        for sentence, of_statement in STATEMENT_INVARIANTS:
            _require(of_statement(statement), sentence, where, function)
        for node in read_by(statement):
            for sentence, of_expression in EXPRESSION_INVARIANTS:
                assert isinstance(node, Expr)
                _require(of_expression(node), sentence, text(node), function)


def verify_types(functions: Sequence[Function], params: Sequence[Type]) -> None:
    """Raise `VerifyError` if types do not fit in the functions of a kernel, whose last one has parameters of
    these types."""
    *others, run = functions
    try:
        types_of_kernel(run, params, {f.name: f for f in others})
    except UnsupportedError as error:
        raise VerifyError("types fit", repr(str(error)), source(run)) from error


def _require(holds: bool, sentence: str, where: str, function: Function) -> None:
    if not holds:
        raise VerifyError(sentence, repr(where), source(function))


def _is_of_ir(node: Node) -> bool:
    """Whether a node is no transform's."""
    return type(node).__module__ == Node.__module__


def _unset(body: Iterable[Stmt], known: set[str]) -> Iterator[str]:
    """The names that are read before they are set; adds those that are set to `known`."""
    for s in body:
        for node in read_by(s):
            name = named(node)
            if name and name not in known:
                yield name
        yield from (at.array for at in stores_of(s) if at.array not in known)
        known.update(sets(s))
        match s:
            case For(body=inner) | While(body=inner):
                yield from _unset(inner, known)
            case If():
                yield from _unset([*s.body, *s.otherwise], known)


def _breaks_outside(body: Iterable[Stmt]) -> bool:
    """Whether `break` stands outside a loop."""
    for s in body:
        match s:
            case Break():
                return True
            case If() if _breaks_outside([*s.body, *s.otherwise]):
                return True
    return False


FUNCTION_INVARIANTS: Final[tuple[tuple[str, Callable[[Function], bool]], ...]] = (
    ("parameters have different names", lambda f: len(set(f.params)) == len(f.params)),
    ("a name is set before it is read", lambda f: not any(_unset(f.body, set(f.params)))),
    ("break stands in a loop", lambda f: not _breaks_outside(f.body)),
    (
        "a result is returned at the end",
        lambda f: all(not isinstance(s, Return) or s is f.body[-1] for s in statements(f.body)),
    ),
)
STATEMENT_INVARIANTS: Final[tuple[tuple[str, Callable[[Stmt], bool]], ...]] = (
    ("statements are those of the IR", lambda s: _is_of_ir(s) and not isinstance(s, Foreign)),
    ("an update's operation is one of two numbers", lambda s: not isinstance(s, Update) or s.op in OPERATORS),
    ("an array has axes", lambda s: not isinstance(s, Allocate) or bool(s.shape)),
    ("an array's dtype is known", lambda s: not isinstance(s, Allocate) or s.dtype in DTYPES),
    (
        "as many values are assigned as there are targets",
        lambda s: not isinstance(s, AssignAll) or len(s.targets) == len(s.values),
    ),
    (
        "a body does not set the variable of its loop",
        lambda s: not isinstance(s, For) or s.axis not in assigned(*s.body),
    ),
)
EXPRESSION_INVARIANTS: Final[tuple[tuple[str, Callable[[Expr], bool]], ...]] = (
    ("expressions are those of the IR", lambda e: _is_of_ir(e) and not isinstance(e, Verbatim)),
    ("an access has an index", lambda e: not isinstance(e, Access) or bool(e.indices)),
    ("an operation is known", lambda e: not isinstance(e, Binary) or e.op in OPERATORS),
    ("a comparison is known", lambda e: not isinstance(e, Compare) or e.op in COMPARISONS),
    (
        "conditions are several",
        lambda e: not isinstance(e, Logical) or (e.op in LOGICAL and len(e.args) > 1),
    ),
    ("a literal's dtype is known", lambda e: not isinstance(e, Literal) or e.dtype in DTYPES),
)
