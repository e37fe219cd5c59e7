"""MuJoCo's C functions, callable from compiled loops without the interpreter.

The Python wheel carries the shared library; its functions are called through their addresses
from numba code, so that no C compiler is needed to install or to run. An address that is wrong
crashes the process: only `gmc_bench.sim` handles addresses, and only of objects it keeps alive.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.core.jit import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[_Function], _Function]:
    """Return `numba.njit` with a cache on disk and without the interpreter's lock, but typed."""
    decorator: Callable[[_Function], _Function] = njit(cache=True, nogil=True, **options)
    return decorator


class EngineFunctions(NamedTuple):
    """Addresses of the C functions that the batched loops call."""

    mj_step: int
    mj_kinematics: int
    mj_com_pos: int
    mj_com_vel: int
    mj_forward: int
    mj_reset_data: int
    mj_set_state: int


@numba.cfunc(types.void(types.voidptr))
def _ignore(message):
    pass


@cache
def engine_functions() -> EngineFunctions:
    """Return the addresses of MuJoCo's functions in the library that the wheel loaded.

    MuJoCo's warnings are silenced in this process: the batch reads the warning counters after
    every step and reports them as events, while MuJoCo itself would print each of them.

    Raises:
        PluginError: the shared library is not where the wheel of this MuJoCo version puts it.
    """
    library = engine_library()
    ctypes.c_void_p.in_dll(library, "mju_user_warning").value = _ignore.address

    def address(name: str) -> int:
        found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert found is not None
        return found

    return EngineFunctions(
        mj_step=address("mj_step"),
        mj_kinematics=address("mj_kinematics"),
        mj_com_pos=address("mj_comPos"),
        mj_com_vel=address("mj_comVel"),
        mj_forward=address("mj_forward"),
        mj_reset_data=address("mj_resetData"),
        mj_set_state=address("mj_setState"),
    )


@intrinsic
def call_model_data(typingctx, function, model, data):
    """Call `void f(const mjModel*, mjData*)` at an address; all three arguments are addresses."""
    signature = types.void(types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word, word])
        target = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(target, [args[1], args[2]])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def call_set_state(typingctx, function, model, data, state, signature_bits):
    """Call `void f(const mjModel*, mjData*, const mjtNum*, int)` at an address."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64, types.int64)

    def codegen(context, builder, signature, args):
        word, small = ir.IntType(64), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [word, word, word, small])
        target = builder.inttoptr(args[0], kind.as_pointer())
        builder.call(target, [args[1], args[2], args[3], builder.trunc(args[4], small)])
        return context.get_dummy_value()

    return signature, codegen


def _load(numba_type, ir_type):
    @intrinsic
    def load(typingctx, address, index):
        """Read the element `index` of the C array at `address`."""
        signature = numba_type(types.int64, types.int64)

        def codegen(context, builder, signature, args):
            base = builder.inttoptr(args[0], ir_type.as_pointer())
            return builder.load(cgutils.gep(builder, base, args[1]))

        return signature, codegen

    return load


load_double = _load(types.float64, ir.DoubleType())
load_int32 = _load(types.int32, ir.IntType(32))


@intrinsic
def store_double(typingctx, address, index, value):
    """Write `value` to the element `index` of the C array of doubles at `address`."""
    signature = types.void(types.int64, types.int64, types.float64)

    def codegen(context, builder, signature, args):
        base = builder.inttoptr(args[0], ir.DoubleType().as_pointer())
        builder.store(args[2], cgutils.gep(builder, base, args[1]))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def pointer(typingctx, address):
    """Make a pointer of an address, for `numba.carray`."""
    signature = types.voidptr(types.int64)

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return signature, codegen
