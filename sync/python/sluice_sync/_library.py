# SPDX-License-Identifier: BSD-3-Clause
"""libsluice-sync.so.1, its functions and what they return."""

import ctypes
import os
from typing import NamedTuple

_ADDRESS = ctypes.c_void_p
_COUNT = ctypes.c_uint64
_ARGUMENTS = {
    "sluice_sync_clean": (_ADDRESS, _COUNT),
    "sluice_sync_invalidate": (_ADDRESS, _COUNT),
    "sluice_sync_clean_invalidate": (_ADDRESS, _COUNT),
    "sluice_sync_persist": (_ADDRESS, _COUNT),
    "sluice_sync_clean_batch": (_ADDRESS, _COUNT),
    "sluice_sync_invalidate_batch": (_ADDRESS, _COUNT),
    "sluice_sync_clean_invalidate_batch": (_ADDRESS, _COUNT),
    "sluice_sync_persist_batch": (_ADDRESS, _COUNT),
    "sluice_sync_copy": (_ADDRESS, _ADDRESS, _COUNT),
    "sluice_sync_publish": (_ADDRESS, _COUNT),
    "sluice_sync_observe": (_ADDRESS, _ADDRESS),
    "sluice_sync_query": (_ADDRESS, ctypes.c_size_t),
}
_TEXTS = (
    "clean",
    "invalidate",
    "persist",
    "copy",
    "before_clean",
    "after_clean",
    "before_invalidate",
    "after_invalidate",
    "line_source",
)
_functions = {}


class Cpu(NamedTuple):
    """What this CPU can; the fields are those of struct sluice_sync_cpu."""

    clean: str
    invalidate: str
    persist: str
    copy: str
    before_clean: str
    after_clean: str
    before_invalidate: str
    after_invalidate: str
    line_source: str
    line_bytes: int
    granule_bytes: int
    copy_bytes: int
    forced: int
    checking: int


class _CpuStruct(ctypes.Structure):
    _fields_ = (
        [(name, ctypes.c_char * 32) for name in _TEXTS]
        + [(name, ctypes.c_uint64) for name in ("line_bytes", "granule_bytes", "copy_bytes")]
        + [(name, ctypes.c_uint32) for name in ("forced", "checking")]
    )


def load():
    library = ctypes.CDLL("libsluice-sync.so.1")
    for name, arguments in _ARGUMENTS.items():
        _functions[name] = getattr(library, name)
        _functions[name].argtypes = arguments
    library.sluice_sync_version.restype = ctypes.c_char_p
    _functions["version"] = library.sluice_sync_version


def do(name, *arguments):
    """Calls the function of that name."""
    error = _functions[name](*arguments)
    if error != 0:
        raise OSError(error, os.strerror(error), name)


def version():
    """The version of the library that is loaded."""
    return _functions["version"]().decode()


def cpu():
    """What this CPU can, as a Cpu."""
    raw = _CpuStruct()
    do("sluice_sync_query", ctypes.byref(raw), ctypes.sizeof(raw))
    values = (getattr(raw, name) for name in Cpu._fields)
    return Cpu(*(value.decode() if isinstance(value, bytes) else value for value in values))
