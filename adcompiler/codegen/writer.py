"""Writes the elements of a program as statements of one function, each in the outermost loop it can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import math

from adcompiler.codegen.schedule import Loop
from adcompiler.ir.nodes import Apply, Array, Const, Element, Index, Read, Select, Size
from adcompiler.ir.types import DTYPES, Dtype
from adcompiler.ir.walk import elements_of, postorder
from adcompiler.ops.table import TABLE

INLINE_WIDTH = 60  # a value used once stands in its user's line while the line is no longer than this
TYPES: Mapping[Dtype, str] = {"bool": "bool", "i64": "np.int64", "f32": "np.float32", "f64": "np.float64"}


class Writer:
    """One function's text: a stack of open scopes (the function, then its open loops), each with its
    lines and the values that have a name in it. `used` collects the names that must be parameters."""

    def __init__(self, labels: Mapping[Array, str], sizes: tuple[str, ...], roots: Iterable[Element]) -> None:
        self.labels, self.sizes = labels, sizes
        self.scopes: list[list[str]] = [[]]
        self.values: list[dict[Element, str]] = [{}]
        self.loops: list[Loop] = []
        self.used: dict[str, None] = {}
        self.count = 0
        self.uses: Counter[Element] = Counter()
        roots = tuple(roots)
        self.uses.update(roots)
        for element in elements_of(roots):
            self.uses.update(element.args)

    # -- scopes --------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add a line to the innermost scope."""
        self.scopes[-1].append(text)

    def open(self, loop: Loop, header: str) -> None:
        """Enter a loop."""
        self.loops.append(loop)
        self.scopes.append([header])
        self.values.append({})

    def close(self) -> None:
        """Leave the innermost loop: its text is added to the scope around it."""
        self.loops.pop()
        self.values.pop()
        header, *lines = self.scopes.pop()
        self.scopes[-1].append(header)
        self.scopes[-1].extend("    " + line for line in lines or ["pass"])

    def label(self, array: Array) -> str:
        """The name of an array, as a parameter of this function."""
        return self.use(self.labels[array])

    def use(self, name: str) -> str:
        """Note that this function needs `name` from outside."""
        self.used[name] = None
        return name

    def assign(self, text: str, level: int = -1) -> str:
        """A new variable that holds the value of `text`, in the innermost scope or the one given."""
        self.count += 1
        name = f"v{self.count - 1}"
        self.scopes[level].append(f"{name} = {text}")
        return name

    def define(self, element: Element, name: str) -> None:
        """`element` is the variable `name` from here to the end of the innermost scope."""
        self.values[-1][element] = name

    def level(self, element: Element) -> int:
        """The scope in which an element is computed: the innermost loop that it depends on."""
        levels = [p + 1 for p, loop in enumerate(self.loops) if loop.number in element.axes]
        return max(levels, default=0)

    # -- elements ------------------------------------------------------------------------------

    def known(self, element: Element) -> str | None:
        """The variable that holds `element`, if one does."""
        return next((scope[element] for scope in reversed(self.values) if element in scope), None)

    def text(self, root: Element) -> str:
        """An expression for `root`; what it needs is written above it."""
        found: dict[Element, str] = {}
        for element in self.unknown(root):
            text = self.leaf(element) or self.operation(element, found)
            root_alone = element is root and self.uses[element] <= 1
            if not (root_alone or (element is not root and self.stands_alone(element, text)) or self.leaf(element)):
                level = self.level(element)
                text = self.values[level][element] = self.assign(text, level)
            found[element] = text
        return found.get(root) or self.known(root) or self.leaf(root)

    def unknown(self, root: Element) -> list[Element]:
        """What must be written for `root`, arguments first; arguments of known values are not entered."""
        order = postorder((root,), lambda e: () if self.known(e) else e.args)
        self.users: dict[Element, Element] = {a: e for e in order for a in e.args}
        return [e for e in order if not self.known(e)]

    def stands_alone(self, element: Element, text: str) -> bool:
        """Whether an element's text may stand inside its one user's expression."""
        if self.leaf(element):
            return True
        user = self.users[element]
        return (
            self.uses[element] == 1
            and len(text) <= INLINE_WIDTH
            and not isinstance(user, Select)
            and not (isinstance(user, Apply) and user.op not in DTYPES and self.repeats(user))
            and self.level(user) == self.level(element)
        )

    def repeats(self, user: Apply) -> bool:
        """Whether a primitive's kernel text names a parameter more than once."""
        entry = TABLE[user.op]
        return any(entry.kernel.count("{" + p + "}") > 1 for p in entry.params)

    def leaf(self, element: Element) -> str:
        """The text of an element that needs no computation, or an empty text."""
        match element:
            case Const():
                return constant(element)
            case Index(axis=number):
                return f"np.int64(i{number})"
            case Size(number=number):
                return self.use(self.sizes[number])
            case Read(array=array, args=()):
                return self.label(array)
        return ""

    def operation(self, element: Element, found: Mapping[Element, str]) -> str:
        """The text of an operation on arguments that have a text."""
        args = [found.get(a) or self.known(a) or self.leaf(a) for a in element.args]
        match element:
            case Read():
                return f"{self.label(element.array)}[{', '.join(self.indices(element, args))}]"
            case Select():
                return f"{wrap(args[1])} if {wrap(args[0])} else {wrap(args[2])}"
            case Apply(op=op) if op in DTYPES:
                return f"{wrap(args[0])} != 0" if op == "bool" else f"{TYPES[element.dtype]}({args[0]})"
            case Apply(op=op):
                entry = TABLE[op]
                return entry.kernel.format(**dict(zip(entry.params, map(wrap, args), strict=True)))
        raise AssertionError(f"no text for {type(element).__name__}")

    def indices(self, read: Read, args: list[str]) -> list[str]:
        """Unsigned indices (signed ones cost a wraparound and the vectoriser); computed ones are clamped."""
        texts = []
        for index, text, size in zip(read.args, args, read.array.shape, strict=True):
            match index:
                case Index(axis=number):
                    texts.append(f"i{number}")
                case Const(value=value):
                    texts.append(str(value))
                case _:
                    texts.append(f"uint64(max(min({text}, {self.size(size)} - 1), 0))")
        return texts

    def size(self, size: Element) -> str:
        """The text of a size."""
        return wrap(self.text(size))


def constant(element: Const) -> str:
    """A constant of its own type; float literals are float64 in numba."""
    value = element.value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = "math.nan" if value != value else "math.inf" if value > 0 else "(-math.inf)"
    else:
        text = repr(value) if value >= 0 and not str(value).startswith("-") else f"({value!r})"
    return f"np.float32({text})" if element.dtype == "f32" else text


def wrap(text: str) -> str:
    """`text` in parentheses unless it is one name, number or call."""
    simple = text.isidentifier() or text.replace(".", "").isalnum()
    return text if simple or (text.startswith("(") and text.endswith(")") and text.count("(") == 1) else f"({text})"
