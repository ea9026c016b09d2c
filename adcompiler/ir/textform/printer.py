"""The text form of a program, for people and for golden tests.

    func @pair.energy(%x: f64[n, 3], %idx: i64[m], %w: f64[m]) -> (%s: f64[n], %g: f64[n]) {
      %s = reduce sum (i < n | j < n, k < 3) {
        d = %x[i, k] - %x[j, k]
        d * d
      }
      %g = accumulate [n] (i < m) { [%idx[i]] += %w[i] * 2.0 }
    }

- `%x` is an array, `n` a size, `i` an axis, `d` an element on a separate line: it is used more
  than once, or its text would nest too deep. So the text is as long as the program is large.
- Operators are Python's, with Python's precedence. A sign that touches a number belongs to the
  constant: `-2.0` is one, `-(2.0)` negates one. f64 `2.0`, f32 `2.0f`, i64 `2`, bool `true`.
- An application has the type of its first operand, except for comparisons, logic and conversions
  (`notation.apply_dtype`); where that is not so its type follows its name: `exp.f64(2)`.
- Sizes are numbered in the order in which the inputs' types first name them; where that is not
  their number, all are listed first: `func @f<n, m>(...)`.
- `%r = %x with (i < m) { [%idx[i]] = %w[i] if %w[i] > 0.0 }` is %x with some elements set; `+=` adds to
  them.
- A loop gives what it carries in the end, then what it collects (and the number of iterations): in
  `%p, %ys = loop (%t < n) (%c = %p0, %x = row %xs, %w = all %ws) { ... next %1 out %2 }` the body is a
  program of its own, where %c is carried from iteration to iteration and %x is the row of the iteration's
  number.
- `%x = call solve(%a, %f, %b): f64[n, 1]` is a routine of the library on whole arrays.
- A size that is the value of an input is `<n, m = %steps>`; what only the values of a call can tell is
  `check %ok "what is wrong" "how to fix it"`, where %ok is 0 if it is wrong; `check shape %ok ...` where it
  is a length that is.
- A result with another name than its array is `name = %array: type`; in the types of results
  `?` is a length that the program itself computes.
- A name that is not an identifier, or is a word of this language, stands in quotes: `%"a b"`.

`show` prints it and `adcompiler.ir.textform.reader` reads it back as the very same nodes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from adcompiler.errors import ShapeError
from adcompiler.ir.limits import MOST_COLUMNS, MOST_LENGTH_LETTERS, TALLEST_EXPRESSION
from adcompiler.ir.loop import Item, Loop
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Check,
    Const,
    Contraction,
    Element,
    Func,
    Index,
    Input,
    Map,
    Put,
    Read,
    Reduce,
    Select,
    Shape,
    Size,
    is_const,
)
from adcompiler.ir.ruled import Ruled
from adcompiler.ir.textform.notation import (
    ARRAY_NAME,
    ATOM,
    BINARY,
    FUNC_NAME,
    IDENTIFIER,
    NUMBER,
    PREFIX,
    SIGN,
    apply_dtype,
    constant_text,
    word,
)
from adcompiler.ir.walk import arrays_read, elements_of, inputs_of_rule, is_computed, postorder

Text = tuple[str, int]  # what is printed, and how tightly it binds


def show(func: Func) -> str:
    """The text of `func`, also of one that breaks the invariants of the representation."""
    return Printer(func).text()


def lengths(func: Func, shape: Shape) -> list[str]:
    """The lengths of a shape as they are printed."""
    return Printer(func).lengths(shape)


def short_lengths(func: Func, shape: Shape, name: str | None = None) -> list[str]:
    """The lengths of a shape for a message: of one that is long to write `?`, or of the array of this name
    `len(name)`, `len(name[0])`."""
    unknown = ("?" if name is None else f"len({name}{'[0]' * k})" for k in range(len(shape)))
    return [
        n if len(n) <= MOST_LENGTH_LETTERS else u for n, u in zip(lengths(func, shape), unknown, strict=True)
    ]


def show_name(func: Func, array: Array) -> str:
    """The name of `array` in the text of `func`."""
    return Printer(func).arrays[array]


def elements_in(array: Array) -> tuple[Element, ...]:
    """All elements that `array` holds: its lengths and those that stand in its domain."""
    return (*array.shape, *array.domain, *array.elements)


def _unique(name: str, taken: set[str], pattern: str = IDENTIFIER) -> str:
    """`name`, or else `name_1`, `name_2`, ..., as it is printed; it is taken from now on."""
    free, k = word(name, pattern), 0
    while free in taken:
        k += 1
        free = word(f"{name}_{k}", pattern)
    taken.add(free)
    return free


def _numbered(prefix: str, taken: set[str]) -> Iterator[str]:
    """The free ones among `prefix0`, `prefix1`, ..."""
    k = 0
    while True:
        if f"{prefix}{k}" not in taken:
            yield f"{prefix}{k}"
        k += 1


def _within(text: Text, level: int) -> str:
    return text[0] if text[1] >= level else f"({text[0]})"


def _call(name: str, args: list[Text]) -> Text:
    return f"{name}({', '.join(text for text, _ in args)})", ATOM


def _apply(element: Apply, args: list[Text]) -> Text:
    """An application: an operator where there is one, else a call."""
    if element.dtype != apply_dtype(element.op, element.args):
        return _call(f"{element.op}.{element.dtype}", args)
    if element.op in BINARY and len(args) == 2:
        op = BINARY[element.op]
        return f"{_within(args[0], op.left)} {op.symbol} {_within(args[1], op.right)}", op.level
    if element.op in PREFIX and len(args) == 1:
        op = PREFIX[element.op]
        touches = op.symbol == "-" and re.match(NUMBER, args[0][0])  # would become the number's sign
        return f"{op.symbol}{_within(args[0], ATOM + 1 if touches else op.right)}", op.level
    return _call(element.op, args)


def _is_leaf(element: Element) -> bool:
    """Whether an element is too plain for a separate line: also a read at plain indices."""
    plain_args = all(not a.args and not isinstance(a, Read) for a in element.args)
    return plain_args if isinstance(element, Read) else not element.args


def _printed_elements(array: Array) -> tuple[Element, ...]:
    """The elements of an array as they are printed: the factors of a contraction as a product."""
    if isinstance(array, Contraction):
        return (Apply("multiply", array.elements, array.dtype),)
    return array.elements


def _last_line(array: Array, texts: Sequence[str]) -> str:
    """The last line of a body: what is stored, added or computed at each point."""
    *indices, body = texts
    if isinstance(array, Put):
        *indices, guard = indices
        condition = "" if is_const(array.guard, True) else f" if {guard}"
        return f"[{', '.join(indices)}] {'+=' if array.op == 'add' else '='} {body}{condition}"
    return f"[{', '.join(indices)}] += {body}" if isinstance(array, Accumulate) else body


def _own_lines(roots: tuple[Element, ...]) -> list[Element]:
    """The elements below `roots` that are used twice or nest too deep, arguments first."""
    order = elements_of(roots)
    uses = Counter(a for e in order for a in e.args) + Counter(roots)
    height: dict[Element, int] = {}
    for e in order:
        tall = 0 if _is_leaf(e) else 1 + max((height[a] for a in e.args), default=0)
        own = tall and (uses[e] > 1 or (tall >= TALLEST_EXPRESSION and e not in roots))
        height[e] = 0 if own else tall
    return [e for e in order if not height[e] and not _is_leaf(e)]


def _with_items(order: Sequence[Array]) -> list[Array]:
    """Arrays with all that their loops give, where the first of it stands."""
    found: dict[Array, None] = {}
    for array in order:
        found |= dict.fromkeys(array.loop.items if isinstance(array, Item) else (array,))
    return list(found)


class Printer:
    """The names of one program, and its text."""

    def __init__(self, func: Func) -> None:
        self.func = func
        self.order = _with_items(postorder((*func.inputs, *func.roots), arrays_read))
        self.sizes = self._size_names()
        self.arrays = self._array_names()

    def inner(self, func: Func) -> Printer:
        """The printer of the body of a loop or a rule."""
        return Printer(func)

    def width(self, text: str) -> int:
        """The number of columns of a text."""
        return len(text)

    def _size_names(self) -> list[str]:
        """The name of each size, by number."""
        taken: set[str] = set()
        names = [_unique(name, taken) for name in self.func.size_names]
        roots = [e for array in self.order for e in elements_in(array)]
        used = max((e.number for e in elements_of(roots) if isinstance(e, Size)), default=-1)
        for k in range(len(names), used + 1):
            names.append(_unique("nmkpq"[k] if k < 5 else f"n{k}", taken))
        return names

    def _array_names(self) -> dict[Array, str]:
        """The name of each array: that of an input, of a result, of a variable, or a number."""
        variables = [(array, self.func.names[array]) for array in self.order if array in self.func.names]
        taken: set[str] = set()
        names: dict[Array, str] = {}
        for array, name in (
            *zip(self.func.inputs, self.func.input_names, strict=False),
            *zip(self.func.results, self.func.result_names, strict=False),
            *variables,
        ):
            if array not in names:
                names[array] = "%" + _unique(name, taken, ARRAY_NAME)
        numbers = _numbered("", taken)
        return names | {array: f"%{next(numbers)}" for array in self.order if array not in names}

    def _axes(self, count: int) -> list[str]:
        """The names of axes by position; those of sizes are taken."""
        taken = set(self.sizes)
        letters = ["ijkl"[k] if k < 4 and "ijkl"[k] not in taken else f"i{k}" for k in range(count)]
        return [_unique(name, taken) for name in letters]

    def text(self) -> str:
        """The header, then a statement for each array, producers first."""
        inputs = ", ".join(f"{self.arrays[array]}: {self._type(array)}" for array in self.func.inputs)
        name = word(self.func.name, FUNC_NAME)
        head = f"func @{name}{self._size_list()}({inputs}) -> ({', '.join(self._results())}) {{"
        body = self.statements()
        return "\n".join((head, *body, *map(self.check, self.func.checks), "}"))

    def check(self, check: Check) -> str:
        """A required condition, and the message if it fails."""
        kind = "shape " if check.error is ShapeError else ""
        words = f"{json.dumps(check.cause)} {json.dumps(check.remedy)}"
        return f"  check {kind}{self.arrays[check.holds]} {words}"

    def statements(self) -> list[str]:
        """A statement for each array that is not an input, producers first; a loop is one statement."""
        given = set(self.func.inputs)
        own = [a for a in self.order if a not in given and not (isinstance(a, Item) and a.k)]
        return [f"  {self._loop(a.loop) if isinstance(a, Item) else self._statement(a)}" for a in own]

    def _loop(self, loop: Loop) -> str:
        """`%a, %b = loop backward (%t < n) (%p = %p0, %x = row %xs, %w = all %w) { body }`"""
        inner = self.inner(self._body_of(loop))
        step, *slots = (inner.arrays[s] for s in loop.slots)
        kinds = [""] * len(loop.inits) + ["row "] * len(loop.scanned) + ["all "] * len(loop.consts)
        given = (
            f"{s} = {kind}{self.arrays[a]}" for s, kind, a in zip(slots, kinds, loop.operands, strict=True)
        )
        iterations = step if loop.length is None else f"{step} < {self._lengths((loop.length,))}"
        head = f"{', '.join(self.arrays[i] for i in loop.items)} = loop {'backward ' * loop.backward}"
        lines = [f"{head}({iterations}) ({', '.join(given)}) {{"]
        lines += ["\n".join("  " + line for line in text.split("\n")) for text in inner.statements()]
        for word_, arrays in (("next", loop.results), ("out", loop.outs), ("while", (loop.test,))):
            names = [inner.arrays[a] for a in arrays if a is not None]
            lines += [f"    {word_} {', '.join(names)}"] if names else []
        return "\n".join([*lines, "  }"])

    def _ruled(self, array: Ruled) -> str:
        """`%r = rule %value (%x = %a, %r, %dr) { body }`"""
        labels = [f"x{k}" for k in range(len(array.args))]
        slots: tuple[Input, ...] = inputs_of_rule(array)
        func = Func("rule", slots, (*labels, "r", "dr"), array.roots, (), tuple(self.sizes))
        inner = self.inner(func)
        given = [f"{inner.arrays[s]} = {self.arrays[a]}" for s, a in zip(slots, array.args, strict=False)]
        places = [inner.arrays[s] for s in slots[len(given) :]]
        head = f"{self.arrays[array]} = rule {self.arrays[array.value]} ({', '.join((*given, *places))}) {{"
        lines = ["\n".join("  " + line for line in text.split("\n")) for text in inner.statements()]
        found = f"    cotangents {', '.join(inner.arrays[p] for p in array.pulled)}"
        return "\n".join([head, *lines, found, "  }"])

    def _body_of(self, loop: Loop) -> Func:
        """The body of a loop as a program whose names are its own."""
        slots = loop.slots
        taken: set[str] = set()
        outer = [self.arrays[a][1:] for a in (*loop.items[: len(loop.inits)], *loop.scanned, *loop.consts)]
        plain = [json.loads(name) if name.startswith('"') else name for name in outer]
        names = ["t", *("c" if name.isdigit() else name for name in plain)]
        known = {n: name for n, name in self.func.names.items() if n not in slots}
        labels = tuple(_unique(name, taken, ARRAY_NAME) for name in names)
        return Func("body", slots, labels, loop.roots, (), tuple(self.sizes), known)

    def _size_list(self) -> str:
        """`<n, m = %count>`, unless the inputs' types name the sizes in the order of their numbers."""
        lengths = [size for array in self.func.inputs for size in array.shape]
        seen = dict.fromkeys(e.number for e in elements_of(lengths) if isinstance(e, Size))
        if list(seen) == list(range(len(self.sizes))) and not self.func.counts:
            return ""
        counts = {k: f" = {self.arrays[self.func.inputs[p]]}" for k, p in self.func.counts}
        return f"<{', '.join(name + counts.get(k, '') for k, name in enumerate(self.sizes))}>"

    def _results(self) -> Iterator[str]:
        for array, name in zip(self.func.results, self.func.result_names, strict=False):
            alias = "" if self.arrays[array] == "%" + word(name, ARRAY_NAME) else f"{word(name)} = "
            computed = any(is_computed(n) for n in array.shape)
            dtype = f"{array.dtype}[{', '.join('?' * array.rank)}]" if computed else self._type(array)
            yield f"{alias}{self.arrays[array]}: {dtype}"

    def _type(self, array: Array) -> str:
        return f"{array.dtype}[{self._lengths(array.shape)}]" if array.rank else array.dtype

    def lengths(self, shape: Shape) -> list[str]:
        """The text of each length."""
        texts, _ = self._texts(shape, [], {})
        return [texts[size][0] for size in shape]

    def _lengths(self, shape: Shape) -> str:
        return ", ".join(self.lengths(shape))

    def _domain(self, sizes: Shape, first: int = 0) -> str:
        """`i < n, j < m` for the axes from number `first` on."""
        axes = self._axes(first + len(sizes))[first:]
        return ", ".join(f"{axis} < {self._lengths((n,))}" for axis, n in zip(axes, sizes, strict=True))

    def _statement(self, array: Array) -> str:
        name = self.arrays[array]
        match array:
            case Map():
                head = f"array ({self._domain(array.domain)})"
            case Reduce() | Contraction():
                kept, reduced = self._domain(array.shape), self._domain(array.reduced, array.rank)
                word = f"reduce {array.op}" if isinstance(array, Reduce) else "contract"
                head = f"{word} ({kept}{' | ' if kept else '| '}{reduced})"
            case Accumulate():
                head = f"accumulate [{self._lengths(array.shape)}] ({self._domain(array.domain)})"
            case Put():
                head = f"{self.arrays[array.base]} with ({self._domain(array.domain)})"
            case Ruled():
                return self._ruled(array)
            case Call():
                operands = ", ".join(self.arrays[a] for a in array.operands)
                return f"{name} = call {array.op}({operands}): {self._type(array)}"
            case Input():
                return f"{name} = input {array.position}: {self._type(array)}"
            case _:
                raise AssertionError(f"unknown array {type(array).__name__}")
        return self._body(f"{name} = {head} {{", array)

    def _body(self, head: str, array: Array) -> str:
        """`head { body }`, with a line for each element that needs its own."""
        highest = max((axis for e in array.elements for axis in e.axes), default=-1)
        axes = self._axes(max(highest + 1, len(array.domain)))
        elements = _printed_elements(array)
        names = self._element_names(elements, {*self.sizes, *axes})
        texts, lines = self._texts(elements, axes, names)
        last = _last_line(array, [texts[e][0] for e in elements])
        if not lines and self.width(head) + self.width(last) < MOST_COLUMNS:
            return f"{head} {last} }}"
        return "\n    ".join((head, *lines, last)) + "\n  }"

    def _element_names(self, elements: tuple[Element, ...], taken: set[str]) -> dict[Element, str]:
        """Names for the elements that need a separate line, arguments first."""
        known = self.func.names
        own = _own_lines(elements)
        named = {e: _unique(known[e], taken) for e in own if e in known}
        numbers = _numbered("u", taken)
        return {e: named[e] if e in named else next(numbers) for e in own}

    def _texts(
        self, roots: Iterable[Element], axes: list[str], names: dict[Element, str]
    ) -> tuple[dict[Element, Text], list[str]]:
        """The text of every element below `roots`, and the lines `name = text` of those in `names`."""
        texts: dict[Element, Text] = {}
        lines = []
        for e in elements_of(roots):
            texts[e] = self._element(e, axes, [texts[a] for a in e.args])
            if e in names:
                lines.append(f"{names[e]} = {texts[e][0]}")
                texts[e] = names[e], ATOM
        return texts, lines

    def _element(self, element: Element, axes: list[str], args: list[Text]) -> Text:
        match element:
            case Const():
                text = constant_text(element)
                return text, SIGN if text.startswith("-") else ATOM
            case Index():
                return axes[element.axis] if element.axis < len(axes) else f"axis{element.axis}", ATOM
            case Size():
                return self.sizes[element.number], ATOM
            case Read():
                name = self.arrays[element.array]
                return f"{name}[{', '.join(text for text, _ in args)}]" if args else name, ATOM
            case Select():
                return _call("select", args)
            case Apply():
                return _apply(element, args)
        raise AssertionError(f"unknown element {type(element).__name__}")
