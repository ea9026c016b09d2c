"""Data classes whose methods are compiled at the first call behave like those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from typing import Any

import pytest

from adcompiler.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A value with a default, a factory, and a keyword that equality ignores."""

    x: int
    y: int = 2
    tags: tuple[str, ...] = field(default_factory=tuple)
    mark: int = field(default=0, kw_only=True, compare=False, repr=False)


@dataclass
class Counted:
    """A changeable object that checks itself."""

    items: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.count = len(self.items)


@dataclass(frozen=True)
class Base:
    """A value of one field."""

    a: int


@dataclass(frozen=True)
class Derived(Base):
    """A value that adds a field, and has an equality of its own."""

    b: int = 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Derived) and self.b == other.b

    __hash__ = Base.__hash__


def test_values_are_equal_by_their_fields() -> None:
    assert Point(1, mark=4) == Point(1, 2) != Point(1, 3)
    assert len({Point(1, mark=4), Point(1), Point(2)}) == 2
    assert Base(1) != Derived(1)
    assert Derived(1) == Derived(2)
    assert repr(Point(1, tags=("a",))) == "Point(x=1, y=2, tags=('a',))"


def test_the_standard_functions_take_them() -> None:
    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b"]
    assert dataclasses.replace(Point(1, mark=5), x=3).mark == 5
    assert dataclasses.asdict(Derived(1)) == {"a": 1, "b": 3}
    assert all(f(Point(7)) == Point(7) for f in (copy.copy, lambda p: pickle.loads(pickle.dumps(p))))
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_frozen_values_do_not_change() -> None:
    for value in (Point(1), Derived(1)):
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot assign to field '{name}'"):
            setattr(value, name, 2)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"cannot delete field '{name}'"):
            delattr(value, name)


def test_objects_have_their_own_defaults() -> None:
    one, other = Counted(), Counted([1])
    one.items.append(2)
    assert (one.items, other.items, Counted().items, other.count) == ([2], [1], [], 1)
    unhashable: Any = one
    with pytest.raises(TypeError, match="unhashable"):
        hash(unhashable)


def test_missing_and_unknown_arguments_are_named() -> None:
    make: Any = Point
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        make()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        make(1, z=2)
