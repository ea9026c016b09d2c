"""The machine code of a kernel as a function that numba code calls.

The call is written in words on the stack (`kernels/emit/call_plan.py`). A program of numbers is linked into
numba's code as LLVM IR, so that LLVM can inline it; other kernels are called at their addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any

from adcompiler.ir.types import Dtype
from adcompiler.targets.cpu.compiled import CpuKernel
from adcompiler.targets.llvm.runtime.entry import for_words
from adcompiler.targets.llvm.runtime.jit import keep_alive

Codegen = Callable[..., Any]


class MachineCall:
    """A kernel as `run(*parameters)`, for contiguous arrays; it returns a tuple of the returned values."""

    def __init__(self, kernel: CpuKernel) -> None:
        self.kernel, self.plan = kernel, kernel.plan
        text = for_words(kernel.source, NAME).text if self.plan.is_scalar else ""
        # What is linked; numba's passes could add up in another order.
        self.text = "" if " reassoc " in text else text

    def intrinsic(self) -> Any:
        """The function."""
        from numba import types
        from numba.core import cgutils
        from numba.extending import intrinsic

        returned = types.Tuple([
            types.Array(numba_type(v.dtype), v.rank, "C") if v.rank else numba_type(v.dtype)
            for v in self.plan.returned
        ])  # fmt: skip

        @intrinsic
        def run(typingctx: Any, *given: Any) -> tuple[Any, Codegen]:
            def codegen(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
                (kinds,), (packed,) = signature.args, args
                values = cgutils.unpack_tuple(builder, packed, len(kinds))
                return _Writer(self, context, builder).write(kinds, values, returned)

            return returned(types.StarArgTuple(given)), codegen

        return run


def numba_type(dtype: Dtype) -> Any:
    """numba's type of a number."""
    from numba import types

    known = {"f64": types.float64, "f32": types.float32, "i64": types.int64, "bool": types.boolean}
    return known[dtype]


class _Writer:
    """Writes one call into a function of numba."""

    def __init__(self, call: MachineCall, context: Any, builder: Any) -> None:
        from llvmlite import ir
        from numba.core import cgutils

        self.call, self.plan, self.context, self.builder = call, call.plan, context, builder
        self.word, self.flag = ir.IntType(64), ir.IntType(1)
        self.words = cgutils.alloca_once(builder, self.word, size=self.plan.words.count + 1)

    def write(self, kinds: Sequence[Any], args: Sequence[Any], returned: Any) -> Any:
        """The tuple of returned values."""
        place = 0
        for param, kind, value in zip(self.call.kernel.source.params, kinds, args, strict=True):
            of = self.array(kind, value) if param.rank else [self.number(param.dtype, kind, value)]
            for word in of:
                self.builder.store(word, self.at(place, word.type))
                place += 1
        self.run()
        pairs = zip(self.plan.words.returned, returned.types, strict=True)
        values = [self.returned(place, kind) for place, kind in pairs]
        return self.context.make_tuple(self.builder, returned, values)

    def array(self, kind: Any, value: Any) -> list[Any]:
        """The address and the lengths of an array."""
        from numba.core import cgutils

        array = self.context.make_array(kind)(self.context, self.builder, value)
        return [array.data, *cgutils.unpack_tuple(self.builder, array.shape)]

    def number(self, dtype: Dtype, kind: Any, value: Any) -> Any:
        """A number of the kernel's type."""
        wanted = numba_type(dtype)
        found = self.context.cast(self.builder, value, kind, wanted)
        return self.context.get_value_as_data(self.builder, wanted, found)

    def at(self, place: int, kind: Any = None) -> Any:
        """The address of a word."""
        found = self.builder.gep(self.words, [self.word(place)])
        return found if kind is None else self.builder.bitcast(found, kind.as_pointer())

    def run(self) -> None:
        """Call the kernel; raise MemoryError if it gives up."""
        from numba.core import cgutils

        polls = cgutils.alloca_once(self.builder, self.word, size=5)
        for k in range(5):  # nothing is polled: numba's code runs to its end
            self.builder.store(self.word(0), self.builder.gep(polls, [self.word(k)]))
        failed = self.builder.call(self.function(), [self.words, polls, self.word(0), self.word(1)])
        failed = self.builder.trunc(failed, self.flag) if failed.type != self.flag else failed
        with self.builder.if_then(failed, likely=False):
            text = f"{self.plan.func.name} needs more memory than available"
            self.context.call_conv.return_user_exc(self.builder, MemoryError, (text,))

    def function(self) -> Any:
        """The kernel: linked, or at its address."""
        from llvmlite import ir
        from numba.core import cgutils

        native, text = self.call.kernel.native, self.call.text
        pointer = self.word.as_pointer()
        params = [pointer, pointer, self.word, self.word]
        if not text:
            assert native is not None
            keep_alive(native)
            address = self.context.add_dynamic_addr(self.builder, native.packed, info="kernel")
            kind = ir.FunctionType(self.flag, params)
            return self.builder.bitcast(address, kind.as_pointer())
        name = f"adc_{sha256(text.encode()).hexdigest()[:32]}"
        self.context.active_code_library.add_linking_library(self.library(name, text.replace(NAME, name)))
        kind = ir.FunctionType(ir.IntType(32), params)
        return cgutils.get_or_insert_function(self.builder.module, kind, name)

    def library(self, name: str, text: str) -> Any:
        """The kernel as a library of numba."""
        from llvmlite import binding

        library = self.context.codegen().create_library(name)
        library.add_llvm_module(binding.parse_assembly(text))
        library.finalize()
        return library

    def returned(self, place: int, kind: Any) -> Any:
        """A returned value."""
        from numba import types

        if isinstance(kind, types.Array):
            return self.allocated(place, kind)
        data = self.context.get_data_type(kind)
        value = self.builder.load(self.at(place, data))
        return self.context.get_data_as_value(self.builder, kind, value)

    def allocated(self, place: int, kind: Any) -> Any:
        """An array that the kernel has allocated: a copy of it, whose memory numba frees."""
        from llvmlite import ir
        from numba.core import cgutils
        from numba.np.arrayobj import _empty_nd_impl

        data, *lengths = (self.builder.load(self.at(place + k)) for k in range(1 + kind.ndim))
        made = _empty_nd_impl(self.context, self.builder, kind, lengths)
        source = self.builder.inttoptr(data, made.data.type)
        cgutils.raw_memcpy(self.builder, made.data, source, made.nitems, made.itemsize)
        memory = ir.IntType(8).as_pointer()
        free = ir.FunctionType(ir.VoidType(), [memory])
        function = cgutils.get_or_insert_function(self.builder.module, free, "PyMem_RawFree")
        self.builder.call(function, [self.builder.inttoptr(data, memory)])
        return made._getvalue()


NAME = "adc_numba_kernel"
