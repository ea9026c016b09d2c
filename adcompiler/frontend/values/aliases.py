"""Names that share elements, and which of them a store makes stale.

In NumPy `w = y` gives one array another name, `y[1:]` is a view of it, and a function gets the array itself:
a store through one name is visible through all of them. Here a store gives one name a new value. The two
differ only if another name is read after the store, and that is refused.

A value with elements *holds* them: a `Storage` in the state after some store. The value is stale if there was
a later store. Storages that may alias, such as those of the branches of a condition, are linked: a store to
one counts as a store to the others. Reads and stores of an iteration are recorded while it is lowered. They
determine what one iteration does to the next, and to values from before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, count
from typing import NoReturn, Protocol, TypeAlias

from adcompiler.errors import ParseError, Source, Span
from adcompiler.frontend.values.values import AnyValue, Held, Listed, Storage, Store, Value, as_array
from adcompiler.ir.nodes import Element
from adcompiler.lazy_dataclass import dataclass
from adcompiler.pytree.containers import Container

Kept: TypeAlias = list[Held]  # the arrays in a list that loops append to
Bound: TypeAlias = int | Element | None
Place: TypeAlias = tuple[tuple[Bound, Bound], ...]  # the start and end of a part, for each axis
Holds: TypeAlias = Sequence[Held | None]  # one for each of several values
COPY = (
    "to keep the elements of {0}, write .copy() where one is made from the other; to change them, store "
    "in {0} itself"
)


@dataclass(frozen=True, slots=True, eq=False)
class Gone(Store):
    """Marks elements that a value no longer has, whichever branch was taken."""


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    held: Held
    time: int
    name: str
    span: Span
    source: Source | None


@dataclass(frozen=True, slots=True, eq=False)
class _Stored:
    storage: Storage
    store: Store
    root: Held


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    held: Held
    kept: Kept


Event: TypeAlias = _Read | _Stored | _Kept


class Here(Protocol):
    """The state of the current lowering."""

    source: Source | None


class Aliases:
    """The storages of one lowering, and the reads and stores of them."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.events: list[Event] = []
        self.log: list[tuple[Storage, Store | None] | Kept] = []  # undo log
        self.clock = count()
        self.parts: dict[Storage, dict[Place, Storage]] = {}

    # -- values --------------------------------------------------------------------------------

    def own(self, value: AnyValue) -> AnyValue:
        """A value that holds its elements: new ones, unless it shares those of another value."""
        if isinstance(value, Listed):
            if value.held is None:
                value.held = self.fresh(*(v.held for v in value if isinstance(v, Value)))
                if value.array is not None:
                    value.array = replace(value.array, held=value.held)
            return value
        if isinstance(value, Value):
            if not value.rank or value.held is not None:
                return value
            return replace(value, held=Held(Storage(next(self.clock), None if value.weak else value.dtype)))
        return _mapped(value, self.own)

    def fresh(self, *near: Held | None) -> Held:
        """Elements of a new storage, which may alias the given ones."""
        known = [held.storage.dtype for held in near if held is not None]
        storage = Storage(next(self.clock), known[0] if len({*known}) == 1 else None)
        for held in near:
            if held is not None:
                _link(storage, held.storage)
        return Held(storage)

    def read(self, value: AnyValue, name: str, span: Span) -> AnyValue:
        """Read a value under a name; refused if it is stale."""
        held = value.held if isinstance(value, Value | Listed) else None
        if held is not None:
            self.read_held(held, name, span)
        return value

    def read_held(self, held: Held, name: str, span: Span) -> None:
        """Record a read of elements."""
        if not _is_current(held):
            self.refuse(name, held.storage.store, span, self.here.source)
        self.events.append(_Read(held, next(self.clock), name, span, self.here.source))

    def read_all(self, value: AnyValue, span: Span) -> AnyValue:
        """Read all parts of a value."""
        for part in _parts(value):
            self.read(part, "", span)
        return value

    def stored(self, value: AnyValue, before: Held | None, name: str, span: Span) -> AnyValue:
        """An array after a store to it."""
        if not isinstance(value, Value) or not value.rank:
            return value
        return replace(value, held=self.store(before or self.fresh(), name, span))

    def store(self, held: Held, name: str, span: Span) -> Held:
        """Elements after a store."""
        store, root = Store(name, span, self.here.source, next(self.clock)), held.root or held
        for storage in (held.storage, *held.storage.others):
            self._set(storage, store)
            self.events.append(_Stored(storage, store, root))
        return Held(held.storage, store, root)

    def longer(self, before: Listed, after: Listed, name: str, span: Span) -> Listed:
        """A list after an append, which counts as a store for other names of the list, but not for its
        elements."""
        store = Store(name, span, self.here.source, next(self.clock))
        held = self.own(before).held
        self._set(held.storage, store)
        self.events.append(_Stored(held.storage, store, held))
        longer: Listed = self.own(after)
        return longer

    def _set(self, storage: Storage, store: Store) -> None:
        self.log.append((storage, storage.store))
        storage.store = store

    def keep(self, value: AnyValue, kept: Kept) -> None:
        """Append an array to a list in a loop."""
        if isinstance(value, Value) and value.held is not None:
            self._keep(kept, value.held)
            self.events.append(_Kept(value.held, kept))

    def _keep(self, kept: Kept, held: Held) -> None:
        kept.append(held)
        self.log.append(kept)

    # -- branches ------------------------------------------------------------------------------

    def fork(self) -> Fork:
        """Start the branches of a condition."""
        return Fork(self)

    def either(self, value: AnyValue, then: AnyValue, otherwise: AnyValue) -> AnyValue:
        """A value that is one of two."""
        if not isinstance(value, Value) or not value.rank:
            return value
        one, other = (v.held if isinstance(v, Value) else None for v in map(as_array, (then, otherwise)))
        return replace(value, held=self.joined(one, other))

    def joined(self, one: Held | None, other: Held | None) -> Held | None:
        """The elements of one value or another."""
        for held in (one, other):
            if held is not None and isinstance(held.store, Gone):
                return held
        if one is None or other is None or one.storage is not other.storage:
            return self.fresh(one, other) if one or other else None
        return Held(one.storage, one.storage.store, one.root or one)

    def rewind(self, mark: int) -> None:
        """Undo the stores recorded since `mark`."""
        for entry in reversed(self.log[mark:]):
            if isinstance(entry, list):
                entry.pop()
            else:
                entry[0].store = entry[1]
        del self.log[mark:]

    # -- iterations ----------------------------------------------------------------------------

    def start(self) -> Start:
        """Mark the start of the iteration being lowered."""
        return Start(len(self.events), len(self.log), next(self.clock))

    def again(self, start: Start) -> None:
        """Forget records since the start, because the iteration is lowered again."""
        self.rewind(start.mark)
        del self.events[start.events :]

    def iterated(self, start: Start, heads: Holds, ends: Holds) -> list[Held | None]:
        """The elements held after a loop by values that hold `heads` at the start of an iteration and `ends`
        at its end. Refuse reads by the next iteration of elements stored to by this one."""
        events = self.events[start.events :]
        changed = _changed(events)
        pairs = [(h, e) for h, e in zip(heads, ends, strict=True) if h is not None and e is not None]
        passed = _passed(pairs, changed, start)
        carried = dict(pairs)
        for event in events:
            if isinstance(event, _Kept):
                store = changed.get(event.held.storage) or event.held.storage.store
                if event.held.storage in changed or not _is_current(event.held):
                    self._keep(event.kept, _gone(event.held, store))
            elif isinstance(event, _Read):
                ways = [h for h in event.held.ways() if start.sees(h)]
                head = next((h for h in ways if h in carried), None)
                if head is not None:
                    self.carried(event, carried[head], pairs, changed)
                elif any(h.storage in passed for h in ways) and not _is_own(event.held, events):
                    self.next_reads(event, next(passed[h.storage] for h in ways if h.storage in passed))
        found = self.after(heads, ends)
        for storage, store in passed.items():
            if storage.store is None or storage.store.time < start.time:
                self._set(storage, store)
        return found

    def carried(
        self, event: _Read, end: Held, pairs: Sequence[tuple[Held, Held]], changed: dict[Storage, Store]
    ) -> None:
        """Refuse a read of a carried value that would be stale in the next iteration, or have another name
        that was stored to before the read."""
        if not _is_current(end):
            self.next_reads(event, end.storage.store)
        for head, last in pairs:
            store = changed.get(head.storage)
            later = store is not None and store.time < event.time
            if later and _overlap(end, last) and not _overlap(event.held, head):
                self.next_reads(event, store)

    def after(self, heads: Holds, ends: Holds) -> list[Held | None]:
        """The elements held after a loop: two values share them if they did before it or after an
        iteration."""
        found: list[Held | None] = []
        for head, end in zip(heads, ends, strict=True):
            if head is None or end is None:
                found.append(None)
            elif not _is_current(end) or isinstance(head.store, Gone):
                stale = head if _is_current(end) else end
                found.append(_gone(stale, stale.storage.store))
            elif head.storage is end.storage:
                found.append(head if end.store is head.store else Held(end.storage, end.store))
            else:
                found.append(self.fresh(head, end))
        _keep_distinct(found, heads, ends)
        return found

    def points(self, start: Start) -> None:
        """Refuse reads by a point of a comprehension of elements stored by earlier points."""
        events = self.events[start.events :]
        changed = _changed(events)
        for event in events:
            if isinstance(event, _Read):
                ways = [h for h in event.held.ways() if start.sees(h) and h.storage in changed]
                if ways and not _is_own(event.held, events):
                    self.next_reads(event, changed[ways[0].storage])

    def rows(self, values: Sequence[AnyValue]) -> list[AnyValue]:
        """Different rows of arrays: a store to one does not affect the others."""
        others = dict[Storage, tuple[Storage, ...]]()

        def own(value: AnyValue) -> AnyValue:
            if not isinstance(value, Value) or value.held is None:
                return _mapped(value, own)
            whole = value.held.storage
            storage = Storage(next(self.clock), whole.dtype)
            for each in others.setdefault(whole, (whole, *whole.others)):
                storage.others.add(each)
                each.others.add(storage)
            return replace(value, held=Held(storage, origin=value.held))

        return [own(value) for value in values]

    def part(self, value: AnyValue, whole: Value, place: Place) -> AnyValue:
        """A view of an array; disjoint parts are different storages."""
        if not isinstance(value, Value) or not value.rank or whole.held is None:
            return shared(value)
        parts = self.parts.setdefault(whole.held.storage, {})
        if place not in parts:
            storage = parts[place] = Storage(next(self.clock), whole.held.storage.dtype)
            disjoint = {parts[p] for p in parts if _is_disjoint(place, p)}
            for each in (whole.held.storage, *whole.held.storage.others):
                if each is not storage and each not in disjoint:
                    storage.others.add(each)
                    each.others.add(storage)
        found = parts[place]
        return replace(value, held=Held(found, found.store, origin=whole.held))

    def row(self, value: AnyValue) -> AnyValue:
        """The item of an iteration."""
        if isinstance(value, Value) and value.held is not None:
            held = Held(value.held.storage, value.held.store, origin=value.held, row=True)
            return replace(value, held=held)
        return _mapped(value, self.row)

    # -- messages ------------------------------------------------------------------------------

    def next_reads(self, event: _Read, store: Store | None) -> NoReturn:
        """Refuse a read by the next iteration."""
        self.refuse(event.name, store, event.span, event.source, " for the next iteration")

    def refuse(
        self, name: str, store: Store | None, span: Span, source: Source | None, why: str = ""
    ) -> NoReturn:
        """Refuse a read of elements that NumPy would have changed."""
        assert store is not None
        what, by = name or "the value read here", store.name
        shares = (
            f"{what} shares elements with {by}" if by not in ("", name) else f"{what} shares its elements"
        )
        cause = f"{shares}, and {store.text!r} changes them{why}"
        raise ParseError(cause, remedy=COPY.format(name or "it"), source=source, span=span)


def shared(value: AnyValue, other: Value | None = None) -> AnyValue:
    """A value that shares the elements of another one, or has new ones."""
    if type(value) is tuple:
        return _mapped(value, shared)
    held = None if other is None else other.held
    if not isinstance(value, Value) or value.held is held:
        return value
    return replace(value, held=held if value.rank else None)


@dataclass(frozen=True, slots=True)
class Start:
    """The start of an iteration: the number of earlier records, and the time."""

    events: int
    mark: int
    time: int

    def sees(self, held: Held) -> bool:
        """Whether elements are held as at the start."""
        return held.storage.born < self.time and (held.store is None or held.store.time < self.time)


class Fork:
    """Branches lowered one after the other, each from the state before the first."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases, self.mark = aliases, len(aliases.log)
        self.stores: dict[Storage, Store] = {}
        self.kept: list[tuple[Kept, Held]] = []

    def end(self, scope: dict[str, AnyValue], names: Iterable[str]) -> None:
        """End a branch, in whose scope `names` were bound."""
        settle(scope, names)
        for entry in self.aliases.log[self.mark :]:
            if isinstance(entry, list):
                self.kept.append((entry, entry[-1]))
            elif entry[0].store is not None:
                self.stores[entry[0]] = entry[0].store
        self.aliases.rewind(self.mark)

    def join(self) -> None:
        """After the branches: apply the stores of both."""
        for storage, store in self.stores.items():
            self.aliases._set(storage, replace(store))
        for kept, held in self.kept:
            self.aliases._keep(kept, held)

    def keep_distinct(self, names: Sequence[str], *scopes: dict[str, AnyValue]) -> None:
        """Arrays that the branches exchange stay distinct. Scopes: after both, after one, after the other."""
        values = ([scope.get(name) for name in names] for scope in scopes)
        _keep_distinct(*([v.held if isinstance(v, Value) else None for v in each] for each in values))


def _changed(events: Sequence[Event]) -> dict[Storage, Store]:
    """The first store to each storage."""
    return {e.storage: e.store for e in reversed(events) if isinstance(e, _Stored)}


def _passed(
    pairs: Sequence[tuple[Held, Held]], changed: dict[Storage, Store], start: Start
) -> dict[Storage, Store]:
    """The storages changed by iterations, including those that a stored-to name takes over in the next
    iteration."""
    found = dict(changed)
    for _ in pairs:
        before = len(found)
        for head, end in pairs:
            if head.storage in found:
                for storage in (end.storage, *end.storage.others):
                    if storage.born < start.time:
                        found.setdefault(storage, found[head.storage])
        if len(found) == before:
            break
    return found


def _is_own(held: Held, events: Sequence[Event]) -> bool:
    """Whether elements are a row being iterated over, with all stores made through it, so that no other row
    changes."""
    stores = (e for e in events if isinstance(e, _Stored) and e.storage is held.storage)
    return held.row and all(e.root is held for e in stores)


def _is_disjoint(one: Place, other: Place) -> bool:
    """Whether two parts are known to be disjoint."""
    return any(_ends_before(a, b) or _ends_before(b, a) for a, b in zip(one, other, strict=False))


def _ends_before(one: tuple[Bound, Bound], other: tuple[Bound, Bound]) -> bool:
    end, begin = one[1], other[0]
    if isinstance(end, int) and isinstance(begin, int):
        return end <= begin and (end < 0) == (begin < 0)
    return end is not None and end is begin


def _is_current(held: Held) -> bool:
    return held.storage.store is held.store


def _overlap(one: Held, other: Held) -> bool:
    return one.storage is other.storage or other.storage in one.storage.others


def _link(storage: Storage, other: Storage) -> None:
    """Mark two storages as possible aliases, including known aliases."""
    for each in (other, *other.others):
        if each is not storage:
            storage.others.add(each)
            each.others.add(storage)


def _keep_distinct(found: Holds, one: Holds, other: Holds) -> None:
    """Arrays that a condition or a loop exchanges stay distinct: values that are `one` of each or the `other`
    of each share elements only if they do so on one side."""
    known = [(f, a, b) for f, a, b in zip(found, one, other, strict=True) if f and a and b]
    # Elements that a name has lost keep their links, since other names may hold them.
    known = [
        (held, a, b)
        for held, a, b in known
        if (held.storage in (a.storage, b.storage)) == (a.storage is b.storage)
    ]
    for (held, a, b), (last, c, d) in combinations(known, 2):
        if not (_overlap(a, c) or _overlap(b, d)):
            last.storage.others.discard(held.storage)
            held.storage.others.discard(last.storage)


def _gone(held: Held, store: Store | None) -> Held:
    assert store is not None
    return Held(held.storage, Gone(store.name, store.span, store.source, store.time))


def settle(scope: dict[str, AnyValue], names: Iterable[str]) -> None:
    """End a branch, in whose scope `names` were bound: stale values there stay stale."""
    for name in names:
        if name in scope:
            scope[name] = _settled(scope[name])


def _settled(value: AnyValue) -> AnyValue:
    """A value at the end of a branch."""
    held = value.held if isinstance(value, Value | Listed) else None
    if held is None:
        return _mapped(value, _settled)
    if _is_current(held) or isinstance(held.store, Gone):
        return value
    gone = _gone(held, held.storage.store)
    if isinstance(value, Value):
        return replace(value, held=gone)
    found = Listed(value)
    found.array, found.grown, found.held = value.array, value.grown, gone
    return found


def _mapped(value: AnyValue, f: Callable[[AnyValue], AnyValue]) -> AnyValue:
    """A tuple or container with its parts replaced; the same object if no part changes."""
    if not isinstance(value, Container) and type(value) is not tuple:
        return value
    before = value.parts if isinstance(value, Container) else value
    parts = tuple(map(f, before))
    if all(a is b for a, b in zip(before, parts, strict=True)):
        return value
    return replace(value, parts=parts) if isinstance(value, Container) else parts


def _parts(value: AnyValue) -> Iterator[AnyValue]:
    """The arrays and lists in a value."""
    if isinstance(value, Value | Listed):
        yield value
    for part in value.parts if isinstance(value, Container) else value if type(value) is tuple else ():
        yield from _parts(part)
