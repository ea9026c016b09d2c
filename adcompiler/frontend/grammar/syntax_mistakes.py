"""Messages for unexpected tokens: what is wrong, and what to write instead.

Each function below recognises one kind of mistake: it takes a Context and returns a Fault, or None if the
mistake is of another kind. `explain` tries them in order.
"""

from __future__ import annotations

import difflib
from typing import Any

from lark import Token

from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.fault import Fault
from adcompiler.frontend.grammar.other_languages import OPENERS
from adcompiler.frontend.grammar.scan import RESERVED
from adcompiler.frontend.grammar.tree_builder import span_of
from adcompiler.lazy_dataclass import dataclass

_BEGINS = ("NAME", "NUMBER", "STRING", "LPAR", "LSQB")  # tokens that begin an operand
_ENDS = ("NAME", "NUMBER", "STRING", "RPAR", "RSQB")  # tokens that end one
_STOPS = ("NEWLINE", "$END", "RPAR", "RSQB", "COMMA", "COLON", "SEMICOLON")
_STARTS = ("NEWLINE", "INDENT")
_HEADERS = ("DEF", "IF", "ELIF", "ELSE", "FOR", "WHILE")

_FOREIGN = {  # Python keywords that are only names here
    "async": "remove it",
    "await": "remove it",
    "class": "write functions, and pass their data as arguments",
    "del": "remove it",
    "elseif": "write elif",
    "elsif": "write elif",
    "from": "remove it: builtins need no import, with or without np. or math. in front",
    "global": "make it a parameter, and return it",
    "import": "remove it: builtins need no import, with or without np. or math. in front",
    "lambda": "define a function: def f(x): return ...",
    "nonlocal": "make it a parameter, and return it",
    "print": "write print(x)",
    "try": "remove it: arithmetic raises no exceptions, 1/0 is inf",
    "with": "remove it",
    "yield": "return an array: [... for i in range(n)]",
}
_STATEMENTS = ("def", "return", "while", "for", "break", "continue", "elif", "else")
_TWISTED = {"=<": "<=", "=>": ">=", "===": "==", "!==": "!="}


@dataclass(frozen=True)
class Context:
    """`stack` holds the incomplete input so far: tokens, nodes, tuples of them."""

    token: Token
    expected: set[str]
    stack: list[Any]

    @property
    def last(self) -> Any:
        """The previous token."""
        return self.stack[-1] if self.stack else None

    @property
    def last_text(self) -> str:
        """Its text, if it is one token."""
        last = self.last
        return last.value if isinstance(last, Token) else last.id if isinstance(last, tree.Name) else ""

    @property
    def starts_line(self) -> bool:
        """Whether the preceding token begins its line."""
        before = self.stack[-2] if len(self.stack) > 1 else None
        return (
            before is None or not isinstance(before, Token) or before.type in (*_STARTS, "COLON", "SEMICOLON")
        )

    @property
    def kind(self) -> str:
        """The kind of the token that does not fit."""
        return self.token.type

    @property
    def shown(self) -> str:
        """The token as shown in messages."""
        made = self.kind in ("NEWLINE", "INDENT", "DEDENT", "$END")
        return f"the {self.token.value or 'end'}" if made else f"'{self.token}'"

    @property
    def after_operand(self) -> bool:
        """Whether the token stands behind an operand."""
        last = self.last
        return last.type in _ENDS if isinstance(last, Token) else isinstance(last, tree.Expression)

    def opening(self) -> int:
        """The position of the innermost open bracket in the stack, or -1."""
        depth = 0
        for place in reversed(range(len(self.stack))):
            kind = getattr(self.stack[place], "type", "")
            if kind in ("LPAR", "LSQB") and depth == 0:
                return place
            depth += (kind in ("RPAR", "RSQB")) - (kind in ("LPAR", "LSQB"))
        return -1

    def in_parameters(self) -> bool:
        """Whether the token is among the parameters of a definition."""
        place = self.opening()
        return place >= 2 and getattr(self.stack[place - 2], "type", "") == "DEF"

    def header(self) -> str:
        """The word that begins this line, if it must end in a ':' that is still missing."""
        for place in reversed(range(self.opening() + 1, len(self.stack))):
            kind = getattr(self.stack[place], "type", "")
            if kind in ("NEWLINE", "INDENT", "COLON"):
                break
            ternary = place and isinstance(self.stack[place - 1], tree.Expression)
            if kind in _HEADERS and not ternary:
                return str(self.stack[place])
        return ""

    def fault(self, cause: str, remedy: str, at: Any = None) -> Fault:
        """The fault at a token, by default at that which does not fit."""
        return Fault(span_of(self.token if at is None else at), cause, remedy)


def explain(token: Token, expected: set[str], stack: list[Any]) -> Fault:
    """The Fault of the first kind that matches."""
    context = Context(token, expected, stack)
    for kind in _KINDS:
        if fault := kind(context):
            return fault
    return context.fault(f"{context.shown} is not allowed here", "remove it, or complete the code before it")


def _block(at: Context) -> Fault | None:
    if "INDENT" in at.expected:
        return at.fault("an indented block must follow the line that ends in ':'", "indent it by four spaces")
    if at.token.type == "INDENT":
        remedy = "align it; put brackets around an expression of several lines"
        return at.fault("this line is indented more than the one above", remedy)
    if at.expected <= {"DEF", "AT"}:
        return at.fault("only a def can follow a decorator", "remove the decorator")
    return None


def _foreign(at: Context) -> Fault | None:
    word, token = at.last_text, at.token
    if token.value == "...":
        return at.fault("'...' is not a value in the language", "it belongs in an index: x[..., 0]")
    if word in _FOREIGN and token.type in (*_BEGINS, "COLON", "DEF", "FOR", "NOT", "AT"):
        return at.fault(f"'{word}' is not part of the language", _FOREIGN[word], at.last)
    if at.after_operand and token.type == "NAME" and token.value in _FOREIGN:
        return at.fault(f"'{token}' is not part of the language", _FOREIGN[token.value])
    return None


def _header(at: Context) -> Fault | None:
    """The first line of a def, if, for or while is incomplete."""
    header, kind = at.header(), at.token.type
    if at.in_parameters():
        if at.token.value in ("*", "**"):
            return at.fault(f"'{at.token}' parameters are not supported", "write out each parameter")
        return at.fault("a parameter must be a name", "write names with commas between, such as def f(x, y):")
    if kind in _HEADERS and "RETURN" in at.expected and kind not in ("ELSE", "ELIF"):
        return at.fault(f"'{at.token}' cannot start in the middle of a line", "start a new line before it")
    if at.last_text == "else" and kind == "IF":
        return at.fault("'else if' is one word", "write elif")
    if header == "def" and "LPAR" in at.expected:
        return at.fault("the parameters are missing", "write them in parentheses, such as def f(x, y):")
    if header == "def" and "NAME" in at.expected:
        return at.fault("a def needs a name", "write def f(x, y):")
    if header == "for" and "IN" in at.expected and at.after_operand:
        return at.fault("'in' is missing", "write for i in range(n):")
    if header and at.token.value == "then":
        return at.fault(f"the ':' of this '{header}' is missing", "write it instead of 'then'")
    if header and "COLON" in at.expected and kind != "EQUAL" and not (at.after_operand and kind in _BEGINS):
        return at.fault(f"the ':' of this '{header}' is missing", "write it at the end of the line")
    if "ELSE" in at.expected and kind in _STOPS:
        return at.fault("the 'else' is missing", "write a if condition else b")
    return None


def _julia(at: Context) -> Fault | None:
    """`sin.(x)`, and rows in brackets."""
    dot = getattr(at.last, "type", "") == "DOT"
    if dot and at.kind == "LPAR":
        return at.fault("'.(' is not part of the language", "functions are elementwise: write sin(x)")
    place = at.opening()
    if at.kind == "SEMICOLON" and place >= 0 and at.stack[place].type == "LSQB":
        remedy = "write concatenate((a, b)), or [[a, b], [c, d]] for rows"
        return at.fault("';' is not allowed in brackets", remedy)
    return None


def _assignment(at: Context) -> Fault | None:
    if not at.after_operand:
        return None
    if at.token.type == "EQUAL":
        return at.fault("'=' is not allowed inside an expression", "write == to compare")
    if at.token.type == "AUGMENT":
        return at.fault(f"'{at.token}' is not allowed inside an expression", "write it on a separate line")
    if at.token.type == "COLON":
        return at.fault("':' is not allowed here", "annotate only parameters; a slice is x[start:stop:step]")
    if at.token.type == "COMMA" and any(
        getattr(part, "type", "") == "FOR" for part in at.stack[at.opening() :]
    ):
        return at.fault("a comprehension with other arguments", "put parentheses around it")
    return None


def _missing_right(at: Context) -> Fault | None:
    """An operator, comma, bracket or word without a right side."""
    last, kind = at.last, at.token.type
    if at.after_operand or kind not in _STOPS or not isinstance(last, Token) or last.type in _STARTS:
        return None
    if last.type in ("LPAR", "LSQB", "COMMA", "COLON"):
        what = "an index" if last.type == "LSQB" and kind == "RSQB" else "a value"
        return at.fault(f"{what} is missing before {at.shown}", "write it, or remove the comma or bracket")
    if last.value in "+-" and len(at.stack) > 1 and getattr(at.stack[-2], "value", "") == last.value:
        return at.fault(f"'{last}{last}' is not an operator", f"write k {last}= 1", at.stack[-2])
    remedy = "write a name after it" if last.type == "DOT" else "write a value after it"
    return at.fault(f"'{last}' has nothing on its right", remedy, last)


def _missing_left(at: Context) -> Fault | None:
    """An operator without a left operand."""
    token, last = at.token, at.last
    word = token.value[:1].isalpha() and token.value not in ("and", "or", "in")
    if at.after_operand or word or token.type in (*_BEGINS, *_STOPS):
        return None
    if not isinstance(last, Token) or last.type in (*_STARTS, "COLON", "SEMICOLON"):
        return at.fault(f"'{token}' has nothing on its left", "write a value before it, or remove it")
    if token.value in ("*", "**") and last.type in ("LPAR", "COMMA"):
        if at.opening() < 0:
            return at.fault(
                f"'{token}' is not supported in unpacking", "write slices: first, rest = x[0], x[1:]"
            )
        return at.fault(f"'{token}' cannot unpack arguments here", "write out each argument")
    if last.type == "DOT" and token.value in ("*", "/", "^", "**", "+", "-", "//"):
        meant = {"^": "**"}.get(token.value, token.value)
        return at.fault(f"'.{token}' is not an operator", f"write {meant}: it is elementwise", last)
    if last.value == token.value and token.value in "+-":
        return at.fault(f"'{token}{token}' is not an operator", f"write k {token}= 1", last)
    twisted = _TWISTED.get(last.value + token.value)
    remedy = f"write {twisted}" if twisted else "write a value between them, or remove one"
    return at.fault(f"a value is missing between '{last}' and '{token}'", remedy)


def _missing_operator(at: Context) -> Fault | None:
    """Two operands side by side."""
    if not at.after_operand or at.token.type not in _BEGINS:
        return None
    for word in (at.token, at.last):
        if (name := word.value if isinstance(word, Token) else getattr(word, "id", "")) in OPENERS:
            return at.fault(f"'{name}' is not part of the language", OPENERS[name], word)
    if at.starts_line and (near := difflib.get_close_matches(at.last_text, _STATEMENTS, n=1, cutoff=0.7)):
        return at.fault(f"'{at.last_text}' is not part of the language", f"did you mean {near[0]}?", at.last)
    left = at.last_text if at.last_text[:1].isalnum() else "a"
    right = at.token.value if at.kind in ("NAME", "NUMBER") else "b"
    cause = "an operator is missing between two values"
    return at.fault(cause, f"to multiply, write {left}*{right}")


def _word(at: Context) -> Fault | None:
    """A reserved word in a wrong place."""
    word = at.token.value
    if word not in RESERVED:
        return None
    if word in ("else", "elif"):
        remedy = "align it with its if, for or while"
        return at.fault(f"this '{word}' has no matching 'if'", remedy)
    if not at.after_operand:
        return at.fault(f"'{word}' is a reserved word and cannot be a value", "choose another name")
    remedies = {
        "in": "'in' belongs to a for; compare with ==",
        "not": "write and not, or != to compare",
        "for": "write [... for i in range(n)] or sum(... for i in range(n))",
    }
    return at.fault(f"'{word}' cannot follow a value", remedies.get(word, "start a new line before it"))


_KINDS = (
    _block,
    _foreign,
    _header,
    _julia,
    _assignment,
    _missing_right,
    _missing_left,
    _missing_operator,
    _word,
)
