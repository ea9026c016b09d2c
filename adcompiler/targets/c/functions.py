"""Functions of the loop IR as static C functions: those of a kernel, and routines written in Python.

Each function is written for the types of its arguments, as in `targets/llvm/functions.py` and
`python_functions.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.nodes import (
    Expr,
    Function,
    UnsupportedError,
)
from adcompiler.loopir.python_modules import MATRICES, ORDER, is_special, source
from adcompiler.loopir.types import Number, types_of_kernel, types_of_routine
from adcompiler.targets.c.body import WHOLE, Argument, Body, CFunction, Functions, type_of
from adcompiler.targets.c.helpers import helper_lines
from adcompiler.targets.c.values import (
    INDEX_BITS,
    LETTERS,
    TYPES,
    CArray,
    CValue,
    cast,
    number,
)


@dataclass
class CFile:
    """The static functions of a C file, in the order of their definitions."""

    helpers: set[str] = field(default_factory=set)
    functions: dict[str, CFunction] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # of tables and functions
    needs: dict[str, set[str]] = field(default_factory=dict)  # the tables and functions that each needs

    def lines(self, roots: Iterable[str], texts: Iterable[str]) -> list[str]:
        """The definitions that the functions `roots` need, and other functions whose texts these are."""
        found, waiting = set[str](), [*roots]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.needs.get(name, ())
        needed = [text for name, text in self.texts.items() if name in found]
        words = set(re.findall(r"\w+", " ".join([*needed, *texts])))
        return [*helper_lines(self.helpers & words), *needed]

    def kernel_function(
        self,
        prefix: str,
        function: Function,
        others: Mapping[str, Function],
        args: Sequence[Argument],
        results: Sequence[Number] = (),
    ) -> CFunction:
        """A function of a kernel, called with these arguments: it is written once. It stores its `results`,
        numbers of these types."""

        name = f"{prefix}_{function.name}"
        return self._written(name, lambda: KernelBody(self, prefix, function, others, args, results))

    def routine(self, module: str, function: str, args: Sequence[Argument]) -> CFunction:
        """A function of one of our Python modules for arguments of these types."""
        letters = "".join(
            LETTERS[a.type] if isinstance(a, CValue) else f"{LETTERS[a.dtype]}{len(a.lengths)}" for a in args
        )
        name = f"adc_{module}_{function.removeprefix('library_').strip('_')}_{letters}"
        return self._written(name, lambda: RoutineBody(self, module, function, args))

    def _written(self, name: str, make: Callable[[], Body]) -> CFunction:
        if name not in self.functions:
            body = make()
            body.run()
            self.functions[name] = body.described(name)
            self.texts[name], self.needs[name] = body.text(name), body.needs
        return self.functions[name]


class KernelBody(Body):
    """A function of a kernel. Its arrays have the lengths of the arrays that it is called with, under the
    same names."""

    def __init__(
        self,
        file: Functions,
        prefix: str,
        function: Function,
        others: Mapping[str, Function],
        args: Sequence[Argument],
        results: Sequence[Number] = (),
    ) -> None:
        self.prefix, self.others, self.results = prefix, others, results
        super().__init__(file, function, args, types_of_kernel(function, [type_of(a) for a in args]))
        self.result = None

    def lengths_of(self, param: str, arg: CArray) -> tuple[str, ...]:
        return arg.lengths

    def length(self, text: str) -> CValue:
        own = next((p for p in self.function_of.params if p in self.kinds and self.name(p) == text), None)
        if own is not None:  # a parameter is this length
            self.use(own)
            return CValue(text, "i64", bits=INDEX_BITS)
        if text in self.local_lengths:
            self.local_lengths[text] = True
            return CValue(text, "i64", bits=INDEX_BITS)
        return super().length(text)

    def lengths_passed(self) -> tuple[str | tuple[int, int], ...]:
        return tuple(self.lengths)

    def parameters(self) -> list[str]:
        return [*super().parameters(), *(f"{TYPES[r]} *_out{k}" for k, r in enumerate(self.results))]

    def give(self, values: Sequence[Expr]) -> None:
        for k, (value, kind) in enumerate(zip(values, self.results, strict=True)):
            self.line(f"*_out{k} = {self.converted(self.value(value), kind).text};")

    def function(self, name: str, args: list[CValue]) -> CValue:
        module, dot, function = name.partition(".")
        if dot and is_special(name):
            return self.special(module, function, args)
        return super().function(name, args)

    def special(self, module: str, function: str, args: list[CValue]) -> CValue:
        """A special function: it computes in float64."""
        definition = source(module).definitions[function]
        ordered = definition.params[0] == ORDER and args[0].type == "i64"
        points = self.together(*(a if a.is_float else cast(a, "f64") for a in args[ordered:]))
        given = [*args[:ordered], *(cast(p, "f64") for p in points)]
        found = self.called(self.file.routine(module, function, given), given)
        return cast(cast(found, "f64"), points[0].type)

    def call(self, name: str, args: Sequence[Argument]) -> CValue:
        if name.startswith("library_"):
            return self.called(self.file.routine(MATRICES, name, args), args)
        if name not in self.others:
            raise UnsupportedError(name)
        found = self.file.kernel_function(self.prefix, self.others[name], self.others, args)
        return self.called(found, args)


class RoutineBody(Body):
    """A function of one of our Python modules. Its numbers are so small that integers do not overflow, except
    in powers."""

    def __init__(
        self,
        file: Functions,
        module: str,
        function: str,
        args: Sequence[Argument],
    ) -> None:
        self.module = module
        self.python = source(module)
        self.small = module != WHOLE
        types = types_of_routine(module, function, tuple(map(type_of, args)))
        super().__init__(file, self.python.definitions[function], args, types)

    def lengths_of(self, param: str, arg: CArray) -> tuple[str, ...]:
        return tuple(f"{self.name(param)}_len{k}" for k in range(len(arg.lengths)))

    def lengths_passed(self) -> tuple[str | tuple[int, int], ...]:
        params = self.function_of.params
        places = {
            length: (k, axis)
            for k, p in enumerate(params)
            if p in self.arrays
            for axis, length in enumerate(self.arrays[p].lengths)
        }
        return tuple(places[length] for length in self.lengths)

    def own(self, name: str, args: Sequence[Argument]) -> CValue:
        return self.call(name, args)

    def entry(self, table: str, index: CValue) -> CValue:
        return CValue(f"{self.table(table)}[{index.text}]", "f64")

    def table(self, name: str) -> str:
        """A table of coefficients."""
        own = f"adc_{self.module}_{name}"
        entries = self.python.table(name)
        numbers = ", ".join(number(float(v)).text for v in entries)
        text = f"static const double {own}[{len(entries)}] = {{{numbers}}};\n"
        self.file.texts.setdefault(own, text)
        self.needs.add(own)
        return own

    def give(self, values: Sequence[Expr]) -> None:
        if not values:
            self.line("return;")
            return
        assert self.result
        self.line(f"return {self.converted(self.value(values[0]), self.result).text};")

    def call(self, name: str, args: Sequence[Argument]) -> CValue:
        if name not in self.python.definitions:
            raise UnsupportedError(name)
        return self.called(self.file.routine(self.module, name, args), args)
