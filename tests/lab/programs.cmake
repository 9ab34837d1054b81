# SPDX-License-Identifier: BSD-3-Clause
#
# What the lab's tests run in a guest, besides what everybody has.
find_library(IBVERBS_LIBRARY ibverbs REQUIRED)
find_library(RDMACM_LIBRARY rdmacm REQUIRED)

# lab_program(NAME SOURCES... LINK libraries...)
function(lab_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" LINK)
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_include_directories(${name} SYSTEM PRIVATE "${IBVERBS_INCLUDE_DIR}")
  target_link_libraries(${name} PRIVATE sluice_options ${arg_LINK} "${IBVERBS_LIBRARY}")
endfunction()

if(SLUICE_TOOLS)
  lab_program(lab_query_device query_device.c LINK sluice)
  set_target_properties(lab_query_device PROPERTIES OUTPUT_NAME query_device)
endif()
lab_program(huge_pages huge_pages.cpp)
lab_program(inline_bytes inline_bytes.c)
lab_program(locked_memory locked_memory.cpp LINK sluice_ibverbs_glue)
lab_program(provider_creations provider_creations.cpp)
lab_program(provider_import provider_import.cpp)
lab_program(provider_removal provider_removal.cpp LINK "${RDMACM_LIBRARY}")
lab_program(provider_verbs provider_verbs.cpp LINK sluice)
lab_program(register_pmem register_pmem.c)
lab_program(reply_address reply_address.c)
# Two processes that do everything with each other, one of them on a device without a kernel.
lab_program(reach reach/end.cpp reach/errors.cpp reach/main.cpp reach/mixed.cpp reach/rc.cpp reach/receive.cpp
            reach/speed.cpp reach/ud.cpp LINK sluice)
lab_program(uroce_cm uroce_cm.cpp LINK sluice)
lab_program(uroce_rping uroce_rping.cpp LINK sluice)

# All that runs in an arm64 guest, as one target; in trees for arm64 that have its libraries.
if(SLUICE_ARCH STREQUAL aarch64 AND SLUICE_TOOLS)
  add_executable(counted_sync counted_sync.c)
  target_link_libraries(counted_sync PRIVATE sluice_options dat)
  sluice_targets("${PROJECT_SOURCE_DIR}/examples" examples)
  sluice_targets("${PROJECT_SOURCE_DIR}/tests/unit/provider" provider_tests)
  add_custom_target(
    arm64_guest
    DEPENDS counted_sync inline_bytes lab_query_device provider_import provider_removal provider_verbs sluice sluice_command
            sluice_provider_probe sluice_preload sluice_check sluice_trace dapl-sluice rpma test_rpma_transfers test_rpma_queues
            test_udapl_dapl_endpoints test_udapl_dapl_events test_udapl_dapl_memory test_udapl_dapl_simulated
            test_core_fault_access test_core_old_pages test_core_own_memory test_check_pages sluice_sync_hosts
            race_17_wrong race_17_corrected race_18_wrong race_18_corrected race_48_wrong race_48_corrected
            race_49_wrong race_49_corrected race_50_wrong race_50_corrected race_89_wrong race_89_corrected
            race_90_wrong race_90_corrected
            ${examples} ${provider_tests})
endif()
