# SPDX-License-Identifier: BSD-3-Clause
"""Memory that others read or write behind this CPU's caches.

The functions of libsluice-sync for everything that has the buffer protocol: mmap, bytearray, memoryview, array,
NumPy's arrays. OFFSET and LENGTH are bytes of the buffer; without LENGTH it is the rest of it. sluice_sync_clean(3) and
its like say what each function promises, docs/sync.md has the rules.

Failures are OSError, with the errno of the function; IndexError for what is outside of the buffer, and
BufferError for storing into one that is read-only.
"""

from ._buffers import Part, parts_of
from ._library import Cpu, cpu, do, load, version

import ctypes

__all__ = [
    "Cpu",
    "clean",
    "clean_batch",
    "clean_invalidate",
    "clean_invalidate_batch",
    "copy",
    "cpu",
    "invalidate",
    "invalidate_batch",
    "observe",
    "persist",
    "persist_batch",
    "publish",
    "version",
]


def _range(name, buffer, offset, length):
    with Part(buffer, offset, length) as part:
        do(name, part.address, part.length)


def _batch(name, buffers):
    with parts_of(buffers) as segments:
        do(name, segments.array, segments.count)


def clean(buffer, offset=0, length=None):
    """What this CPU has stored there is in memory, for others to read."""
    _range("sluice_sync_clean", buffer, offset, length)


def invalidate(buffer, offset=0, length=None):
    """Later reads see what others have written; what was stored here and not cleaned is undefined."""
    _range("sluice_sync_invalidate", buffer, offset, length)


def clean_invalidate(buffer, offset=0, length=None):
    """Both: what was stored here is written back first."""
    _range("sluice_sync_clean_invalidate", buffer, offset, length)


def persist(buffer, offset=0, length=None):
    """As clean, on to where data survives a loss of power, if the memory is of that kind."""
    _range("sluice_sync_persist", buffer, offset, length)


def clean_batch(buffers):
    """clean() for each of BUFFERS, with the fences of one."""
    _batch("sluice_sync_clean_batch", buffers)


def invalidate_batch(buffers):
    """invalidate() for each of BUFFERS, with the fences of one."""
    _batch("sluice_sync_invalidate_batch", buffers)


def clean_invalidate_batch(buffers):
    """clean_invalidate() for each of BUFFERS, with the fences of one."""
    _batch("sluice_sync_clean_invalidate_batch", buffers)


def persist_batch(buffers):
    """persist() for each of BUFFERS, with the fences of one."""
    _batch("sluice_sync_persist_batch", buffers)


def copy(to, source, offset=0):
    """Copies all of SOURCE to OFFSET of TO, and cleans it there."""
    with Part(source, 0, None) as source_part:
        with Part(to, offset, source_part.length, writable=True) as to_part:
            do("sluice_sync_copy", to_part.address, source_part.address, source_part.length)


def publish(buffer, value, offset=0):
    """Stores VALUE, 64 bits, at OFFSET, behind all that this thread has cleaned, and writes it back."""
    if not 0 <= value < 1 << 64:
        raise OverflowError("a flag has 64 bits, without a sign")
    with Part(buffer, offset, 8, writable=True) as part:
        do("sluice_sync_publish", part.address, value)


def observe(buffer, offset=0):
    """The 64 bits that memory holds at OFFSET."""
    value = ctypes.c_uint64()
    with Part(buffer, offset, 8) as part:
        do("sluice_sync_observe", part.address, ctypes.byref(value))
    return value.value


load()
