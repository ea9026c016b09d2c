"""NumPy's and SciPy's functions that are formulas: definitions in the language, in `prelude.adc`.

The header of a definition is the function's signature (`signatures.py`), and its docstring the line of
documentation. A definition is parsed when it is first called. What goes wrong inside is reported at the call,
with the name of the function. Names that begin with _ are known in the prelude alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from adcompiler.errors import Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.parse import parse
from adcompiler.frontend.library.intrinsics import INTRINSICS
from adcompiler.frontend.library.signatures import Signature
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.values import AnyValue, FunctionValue, Value
from adcompiler.ops.build import cast

FOLDER = Path(__file__).parent
DEFINITION = re.compile(r"^(?=def )", re.MULTILINE)


class Composite:
    """A function of the prelude, as a builtin; `write` gives its text, which begins in a `line`."""

    def __init__(self, name: str, write: Callable[[], str], line: int) -> None:
        self.name, self.write, self.line = name, write, line

    @cached_property
    def definition(self) -> tree.Def:
        """Its definition."""
        (definition,) = parse(self.write(), "<prelude>", self.line).statements
        assert isinstance(definition, tree.Def)
        return definition

    @cached_property
    def signature(self) -> Signature:
        """Its parameters."""
        return Signature(self.definition)

    @cached_property
    def body(self) -> tree.Def:
        """Its definition without the annotations, which are those of the signature."""
        bare = tuple(replace(p, annotation=None, default=None) for p in self.definition.parameters)
        return replace(self.definition, name=self.signature.name, parameters=bare)

    @property
    def doc(self) -> str:
        """What it computes, in a line."""
        return self.definition.docstring or ""

    def __call__(self, context: Context, args: list[Any], keywords: dict[str, Any], span: Span) -> AnyValue:
        bound = self.signature.bound(context, args, keywords, span)
        kind = self.signature.converted(context, bound, span)
        own = {name: replace(v, held=None) if isinstance(v, Value) else v for name, v in bound.items()}
        rule = _rules().get(self.name)
        found = context.composed(self.body, {**hidden(), **own}, span, None if rule is None else rule.body)
        return found if kind is None else Value(found.shape, cast(found.element, kind[0]), kind[1])


@cache
def definitions(file: str) -> list[tuple[str, str, int]]:
    """The name, text and line of each definition in a file."""
    head, *texts = DEFINITION.split((FOLDER / file).read_text("utf-8"))
    lines = accumulate((text.count("\n") for text in texts), initial=head.count("\n") + 1)
    bare = (text.partition("\n#")[0] for text in texts)  # without comments on what follows
    return [(text[4 : text.index("(")], text, line) for text, line in zip(bare, lines, strict=False)]


def sections(file: str) -> list[tuple[str, list[str]]]:
    """The titles of a file's sections, with the names that are defined there."""
    _, *parts = re.split(r"^# -- (.*?) -+$", (FOLDER / file).read_text("utf-8"), flags=re.MULTILINE)
    found = zip(parts[::2], parts[1::2], strict=True)
    return [(title, re.findall(r"^def (\w+)", text, re.MULTILINE)) for title, text in found]


def _composites(file: str) -> dict[str, Composite]:
    return {name: Composite(name, partial(str, text), line) for name, text, line in definitions(file)}


_ALL = _composites("prelude.adc")
PRELUDE: Mapping[str, Composite] = {name: f for name, f in _ALL.items() if not name.startswith("_")}


def own(name: str) -> Composite:
    """A function that only the prelude knows, or that has another name outside."""
    return _ALL[name]


@cache
def _rules() -> Mapping[str, Composite]:
    """The functions with a rule of their own: `_f_rule(a, b, r, g)` gives the cotangents of a and b, for the
    result r of `_f(a, b)` and its cotangent g."""
    found = _ALL | _composites("distributions.adc")
    return {name.removesuffix("_rule"): f for name, f in found.items() if name.endswith("_rule")}


@cache
def hidden() -> Mapping[str, FunctionValue]:
    """The functions that only the prelude knows."""
    composites = (_ALL | _composites("distributions.adc")).items()
    found = {name: f for name, f in composites if name.startswith("_")} | dict(INTRINSICS)
    return {name: FunctionValue(name, (), f) for name, f in found.items()}
