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


def walk(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, as `ast.walk` gives them, in less time: kernels are looked through often."""
    nodes = [root]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
    return nodes
