# SPDX-License-Identifier: BSD-3-Clause
#
# How every target of ours is built. One place, so that no library forgets hidden visibility
# or its version script.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
# Static libraries of ours end up inside shared ones.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_package(Threads REQUIRED)

add_library(sluice_options INTERFACE)
# secure_getenv, dl_iterate_phdr and friends.
target_compile_definitions(sluice_options INTERFACE _GNU_SOURCE)
target_include_directories(sluice_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
target_compile_options(
  sluice_options
  INTERFACE -Wall
            -Wextra
            -Wshadow
            -Wvla
            -Wcast-qual
            -Wformat=2
            -Wundef
            $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
            $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>
            $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
            $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
            $<$<BOOL:${SLUICE_WERROR}>:-Werror>)
# What a library says of its sources is the same wherever they lie.
target_compile_options(sluice_options INTERFACE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
target_link_libraries(sluice_options INTERFACE Threads::Threads)
if(SLUICE_PROBES)
  include(CheckIncludeFileCXX)
  check_include_file_cxx(sys/sdt.h SLUICE_HAS_SDT)
  if(SLUICE_HAS_SDT)
    target_compile_definitions(sluice_options INTERFACE SLUICE_PROBES)
  else()
    message(STATUS "Without probes for bpftrace: <sys/sdt.h> (systemtap-sdt-dev) isn't there for this machine")
  endif()
endif()
if(SLUICE_ARCH STREQUAL riscv64)
  # No instruction there works on single bytes or halves atomically; gcc 12 calls a library.
  target_link_libraries(sluice_options INTERFACE atomic)
endif()

if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
  # What nobody calls of a static library isn't in the libraries and programs that it ends up in.
  target_compile_options(sluice_options INTERFACE -ffunction-sections -fdata-sections)
  target_link_options(sluice_options INTERFACE LINKER:--gc-sections)
endif()

# Objects have both kinds of code: libsluice is optimised when it is linked, and other libraries and programs, hundreds of
# tests among them, are linked as they are. Flags for that of a distribution's own come first.
if(SLUICE_LTO
   AND NOT CMAKE_BUILD_TYPE STREQUAL Debug
   AND NOT SLUICE_SANITIZE
   AND CMAKE_CXX_COMPILER_ID STREQUAL GNU
   AND NOT "${CMAKE_CXX_FLAGS} ${CMAKE_SHARED_LINKER_FLAGS}" MATCHES "-f(no-)?lto")
  target_compile_options(sluice_options INTERFACE -flto=auto -ffat-lto-objects)
  target_link_options(sluice_options INTERFACE $<IF:$<BOOL:$<TARGET_PROPERTY:SLUICE_LINKED_AS_ONE>>,-flto=auto,-fno-lto>)
endif()

if(SLUICE_SANITIZE)
  # A sanitizer's runtime lives in the program. clang gives a program in C a runtime that knows nothing of C++,
  # which libraries of ours need.
  set(SLUICE_SANITIZE_LINK -fsanitize=${SLUICE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND SLUICE_SANITIZE MATCHES undefined)
    list(APPEND SLUICE_SANITIZE_LINK -fsanitize-link-c++-runtime $<$<LINK_LANGUAGE:C>:-lstdc++>)
  endif()
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  if(SLUICE_SANITIZE_NOT)
    target_compile_options(sluice_options INTERFACE -fno-sanitize=${SLUICE_SANITIZE_NOT})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang AND SLUICE_SANITIZE MATCHES undefined)
    # gcc, whose sanitizers ran here before, doesn't look at enumerations either. Programs in C put any number into
    # those of our public structures, and some tests do it on purpose.
    target_compile_options(sluice_options INTERFACE -fno-sanitize=enum)
  endif()
  target_link_options(sluice_options INTERFACE ${SLUICE_SANITIZE_LINK})
  target_compile_definitions(sluice_options INTERFACE SLUICE_UNDER_SANITIZER)
  if(SLUICE_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # It doesn't understand fences. Ours order our stores against the kernel's loads, which it
    # doesn't see either.
    target_compile_options(sluice_options INTERFACE -Wno-tsan)
  endif()
endif()

# Headers that many sources include are compiled once for each set of flags: for code in libraries, and for
# code in programs, which has another model of addresses. A source still includes what it uses: the presets release and
# plain, clang-tidy, and RPM's packages compile without precompiled headers and find what is missing.
set(SLUICE_PCH_HEADERS
    <algorithm> <array> <atomic> <bit> <cerrno> <charconv> <chrono> <cstddef> <cstdint> <cstdio> <cstdlib> <cstring>
    <functional> <map> <memory> <mutex> <new> <optional> <span> <string> <string_view> <thread> <utility> <vector>)
set(SLUICE_PCH_PROGRAM_HEADERS ${SLUICE_PCH_HEADERS} <csignal> <filesystem> <fstream> <set>)
function(sluice_precompile name)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/${name}.cpp" CONTENT "" @ONLY)
  add_library(${name} OBJECT "${PROJECT_BINARY_DIR}/generated/${name}.cpp")
  target_link_libraries(${name} PRIVATE sluice_options)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:\\1>" OUTPUT_VARIABLE headers)
  target_precompile_headers(${name} PRIVATE ${headers})
endfunction()

# For programs: how they are compiled.
function(sluice_precompile_for_programs name)
  sluice_precompile(${name} ${SLUICE_PCH_PROGRAM_HEADERS} ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE ${SLUICE_PROGRAM_OPTIONS})
endfunction()

if(SLUICE_PCH)
  # gcc 12 forgets that functions inlined from a precompiled header are the system's, and warns of them wrongly.
  target_compile_options(
    sluice_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-restrict>)
  sluice_precompile(sluice_pch_library ${SLUICE_PCH_HEADERS})
  sluice_precompile_for_programs(sluice_pch_program)
endif()
set(SLUICE_PCH_OF_PROGRAMS sluice_pch_program) # or what sluice_precompile_tests() has made for a folder

# sluice_use_precompiled(TARGET): to be called for targets in C++ that have the flags of sluice_options. Programs get
# those of SLUICE_PROGRAM_OPTIONS, too.
function(sluice_use_precompiled name)
  get_target_property(type ${name} TYPE)
  if(NOT SLUICE_PCH)
    return()
  elseif(type STREQUAL EXECUTABLE)
    target_compile_options(${name} PRIVATE ${SLUICE_PROGRAM_OPTIONS})
    target_precompile_headers(${name} REUSE_FROM ${SLUICE_PCH_OF_PROGRAMS})
  else()
    target_precompile_headers(${name} REUSE_FROM sluice_pch_library)
  endif()
endfunction()

# sluice_unite(TARGET): with SLUICE_UNITE, the sources of a library or program are compiled as one (ADR 7). Those of
# sluice_compile_small(), which is called before, have options of their own, and CMake would compile each by itself:
# they are another one.
function(sluice_unite name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${SLUICE_UNITE} UNITY_BUILD_BATCH_SIZE 0)
  if(NOT SLUICE_UNITE)
    return()
  endif()
  # To gcc, a type of a file that is included, and not compiled, is one that other objects have, too.
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${name} SOURCES)
  set(included "")
  foreach(source IN LISTS sources)
    get_source_file_property(is_small "${source}" SLUICE_COMPILE_SMALL)
    get_source_file_property(is_alone "${source}" SKIP_UNITY_BUILD_INCLUSION)
    if(is_small AND NOT is_alone)
      set_source_files_properties("${source}" PROPERTIES HEADER_FILE_ONLY ON)
      string(APPEND included "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"\n")
    endif()
  endforeach()
  if(included)
    set(small "${CMAKE_CURRENT_BINARY_DIR}/${name}_small.cpp")
    file(CONFIGURE OUTPUT "${small}" CONTENT "${included}" @ONLY)
    set_source_files_properties("${small}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    sluice_compile_small("${small}")
    target_sources(${name} PRIVATE "${small}")
  endif()
endfunction()

# sluice_compile_alone(SOURCES...): sources of the current folder that are never compiled together with others. Most
# give something of their own, in an anonymous namespace, the name that another source of the library gives it, too.
function(sluice_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# sluice_compile_small(SOURCES...): sources of the current folder that run when something is opened, connected, listed or
# described, and never for a message. A program that uses RDMA loads all of them: they are compiled for size where others are
# compiled for speed.
function(sluice_compile_small)
  # Trees for tests have no use for it: there they are compiled with all others of their library.
  if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -Os SLUICE_COMPILE_SMALL ON)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      # It takes no headers that were precompiled for speed, and warns of that in each source.
      set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endif()
endfunction()

# sluice_static_library(NAME SOURCES... [LINK libraries...])
function(sluice_static_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC sluice_options ${arg_LINK})
  sluice_use_precompiled(${name})
  sluice_unite(${name})
endfunction()

# sluice_find_libraries(TARGET DIR): once installed, into DIR, it finds our libraries wherever the prefix is moved to.
# Without this neither a linker nor a loader finds what librpma needs, unless LD_LIBRARY_PATH says so. A package's
# libraries lie where the loader looks anyway, and distributions refuse such paths.
function(sluice_find_libraries name dir)
  file(RELATIVE_PATH libraries "${dir}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  string(REGEX REPLACE "/$" "" libraries "$ORIGIN/${libraries}")
  if(SLUICE_RUNPATH)
    set_target_properties(${name} PROPERTIES INSTALL_RPATH "${libraries}")
  endif()
endfunction()

# sluice_static_libstdcxx(TARGET): it has a C++ library in it, and programs load none for it (ADR 106). Whatever gets into
# other people's programs unasked is always made so; a library that programs are linked with, if SLUICE_STATIC_LIBSTDCXX is on.
# Its version script, or --exclude-libs, hides that library's functions. No exception leaves either kind.
function(sluice_static_libstdcxx name)
  # A sanitizer's runtime brings the program's.
  if(NOT SLUICE_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()

# sluice_shared_library(NAME SOVERSION n MAP script SOURCES... [LINK libraries...] [LOADED [COMPONENT name]])
# Exports what MAP lists and nothing else; an undefined symbol is a link error, not a surprise.
# LOADED: by name, at run time, and by nobody's linker: without what development needs.
# COMPONENT: apart from everything else, by cmake --install --component NAME alone.
function(sluice_shared_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LOADED" "SOVERSION;MAP;COMPONENT" "LINK")
  add_library(${name} SHARED ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE sluice_options ${arg_LINK})
  sluice_use_precompiled(${name})
  sluice_unite(${name})
  set(map "${CMAKE_CURRENT_SOURCE_DIR}/${arg_MAP}")
  # Threads and handlers of signals may run in it, so it stays where it is after the last dlclose().
  target_link_options(${name} PRIVATE "LINKER:--version-script=${map}" "LINKER:-z,nodelete")
  if(NOT SLUICE_SANITIZE)
    # A sanitizer's runtime lives in the executable; only without one is every symbol known here.
    target_link_options(${name} PRIVATE "LINKER:--no-undefined")
  endif()
  set_target_properties(
    # The build's own path is never in it, so that it is the same bytes wherever it is built.
    ${name} PROPERTIES BUILD_RPATH_USE_ORIGIN ON VERSION ${arg_SOVERSION}.${PROJECT_VERSION} SOVERSION ${arg_SOVERSION}
                       LINK_DEPENDS "${map}" SLUICE_MAP "${map}")
  sluice_find_libraries(${name} "${CMAKE_INSTALL_FULL_LIBDIR}")
  if(arg_COMPONENT)
    install(TARGETS ${name} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP COMPONENT ${arg_COMPONENT}
            EXCLUDE_FROM_ALL)
  elseif(arg_LOADED)
    install(TARGETS ${name} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_SKIP)
  else()
    # A target file for each: packages may install them apart.
    set_property(GLOBAL APPEND PROPERTY SLUICE_LIBRARIES ${name})
    install(TARGETS ${name} EXPORT SluiceTargets-${name}
            LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" NAMELINK_COMPONENT Development)
  endif()
endfunction()
