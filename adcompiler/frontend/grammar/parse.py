"""From text to syntax tree: `parse` is the entry point."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from adcompiler.errors import Source, Span
from adcompiler.fork import Locked
from adcompiler.frontend.grammar import literals, tree
from adcompiler.frontend.grammar.characters import check_characters, decode, span_at
from adcompiler.frontend.grammar.fault import Fault
from adcompiler.frontend.grammar.scan import scan

if TYPE_CHECKING:  # Lark is imported at the first parse, to keep `import adcompiler` fast
    from lark import Lark, Token

_LOCK = Locked()


def parse(text: str | bytes, name: str = "<expression>", first_line: int = 1, indent: int = 0) -> tree.Module:
    """The syntax tree of one expression, or of constants and functions.

    `name`, `first_line` and `indent` locate the text for messages: the file, the line of its first line, and
    the number of columns removed from the left. Raises ParseError for code outside the language, LimitError
    for code that is too large or too deep, and DtypeError for arguments that are neither text nor bytes.
    """
    source = Source(decode(text), name, first_line, indent)
    try:
        check_characters(text, source.text)
        scan(source.text)
        # With the leading newline, as line 0, the first line begins like every other one.
        return _module(source, _read("\n" + source.text, line=0, column=1))
    except Fault as fault:
        raise fault.error(source) from None


@functools.cache
def parse_expression(text: str) -> tree.Expression:
    """The syntax tree of a single expression, such as a rule of the table."""
    module = parse(text)
    if module.expression is None:
        cause = "one expression is expected here, not a definition"
        fault = Fault(module.statements[0].span, cause, "write only its right side")
        raise fault.error(module.source)
    return module.expression


def _module(source: Source, statements: tuple[tree.Statement, ...]) -> tree.Module:
    """Decide whether it is one expression, or constants and functions, which may follow a docstring."""
    span = span_at(source.text, 0, len(source.text))
    match statements:
        case ():
            raise Fault(Span(1, 1, 1, 1), "the source is empty", "write an expression, or a def")
        case (tree.Bare(value=expression),):
            return tree.Module(span, source, expression, ())
        case (tree.Bare(value=tree.Text()), *_):
            statements = statements[1:]
    for statement in statements:
        if isinstance(statement, tree.Bare):
            raise Fault(
                statement.span,
                "an expression cannot be combined with other lines",
                "put brackets around an expression of several lines; return a result from a def",
            )
        if not isinstance(statement, tree.Assign | tree.Def):
            cause = "only constants and functions can be outside a def"
            raise Fault(statement.span, cause, "move this into a def")
    return tree.Module(span, source, None, statements)


@functools.cache
def _build() -> Lark:
    """The parser."""
    import lark

    from adcompiler.frontend.grammar.layout import Layout
    from adcompiler.frontend.grammar.parser_table import table
    from adcompiler.frontend.grammar.tree_builder import Builder

    # The transformer runs as each rule completes: no recursion, no second tree.
    load: Any = lark.Lark._load_from_dict  # used by Lark's generated parsers
    parser: Lark = load(**table(), postlex=Layout(), transformer=Builder(_read_quoted))
    return parser


def _read(text: str, line: int, column: int) -> tuple[tree.Statement, ...]:
    """Statements from a text at this line and column."""
    from lark import UnexpectedCharacters, UnexpectedToken

    from adcompiler.frontend.grammar.syntax_mistakes import explain

    with _LOCK.lock:
        lark = _build()
    reading: Any = lark.parse_interactive(text)  # the interactive parser allows setting the position
    place = reading.lexer_thread.state.line_ctr
    place.line, place.column, place.line_start_pos = line, column, 1 - column
    try:
        statements: tuple[tree.Statement, ...] = reading.resume_parse()
        return statements
    except UnexpectedToken as error:
        raise explain(error.token, error.expected, error.state.value_stack) from None
    except UnexpectedCharacters as error:
        span = Span(error.line, error.column, error.line, error.column + 1)
        raise Fault(span, "this is not part of the language", "remove it") from None


def _read_quoted(token: Token) -> tree.Expression:
    """The expression inside the quotes of an annotation, with its positions in the file."""
    from adcompiler.frontend.grammar.layout import token_span

    before, after = literals.quotes(token.value)
    span = token_span(token)
    inner = token.value[before : len(token.value) - after]
    match _read(inner, span.line, span.column + before):
        case (tree.Bare(value=expression),):
            return expression
    raise Fault(span, "an annotation must be one expression", 'write it as in x: "f64[n, d]"')
