"""Blocks of one function: conditions, loops, and calls in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from adcompiler.codegen.llvm.expressions import Expressions
from adcompiler.codegen.llvm.values import Needs, Value, literal


class Blocks(Expressions):
    """Instructions in blocks; `stack` has the function's places in memory."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.stack: list[str] = []
        self.block = "start"

    def definition(self, head: str, end: str) -> str:
        """The function's text."""
        return "\n".join(
            [f"define {head}{self.needs.attributes} {{", "start:", *self.stack, *self.lines, end, "}"]
        )

    def label(self) -> str:
        """A new name for a block."""
        return f"block{len(self.lines)}"

    def begin(self, label: str) -> None:
        """Instructions from here on stand in this block."""
        self.lines.append(f"{label}:")
        self.block = label

    def product(self, x: Value, y: Value) -> Value:
        """The product of two amounts; the largest one where that is too large."""
        pair = "{ i64, i1 }"
        found = self.call("llvm.umul.with.overflow.i64", pair, [x, y]).text
        much = self.emit(f"extractvalue {pair} {found}, 1", "i1")
        return self.select(much, literal(-1), self.emit(f"extractvalue {pair} {found}, 0", "i64"))

    @contextmanager
    def when(self, guard: Value) -> Iterator[None]:
        """What is done only where `guard` holds."""
        inside, after = f"{self.label()}_then", f"{self.label()}_after"
        self.lines.append(f"br {guard}, label %{inside}, label %{after}")
        self.begin(inside)
        yield
        self.lines.append(f"br label %{after}")
        self.begin(after)

    @contextmanager
    def turns(self, first: Value, stop: Value, hint: str = "", step: int = 1) -> Iterator[Value]:
        """A loop from `first` to before `stop`, and its turn; unsigned if the bounds are. LLVM has `hint`."""
        less, turn = "ult" if first.unsigned else "slt", f"%turn{len(self.lines)}"
        with self.when(self.emit(f"icmp {less} {first}, {stop.text}", "i1")):

            def following() -> tuple[str, Value]:
                how = "nuw" if first.unsigned else "nsw"
                new = self.emit(f"add {how} i64 {turn}, {step}", "i64").text
                return new, self.emit(f"icmp {less} i64 {new}, {stop.text}", "i1")

            with self.repeated(turn, first, following, hint):
                yield Value(turn, "i64", first.unsigned)

    @contextmanager
    def one_of(self, chosen: Value) -> Iterator[Value]:
        """The numbers of the lanes that are chosen, one after the other."""
        bits = self.emit(f"bitcast {chosen} to i{chosen.lanes}", f"i{chosen.lanes}")
        first = self.emit(f"zext {bits} to i64", "i64")
        with self.when(self.emit(f"icmp ne {first}, 0", "i1")):
            left = f"%left{len(self.lines)}"

            def following() -> tuple[str, Value]:
                less = self.emit(f"add i64 {left}, -1", "i64").text
                new = self.emit(f"and i64 {left}, {less}", "i64").text
                return new, self.emit(f"icmp ne i64 {new}, 0", "i1")

            with self.repeated(left, first, following):
                yield self.call("llvm.cttz.i64", "i64", [Value(left, "i64"), Value("true", "i1")])

    @contextmanager
    def repeated(
        self, variable: str, first: Value, following: Callable[[], tuple[str, Value]], hint: str = ""
    ) -> Iterator[None]:
        """What is written inside once for each value of a variable: `following` writes the next one, and
        whether there is one."""
        before, inside = self.block, self.label()
        self.lines.append(f"br label %{inside}")
        self.begin(inside)
        at = len(self.lines)
        self.lines.append("")  # the variable: what it becomes is not known yet
        yield
        new, more = following()
        after = self.label()
        self.lines[at] = f"{variable} = phi i64 [ {first.text}, %{before} ], [ {new}, %{self.block} ]"
        self.lines.append(f"br {more}, label %{inside}, label %{after}{hint}")
        self.begin(after)

    # -- threads -------------------------------------------------------------------------------

    def load(self, base: str, k: int, kind: str) -> Value:
        """The value in the slot number `k` at an address."""
        return self.emit(f"load {kind}, ptr {self.slot(base, k)}", kind)

    def slot(self, base: str, k: int) -> str:
        return self.emit(f"getelementptr i64, ptr {base}, i64 {k}", "ptr").text

    def launch(self, name: str, parts: Sequence[Value], turns: Value) -> None:
        """Call the function of a loop over blocks: here, or as a parallel region of the pool (`pool.py`) if
        there are several. It finds its variables in slots."""
        slots = f"%slots_{name}"
        self.stack.append(f"{slots} = alloca [{max(len(parts), 1)} x i64]")
        for k, value in enumerate(parts):
            self.lines.append(f"store {value}, ptr {self.slot(slots, k)}")
        here, there, after = (f"{name}_{where}" for where in ("here", "there", "after"))
        alone = self.emit("icmp eq i64 %launch, 0", "i1")
        one = self.both("or", [alone, self.emit(f"icmp slt {turns}, 2", "i1")])
        self.lines.append(f"br {one}, label %{here}, label %{there}")
        self.begin(here)
        self.lines += [f"call void @{name}(i64 0, {turns}, ptr {slots})", f"br label %{after}"]
        self.begin(there)
        launch = self.emit("inttoptr i64 %launch to ptr", "ptr").text
        self.lines += [
            f"call void {launch}(ptr @{name}, ptr {slots}, {turns}, i64 %threads)",
            f"br label %{after}",
        ]
        self.begin(after)
