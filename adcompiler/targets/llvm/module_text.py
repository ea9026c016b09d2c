"""The text of a module of LLVM IR: its functions, and parts that can be compiled apart."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from adcompiler.targets.llvm.limits import PART_CHARACTERS

_BEGIN, _END = "\ndefine ", "\n}\n"
_INTERNAL, _EXPORTED = "define internal ", "define "
_DEFINED = re.compile(r"define [^\n]*?@([\w.$]+)\(")
_NAME = re.compile(r"[@(]([A-Za-z_][\w.$]*)")  # also forms of functions for vectors, in attributes
_KEPT = re.compile(r"@llvm\.compiler\.used = [^\n]*\n")


def parts(text: str) -> list[str]:
    """The functions that a module defines, and what stands before, between and after them. Together they are
    the text."""
    whole, found, end = "\n" + text, list[str](), 1
    while begin := whole.find(_BEGIN, end - 1) + 1:
        stop = whole.find(_END, begin)
        stop = len(whole) if stop < 0 else stop + len(_END)
        found += [whole[end:begin], whole[begin:stop]]
        end = stop
    return [part for part in (*found, whole[end:]) if part]


def divided(text: str, apart: Collection[str]) -> list[str]:
    """A module as several, the longest first, each with all that its functions call.

    The functions `apart` are divided among them, those that are short together; another module declares what
    it calls of them. LLVM must not inline them.
    """
    if not apart or len(text) < 2 * PART_CHARACTERS:
        return [text]
    head, functions = "", dict[str, str]()
    for part in parts(text):
        if found := _DEFINED.match(part):
            functions[found[1]] = part
        else:
            head += part
    used = _KEPT.search(head)
    all_kept = _NAME.findall(used[0]) if used else []
    head = _KEPT.sub("", head)
    named = {name: set(_NAME.findall(part)) for name, part in functions.items()}
    called = {name: functions.keys() & names for name, names in named.items()}

    def needed(roots: Collection[str]) -> dict[str, None]:
        """What functions need, themselves included, but not what else is apart."""
        found = dict.fromkeys(roots)
        for name in (work := [*found]):
            new = sorted(called[name].difference(found, apart))
            found |= dict.fromkeys(new)
            work += new
        return found

    groups = [list[str]()]
    for name in apart:
        groups[-1].append(name)
        if sum(len(functions[n]) for n in needed(groups[-1])) >= PART_CHARACTERS:
            groups.append([])
    exported = [name for name, part in functions.items() if not part.startswith(_INTERNAL)]
    modules = list[str]()
    for group in (exported, *filter(None, groups)):
        inside = needed(group)
        defined = [functions[n].replace(_INTERNAL, _EXPORTED, n in apart) for n in inside]
        outside = {n for name in inside for n in called[name]} - inside.keys()
        declared = [_declared(functions[n]) for n in sorted(outside)]
        known = set().union(*(named[n] for n in inside))
        modules.append("".join([kept([n for n in all_kept if n in known]), head, *declared, *defined]))
    return sorted(modules, key=len, reverse=True)


def kept(names: Sequence[str]) -> str:
    """The line that keeps functions although nothing calls them yet."""
    listed = ", ".join(f"ptr @{name}" for name in names)
    used = f"appending global [{len(names)} x ptr] [{listed}]"
    return f'@llvm.compiler.used = {used}, section "llvm.metadata"\n' if names else ""


def _declared(function: str) -> str:
    return function[: function.index(" {\n")].replace(_INTERNAL, "declare ", 1) + "\n"
