"""`dataclass` as in the standard library, with methods that are compiled when they are first called.

The standard one compiles up to six functions for each class, 0.6 ms in all. The first result of a process
imports 170 such classes, and most are never instantiated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, eq=True, frozen=False, repr=True, slots=False, weakref_slot=False
    ) -> Any:
        """The decorator, with those of its options that the package uses."""

        def decorated(cls: type) -> type:
            own = dict(vars(cls))  # what the class defines itself is kept
            fields = dataclasses.dataclass(
                init=False, repr=False, eq=False, slots=slots, weakref_slot=weakref_slot
            )
            made = fields(cls)
            for name, method in _methods(made, own, eq, frozen, repr, slots):
                if name not in own or (name == "__hash__" and own[name] is None and "__eq__" in own):
                    setattr(made, name, method)
            return made

        return decorated if cls is None else decorated(cls)


def _methods(
    cls: type, own: dict[str, Any], eq: bool, frozen: bool, shown: bool, slots: bool
) -> Iterator[tuple[str, Any]]:
    """The names and methods of a class with fields."""
    fields: Sequence[Any] = dataclasses.fields(cls)
    yield "__init__", _deferred(cls, "__init__", lambda: _init(cls, fields, frozen))
    if shown:
        yield "__repr__", _repr([f.name for f in fields if f.repr])
    if eq:
        compared = [f for f in fields if f.compare]
        if "__eq__" not in own:
            yield "__eq__", _deferred(cls, "__eq__", lambda: _eq([f.name for f in compared]))
        hashed = [f.name for f in compared if f.hash is not False]
        yield "__hash__", _deferred(cls, "__hash__", lambda: _hash(hashed)) if frozen else None
    if frozen:
        names = frozenset(f.name for f in fields)
        yield "__setattr__", _frozen(cls, "__setattr__", "assign to", names)
        yield "__delattr__", _frozen(cls, "__delattr__", "delete", names)
        if slots:
            yield "__getstate__", lambda self: [getattr(self, f.name) for f in fields]
            yield "__setstate__", _set_state([f.name for f in fields])


def _deferred(cls: type, name: str, make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that is replaced at its first call."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = make()
        made.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, made)
        return made(self, *args, **kwargs)

    method.__name__ = name
    return method


def _compiled(head: str, lines: Sequence[str], values: dict[str, Any]) -> Callable[..., Any]:
    """A function of these lines; `values` are its global names."""
    space = {"_set": object.__setattr__, **values}
    exec("\n".join([f"def {head}:", *(f"    {line}" for line in lines or ["pass"])]), space)
    made: Callable[..., Any] = space[head[: head.index("(")]]
    return made


def _init(cls: type, fields: Sequence[Any], frozen: bool) -> Callable[..., Any]:
    values: dict[str, Any] = {"_absent": dataclasses.MISSING}
    params: dict[bool, list[str]] = {False: ["self"], True: []}
    lines = []
    for f in fields:
        default, value = "", f.name
        if f.default is not dataclasses.MISSING:
            values[f"_default_{f.name}"], default = f.default, f"=_default_{f.name}"
        elif f.default_factory is not dataclasses.MISSING:
            values[f"_make_{f.name}"], default = f.default_factory, "=_absent"
            value = f"_make_{f.name}() if {f.name} is _absent else {f.name}"
        params[f.kw_only].append(f.name + default)
        lines.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    listed = ", ".join([*params[False], *["*"] * bool(params[True]), *params[True]])
    return _compiled(f"__init__({listed})", lines, values)


def _all(of: str, names: Sequence[str]) -> str:
    """The tuple of an object's fields."""
    return "({})".format("".join(f"{of}.{name}, " for name in names))


def _eq(names: Sequence[str]) -> Callable[..., Any]:
    same = f"return {_all('self', names)} == {_all('other', names)}"
    lines = ["if other.__class__ is self.__class__:", f"    {same}", "return NotImplemented"]
    return _compiled("__eq__(self, other)", lines, {})


def _hash(names: Sequence[str]) -> Callable[..., Any]:
    return _compiled("__hash__(self)", [f"return hash({_all('self', names)})"], {})


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def shown(self: Any) -> str:
        parts = (f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({', '.join(parts)})"

    return shown


def _frozen(cls: type, method: str, what: str, names: frozenset[str]) -> Callable[..., None]:
    def refuse(self: Any, name: str, *value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
        getattr(super(cls, self), method)(name, *value)

    refuse.__name__ = method
    return refuse


def _set_state(names: Sequence[str]) -> Callable[[Any, Sequence[Any]], None]:
    def set_state(self: Any, state: Sequence[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return set_state
