# SPDX-License-Identifier: BSD-3-Clause
#
# Names the target architecture the way our folders do, or stops: an architecture that is not
# listed has no cache maintenance and no barriers here, and guessing them would corrupt data.

if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
  message(FATAL_ERROR "Sluice needs a 64-bit target; this one has ${CMAKE_SIZEOF_VOID_P}-byte pointers")
endif()

string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
if(processor MATCHES "^(x86_64|amd64)$")
  set(SLUICE_ARCH x86_64)
elseif(processor MATCHES "^(aarch64|arm64)$")
  set(SLUICE_ARCH aarch64)
elseif(processor STREQUAL "riscv64")
  set(SLUICE_ARCH riscv64)
elseif(processor STREQUAL "ppc64le")
  set(SLUICE_ARCH ppc64le)
elseif(processor STREQUAL "s390x")
  set(SLUICE_ARCH s390x)
else()
  message(FATAL_ERROR "Sluice has no code for '${CMAKE_SYSTEM_PROCESSOR}'; "
                      "it knows x86_64, aarch64, riscv64, ppc64le and s390x")
endif()
