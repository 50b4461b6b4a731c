"""The loops over logits of the variant in use, called one by one through the kernel table of the C header.

Holds the table as ctypes sees it; its fields are those of ``sv_kernels``, in order.
"""

import ctypes
import importlib
from ctypes import POINTER, c_double, c_float, c_int, c_int32, c_ssize_t, c_uint16, c_uint32, c_void_p
from typing import Any

import numpy as np

from specverify import _core, _isa

_Floats, _Doubles, _Halves = POINTER(c_float), POINTER(c_double), POINTER(c_uint16)
_Words, _Keys = POINTER(c_uint32), POINTER(c_int32)


class Table(ctypes.Structure):
    _fields_ = (
        ("isa", ctypes.c_char_p),
        ("piece_mass", c_void_p),
        ("piece_residual", c_void_p),
        ("mass", c_void_p),
        ("residual_mass", c_void_p),
        ("proper", ctypes.CFUNCTYPE(c_int, _Floats, c_ssize_t)),
        ("argmax", ctypes.CFUNCTYPE(c_ssize_t, _Floats, c_ssize_t)),
        ("tops", ctypes.CFUNCTYPE(c_int32, _Floats, c_ssize_t, _Words)),
        ("copy", ctypes.CFUNCTYPE(None, _Floats, c_ssize_t, _Floats)),
        ("widen_float16", ctypes.CFUNCTYPE(None, _Halves, c_ssize_t, _Floats)),
        ("widen_bfloat16", ctypes.CFUNCTYPE(None, _Halves, c_ssize_t, _Floats)),
        ("add_bias", ctypes.CFUNCTYPE(None, _Floats, _Floats, c_ssize_t)),
        ("apply_mask", ctypes.CFUNCTYPE(None, _Floats, _Words, c_ssize_t)),
        ("weigh", ctypes.CFUNCTYPE(None, _Floats, c_ssize_t, c_float, c_float, _Floats)),
        ("keep", ctypes.CFUNCTYPE(None, _Floats, _Floats, c_ssize_t, c_float, c_float)),
        ("group_tops", ctypes.CFUNCTYPE(None, _Floats, c_ssize_t, c_ssize_t, _Keys, _Words)),
    )


def table() -> Any:
    """The table of the variant in use."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, (ctypes.py_object, ctypes.c_char_p)
    module = importlib.import_module(f"specverify.{_isa._MODULES[_core.kernels_in_use()]}")
    found = Table.from_address(get(module.KERNELS, b"specverify.kernels"))
    assert found.isa.decode() == _core.kernels_in_use()
    return found


_POINTERS = {np.float32: _Floats, np.uint16: _Halves, np.uint32: _Words, np.int32: _Keys}


def pointer(array: np.ndarray) -> Any:
    assert array.flags.c_contiguous
    return array.ctypes.data_as(_POINTERS[array.dtype.type])


def weigh(logits: np.ndarray, top: float, scale: float) -> np.ndarray:
    weights = np.empty(len(logits), np.float32)
    table().weigh(pointer(logits), len(logits), top, scale, pointer(weights))
    return weights


def widen(bits: np.ndarray, name: str) -> np.ndarray:
    row = np.empty(len(bits), np.float32)
    getattr(table(), name)(pointer(bits), len(bits), pointer(row))
    return row
