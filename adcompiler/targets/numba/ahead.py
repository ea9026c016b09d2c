"""A program as C: object code that needs no Python, and the C function that calls it.

numba compiles two generated functions. `need` writes the bytes of each temporary to an array; `entry` runs
the kernel on pointers to inputs, results and temporaries. The C function allocates the temporaries in
between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from adcompiler.errors import DtypeError, Error
from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Func, const
from adcompiler.ir.textform.printer import lengths
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.kernels.emit.block_partition import plan_lines
from adcompiler.kernels.emit.emitter import emit
from adcompiler.kernels.emit.kernel import Buffer, Kernel, with_header
from adcompiler.kernels.emit.writer import Writer
from adcompiler.kernels.schedule.materialise import scheduled
from adcompiler.loopir.printer import ATOM
from adcompiler.loopir.printer import lines as lines_of
from adcompiler.targets.numba import modules

C_TYPES: dict[Dtype, str] = {"f64": "double", "f32": "float", "i64": "int64_t", "bool": "uint8_t"}
KEYWORDS = frozenset(
    word
    for line in (
        "auto bool break case char const constexpr continue default do double else enum extern false",
        "float for goto if inline int int64_t long nullptr register restrict return short signed sizeof",
        "static struct switch true typedef typeof uint8_t union unsigned void volatile while",
        "bytes work code none failed malloc free size_t temporary",  # the names of the C function itself
    )
    for word in line.split()
)
# Names already used by the C headers or the C function itself.
HEADERS = frozenset(
    f"{word}{ending}"
    for words, endings in (
        ("acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1", "fl"),
        ("fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10", "fl"),
        ("log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo", "fl"),
        ("rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc", "fl"),
        ("abort abs atexit atof atoi atol atoll bsearch calloc div exit getenv j0 j1 jn labs ldiv llabs", ""),
        ("lldiv main qsort rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull", ""),
        ("system y0 y1 yn errno HIDDEN HUGE_VAL INFINITY NAN NULL M_E M_PI RAND_MAX", ""),
    )
    for word in words.split()
    for ending in ("", *endings)
)
ONE = const(1, "i64")
# numba's names of C library functions.
SHIMS = {"numba_gamma": "tgamma", "numba_lgamma": "lgamma"}


@dataclass(frozen=True, slots=True)
class CFunction:
    """A C function: its declaration without the semicolon, its definition, and the object code it calls."""

    declaration: str
    definition: str
    code: bytes
    missing: frozenset[str]


def _free(name: str) -> str:
    """A similar name that is valid for a C function."""
    return "my_" + re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")


def compile_ahead(func: Func, name: str, native: bool, compared: Sequence[Constraint] = ()) -> CFunction:
    """The C function `name` of a program, which checks lengths: `int name(sizes, inputs, results)`.

    Sizes of arrays come first, in order of appearance; lengths given by integer parameters are computed
    inside. Arrays are contiguous, in row-major order; each result is written to its pointer. `native` code is
    for this machine's processor, otherwise for any of its architecture.
    """
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or name in KEYWORDS | HEADERS:
        taken = "C has the name" if name in KEYWORDS | HEADERS else "names have letters, digits and _"
        remedy = f"give the function another name: adc build --name {_free(name)}"
        raise Error(f"{name!r} cannot be the name of a C function: {taken}", remedy=remedy)
    kernel = emit(scheduled(func), allocates=False)
    func = kernel.func
    entry = _Entry(kernel, compared)
    module = modules.load(entry.source)
    from numba import types

    sizes = [types.int64] * len(kernel.sizes)
    given = [types.voidptr if i.rank else _numba(i.dtype) for i in func.inputs]
    pointers = [types.voidptr] * (len(func.results) + len(entry.temporaries))
    functions = {
        f"{name}_need": (module.need, (*sizes, types.voidptr)),
        f"{name}_entry": (module.entry, (*sizes, *given, *pointers)),
    }
    code, missing = _object(functions, native)
    return CFunction(*_in_c(func, name, kernel, len(entry.temporaries)), code, missing)


def _numba(dtype: Dtype) -> Any:
    from numba import types

    return {"f64": types.float64, "f32": types.float32, "i64": types.int64, "bool": types.uint8}[dtype]


class _Entry:
    """The generated source of `need` and `entry`."""

    def __init__(self, kernel: Kernel, compared: Sequence[Constraint]) -> None:
        self.kernel, self.compared = kernel, compared
        direct = {kernel.arrays[r] for r in kernel.func.results if r.rank}
        self.temporaries = [b for b in kernel.buffers if b.name not in direct]
        parts = (kernel.text, self.need(), self.entry())
        self.source = with_header(kernel.comment, "\n\n".join(parts))

    def need(self) -> str:
        """`need(*sizes, bytes)`: the bytes of each temporary, if the lengths match."""
        writer = self.planned()
        for one in self.compared:
            reach, left, right = (writer.text(n or ONE, ATOM) for n in (one.reach, one.left, one.right))
            writer.line(f"if {reach} > 0 and {left} {'<' if one.at_least else '!='} {right}:")
            writer.line("    raise IndexError")  # a status other than 0
        if self.temporaries:
            writer.line(f"_need = carray(_bytes, ({len(self.temporaries)},), np.int64)")
        for k, buffer in enumerate(self.temporaries):
            factors = [str(NUMPY[buffer.dtype].itemsize), *self.shape(writer, buffer)]
            writer.line(f"_need[{k}] = {' * '.join(factors)}")
        return self.function("need", [*self.kernel.sizes, "_bytes"], writer)

    def entry(self) -> str:
        """`entry(*sizes, *inputs, *results, *temporaries)`, where arrays are addresses."""
        kernel, func = self.kernel, self.kernel.func
        writer = self.planned()
        params = list(kernel.sizes)
        for k, given in enumerate(func.inputs):
            label = kernel.arrays[given]
            params.append(f"_in{k}" if given.rank or given.dtype == "bool" else label)
            if given.rank:
                writer.line(self.view(writer, label, f"_in{k}", given))
            elif given.dtype == "bool":
                writer.line(f"{label} = _in{k} != 0")
        for k, buffer in enumerate(self.temporaries):
            shape = "".join(f"{n}, " for n in self.shape(writer, buffer))
            writer.line(f"{buffer.name} = carray(_work{k}, ({shape}), np.{NUMPY[buffer.dtype]})")
        params += [f"_out{k}" for k in range(len(func.results))]
        for k, result in enumerate(func.results):
            label = kernel.arrays[result] if result.rank else f"_r{k}"
            writer.line(self.view(writer, label, f"_out{k}", result))
        inputs = [kernel.arrays[i] for i in func.inputs]
        blocks = [f"{what}{k}" for k in range(len(kernel.nests)) for what in ("blocks", "rows")]
        args = [*kernel.sizes, *inputs, *(b.name for b in kernel.buffers), *blocks]
        writer.line(f"scalars = run({', '.join(args)})")
        for check in func.checks:
            writer.line(f"if scalars[{kernel.scalars.index(check.holds)}] == 0:")
            writer.line("    raise IndexError")  # a status other than 0
        for k, result in enumerate(func.results):
            if not result.rank:
                writer.line(f"_r{k}[0] = {self.number(result)}")
        return self.function("entry", [*params, *(f"_work{k}" for k in range(len(self.temporaries)))], writer)

    def planned(self) -> Writer:
        """A writer for a function that starts with the block partition of each nest."""
        writer = Writer(self.kernel.arrays, self.kernel.sizes, (), {})
        for k in range(len(self.kernel.nests)):
            plan_lines(writer, self.kernel, k)
        return writer

    def shape(self, writer: Writer, buffer: Buffer) -> list[str]:
        first = [] if buffer.nest is None else [f"blocks{buffer.nest}"]
        return [*first, *(writer.text(n, ATOM) for n in buffer.shape)]

    def view(self, writer: Writer, name: str, address: str, array: Array) -> str:
        """The array at an address; a scalar is an array of length 1."""
        shape = "".join(f"{writer.text(n, ATOM)}, " for n in array.shape) or "1,"
        return f"{name} = carray({address}, ({shape}), np.{NUMPY[array.dtype]})"

    def number(self, result: Array) -> str:
        """A result of rank 0."""
        scalars = self.kernel.scalars
        return f"scalars[{scalars.index(result)}]" if result in scalars else self.kernel.arrays[result]

    def function(self, name: str, params: Sequence[str], writer: Writer) -> str:
        lines = ["    " + line for line in lines_of(writer.scopes[0])] or ["    pass"]
        return "\n".join((f"def {name}({', '.join(params)}):", *lines, ""))


def _object(functions: dict[str, tuple[Any, tuple[Any, ...]]], native: bool) -> tuple[bytes, frozenset[str]]:
    """Object code with named functions, and the numba functions that it calls."""
    from llvmlite import binding

    made = [_bitcode(name, *given) for name, given in functions.items()]
    module = made[0]
    for other in made[1:]:
        module.link_in(other)
    target = binding.Target.from_default_triple()
    options = {"opt": 3, "reloc": "pic", "codemodel": "default"}
    if native:
        options |= {"cpu": binding.get_host_cpu_name(), "features": binding.get_host_cpu_features().flatten()}
    called = {f.name for f in module.functions if f.is_declaration}
    missing = frozenset(n for n in called if n.startswith(("numba_", "Py", "__svml")))
    return target.create_target_machine(**options).emit_object(module), missing


def _bitcode(name: str, function: Any, arguments: tuple[Any, ...]) -> Any:
    """The optimised module of a function without its Python wrapper, exported under its name."""
    from llvmlite import binding
    from numba import types
    from numba.core.compiler import Flags, compile_extra
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    flags = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.nrt = True
    flags.error_model = "numpy"
    typing, target = cpu_target.typing_context, cpu_target.target_context
    with global_compiler_lock:
        typing.refresh()
        target.refresh()
        made = compile_extra(typing, target, function, arguments, types.void, flags, {})
        made.library._ensure_finalized()
        module = binding.parse_bitcode(made.library._final_module.as_bitcode())
    entry = module.get_function(made.fndesc.llvm_func_name)
    for part in (*module.functions, *module.global_variables):
        if not part.is_declaration and part.name != entry.name:
            part.linkage = "internal"
    entry.name, entry.visibility = name, "hidden"
    return module


def _in_c(func: Func, name: str, kernel: Kernel, count: int) -> tuple[str, str]:
    """The declaration and the definition of the C function."""
    wanted = [*kernel.sizes, *func.input_names, *func.result_names]
    if not all(re.fullmatch(r"[A-Za-z_]\w*", n, re.ASCII) for n in wanted):
        raise DtypeError(f"{func.name} has names that C does not have", remedy="rename its parameters")
    by = dict(func.counts)  # the lengths that parameters give, and which: they have their own names
    order = sorted(range(len(wanted)), key=lambda k: k in by)
    names = [n for _, n in sorted(zip(order, distinct([wanted[k] for k in order], KEYWORDS), strict=True))]
    lengths, given = names[: len(kernel.sizes)], names[len(kernel.sizes) :]
    counts = {number: given[position] for number, position in by.items()}
    computed = [f"    const int64_t {lengths[k]} = {n} > 0 ? {n} : 0;\n" for k, n in counts.items()]
    sizes = [f"int64_t {n}" for k, n in enumerate(lengths) if k not in counts]
    kinds = [f"const {C_TYPES[i.dtype]} *" if i.rank else f"{C_TYPES[i.dtype]} " for i in func.inputs]
    kinds += [f"{C_TYPES[r.dtype]} *" for r in func.results]
    params = [k + n for k, n in zip(kinds, given, strict=True)]
    declaration = f"int {name}({', '.join([*sizes, *params]) or 'void'})"
    comma = ", " * bool(lengths)
    every = [f"int64_t {n}" for n in lengths]
    work = [f"void *work{k}" for k in range(count)]
    entry = ", ".join(["void *none, void **code", *every, *params, *work])
    passed = ", ".join(["&none", "&code", *names, *(f"work[{k}]" for k in range(count))])
    return (
        declaration,
        f"""\
extern int {name}_need(void *, void **{comma}{", ".join(["int64_t"] * len(lengths))}, int64_t *);
extern int {name}_entry({entry});

{declaration}
{{
{"".join(computed)}    int64_t bytes[{max(count, 1)}];
    void *work[{max(count, 1)}] = {{0}}, *none = 0, *code = 0;
    int failed = {name}_need({", ".join(["&none", "&code", *lengths, "bytes"])});
    for (int temporary = 0; temporary < {count} && !failed; temporary++) {{
        work[temporary] = malloc(bytes[temporary] > 0 ? (size_t)bytes[temporary] : 1);
        failed = work[temporary] == 0;
    }}
    if (!failed)
        failed = {name}_entry({passed});
    for (int temporary = 0; temporary < {count}; temporary++)
        free(work[temporary]);
    return failed != 0;
}}
""",
    )


def comment(func: Func) -> str:
    """The signature of a C function, for its header; lengths given by parameters have their names."""
    counts = {number: func.input_names[position] for number, position in func.counts}
    func = func.with_(size_names=tuple(counts.get(k, n) for k, n in enumerate(func.size_names)))
    shapes = [
        f"{n}: {C_TYPES[a.dtype]}{''.join(f'[{m}]' for m in lengths(func, a.shape))}"
        for names, arrays in ((func.input_names, func.inputs), (func.result_names, func.results))
        for n, a in zip(names, arrays, strict=True)
    ]
    return ", ".join(shapes)
