"""Numba, set up once for the whole package; `support.jit` has its names for all others.

`jit` compiles to machine code with a cache on disk.  Numba's own cache looks only at the
file of the compiled function; our kernels are compiled from formulas that stand in other
files, so the stamp of the cache here covers every source of the package: a changed formula
is never run from a stale cache.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import caching
from numba.core.bytecode import FunctionIdentity
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing.templates import infer, infer_global, make_overload_template
from numba.extending import lower_builtin, type_callable

from continuized.support.progress import tell_compilation
from continuized.support.signals import note_signal

__all__ = [
    "FASTMATH", "UNCOUNTED", "array_at", "byte_at", "call_flow", "call_gradient",
    "call_value", "choose_by_types", "class_of", "compile_formulas", "compile_high_word",
    "compile_power_of_two", "data_type", "fetch",
    "find_address", "flow_type", "gradient_type", "in_numpy", "in_short_vectors", "is_ours", "jit",
    "jit_uncounted", "make_call", "matrix", "njit", "read_apart", "scratch",
    "subtract_pair", "types",
    "uncounted", "value_type", "vector",
]  # fmt: skip

njit: Any = numba.njit

# Sums may be reordered, to run in SIMD lanes, and products fused; NaN and infinity keep
# their meaning, for the stopping tests rely on them.
FASTMATH = {"reassoc", "contract"}


def _number_functions() -> None:
    """Let the numbers in the names of machine code begin where no other process begins.

    Numba finds machine code by its name among all that the process has, and names it by the
    function, the types of its arguments and a number, which counts from 1.  Code of another
    process, from the cache on disk, could have the name of code made here of another closure.
    """
    FunctionIdentity._unique_ids = itertools.count(secrets.randbits(62))


_number_functions()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_number_functions)


@cache
def _sources_stamp() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _add_stamp(kind: Any) -> Any:
    stamp = {"get_source_stamp": lambda _: _sources_stamp()}
    return type(f"Stamped{kind.__name__}", (kind,), stamp)


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [*map(_add_stamp, caching.CacheImpl._locator_classes)]  # noqa: RUF012


class _Cache(caching.FunctionCache):
    """Numba's cache, of code that is made from this package's sources alone."""

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        # Numba reads no index of another version.  Nor is one of other sources read: it names the
        # classes of the arguments, which may have been renamed since.
        self._cache_file._version += self._cache_file._source_stamp

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was kept for these types, if all classes that are named can be found.

        This is Numba's own method without `target_context.refresh()`, which imports the
        implementation of every function that Numba can compile, and SciPy's linear algebra with
        them: that takes longer than the rest of a first call whose code is on the disk.  Machine
        code needs only Numba's runtime, which allocates arrays and counts references.
        """
        rtsys.initialize(target_context)
        try:
            with _hear_interrupts(), self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except (ImportError, AttributeError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it, unless the user's code is in it: its changes would not be seen, and a process
        that cannot import it could not read the index."""
        if not all(map(_is_covered, getattr(sig, "args", sig))):
            return
        try:
            super().save_overload(sig, data)
        except (ImportError, AttributeError):  # of an index that cannot be read: a new one
            self.flush()
            super().save_overload(sig, data)


def _is_covered(kind: Any) -> bool:
    """Tell whether a type is made of Numba's own and of classes of this package."""
    own = getattr(kind, "instance_class", None)
    return (own is None or is_ours(own)) and all(map(_is_covered, getattr(kind, "types", ())))


def is_ours(thing: Any) -> bool:
    """Tell whether a function or class stands in this package: then the cache's stamp covers it."""
    return str(thing.__module__).partition(".")[0] == __name__.partition(".")[0]


def jit(
    function: Callable[..., Any], signature: Any = None, *, cached: bool = True,
    inlines: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Compile a function; with a signature, at once and for those types only.

    inlines: what it calls, a user's function, is written into it, which LLVM alone would not do.
    """
    compiler = _InliningCompiler if inlines else _Compiler
    usual = {"fastmath": FASTMATH, "nogil": True, "no_cfunc_wrapper": True}
    dispatcher: Any = njit(**usual | {"pipeline_class": compiler} | options)(function)
    dispatcher._compiler.compile = _compile_alone(dispatcher._compiler.compile)
    if cached:
        dispatcher._cache = _Cache(function)
    if signature is not None:
        dispatcher.compile(signature)
        dispatcher.disable_compile()
    return dispatcher


def _compile_alone(compile: Callable[..., Any]) -> Callable[..., Any]:
    """Say that something is compiled, and do so without the collector of garbage: it would look
    through all that the compiler makes, again and again, for a tenth of the time."""

    def compile_alone(*arguments: Any) -> Any:
        tell_compilation()
        collects = gc.isenabled()
        gc.disable()
        try:
            with _hear_interrupts():
                return compile(*arguments)
        finally:
            if collects:
                gc.enable()

    return compile_alone


@contextmanager
def _hear_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt where Ctrl-C came within the block, whatever became of it there.

    LLVM calls Python to have its code kept, and errors do not come through: a KeyboardInterrupt is
    printed and lost, and Numba goes on, or raises an error of its own for want of the code.
    """
    pythons = signal.default_int_handler  # the user's own may not raise
    with note_signal(signal.SIGINT, lambda handler: handler is pythons, pythons) as noted:
        try:
            yield
        except Exception as error:
            if noted:
                raise KeyboardInterrupt from error
            raise
    if noted:
        raise KeyboardInterrupt


def intrinsic(function: Callable[..., Any], kind: str = "", *, prefer_literal: bool = False) -> Any:
    """Numba's decorator, for functions that write machine code; `kind` tells closures apart.

    Code of a closure is found on the disk by the bytes of all that it refers to: the name that
    Numba gives to what this returns is among them, and another in each process.
    """
    made: Any = numba.extending.intrinsic(prefer_literal=prefer_literal)(function)
    made._set_uuid(f"{function.__module__}.{function.__qualname__}{kind}")
    return made


def _fetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of the entry `index` of an array (in memory order), for later."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        builder.call(prefetch, [place, flag(0), flag(3), flag(1)])  # to read, to keep, data
        return context.get_dummy_value()

    return types.void(array, index), generate


fetch: Any = intrinsic(_fetch)


def _read_apart(typing_context: Any, array: Any, index: Any) -> Any:
    """The entry `index` of a vector, by a load of its own; nothing is tested.

    For entries that a moment ago were stored one by one: a load of several at once would wait until
    all these stores have reached the cache, where one alone takes what is under way.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        size = context.get_abi_sizeof(context.get_data_type(array.dtype))
        # An atomic load is one that LLVM does not join with its neighbours.
        return builder.load_atomic(builder.gep(data, [arguments[1]]), "unordered", size)

    return array.dtype(array, types.intp), generate


read_apart: Any = intrinsic(_read_apart)


def _subtract_pair(
    typing_context: Any, pairs: Any, row: Any, factor: Any, first: Any, second: Any
) -> Any:
    """pairs[row] -= factor * (first, second), for a C-contiguous float64 matrix of two columns.

    In one store: a load that follows can then take it from the store under way, where one of both
    halves would wait until two stores have reached the cache.
    """
    if not (pairs.dtype == types.float64 and pairs.ndim == 2 and pairs.layout == "C"):
        raise TypeError(f"pairs must be a C-contiguous float64 matrix, got {pairs}")
    two, lane = ir.VectorType(ir.DoubleType(), 2), ir.IntType(32)
    flags = sorted(FASTMATH)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def pair(a: Any, b: Any) -> Any:
            half = builder.insert_element(ir.Constant(two, ir.Undefined), a, lane(0))
            return builder.insert_element(half, b, lane(1))

        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        start = builder.mul(arguments[1], arguments[1].type(2))
        place = builder.bitcast(builder.gep(data, [start]), two.as_pointer())
        change = builder.fmul(pair(arguments[2], arguments[2]), pair(*arguments[3:]), flags=flags)
        before = builder.load(place, align=8)
        builder.store(builder.fsub(before, change, flags=flags), place, align=8)
        return context.get_dummy_value()

    return types.void(pairs, types.uintp, *[types.float64] * 3), generate


subtract_pair: Any = intrinsic(_subtract_pair)


VECTOR_WIDTH = '"prefer-vector-width"'  # an attribute of functions


def set_vector_width(function: Any, bits: int) -> None:
    """Tell LLVM how many bits vectors of a function should have, where the processor has such."""
    # llvmlite's own `add` refuses attributes that it does not know, as all that have a value.
    set.add(function.attributes, f'{VECTOR_WIDTH}="{bits}"')


def _in_short_vectors(typing_context: Any) -> Any:
    """Let LLVM prefer vectors of 256 bits in the calling function, even where longer ones exist.

    For chains of operations on a few numbers: some processors execute a longer vector as two
    halves, and the next operation of the chain waits for both.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        set_vector_width(builder.function, 256)
        return context.get_dummy_value()

    return types.void(), generate


in_short_vectors: Any = intrinsic(_in_short_vectors)


def _byte_at(typing_context: Any, address: Any, index: Any) -> Any:
    """The byte `index` bytes behind an address in memory; nothing is tested.

    Functions that are given an array count its references, each time with an atomic addition;
    for those called at every byte of a text, that takes most of the time.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(builder.add(*arguments), ir.IntType(8).as_pointer())
        return builder.load(place)

    return types.uint8(types.intp, types.intp), generate


byte_at: Any = intrinsic(_byte_at)


def compile_power_of_two(function: Callable[[float], float]) -> None:
    """Let compiled code make 2^k, in place of a call of this function, of the bits of k.

    k is an integer as a float64, of at most 1022 in size; the last bits of k + 1.5 * 2^52 + 1023
    are the exponent of 2^k.
    """
    number, bits = ir.DoubleType(), ir.IntType(64)

    @lower_builtin(function, types.float64)  # type: ignore[untyped-decorator]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        exponent = builder.fadd(arguments[0], number(1.5 * 2.0**52 + 1023.0))
        return builder.bitcast(builder.shl(builder.bitcast(exponent, bits), bits(52)), number)

    type_callable(function)(lambda context: lambda k: types.float64)


def compile_high_word(function: Callable[[Any, Any], Any]) -> None:
    """Let compiled code take the high word of the product of two words, in place of a call of this
    function."""
    word, double = ir.IntType(64), ir.IntType(128)

    @lower_builtin(function, types.uint64, types.uint64)  # type: ignore[untyped-decorator]
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        product = builder.mul(*(builder.zext(argument, double) for argument in arguments))
        return builder.trunc(builder.lshr(product, double(64)), word)

    type_callable(function)(lambda context: lambda a, b: types.uint64)


def _scratch(typing_context: Any, size: Any, number: Any) -> Any:
    """Make a vector of `size` numbers of the class `number`, on the stack of the calling function.

    It lives until that function returns, and its entries are not set.  `size` must be a constant
    when compiling.  No memory is allocated, and LLVM knows that no other array overlaps it.
    """
    if not isinstance(size, types.IntegerLiteral):
        return None
    kind, length = types.Array(number.instance_type, 1, "C"), size.literal_value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        entry = context.get_data_type(kind.dtype)
        with builder.goto_entry_block():
            data = builder.alloca(entry, ir.IntType(64)(length))
        data.align = 64
        array = context.make_array(kind)(context, builder)
        sizes = length, context.get_abi_sizeof(entry)
        shape, stride = (context.get_constant(types.intp, n) for n in sizes)
        context.populate_array(
            array, data=data, shape=[shape], strides=[stride], itemsize=stride, meminfo=None
        )
        return array._getvalue()

    return kind(size, number), generate


scratch: Any = intrinsic(_scratch, prefer_literal=True)


def vector(dtype: Any) -> Any:
    """The Numba type of a contiguous vector."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), 1, "C")


def matrix(dtype: Any) -> Any:
    """The Numba type of a contiguous matrix."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), 2, "C")


def flow_type() -> Any:
    """The signature of a flow: (t0, t, dt, L, mu, start) -> (a, b)."""
    return types.UniTuple(types.float64, 2)(*[types.float64] * 6)


@cache
def data_type(dtype: Any) -> Any:
    """The Numba type of a problem's data (`problems.base.pack`)."""
    return types.Tuple((matrix(dtype), vector(dtype), vector(np.int32)))


# Where a compiled function keeps its address: a cache would keep users' functions alive.
ADDRESS = "_address"


# Loops call the functions of a problem by their addresses, and give them addresses: Numba's own
# pointers to functions take 30 microseconds to be handed over, and arrays 20 ns at every call.


def gradient_type() -> Any:
    """The signature of a compiled gradient, by addresses: grad(x, out, size, data)."""
    return types.void(*[types.uintp] * 4)


def value_type() -> Any:
    """The signature of a compiled function, by addresses: fun(x, size, data) -> float64."""
    return types.float64(*[types.uintp] * 3)


def find_address(function: Any) -> int:
    """Return where the machine code is of a function that was compiled for one signature."""
    if not hasattr(function, ADDRESS):  # to find it takes 20 microseconds
        (only,) = function.overloads.values()
        address = only.library.get_pointer_to_function(only.fndesc.llvm_func_name)
        setattr(function, ADDRESS, address)
    found: int = getattr(function, ADDRESS)
    return found


def make_call(kind: Any) -> Any:
    """Make the call of a function of this signature: (its address, arguments) -> its answer."""

    def call(typing_context: Any, address: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            convention = context.call_conv
            pointer = convention.get_function_type(kind.return_type, kind.args).as_pointer()
            place = builder.inttoptr(values[0], pointer)
            given = [builder.extract_value(values[1], n) for n in range(len(kind.args))]
            status, answer = convention.call_function(
                builder, place, kind.return_type, kind.args, given
            )
            with builder.if_then(status.is_error, likely=False):
                convention.return_status_propagate(builder, status)
            return answer

        return kind.return_type(types.uintp, types.Tuple(kind.args)), generate

    return intrinsic(call, str(kind))


call_gradient, call_value = make_call(gradient_type()), make_call(value_type())
call_flow = make_call(flow_type())


def _array_at(typing_context: Any, address: Any, shape: Any, number: Any) -> Any:
    """The C-contiguous array of this shape and class of numbers at an address; nothing is tested.

    Who asks for it sees to it that the memory is there as long as the array.
    """
    kind = types.Array(number.instance_type, len(shape), "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        array = context.make_array(kind)(context, builder)
        shape = [builder.extract_value(arguments[1], n) for n in range(kind.ndim)]
        step = context.get_constant(types.intp, size)
        strides = [step]
        for length in shape[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(arguments[0], array.data.type)
        context.populate_array(
            array, data=data, shape=shape, strides=strides, itemsize=step, meminfo=None
        )
        return array._getvalue()

    return kind(types.uintp, types.UniTuple(types.intp, kind.ndim), number), generate


array_at: Any = intrinsic(_array_at)


class _Library(JITCodeLibrary):
    """The code of a function, which is optimised when all that it calls has been linked in."""

    def add_ir_module(self, ir_module: Any) -> None:
        """Let LLVM use the longest vectors of the processor, but for `in_short_vectors`.

        For some Intel processors it prefers vectors of 256 bits where there are ones of 512; our
        long loops take 1.3 to 1.9 times as long with them.
        """
        for function in ir_module.functions:
            if function.blocks and not any(VECTOR_WIDTH in each for each in function.attributes):
                set_vector_width(function, 512)
        super().add_ir_module(ir_module)

    def _optimize_functions(self, module: Any) -> None:
        """Do not optimise each function before: a tenth of the time of a first call for nothing."""
        module.data_layout = self._codegen._data_layout


class _InnerLibrary(_Library):
    """The code of a function that is called from compiled code alone.

    Its callers have copies of it, and are optimised with them: to optimise it here too, and to make
    machine code of it, would take a fifth of the time of a first call for nothing.
    """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing: where compiled code raises, it needs no environment."""


class _Compiler(Compiler):
    """Numba's compiler, for functions with such code."""

    library_class: Any = _Library

    def define_pipelines(self) -> Any:
        state = self.state
        name = state.func_id.func_qualname
        state.library = self.library_class(state.targetctx.codegen(), name)
        state.library.enable_object_caching()  # to be kept on the disk
        manager = DefaultPassBuilder.define_nopython_pipeline(state)
        # It looks for sums and products of whole arrays, of which there are none here.
        manager.passes = [each for each in manager.passes if each[0] is not NopythonRewrites]
        return [manager]


class _InnerCompiler(_Compiler):
    library_class = _InnerLibrary


class _InliningLibrary(_Library):
    """The code of a function around a user's own, which LLVM writes into it.

    LLVM alone would not, for the code is long by then: its loops are made of vectors already.
    """

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._called: set[str] = set()

    def add_ir_module(self, ir_module: Any) -> None:
        self._called |= {each.name for each in ir_module.functions if not each.blocks}
        super().add_ir_module(ir_module)

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            is_noinline = any(b"noinline" in each for each in function.attributes)
            if function.name in self._called and not (function.is_declaration or is_noinline):
                function.add_function_attribute("alwaysinline")
        super()._optimize_final_module()


class _InliningCompiler(_Compiler):
    library_class = _InliningLibrary


INNER: dict[str, Any] = {
    "pipeline_class": _InnerCompiler,
    "fastmath": FASTMATH,
    "nogil": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "forceinline": False,
    "_nrt": True,
}  # the options of functions that are called from compiled code alone


@cache
def _inner(function: Callable[..., Any], exactly: bool = False, **options: Any) -> Any:
    """Compile a function that is called from compiled code alone.

    exactly: its operations are not reassociated, so that it gives the same bits in every loop,
    alone or in one pass with other work.
    """
    fastmath = {"fastmath": {"contract"}} if exactly else {}
    return njit(**INNER | options | fastmath)(function)


def choose_by_types(
    function: Callable[..., Any], choose: Callable[..., Callable[..., Any]], **options: Any
) -> Callable[..., Any]:
    """Let compiled code call in place of a plain Python function what `choose` says of the types.

    Numba's `overload`, but for one thing: what is chosen is compiled once, whatever the options of
    those that call it.  Returns the function to be called.
    """
    template: Any = make_overload_template(function, choose, options, False, "never")
    template._get_jit_decorator = lambda self: lambda **options: partial(_inner, **options)
    infer(template)
    infer_global(function, types.Function(template))
    return function


def class_of(kind: Any) -> Any:
    """Return the class of a NamedTuple, by what `choose_by_types` is told of it: its type."""
    return kind.instance_class


def in_numpy(version: Callable[..., Any]) -> Callable[[Any], Any]:
    """Name what does the same as a function with whole arrays; compiled, a loop is quicker."""
    return lambda function: function


def compile_formulas(*formulas: Callable[..., Any], **options: Any) -> None:
    """Let compiled code call these plain Python functions."""
    for formula in formulas:
        choose_by_types(formula, _choose_always(formula), **options)


def _choose_always(function: Callable[..., Any]) -> Callable[..., Callable[..., Any]]:
    def choose(*kinds: Any, **named: Any) -> Callable[..., Any]:
        return function

    return choose


# Functions count the references to the arrays that they are given, with atomic additions, which
# may take longer than what they do.  Those with this option do not: they allocate no arrays, and
# return none but those of memory that others keep alive (`array_at`).
UNCOUNTED = {"_nrt": False}


def uncounted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Let compiled code call a plain Python function that allocates no arrays."""
    compile_formulas(function, **UNCOUNTED, **options)
    return function


def jit_uncounted(function: Callable[..., Any]) -> Any:
    """Compile such a function for Python to call."""
    return jit(function, **UNCOUNTED)
