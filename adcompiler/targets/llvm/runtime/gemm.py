"""Tiles of matrix products, in LLVM: our own general matrix multiplication (GEMM).

A call adds the product of at most `TILE` rows and columns (`WIDE` columns of packed factors) and `TERMS`
terms to a result. BLAS reaches its rate only with larger products, and uses its own threads for these. The
scheme is that of BLIS (F. van Zee and R. van de Geijn, ACM TOMS 2015): the right factor is packed into
panels as wide as two vectors, and a micro-kernel keeps the sums of a few rows of one panel in registers,
adding one term after the other.

    for each panel of columns, in steps of two vectors:
        for each strip of rows, the last one as high as what is left:
            sums = 0
            for k: sums[row, column] += left[row, k] * panel[k, column]      for all rows and columns
            result += sums

A transposed left factor is packed into strips. Each element of the result has its terms added in order,
whatever tile it is in, so its bits do not depend on the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from adcompiler.kernels.routines.library import TERMS, TILE, WIDE
from adcompiler.targets.llvm.blas import LETTERS, SIDES, symbol
from adcompiler.targets.llvm.instructions import Instructions
from adcompiler.targets.llvm.runtime.entry import Code
from adcompiler.targets.llvm.values import Needs, Value, literal, suffix, typed

BITS = {"double": 64, "float": 32}
VECTORS = 2  # vectors of a panel: with 6 or 8 rows, sums enough to hide the latency of additions
NARROW = (2, 3, 4)  # rows of strips that are less high, for what is left: code
ZERO = literal(0)
LENGTHS = "i64 %m, i64 %n, i64 %k, i64 %ldc"
PARAMS = "ptr noalias %c, ptr %a, ptr %b, i64 %m, i64 %n, i64 %k, i64 %ldc, i64 %lda, i64 %ldb, i1 %keep"


def gemm(kind: str, bits: int) -> Code:
    """The functions for a type, with vectors of a width in bits."""
    needs = Needs()
    texts = [*_Tiles(needs, kind, bits).functions()]
    names = [symbol(kind, *sides, packed=packed) for sides in SIDES for packed in (False, True)]
    return Code("\n".join([*needs.head, *texts]), frozenset(), names, plain=True)


class _Corner(NamedTuple):
    """Where a strip of a panel begins in the result, and how many rows and columns are left from there on."""

    row: Value
    column: Value
    rows: Value
    columns: Value


class _Tiles:
    """The functions for one type."""

    def __init__(self, needs: Needs, kind: str, bits: int) -> None:
        self.needs, self.kind, self.letter = needs, kind, LETTERS[kind]
        self.lanes = bits // BITS[kind]
        self.rows = 8 if bits == 512 else 6  # of a strip: AVX-512 has twice as many registers
        self.columns = VECTORS * self.lanes
        self.attributes = f'nounwind "prefer-vector-width"="{bits}" "stackrealign"'

    def functions(self) -> Iterator[str]:
        """All of them: packing, the micro-kernel, and one function for each layout of the factors."""
        yield self.along(self.rows)
        if self.columns != self.rows:
            yield self.along(self.columns)
        yield self.across()
        yield self.micro()
        for left, right in SIDES:
            yield self.tile(left, right)
            yield self.packed_tile(left, right)

    def tile(self, left: bool, right: bool) -> str:
        """Pack what needs it, and multiply."""
        code = _Function(self.needs)
        wide = -(-TILE // self.columns) * self.columns
        code.stack.append(f"%right = alloca [{wide * TERMS} x {self.kind}], align 64")
        pack = f"adc_across_{self.letter}" if right else f"adc_along_{self.letter}{self.columns}"
        code.lines.append(f"call void @{pack}(ptr %right, ptr %b, i64 %ldb, i64 %n, i64 %k)")
        given = (
            f"ptr %a, ptr %right, {LENGTHS}, i64 %lda, i64 %lda, i64 1, i64 %k, i64 {self.columns}, i1 %keep"
        )
        if left:
            high = -(-TILE // self.rows) * self.rows
            code.stack.append(f"%left = alloca [{high * TERMS + 8} x {self.kind}], align 64")
            pack = f"adc_along_{self.letter}{self.rows}"
            code.lines.append(f"call void @{pack}(ptr %left, ptr %a, i64 %lda, i64 %m, i64 %k)")
            given = given.replace("ptr %a", "ptr %left").replace(
                "i64 %lda, i64 %lda, i64 1", f"i64 %k, i64 1, i64 {self.rows}"
            )
        code.lines.append(f"call void @adc_micro_{self.letter}(ptr %c, {given})")
        name = symbol(self.kind, left, right)
        return code.function(f"void @{name}({PARAMS}) {self.attributes}")

    def packed_tile(self, left: bool, right: bool) -> str:
        """Multiply factors of a tile that are in the cache: only a transposed right one is packed again."""
        code = _Function(self.needs)
        factor, panels = "ptr %b", "i64 1, i64 %ldb"
        if right:
            wide = -(-WIDE // self.columns) * self.columns
            code.stack.append(f"%right = alloca [{wide * TERMS} x {self.kind}], align 64")
            pack = f"adc_across_{self.letter}"
            code.lines.append(f"call void @{pack}(ptr %right, ptr %b, i64 %ldb, i64 %n, i64 %k)")
            factor, panels = "ptr %right", f"i64 %k, i64 {self.columns}"
        strips = "i64 1, i64 1, i64 %lda" if left else "i64 %lda, i64 %lda, i64 1"
        given = f"ptr %c, ptr %a, {factor}, {LENGTHS}, {strips}, {panels}, i1 %keep"
        code.lines.append(f"call void @adc_micro_{self.letter}({given})")
        name = symbol(self.kind, left, right, packed=True)
        return code.function(f"void @{name}({PARAMS}) {self.attributes}")

    def along(self, width: int) -> str:
        """Pack panels of rows that are contiguous in memory: to[p, k, j] = from[k, p width + j]."""
        code = _Function(self.needs)
        whole = 1 << (width - 1).bit_length()  # elements of a vector; the next row overwrites those beyond
        with code.loop("%n", width) as p:
            panel = code.place(self.kind, "%to", code.times(p, "%k"))
            some = code.least(code.emit(f"sub i64 %n, {p.text}", "i64"), width)
            inside = code.emit(
                f"icmp sge i64 %n, {code.emit(f'add i64 {p.text}, {whole}', 'i64').text}", "i1"
            )
            with code.loop("%k") as k:
                source = code.place(self.kind, "%from", code.times(k, "%ld"), p)
                target = code.place(self.kind, panel, code.times(k, str(width)))
                with code.cases(inside) as otherwise:
                    vector = code.emit(
                        f"load {typed(self.kind, whole)}, {source}, align 4", typed(self.kind, whole)
                    )
                    code.lines.append(f"store {vector}, {target}, align 4")
                    otherwise()
                    code.lines.append(
                        f"store {code.masked(source, self.kind, whole, some)}, {target}, align 4"
                    )
        params = "ptr noalias %to, ptr %from, i64 %ld, i64 %n, i64 %k"
        return code.function(
            f"internal void @adc_along_{self.letter}{width}({params}) noinline {self.attributes}"
        )

    def across(self) -> str:
        """Pack panels of columns of a transposed factor: to[p, k, j] = from[p width + j, k], in blocks of
        whole vectors where there are as many rows and terms."""
        code, lanes = _Function(self.needs), self.lanes
        vector = typed(self.kind, lanes)
        with code.loop("%n", self.columns) as p:
            panel = code.place(self.kind, "%to", code.times(p, "%k"))
            with code.loop(str(self.columns), lanes) as j:
                row = code.plus(p, j)
                left = code.emit(f"sub i64 %n, {row.text}", "i64")
                full = code.emit(f"icmp sge {left}, {lanes}", "i1")
                even = code.emit(f"and i64 %k, {-lanes}", "i64")
                done = code.emit(f"select {full}, {even}, i64 0", "i64")
                with code.loop(done.text, lanes) as k:
                    read = [
                        code.place(self.kind, "%from", code.times(code.plus(row, r), "%ld"), k)
                        for r in range(lanes)
                    ]
                    found = code.transposed(
                        [code.emit(f"load {vector}, {at}, align 4", vector) for at in read]
                    )
                    for r, one in enumerate(found):
                        at = code.place(self.kind, panel, code.times(code.plus(k, r), str(self.columns)), j)
                        code.lines.append(f"store {one}, {at}, align 4")
                with code.loop("%k", 1, done) as k:
                    place = code.place(self.kind, panel, code.times(k, str(self.columns)), j)
                    for r in range(lanes):
                        at = code.emit(f"getelementptr {self.kind}, {place}, i64 {r}", "ptr")
                        code.lines.append(f"store {literal(0.0, self.kind)}, {at}")
                        inside = code.emit(f"icmp sgt {left}, {r}", "i1")
                        with code.when(inside):
                            source = code.place(self.kind, "%from", code.times(code.plus(row, r), "%ld"), k)
                            code.lines.append(
                                f"store {code.emit(f'load {self.kind}, {source}', self.kind)}, {at}"
                            )
        params = "ptr noalias %to, ptr %from, i64 %ld, i64 %n, i64 %k"
        return code.function(f"internal void @adc_across_{self.letter}({params}) noinline {self.attributes}")

    def micro(self) -> str:
        """Multiply panels by strips of rows: `next` is between strips, `row` between rows, and `step` between
        terms of the left factor, `panel` between panels and `ldb` between terms of the right one."""
        code = _Function(self.needs)
        with code.loop("%n", self.columns) as j:
            panel = code.place(self.kind, "%b", code.times(j, "%panel"))
            left = code.emit(f"sub i64 %n, {j.text}", "i64")
            with code.loop("%m", self.rows) as i:
                corner = _Corner(i, j, code.emit(f"sub i64 %m, {i.text}", "i64"), left)
                strip = code.place(self.kind, "%a", code.times(i, "%next"))
                self.strip(code, corner, strip, panel, [*NARROW, self.rows])
        params = "ptr noalias %c, ptr %a, ptr noalias %b, i64 %m, i64 %n, i64 %k, i64 %ldc"
        params += ", i64 %next, i64 %row, i64 %step, i64 %panel, i64 %ldb, i1 %keep"
        return code.function(f"internal void @adc_micro_{self.letter}({params}) noinline {self.attributes}")

    def strip(
        self, code: _Function, corner: _Corner, strip: Value, panel: Value, heights: Sequence[int]
    ) -> None:
        """Multiply a panel by a strip, of the least of these heights that has its rows."""
        height, *others = heights
        count, most = (corner.rows, height) if others else (corner.columns, self.lanes)
        with code.cases(code.emit(f"icmp sle {count}, {most}", "i1")) as otherwise:
            self.sums(code, corner, strip, panel, height, VECTORS if others else 1)
            otherwise()
            if others:
                self.strip(code, corner, strip, panel, others)
            else:
                self.sums(code, corner, strip, panel, height, VECTORS)

    def sums(
        self, code: _Function, corner: _Corner, strip: Value, panel: Value, height: int, vectors: int
    ) -> None:
        """Multiply some vectors of a panel by a strip. Rows beyond the last one repeat it, and are not
        stored."""
        vector = typed(self.kind, self.lanes)
        last = code.plus(corner.rows, -1)
        rows = [code.least(last, r) if r else ZERO for r in range(height)]
        starts = [code.place(self.kind, strip, code.times(r, "%row")) for r in rows]
        sums = [[code.variable(vector) for _ in range(vectors)] for _ in range(height)]
        for total in (v for row in sums for v in row):
            code.lines.append(f"store {literal(0.0, vector)}, ptr {total}")
        with code.loop("%k") as k:
            at = code.place(self.kind, panel, code.times(k, "%ldb"))
            places = [code.place(self.kind, at, literal(v * self.lanes)) for v in range(vectors)]
            terms = [code.emit(f"load {vector}, {place}, align 4", vector) for place in places]
            step = code.times(k, "%step")
            for start, row in zip(starts, sums, strict=True):
                factor = code.emit(f"load {self.kind}, {code.place(self.kind, start, step)}", self.kind)
                wide = code.spread(factor, self.lanes)
                for term, total in zip(terms, row, strict=True):
                    before = code.emit(f"load {vector}, ptr {total}", vector)
                    after = code.call(f"llvm.fmuladd.{suffix(before)}", vector, [wide, term, before])
                    code.lines.append(f"store {after}, ptr {total}")
        totals = [[code.emit(f"load {vector}, ptr {v}", vector) for v in row] for row in sums]
        for r in range(height):
            with code.when(code.emit(f"icmp sge {last}, {r}", "i1")):
                at = code.place(self.kind, "%c", code.times(code.plus(corner.row, r), "%ldc"), corner.column)
                self.add(code, at, totals[r], corner.columns)

    def add(self, code: _Function, at: Value, row: Sequence[Value], left: Value) -> None:
        """Add to a row of the result, or store it first: the `left` elements of its vectors."""
        vector, zero = row[0].type, literal(0.0, row[0].type)

        def added(old: Value, total: Value) -> Value:
            kept = code.emit(f"select i1 %keep, {old}, {zero}", vector)
            return code.emit(f"fadd {kept}, {total.text}", vector)

        for v, total in enumerate(row):
            here = code.place(self.kind, at, literal(v * self.lanes))
            rest = code.emit(f"sub {left}, {v * self.lanes}", "i64")
            with code.cases(code.emit(f"icmp sge {rest}, {self.lanes}", "i1")) as otherwise:
                old = code.emit(f"load {vector}, {here}, align 4", vector)
                code.lines.append(f"store {added(old, total)}, {here}, align 4")
                otherwise()
                with code.when(code.emit(f"icmp sgt {rest}, 0", "i1")):
                    old = code.masked(here, self.kind, self.lanes, rest)
                    code.store_masked(added(old, total), here, rest)


class _Function(Instructions):
    """One function. Variables are on the stack; LLVM turns them into registers."""

    def variable(self, kind: str) -> str:
        """A new variable."""
        name = f"%v{len(self.stack)}"
        self.stack.append(f"{name} = alloca {kind}")
        return name

    def plus(self, x: Value, y: Value | int) -> Value:  # type: ignore[override]
        """The sum of two integers."""
        return self.shared(f"add {x}, {y if isinstance(y, int) else y.text}", "i64")

    def times(self, x: Value, y: str) -> Value:
        """The product of two integers."""
        return self.shared(f"mul {x}, {y}", "i64")

    def least(self, x: Value, y: int) -> Value:
        """The lesser of two integers."""
        return self.call("llvm.smin.i64", "i64", [x, literal(y)])

    def place(self, kind: str, start: Value | str, *offsets: Value) -> Value:
        """An address, some elements from another one."""
        at = Value(start, "ptr") if isinstance(start, str) else start
        for offset in offsets:
            at = self.emit(f"getelementptr {kind}, {at}, {offset}", "ptr")
        return at

    def loop(self, stop: str, step: int = 1, start: Value = ZERO) -> AbstractContextManager[Value]:
        """The numbers of a range."""
        return self.iterations(start, Value(stop, "i64"), step=step)

    @contextmanager
    def cases(self, test: Value) -> Iterator[Callable[[], None]]:
        """Two cases of a condition: calling what this yields begins the second one."""
        label = self.label()
        self.lines.append(f"br {test}, label %{label}_then, label %{label}_else")
        self.begin(f"{label}_then")

        def otherwise() -> None:
            self.lines.append(f"br label %{label}_after")
            self.begin(f"{label}_else")

        yield otherwise
        self.lines.append(f"br label %{label}_after")
        self.begin(f"{label}_after")

    def mask(self, lanes: int, count: Value) -> Value:
        """The first lanes."""
        kind = typed("i64", lanes)
        numbers = f"<{', '.join(f'i64 {k}' for k in range(lanes))}>"
        return self.emit(f"icmp slt {kind} {numbers}, {self.spread(count, lanes).text}", typed("i1", lanes))

    def masked(self, at: Value, kind: str, lanes: int, count: Value) -> Value:
        """The first elements from an address on, and zeros."""
        vector = typed(kind, lanes)
        args = [at, Value("4", "i32"), self.mask(lanes, count), Value("zeroinitializer", vector)]
        return self.call(f"llvm.masked.load.{suffix(args[-1])}.p0", vector, args)

    def store_masked(self, value: Value, at: Value, count: Value) -> None:
        """Store the first elements."""
        args = [value, at, Value("4", "i32"), self.mask(value.lanes, count)]
        self.call(f"llvm.masked.store.{suffix(value)}.p0", "void", args)

    def transposed(self, rows: Sequence[Value]) -> list[Value]:
        """The columns of a square of vectors: each step exchanges blocks twice as large."""
        found, n, distance = list(rows), len(rows), 1
        while distance < n:
            for i in (k for k in range(n) if not k & distance):
                x, y = found[i], found[i + distance]
                low = [e if not e & distance else n + e - distance for e in range(n)]
                high = [e + distance if not e & distance else n + e for e in range(n)]
                found[i], found[i + distance] = self.shuffled(x, y, low), self.shuffled(x, y, high)
            distance *= 2
        return found

    def shuffled(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        """Some of the lanes of two vectors."""
        chosen = ", ".join(f"i32 {k}" for k in lanes)
        return self.emit(f"shufflevector {x}, {y}, <{len(lanes)} x i32> <{chosen}>", x.type)

    def function(self, head: str) -> str:  # type: ignore[override]
        """The text of the function."""
        return self.definition(head, "ret void")
