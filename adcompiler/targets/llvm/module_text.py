"""The text of a module of LLVM IR, as LLVM prints it."""

from __future__ import annotations

_BEGIN, _END = "\ndefine ", "\n}\n"


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
