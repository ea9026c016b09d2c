"""Names of a program's parts, made unique."""

from __future__ import annotations

from collections.abc import Iterable


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> tuple[str, ...]:
    """`names`, each with underscores behind it until it differs from those before it and from `taken`."""
    used, found = set(taken), list[str]()
    for name in names:
        while name in used:
            name += "_"
        used.add(name)
        found.append(name)
    return tuple(found)
