# SPDX-License-Identifier: BSD-3-Clause
# Debian's cross compiler for aarch64. SLUICE_SYSROOT is a whole system of that architecture, as scripts/lab unpacks one
# (scripts/lab --arch aarch64 --print-root): then what needs libraries of RDMA is built, too, and runs in such a system.
# Otherwise tests run under user-mode QEMU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SLUICE_SYSROOT)
if(SLUICE_SYSROOT)
  set(CMAKE_SYSROOT "${SLUICE_SYSROOT}")
  set(ENV{PKG_CONFIG_SYSROOT_DIR} "${SLUICE_SYSROOT}")
  set(ENV{PKG_CONFIG_LIBDIR} "${SLUICE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${SLUICE_SYSROOT}/usr/share/pkgconfig")
else()
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;/usr/aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
