"""Generated text as Python's syntax tree."""

from __future__ import annotations

import ast

ATTEMPTS = 100


def parsed(text: str) -> ast.Module:
    """The tree of a generated text.

    Python 3.11 counts the depth of trees for all threads together: where another thread parses as well, it
    finds fault with a good tree (gh-106905).
    """
    for _ in range(ATTEMPTS):
        try:
            return ast.parse(text)
        except (SystemError, RecursionError):
            pass
    return ast.parse(text)
