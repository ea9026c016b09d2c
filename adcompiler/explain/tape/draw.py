"""`adc.tape.draw`: the graph behind a Variable as a text for a terminal, or as a picture in a file."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from adcompiler.eager.graph.graph import Variable, is_variable
from adcompiler.errors import DtypeError, Error
from adcompiler.explain.limits import MOST_ENTRIES
from adcompiler.explain.tape.picture import as_dot, as_text, picture
from adcompiler.explain.tape.svg import as_svg
from adcompiler.frames import public


class Drawing(str):
    """A text, which is also what a prompt shows."""

    def __repr__(self) -> str:
        return str(self)


@public
def draw(
    output: Variable | Sequence[Variable], path: str | PathLike[str] | None = None, limit: int = MOST_ENTRIES
) -> Drawing:
    """Draw the graph behind one or several Variables: each operation with its line, shapes and values, stored
    gradients, and cuts with their causes.

    path   the file to write: .svg, .dot (Graphviz), and with the package cairosvg .png and .pdf
    limit  the maximum number of operations, the latest first

    Returns the graph as text for a terminal, and prints nothing. Entries freed by a backward pass have no
    operands: draw before it, or pass it retain_graph=True. Raises DtypeError for arguments that are not
    Variables, and Error for another kind of file.
    """
    outputs = [output] if is_variable(output) else list(output) if isinstance(output, list | tuple) else []
    if not outputs or not all(is_variable(v) for v in outputs):
        raise DtypeError(
            f"a {type(output).__name__} has no graph", remedy="pass a Variable, or a list of them"
        )
    found = picture(outputs, limit)
    if path is not None:
        file = Path(path)
        write = WRITERS.get(file.suffix.lower())
        if write is None:
            raise Error(
                f"cannot draw a picture in the format {file.suffix!r}", remedy=f"use {', '.join(WRITERS)}"
            )
        write(found, file)
    return Drawing(as_text(found))


def _svg(found: Any, file: Path) -> None:
    file.write_text(as_svg(found), encoding="utf-8")


def _dot(found: Any, file: Path) -> None:
    file.write_text(as_dot(found), encoding="utf-8")


def _converted(found: Any, file: Path) -> None:
    """PNG and PDF, by cairosvg from the SVG."""
    try:
        import cairosvg
    except (ImportError, OSError) as error:  # OSError: there is no Cairo
        raise Error(
            f"{file.suffix} needs the package cairosvg: {error}",
            remedy='pip install "adcompiler[draw]", or draw an .svg',
        ) from error
    convert = cairosvg.svg2png if file.suffix.lower() == ".png" else cairosvg.svg2pdf
    scale = {"scale": 2.0} if file.suffix.lower() == ".png" else {}
    convert(bytestring=as_svg(found).encode(), write_to=str(file), **scale)


WRITERS = {".svg": _svg, ".dot": _dot, ".png": _converted, ".pdf": _converted}
