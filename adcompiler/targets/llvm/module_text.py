"""The text of a module of LLVM IR: its functions, and parts that can be compiled apart."""

from __future__ import annotations

import re
from collections.abc import Collection

from adcompiler.targets.llvm.limits import PART_CHARACTERS

_BEGIN, _END = "\ndefine ", "\n}\n"
_INTERNAL, _EXPORTED = "define internal ", "define "
_DEFINED = re.compile(r"define [^\n]*?@([\w.$]+)\(")
_NAME = re.compile(r"@([\w.$]+)")


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
    called = {name: functions.keys() & set(_NAME.findall(part)) for name, part in functions.items()}

    everywhere = sorted(functions.keys() & set(_NAME.findall(head)))

    def needed(roots: Collection[str]) -> dict[str, None]:
        """What functions and the head need, themselves included, but not what else is apart."""
        found = dict.fromkeys((*everywhere, *roots))
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
        modules.append("".join([head, *map(_declared, (functions[n] for n in sorted(outside))), *defined]))
    return sorted(modules, key=len, reverse=True)


def _declared(function: str) -> str:
    return function[: function.index(" {\n")].replace(_INTERNAL, "declare ", 1) + "\n"
