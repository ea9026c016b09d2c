"""The parser's table, shipped with the package so that the first use need not wait for Lark to build it.

`python -m adcompiler.frontend.grammar.parser_table` rebuilds it from the grammar; a test compares. It is JSON
data as Lark saves its parsers, except that numbers which Lark derives from set order are derived from names
here, and that widths do not depend on the version of Python. With another version of Lark the table is built,
and cached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from adcompiler import store

OPTIONS: dict[str, Any] = {
    "start": "module",
    "parser": "lalr",
    "lexer": "basic",  # tokens do not depend on context, and `a ifx` must not be read as `a if x`
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}
UNLIMITED = 2**32 - 1  # the width of a pattern without a limit
SHIFT = 0  # Lark's code for a shift; a state follows
CHECKOUT = Path(__file__).parents[3] / "grammar"


def table() -> dict[str, Any]:
    """The argument of `Lark._load_from_dict`."""
    grammar = _file("adc.lark")
    source = described(grammar)
    digest, _, text = _file("adc.table").partition("\n")
    if digest != digest_of(source):
        text = store.kept(source, ".table", lambda: made(grammar).encode()).decode()
    return _read(text)


def described(grammar: str) -> str:
    """Everything that determines a table."""
    import lark

    return f"JSON, lark {lark.__version__}\n{OPTIONS}\n{grammar}"


def digest_of(source: str) -> str:
    """The first line of the table determined by `source`."""
    return sha256(source.encode()).hexdigest()


def made(grammar: str) -> str:
    """The tables of the lexer and the parser."""
    from lark import Lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    from adcompiler.frontend.grammar.layout import Layout

    parser: Any = Lark(grammar, postlex=Layout(), **OPTIONS)
    data, memo = parser.memo_serialize([TerminalDef, Rule])  # as Lark saves them, except for its pickle
    del data["options"]["postlex"]
    return _written(data, memo)


def _file(name: str) -> str:
    """A file of the grammar, in the package or the checkout; empty if there is none."""
    inside = resources.files("adcompiler") / "grammar" / name
    path = inside if inside.is_file() else CHECKOUT / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# -- Lark's table as text ----------------------------------------------------------------------


def _written(data: dict[str, Any], memo: dict[int, Any]) -> str:
    """A table with numbers derived from names, one state per line."""
    entries = sorted(memo, key=lambda k: json.dumps(memo[k], sort_keys=True))
    places = {old: new for new, old in enumerate(entries)}
    data = _renamed(json.loads(json.dumps(data)), places.__getitem__)
    parser = data["parser"]["parser"]
    data["parser"]["parser"] = parser | _in_order(parser)
    whole = {"data": data, "memo": {new: _clipped(memo[old]) for new, old in enumerate(entries)}}
    return json.dumps(whole, separators=(",", ":")).replace('},"', '},\n"')


def _clipped(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry with the width that some versions of Python give unlimited patterns."""
    pattern = entry.get("pattern", {})
    if "_width" not in pattern:
        return entry
    widths = [min(int(width), UNLIMITED) for width in pattern["_width"]]
    return {**entry, "pattern": {**pattern, "_width": widths}}


def _in_order(parser: Mapping[str, Any]) -> dict[str, Any]:
    """The automaton with tokens ordered by name, and states in the order they are reached."""
    names = parser["tokens"]
    tokens = {old: new for new, old in enumerate(sorted(names, key=names.__getitem__))}
    old_rows = {
        int(s): sorted((tokens[t], how, to) for t, (how, to) in row.items())
        for s, row in parser["states"].items()
    }
    states = _reached(parser["start_states"].values(), old_rows)
    rows = {
        new: {t: [how, states[to] if how == SHIFT else to] for t, how, to in old_rows[old]}
        for old, new in states.items()
    }
    ends = {
        key: {name: states[s] for name, s in parser[key].items()} for key in ("start_states", "end_states")
    }
    return {"tokens": {new: names[old] for old, new in tokens.items()}, "states": rows, **ends}


def _reached(first: Iterable[int], rows: Mapping[int, Sequence[Any]]) -> dict[int, int]:
    """The numbers of the states in the order they are reached."""
    order = list(dict.fromkeys(first))
    for state in order:
        order += [to for _, how, to in rows[state] if how == SHIFT and to not in order]
    return {state: number for number, state in enumerate(order)}


def _renamed(data: Any, place: Callable[[int], int]) -> Any:
    """The same data with renumbered references to the memo."""
    match data:
        case {"@": number}:
            return {"@": place(number)}
        case dict():
            return {key: _renamed(value, place) for key, value in data.items()}
        case list():
            return [_renamed(value, place) for value in data]
    return data


def _read(text: str) -> dict[str, Any]:
    """Read what `_written` wrote; JSON keys are texts, but some of Lark's are numbers."""
    read: dict[str, Any] = json.loads(text)
    tables = read["data"]["parser"]["parser"]
    tables["tokens"], read["memo"] = _by_number(tables["tokens"]), _by_number(read["memo"])
    tables["states"] = {int(state): _by_number(row) for state, row in tables["states"].items()}
    return read


def _by_number(read: Mapping[str, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in read.items()}


def packaged(grammar: str) -> str:
    """The content of the file `adc.table`."""
    return f"{digest_of(described(grammar))}\n{made(grammar)}\n"


def main() -> None:
    """Write the table of this checkout's grammar."""
    grammar = (CHECKOUT / "adc.lark").read_text(encoding="utf-8")
    (CHECKOUT / "adc.table").write_text(packaged(grammar), encoding="utf-8")


if __name__ == "__main__":
    main()
