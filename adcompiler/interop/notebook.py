"""`%load_ext adcompiler`: cells of the language, `%%adc`, and lines of it, `f = %adc x**2 * y`."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from adcompiler.api.compile import cell, compile
from adcompiler.api.function import Function
from adcompiler.errors import Error
from adcompiler.frames import public

NAME = re.compile(r"[^\W\d]\w*")


@magics_class
class AdcMagics(Magics):  # type: ignore[misc]
    """The magics of IPython."""

    @magic_arguments()
    @argument("name", nargs="?", help="the name of an expression, or the definition to show")
    @argument("--static", default="", help='parameters known at compile time: "steps,n"')
    @argument("--broadcasting", default="numpy", help="numpy or strict")
    @argument("--backend", default="cpu", help="cpu, numba, cuda or numpy")
    @argument("--memory", default=None, help='memory for saved values of loops: "64MB"')
    @argument("--save", default="partials", help='"partials", "auto" or names: "t,u"')
    @argument("--threads", default=None, type=int, help="number of threads that share loops")
    @argument("--precise", action="store_true", help="more accurate mathematical functions")
    @argument("--unchecked", action="store_true", help="do not check indices")
    @line_cell_magic
    def adc(self, line: str, cell: str | None = None) -> Function | None:
        """Compile a cell: each `def` in it becomes a compiled function of that name, an expression one of the
        name that is given. `%adc expression` is the function of an expression."""
        if cell is None:
            return compile(line)
        given = vars(parse_argstring(self.adc, line))
        return self.compiled(cell, given.pop("name"), given)

    @public
    def compiled(self, text: str, name: str | None, given: dict[str, Any]) -> Function | None:
        """Add the functions of a cell to the notebook's names; returns the last one, or the named one, for
        display."""
        names = self.shell.user_ns
        around = {n: names[n] for n in NAME.findall(text) if n in names}
        given["save"] = given["save"] if given["save"] in ("partials", "auto") else given["save"].split(",")
        found = cell(text, name, around, **given)
        names.update(found)
        if name is not None and name not in found:
            raise Error(f"the cell defines no {name!r}", remedy=f"it defines {', '.join(found)}")
        shown = [v for v in found.values() if isinstance(v, Function)]
        return found[name] if name else shown[-1] if shown else None


def load(ipython: Any) -> None:
    """Register the magics with an IPython shell."""
    ipython.register_magics(AdcMagics)
