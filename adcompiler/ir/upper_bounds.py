"""Upper bounds of lengths that vary from case to case of a batch: the longest of them."""

from __future__ import annotations

from adcompiler.ir.nodes import Apply, Const, Element, Index, Read, Reduce, Shape, const


def longest(length: Element, axes: Shape) -> Element:
    """The largest value of a length over the points of `axes`: by arithmetic if it tells, else computed."""
    bound = _bound(length, axes, True)
    return Read(Reduce("max", (), axes, length), ()) if bound is None else bound


def _bound(element: Element, axes: Shape, high: bool) -> Element | None:
    """An upper bound of a whole number over the points of `axes`, or a lower one."""
    if not element.axes:
        return element
    match element:
        case Index(axis=axis):
            return _apply("subtract", axes[axis], const(1, "i64")) if high else const(0, "i64")
        case Apply(op="add" | "maximum" | "minimum" as op, args=(x, y)):
            return _both(op, _bound(x, axes, high), _bound(y, axes, high))
        case Apply(op="subtract", args=(x, y)):
            return _both("subtract", _bound(x, axes, high), _bound(y, axes, not high))
        case Apply(op="multiply", args=(Const() as c, x)) | Apply(op="multiply", args=(x, Const() as c)):
            return _both("multiply", c, _bound(x, axes, high if c.value >= 0 else not high))
        case Apply(op="floor_divide", args=(x, Const(value=value) as c)) if value > 0:
            return _both("floor_divide", _bound(x, axes, high), c)
    return None


def _both(op: str, x: Element | None, y: Element | None) -> Element | None:
    return None if x is None or y is None else _apply(op, x, y)


def _apply(op: str, x: Element, y: Element) -> Element:
    return Apply(op, (x, y), "i64")
