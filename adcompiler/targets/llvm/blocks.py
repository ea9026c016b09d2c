"""Basic blocks of one function: conditions, loops, polls, and calls in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from adcompiler.targets.llvm.expressions import Expressions
from adcompiler.targets.llvm.values import Needs, Value, literal

POLL = "adc_poll"  # the function that kernels poll (`polls.py`)
CONTEXT = "[5 x i64]"  # the words of a call
STOP, STATE = 1, 2  # the words that request the end of the call, and hold the saved thread state
POLL_ELEMENTS = 1 << 16  # elements between two polls of a program loop: 20 µs to a few milliseconds
STRIP_ELEMENTS = 1 << 19  # elements of a strip of a nest's loop, which runs without a poll
STRIP_ITERATIONS = 16  # iterations of a strip: lanes of vectors
SUM_STRIP_ITERATIONS = 64  # if each lane has separate sums, which each strip clears and combines
OWN = "memory(argmem: readwrite, inaccessiblemem: readwrite)"  # a poll touches no array
ASK = f"""define internal i1 @ask(ptr %context) noinline cold {{
start:
  %poll = load ptr, ptr %context
  %none = icmp eq ptr %poll, null
  br i1 %none, label %alone, label %python
alone:
  ret i1 false
python:
  %ends = call i1 %poll(ptr %context) {OWN}
  ret i1 %ends
}}"""


class Blocks(Expressions):
    """Instructions in basic blocks. `stack` has the function's allocas, and `held` those that point to memory
    to be freed if the function gives up."""

    def __init__(self, needs: Needs) -> None:
        super().__init__(needs)
        self.stack: list[str] = []
        self.block = "start"
        self.held: list[str] = []
        self.counts = self.asks = self.gives_up = False

    def definition(self, head: str, end: str, otherwise: str = "") -> str:
        """The function's text; it ends with `otherwise` if it gives up."""
        self.lines.append(end)
        if self.gives_up:
            self.begin("given_up")
            for name in self.held:
                self.call("PyMem_RawFree", "void", [self.emit(f"load ptr, ptr %{name}", "ptr")])
            self.lines.append(otherwise or end)
        self.stack += [f"%{name} = alloca ptr\nstore ptr null, ptr %{name}" for name in self.held]
        self.stack += [f"%fuel = alloca i64\nstore i64 {POLL_ELEMENTS}, ptr %fuel"] * self.counts
        head = f"define {head}{self.needs.attributes} {{"
        return "\n".join([head, "start:", *self.stack, *self.lines, "}"])

    def label(self) -> str:
        """A new name for a basic block."""
        return f"block{len(self.lines)}"

    def begin(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def product(self, x: Value, y: Value) -> Value:
        """The product of two amounts, saturated on overflow."""
        pair = "{ i64, i1 }"
        found = self.call("llvm.umul.with.overflow.i64", pair, [x, y]).text
        much = self.emit(f"extractvalue {pair} {found}, 1", "i1")
        return self.select(much, literal(-1), self.emit(f"extractvalue {pair} {found}, 0", "i64"))

    @contextmanager
    def when(self, guard: Value) -> Iterator[None]:
        """Run the body only if `guard` holds."""
        inside, after = f"{self.label()}_then", f"{self.label()}_after"
        self.lines.append(f"br {guard}, label %{inside}, label %{after}")
        self.begin(inside)
        yield
        self.lines.append(f"br label %{after}")
        self.begin(after)

    @contextmanager
    def iterations(self, first: Value, stop: Value, hint: str = "", step: int | str = 1) -> Iterator[Value]:
        """A loop from `first` to before `stop`, and its iteration; unsigned if the bounds are. `hint` is
        metadata for LLVM."""
        less, iteration = "ult" if first.unsigned else "slt", f"%iteration{len(self.lines)}"
        with self.when(self.emit(f"icmp {less} {first}, {stop.text}", "i1")):

            def following() -> tuple[str, Value]:
                how = "nuw" if first.unsigned else "nsw"
                new = self.emit(f"add {how} i64 {iteration}, {step}", "i64").text
                return new, self.emit(f"icmp {less} i64 {new}, {stop.text}", "i1")

            with self.repeated(iteration, first, following, hint):
                yield Value(iteration, "i64", first.unsigned)

    @contextmanager
    def one_of(self, chosen: Value) -> Iterator[Value]:
        """Iterate over the numbers of the selected lanes."""
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
        """Repeat the body for each value of a variable: `following` writes the next value, and whether there
        is one."""
        before, inside = self.block, self.label()
        self.lines.append(f"br label %{inside}")
        self.begin(inside)
        at = len(self.lines)
        self.lines.append("")  # the variable's phi, completed below
        yield
        new, more = following()
        after = self.label()
        self.lines[at] = f"{variable} = phi i64 [ {first.text}, %{before} ], [ {new}, %{self.block} ]"
        self.lines.append(f"br {more}, label %{inside}, label %{after}{hint}")
        self.begin(after)

    # -- polls ---------------------------------------------------------------------------------

    def spend(self, amount: Value | int) -> None:
        """Count work until the next poll."""
        self.counts = True
        left = self.emit("load i64, ptr %fuel", "i64")
        less = self.emit(f"sub {left}, {amount.text if isinstance(amount, Value) else amount}", "i64")
        self.lines.append(f"store {less}, ptr %fuel")

    def poll(self) -> None:
        """After enough work since the last poll, ask whether the call must end, and give up if so."""
        self.counts = self.asks = True
        left = self.emit("load i64, ptr %fuel", "i64")
        with self.when(self.emit(f"icmp slt {left}, 0", "i1")):
            self.lines.append(f"store i64 {POLL_ELEMENTS}, ptr %fuel")
            self.give_up(self.emit(f"call i1 @ask(ptr %context) {OWN}", "i1"))

    def poll_after(self, amount: Value | int) -> None:
        self.spend(amount)
        self.poll()

    def unless_stopped(self) -> None:
        """Give up if the call must end, because a callee has given up."""
        word = self.emit(f"load atomic i64, ptr {self.slot('%context', STOP)} monotonic, align 8", "i64")
        self.give_up(self.emit(f"icmp ne {word}, 0", "i1"))

    def give_up(self, guard: Value) -> None:
        """Free the function's memory and return, if `guard` holds."""
        self.gives_up = True
        with self.when(guard):
            self.lines.append("br label %given_up")
            self.begin(f"{self.label()}_never")

    @contextmanager
    def strips(
        self, first: Value, stop: Value, weight: Value, fewest: int = STRIP_ITERATIONS
    ) -> Iterator[tuple[Value, Value]]:
        """A loop in strips, with a poll after each; yields the start and end of a strip. `weight` is the
        number of elements per iteration. Strips depend on nothing else, so the order of sums is fixed. They
        have at least `fewest` iterations: 1, or whole vectors."""
        known = all(n.text.isdigit() for n in (weight, first, stop))
        if known and int(weight.text) * (int(stop.text) - int(first.text)) <= STRIP_ELEMENTS:
            yield first, stop
            return
        often = self.emit(f"udiv i64 {STRIP_ELEMENTS}, {weight.text}", "i64")
        step = self.call("llvm.umax.i64", "i64", [often, literal(fewest)])
        step = self.emit(f"and {step}, {-min(fewest, STRIP_ITERATIONS)}", "i64")
        with self.tile(first, stop, step) as (begin, end):
            yield begin, end
            self.poll_after(POLL_ELEMENTS)

    @contextmanager
    def tile(self, first: Value, stop: Value, step: Value) -> Iterator[tuple[Value, Value]]:
        """A loop over parts of `step` iterations, the last one shorter; yields the start and end of a
        part."""
        least = "llvm.umin.i64" if first.unsigned else "llvm.smin.i64"
        with self.iterations(first, stop, step=step.text) as begin:
            left = self.emit(f"sub {stop}, {begin.text}", "i64")
            count = self.call(least, "i64", [left, step])
            yield begin, self.emit(f"add {begin}, {count.text}", "i64")._replace(unsigned=first.unsigned)

    # -- threads -------------------------------------------------------------------------------

    def load(self, base: str, k: int, kind: str) -> Value:
        """The value in slot number `k` at an address."""
        return self.emit(f"load {kind}, ptr {self.slot(base, k)}", kind)

    def slot(self, base: str, k: int) -> str:
        return self.emit(f"getelementptr i64, ptr {base}, i64 {k}", "ptr").text

    def launch(self, name: str, parts: Sequence[Value], iterations: Value) -> None:
        """Call the function of a loop over blocks: directly, or as a parallel region of the pool (`pool.py`)
        if there are several blocks. Its variables are passed in slots."""
        slots = f"%slots_{name}"
        given = [*parts, Value("%context", "ptr")]
        self.stack.append(f"{slots} = alloca [{len(given)} x i64]")
        for k, value in enumerate(given):
            self.lines.append(f"store {value}, ptr {self.slot(slots, k)}")
        here, there, after = (f"{name}_{where}" for where in ("here", "there", "after"))
        alone = self.emit("icmp eq i64 %launch, 0", "i1")
        one = self.both("or", [alone, self.emit(f"icmp slt {iterations}, 2", "i1")])
        self.lines.append(f"br {one}, label %{here}, label %{there}")
        self.begin(here)
        self.lines += [f"call i1 @{name}(i64 0, {iterations}, ptr {slots})", f"br label %{after}"]
        self.begin(there)
        launch = self.emit("inttoptr i64 %launch to ptr", "ptr").text
        self.lines += [
            f"call void {launch}(ptr @{name}, ptr {slots}, {iterations}, i64 %threads, ptr %context)",
            f"br label %{after}",
        ]
        self.begin(after)
        self.unless_stopped()
