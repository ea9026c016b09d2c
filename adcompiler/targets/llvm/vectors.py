"""Calls of mathematical functions that LLVM's loop vectoriser replaces by one call for a whole vector.

A call names its vector forms in an attribute, `vector-function-abi-variant`. If libmvec has a function, its
scalar form also calls the vector form, with the same number in all lanes, and a kernel with arrays has no
other. A value therefore depends only on its argument, not on its place in an array, on the array's layout, or
on what LLVM vectorises. Recomputed values are equal, as the adjoints of extrema need. A function that libmvec
lacks is called lane by lane; the rest of the loop is still vectorised.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from adcompiler.loopir.dependence import carries_only_totals
from adcompiler.loopir.intrinsics import BY_TEXT
from adcompiler.loopir.nodes import Binary, Call, Node, Stmt
from adcompiler.loopir.python_modules import is_special
from adcompiler.loopir.short_loops import has_loops
from adcompiler.loopir.walk import walk
from adcompiler.targets.llvm.libmvec import Set, known
from adcompiler.targets.llvm.tables import CALLS
from adcompiler.targets.llvm.values import Needs, Value, typed

PURE = "nounwind willreturn memory(none)"
PARAMETERS = "xyzw"  # the names of parameters, of one letter each


def vectorises(body: Sequence[Stmt], changing: Collection[str]) -> bool:
    """Whether a loop has mathematics that LLVM may vectorise: no long inner loop, and no dependence between
    iterations.

    `changing` are the variables that are assigned more than once.
    """
    mathematics = not has_loops(body) and any(map(_is_mathematics, walk(*body)))
    return mathematics and carries_only_totals(body, changing)


def _is_mathematics(node: Node) -> bool:
    match node:
        case Binary(op="**"):
            return True
        case Call(name=name):
            return name in CALLS or is_special(name)
    return False


def has_vector_calls(body: Sequence[Stmt]) -> bool:
    """Whether a loop calls a function of which one call for a vector takes as long as one for a number."""
    return any(map(_has_vector_form, walk(*body)))


def _has_vector_form(node: Node) -> bool:
    match node:
        case Binary(op="**"):
            return True
        case Call(name=name):
            return name in CALLS and BY_TEXT[name].libmvec > 0
    return False


# -- calls ---------------------------------------------------------------------------------------


def vector_call(needs: Needs, found: Set, name: str, args: Sequence[Value]) -> str:
    """A call of the C library's `name` for a vector, or a scalar call that may be vectorised."""
    kind, count = args[0].element, len(args)
    plain = name if kind == "double" else f"{name}f"
    whole = found.symbol(name, kind) if known(found, name, kind) else ""
    scalar = f"adc_{plain}" if whole else plain
    lanes = found.lanes(kind)
    lengths = _lengths(needs, lanes, args)
    forms = {n: whole if whole and n == lanes else f"adc_{plain}_{n}" for n in lengths}
    if scalar not in needs.declared:
        needs.externals |= {whole or scalar} if not found.has(name) else set()
        # Keep LLVM from dropping functions not called yet, and parameters that are always equal.
        needs.kept.update([scalar] * bool(whole))
        needs.declared |= _declared(kind, lanes, count, scalar, whole)
    needs.kept.update(forms.values())
    needs.declared |= {
        f: _form(kind, n, count, f, scalar, whole, lanes)
        for n, f in forms.items()
        if f != whole and f not in needs.declared
    }
    return _one_or_many(scalar, forms, args)


def own_call(needs: Needs, found: Set, scalar: str, args: Sequence[Value]) -> str:
    """A call of a scalar function defined in the module."""
    kind, natural = args[0].element, found.lanes(args[0].element)
    forms = {n: f"{scalar}_{n}" for n in _lengths(needs, natural, args)}
    needs.kept.update(forms.values())
    needs.declared |= {f: _form(kind, n, len(args), f, scalar, "", natural) for n, f in forms.items()}
    return _one_or_many(scalar, forms, args)


def _lengths(needs: Needs, lanes: int, args: Sequence[Value]) -> tuple[int, ...]:
    """The vector lengths in a kernel: the natural one, half of it for float32 among float64, and double for
    the contrary; and the length of a call for vectors."""
    found = (lanes // 2, lanes, 2 * lanes) if needs.mixed else (lanes,)
    return found if args[0].lanes in (1, *found) else (*found, args[0].lanes)


def _one_or_many(scalar: str, forms: Mapping[int, str], args: Sequence[Value]) -> str:
    """A call for a vector, or of the scalar function annotated with its vector forms."""
    given = ", ".join(map(str, args))
    if args[0].lanes > 1:
        return f"call {args[0].type} @{forms[args[0].lanes]}({given}) {PURE}"
    variants = ",".join(f"_ZGV_LLVM_N{n}{'v' * len(args)}_{scalar}({form})" for n, form in forms.items())
    attributes = f'{PURE} "vector-function-abi-variant"="{variants}"'
    return f"call {args[0].type} @{scalar}({given}) {attributes}"


def _declared(kind: str, lanes: int, count: int, scalar: str, whole: str) -> dict[str, str]:
    """The scalar function, and libmvec's if there is one."""
    head = _head(kind, 1, scalar, count)
    if not whole:
        return {scalar: f"declare {head} {PURE}"}
    alone = _definition(head, _alone(kind, lanes, whole, count))
    return {scalar: alone, whole: f"declare {_head(kind, lanes, whole, count)} {PURE}"}


def _form(kind: str, lanes: int, count: int, name: str, scalar: str, whole: str, natural: int) -> str:
    """A vector function that libmvec lacks, or lacks for this length."""
    lines = _by_lane if not whole else _padded if lanes < natural else _halves
    return _definition(_head(kind, lanes, name, count), lines(kind, lanes, whole or scalar, count))


def _head(kind: str, lanes: int, name: str, count: int) -> str:
    given = typed(kind, lanes)
    return f"{given} @{name}({', '.join(f'{given} %{p}' for p in PARAMETERS[:count])})"


def _definition(head: str, lines: Iterator[str]) -> str:
    """A function that is not inlined before loops are vectorised."""
    return "\n".join([f"define internal {head} noinline {PURE} {{", *lines, "}"])


def _call(kind: str, lanes: int, name: str, suffix: object, count: int) -> str:
    """A call of a function on the registers %x and %y with a suffix."""
    given = typed(kind, lanes)
    return f"call {given} @{name}({', '.join(f'{given} %{p}{suffix}' for p in PARAMETERS[:count])})"


def _alone(kind: str, lanes: int, whole: str, count: int) -> Iterator[str]:
    """One number, broadcast to all lanes, so that no other lane takes a slow path."""
    vector = typed(kind, lanes)
    for p in PARAMETERS[:count]:
        yield f"%{p}0 = insertelement {vector} poison, {kind} %{p}, i64 0"
        yield f"%{p}s = shufflevector {vector} %{p}0, {vector} poison, <{lanes} x i32> zeroinitializer"
    yield f"%r = {_call(kind, lanes, whole, 's', count)}"
    yield f"%r0 = extractelement {vector} %r, i64 0"
    yield f"ret {kind} %r0"


def _padded(kind: str, lanes: int, whole: str, count: int) -> Iterator[str]:
    """Half a vector, padded by repeating each number."""
    half, full = typed(kind, lanes), typed(kind, 2 * lanes)
    for p in PARAMETERS[:count]:
        yield f"%{p}t = shufflevector {half} %{p}, {half} poison, {_mask([*range(lanes)] * 2)}"
    yield f"%r = {_call(kind, 2 * lanes, whole, 't', count)}"
    yield f"%r0 = shufflevector {full} %r, {full} poison, {_mask(range(lanes))}"
    yield f"ret {half} %r0"


def _halves(kind: str, lanes: int, whole: str, count: int) -> Iterator[str]:
    """A double-length vector, as two calls."""
    half, full, middle = typed(kind, lanes // 2), typed(kind, lanes), lanes // 2
    for k, part in enumerate((range(middle), range(middle, lanes))):
        for p in PARAMETERS[:count]:
            yield f"%{p}{k} = shufflevector {full} %{p}, {full} poison, {_mask(part)}"
        yield f"%r{k} = {_call(kind, middle, whole, k, count)}"
    yield f"%r = shufflevector {half} %r0, {half} %r1, {_mask(range(lanes))}"
    yield f"ret {full} %r"


def _by_lane(kind: str, lanes: int, scalar: str, count: int) -> Iterator[str]:
    """The scalar function for each lane."""
    vector, result = typed(kind, lanes), "poison"
    for k in range(lanes):
        for p in PARAMETERS[:count]:
            yield f"%{p}{k} = extractelement {vector} %{p}, i64 {k}"
        yield f"%f{k} = {_call(kind, 1, scalar, k, count)}"
        yield f"%r{k} = insertelement {vector} {result}, {kind} %f{k}, i64 {k}"
        result = f"%r{k}"
    yield f"ret {vector} {result}"


def _mask(lanes: Sequence[int]) -> str:
    return f"<{len(lanes)} x i32> <{', '.join(f'i32 {k}' for k in lanes)}>"
