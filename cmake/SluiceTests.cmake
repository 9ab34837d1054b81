# SPDX-License-Identifier: BSD-3-Clause
#
# Tests are CMocka programs, one per subject, run through ctest. A cross build has no CMocka
# package on every architecture, so it compiles CMocka's single source file itself
# (SLUICE_CMOCKA_SOURCE; scripts/test fetches it).

set(SLUICE_CMOCKA_SOURCE "" CACHE PATH "Unpacked CMocka source, for cross builds")

add_library(sluice_cmocka INTERFACE)
if(SLUICE_CMOCKA_SOURCE)
  file(WRITE "${CMAKE_BINARY_DIR}/cmocka/config.h"
       "#define HAVE_INTTYPES_H 1\n#define HAVE_STDINT_H 1\n#define HAVE_STRUCT_TIMESPEC 1\n"
       "#define HAVE_CLOCK_GETTIME 1\n#define HAVE_SIGLONGJMP 1\n#define HAVE_STRINGS_H 1\n"
       "#define HAVE_SNPRINTF 1\n#define HAVE_VSNPRINTF 1\n#define HAVE_GCC_THREAD_LOCAL_STORAGE 1\n"
       "#define HAVE_SIGNAL_H 1\n#define HAVE_SETJMP_H 1\n#define HAVE_TIME_H 1\n")
  add_library(cmocka_from_source STATIC "${SLUICE_CMOCKA_SOURCE}/src/cmocka.c")
  target_compile_definitions(cmocka_from_source PRIVATE HAVE_CONFIG_H)
  target_include_directories(cmocka_from_source PRIVATE "${CMAKE_BINARY_DIR}/cmocka")
  target_include_directories(cmocka_from_source SYSTEM PUBLIC "${SLUICE_CMOCKA_SOURCE}/include")
  target_link_libraries(sluice_cmocka INTERFACE cmocka_from_source)
else()
  find_path(CMOCKA_INCLUDE_DIR cmocka.h REQUIRED)
  find_library(CMOCKA_LIBRARY cmocka REQUIRED)
  target_include_directories(sluice_cmocka SYSTEM INTERFACE "${CMOCKA_INCLUDE_DIR}")
  target_link_libraries(sluice_cmocka INTERFACE "${CMOCKA_LIBRARY}")
endif()

# The thread sanitizer compares what threads do. A program with one thread takes several times as long under it, and
# the result is known before.
if(SLUICE_SANITIZE MATCHES thread)
  set(SLUICE_THREADS_ONLY ON)
else()
  set(SLUICE_THREADS_ONLY OFF)
endif()
if(NOT SLUICE_SANITIZE)
  add_library(sluice_single_threaded OBJECT "${PROJECT_SOURCE_DIR}/tests/single_threaded.cpp")
  target_link_libraries(sluice_single_threaded PRIVATE sluice_options)
endif()

# sluice_precompile_tests(HEADERS headers... [LINK libraries...]): programs that follow in this folder, and those below it,
# find these headers of ours precompiled. Each of them reads most of what a library is made of, which takes a third to
# a half of the time in which it is compiled. Only in trees that run all parts: others compile a few of a folder's programs, and warnings
# about a precompiled header are lost there. Without HEADERS: those that every program has, again.
function(sluice_precompile_tests)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "HEADERS;LINK")
  if(NOT SLUICE_PCH OR NOT (SLUICE_SANITIZE OR CMAKE_CROSSCOMPILING))
    return()
  elseif(NOT arg_HEADERS)
    set(SLUICE_PCH_OF_PROGRAMS sluice_pch_program PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  string(MAKE_C_IDENTIFIER "sluice_pch_${name}" name)
  list(TRANSFORM arg_HEADERS PREPEND "${PROJECT_SOURCE_DIR}/")
  sluice_precompile_for_programs(${name} ${arg_HEADERS})
  target_link_libraries(${name} PRIVATE sluice_cmocka ${arg_LINK})
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON) # if all programs are
  set(SLUICE_PCH_OF_PROGRAMS ${name} PARENT_SCOPE)
endfunction()

# sluice_part(TEST PROGRAM): `asan` has the test by day, too, but where a folder sets SLUICE_PLAIN_BY_DAY.
function(sluice_part test program)
  if(SLUICE_SANITIZE OR SLUICE_PLAIN_BY_DAY)
    return()
  endif()
  get_test_property(${test} LABELS labels)
  set_tests_properties(${test} PROPERTIES LABELS "${labels};part")
  set_property(GLOBAL APPEND PROPERTY SLUICE_PARTS ${program})
endfunction()

# Where valgrind has nothing to look at: what provokes faults of its own, maps memory twice, or starts itself by /proc/self/exe, which is
# valgrind there; and loads, which would take hours.
set(SLUICE_NOT_FOR_MEMCHECK
    check.pages
    check.pages_device
    check.pages_programs
    udapl.dapl_load
    udapl.simulated_memory
    uroce.connect.programs
    uroce.verbs_soak)

# sluice_memcheck(TEST PROGRAM ARGS...): the test once more, under valgrind's memcheck.
function(sluice_memcheck test program)
  if(test IN_LIST SLUICE_NOT_FOR_MEMCHECK)
    return()
  endif()
  add_test(NAME memcheck.${test} COMMAND "${PROJECT_SOURCE_DIR}/tests/memcheck/run" "$<TARGET_FILE:${program}>" ${ARGN})
  set_tests_properties(memcheck.${test} PROPERTIES LABELS memcheck TIMEOUT 1800)
  # What the test needs is said after this.
  cmake_language(EVAL CODE "cmake_language(DEFER CALL sluice_copy_test_properties ${test} memcheck.${test})")
endfunction()

function(sluice_copy_test_properties from to)
  foreach(property ENVIRONMENT RESOURCE_LOCK RUN_SERIAL SKIP_RETURN_CODE WORKING_DIRECTORY)
    get_test_property(${from} ${property} value)
    if(NOT value STREQUAL NOTFOUND)
      set_tests_properties(${to} PROPERTIES ${property} "${value}")
    endif()
  endforeach()
endfunction()

# sluice_by_day(PROGRAM...): parts that a test of the day runs.
function(sluice_by_day)
  set_property(GLOBAL APPEND PROPERTY SLUICE_PARTS_BY_DAY ${ARGN})
endfunction()

# sluice_targets(DIR VARIABLE): what is made in DIR and below it.
function(sluice_targets dir variable)
  get_property(found DIRECTORY "${dir}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subdirectories DIRECTORY "${dir}" PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    sluice_targets("${subdirectory}" below)
    list(APPEND found ${below})
  endforeach()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# sluice_day(): the target "day", which is all that the tests of the day need; to be called last. Parts are most of what
# a tree compiles, and the benchmarks most of the rest.
function(sluice_day)
  sluice_targets("${PROJECT_SOURCE_DIR}" targets)
  get_property(parts GLOBAL PROPERTY SLUICE_PARTS)
  get_property(by_day GLOBAL PROPERTY SLUICE_PARTS_BY_DAY)
  list(REMOVE_ITEM targets ${parts})
  list(FILTER targets EXCLUDE REGEX "^(bench|fuzz)_|^fuzzers$")
  add_custom_target(day DEPENDS ${targets} ${by_day})
endfunction()

# sluice_test(NAME SOURCES... [LINK libraries...] [LABELS labels...] [ARGS args...] [SINGLE_THREADED] [UNSANITIZED] [OPTIMIZED])
# Labels default to "unit". The sanitizer and cross presets run the same programs; what `asan` runs has the label
# "part", too, where there is no sanitizer, and waits for the night there.
# SINGLE_THREADED: neither the program nor a library in it starts a thread. `tsan` doesn't build it; without a
# sanitizer, the test fails if it starts one.
# UNSANITIZED: no sanitizer preset has it.
# OPTIMIZED: it computes for longer than it is compiled, and is compiled as libraries are.
function(sluice_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SINGLE_THREADED;UNSANITIZED;OPTIMIZED" "" "LINK;LABELS;ARGS")
  if(arg_UNSANITIZED AND SLUICE_SANITIZE)
    return()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  string(REPLACE "." "_" target "test_${name}")
  add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE sluice_options sluice_cmocka ${arg_LINK})
  if(NOT arg_OPTIMIZED OR NOT SLUICE_PROGRAM_OPTIONS)
    sluice_use_precompiled(${target})
  endif()
  if(arg_SINGLE_THREADED AND SLUICE_THREADS_ONLY)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  elseif(arg_SINGLE_THREADED AND TARGET sluice_single_threaded)
    target_link_libraries(${target} PRIVATE sluice_single_threaded)
  endif()
  add_test(NAME ${name} COMMAND ${target} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT 300)
  if(NOT arg_UNSANITIZED)
    sluice_part(${name} ${target})
    if(arg_LABELS STREQUAL unit AND NOT SLUICE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
      sluice_memcheck(${name} ${target} ${arg_ARGS})
    endif()
  endif()
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    # User-mode emulation can't start the program again by its name and keeps no address-space
    # limit; the few tests that need those are left out, natively they run.
    target_compile_definitions(${target} PRIVATE TEST_EMULATED)
  endif()
endfunction()
