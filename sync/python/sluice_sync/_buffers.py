# SPDX-License-Identifier: BSD-3-Clause
"""Addresses of what has the buffer protocol, also where it is read-only, which ctypes' from_buffer() refuses."""

import ctypes
import operator
from contextlib import ExitStack, contextmanager

_WRITABLE = 1  # PyBUF_WRITABLE; 0 is PyBUF_SIMPLE: one run of bytes


class _PyBuffer(ctypes.Structure):
    """Py_buffer of Python's C API."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes = (ctypes.py_object, ctypes.POINTER(_PyBuffer), ctypes.c_int)
_get.restype = ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = (ctypes.POINTER(_PyBuffer),)
_release.restype = None


class Part:
    """LENGTH bytes at OFFSET of BUFFER, which stays where it is while this is entered."""

    def __init__(self, buffer, offset, length, writable=False):
        self._buffer = buffer
        # Here, since a TypeError behind PyObject_GetBuffer() would leave the buffer exported.
        self._offset = operator.index(offset)
        self._length = None if length is None else operator.index(length)
        self._flags = _WRITABLE if writable else 0
        self._view = _PyBuffer()

    def __enter__(self):
        _get(self._buffer, ctypes.byref(self._view), self._flags)
        size = self._view.len
        self.length = size - self._offset if self._length is None else self._length
        if not 0 <= self._offset <= size or not 0 <= self.length <= size - self._offset:
            self.__exit__()
            raise IndexError("%d bytes at %d of a buffer of %d" % (self.length, self._offset, size))
        self.address = (self._view.buf or 0) + self._offset
        return self

    def __exit__(self, *_):
        _release(ctypes.byref(self._view))


class _Segment(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("length", ctypes.c_uint64)]


class Segments:
    """An array of struct sluice_sync_segment."""

    def __init__(self, parts):
        self.count = len(parts)
        self.array = (_Segment * self.count)(*((part.address, part.length) for part in parts))


@contextmanager
def parts_of(buffers):
    """All of each buffer, as Segments."""
    with ExitStack() as stack:
        yield Segments([stack.enter_context(Part(buffer, 0, None)) for buffer in buffers])
