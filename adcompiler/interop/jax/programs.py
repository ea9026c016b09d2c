"""Derived programs for other frameworks' rules: tangents, cotangents and batches of a program are programs.

A framework that differentiates by rules of its own asks for one derivative at a time: the tangents of a call,
the transpose of these, a batch of calls. Each answer is a program with what it reads of the rule's values, so
the rules hold for it again, and with them every order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

from adcompiler.ad.jvp import jvp
from adcompiler.ad.vjp import vjp
from adcompiler.fork import Locked
from adcompiler.ir.batch import batch
from adcompiler.ir.loop import Loop
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Func, Input, Size
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import Rewriter, arrays_of
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.progress import compiling
from adcompiler.runtime.specialise import Specialisation
from adcompiler.runtime.vmap import of_all_cases
from adcompiler.syntax.program import Lowered

Pattern = tuple[bool, ...]
Origin: TypeAlias = "tuple[Program, tuple[int, ...]] | None"  # of tangents: the program, and by what
_numbers = count()


class Program:
    """A program whose derivatives are programs; equal ones are the same object, so it is a key for caches.

    `reads` are the numbers of the values, of those that the rule has, which are the inputs; `known` says
    which results of the rule the program has: all others are zero, or for a batch the same for every case.
    The numbers of size symbols are those of the program that it is derived from; a batch has one more.
    """

    def __init__(
        self, func: Func, backend: str, reads: tuple[int, ...] = (), known: Pattern = (), of: Origin = None
    ) -> None:
        self.func, self.backend, self.reads, self.known, self.of = func, backend, reads, known, of
        self.number = next(_numbers)
        self.call = Specialisation(Lowered(func, (), (None,) * len(func.results)), backend)
        self.eager: dict[tuple[int, ...], Any] = {}  # what a framework makes of it, by lengths
        self._made: dict[Any, Program] = {}
        self._making = Locked()

    def __repr__(self) -> str:
        return f"{self.func.name}#{self.number}"

    def _derived(self, key: Any, make: Callable[[], Program]) -> Program:
        found = self._made.get(key)
        if found is None:
            with self._making.lock, compiling(self.func.name):
                found = self._made.setdefault(key, make())
        return found

    # -- derivatives ---------------------------------------------------------------------------

    def tangent(self, which: tuple[int, ...]) -> Program:
        """The tangents of the results that are not known to be zero, of the inputs' values and the tangents
        of the inputs `which`."""
        return self._derived(("tangent", which), lambda: self._tangent(which))

    def _tangent(self, which: tuple[int, ...]) -> Program:
        func = self.func
        primals = [func.inputs[k] for k in which]
        own = [Input(len(func.inputs) + p, i.dtype, i.shape) for p, i in enumerate(primals)]
        found = jvp(func.results, dict(zip(primals, own, strict=True)))
        names = [f"d{func.input_names[k]}" for k in which]
        return self._made_of("jvp", found, func.result_names, own, names, (self, which))

    def cotangent(self, present: Pattern, asked: tuple[int, ...]) -> Program:
        """The cotangents of the inputs `asked` that are not known to be zero, of the inputs' values and the
        cotangents of the results that are `present`."""
        return self._derived(("cotangent", present, asked), lambda: self._cotangent(present, asked))

    def _cotangent(self, present: Pattern, asked: tuple[int, ...]) -> Program:
        func = self.func
        fresh = count(len(func.inputs))
        seeds = [
            Input(next(fresh), r.dtype, r.shape) if here and is_float(r.dtype) else None
            for r, here in zip(func.results, present, strict=True)
        ]
        found = vjp(func.results, seeds, [func.inputs[k] for k in asked])
        given = [(s, f"d{n}") for s, n in zip(seeds, func.result_names, strict=True) if s is not None]
        own, names = [s for s, _ in given], [n for _, n in given]
        return self._made_of("vjp", found, [func.input_names[k] for k in asked], own, names)

    def transposed(self, present: Pattern, asked: tuple[int, ...]) -> Program:
        """The cotangents of the inputs `asked`, in which the program is linear: as `cotangent`, and it reads
        none of these. The transpose of tangents is reverse mode itself, which is better code."""
        if self.of is not None:
            of, which = self.of
            first = len(of.func.inputs)
            numbers = [self.reads[k] for k in asked]
            if all(n >= first for n in numbers):
                behind = iter(present)
                every = tuple(known and next(behind) for known in self.known)
                found = of.cotangent(every, tuple(which[n - first] for n in numbers))
                places = {n: k for k, n in enumerate(self.reads)}
                here = [places.get(n) if n < first else n - first + len(self.reads) for n in found.reads]
                if all(n is not None for n in here):
                    return found.reading(here)
        return self.cotangent(present, asked)

    def reading(self, reads: Sequence[Any]) -> Program:
        """The same program for a rule whose values have other numbers."""

        def make() -> Program:
            made = Program(self.func, self.backend, tuple(reads), self.known)
            made.call = self.call
            return made

        return self._derived(("reading", *reads), make)

    def batched(self, mapped: Pattern) -> Program:
        """The program for many cases, which are the first axis of the inputs that are `mapped`, and of the
        results that depend on them: those are the ones that are `known`."""
        return self._derived(("batched", mapped), lambda: self._batched(mapped))

    def _batched(self, mapped: Pattern) -> Program:
        func = self.func
        cases = Size(len(func.size_names))
        inputs = [
            Input(i.position, i.dtype, (cases, *i.shape)) if m else i
            for i, m in zip(func.inputs, mapped, strict=True)
        ]
        places: dict[Array, Array] = {
            old: new for old, new, m in zip(func.inputs, inputs, mapped, strict=True) if m
        }
        found = batch(func.results, places, (cases,))
        checks = (batch((c.holds,), places, (cases,))[0] for c in func.checks)
        made = func.with_(
            name=f"{func.name}.vmap",
            inputs=tuple(inputs),
            results=tuple(found),
            checks=tuple(replace(c, holds=of_all_cases(h)) for c, h in zip(func.checks, checks, strict=True)),
            size_names=distinct((*func.size_names, "cases")),
            counts=(), names={}, spans={},
        )  # fmt: skip
        known = tuple(new is not old for new, old in zip(found, func.results, strict=True))
        return Program(run(SIMPLIFY, made), self.backend, tuple(range(len(inputs))), known)

    def _made_of(
        self,
        what: str,
        found: Sequence[Array | None],
        names: Sequence[str],
        own: Sequence[Input],
        own_names: Sequence[str],
        of: Origin = None,
    ) -> Program:
        """A program of this one's inputs and its `own`, whose results are those `found` that are not None."""
        func = self.func
        labels = distinct((*func.input_names, *own_names))
        results = [(r, f"d{n}") for r, n in zip(found, names, strict=True) if r is not None]
        made = func.with_(
            name=f"{func.name}.{what}",
            inputs=(*func.inputs, *own),
            input_names=labels,
            results=tuple(r for r, _ in results),
            result_names=distinct([n for _, n in results], labels),
            counts=(),
        )
        pruned, reads = _pruned(run(SIMPLIFY, made))
        return Program(pruned, self.backend, reads, tuple(r is not None for r in found), of)


class _Renumber(Rewriter):
    """Inputs in new positions."""

    def __init__(self, inputs: Sequence[Input]) -> None:
        super().__init__()
        for k, old in enumerate(inputs):
            self.arrays[old] = Input(k, old.dtype, self._change(old.shape))

    def inner(self, loop: Loop | Ruled) -> None:
        """The bodies of loops are closed."""


def _pruned(func: Func) -> tuple[Func, tuple[int, ...]]:
    """A program of the inputs that it reads, and their numbers among those that it had."""
    reached = set(arrays_of(func.roots))
    reads = tuple(k for k, i in enumerate(func.inputs) if i in reached)
    if len(reads) == len(func.inputs):
        return func, reads
    kept = [func.inputs[k] for k in reads]
    bind = _Renumber(kept)
    roots = bind.run(func.roots)
    held = iter(roots[len(func.results) :])
    return func.with_(
        inputs=tuple(bind.arrays[i] for i in kept),
        input_names=tuple(func.input_names[k] for k in reads),
        results=roots[: len(func.results)],
        checks=tuple(replace(c, holds=next(held)) for c in func.checks),
        names={},
        spans={},
    ), reads
