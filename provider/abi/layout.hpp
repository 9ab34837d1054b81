// SPDX-License-Identifier: BSD-3-Clause
//
// The private structures that libibverbs shares with its providers, as facts: sizes and offsets
// that have held from rdma-core v34 to v65 on LP64. What has moved between versions is not here;
// it is measured when the plugin is loaded (probe.hpp).
//
// The public header is the authority for everything that it declares; static_asserts tie the
// two together.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace sluice::abi {

struct VerbsMatchEntry {
    const void* driver_data;
    union {
        const char* modalias;
        std::uint64_t driver_id;
    };
    std::uint16_t vendor;
    std::uint16_t device;
    std::uint8_t kind;
};
constexpr std::uint8_t kMatchEnd = 0;
constexpr std::uint8_t kMatchDriverId = 3;
static_assert(sizeof(VerbsMatchEntry) == 24 && offsetof(VerbsMatchEntry, kind) == 20);

struct VerbsDeviceOps;

// What a provider gives back for a device it takes. It must be zeroed; the core fills in all of
// it but the first bytes, which belong to nobody.
struct VerbsDevice {
    ibv_device device;
    const VerbsDeviceOps* ops;
    int refcount;
    void* list_next;
    void* list_prev;
    void* sysfs;
    std::uint64_t core_support;
};
static_assert(sizeof(ibv_device) == 664);
static_assert(sizeof(VerbsDevice) == 712);
static_assert(offsetof(VerbsDevice, ops) == 664 && offsetof(VerbsDevice, refcount) == 672 &&
              offsetof(VerbsDevice, core_support) == 704);

// What the core knows of a device when it looks for a provider. The ABI number behind the
// number of ports came one word earlier in the oldest layout: read it with device_abi_version().
struct VerbsSysfsDevice {
    void* list_next;
    void* list_prev;
    void* provider_data;
    const VerbsMatchEntry* match;
    unsigned flags;
    char sysfs_name[64];
    std::uint64_t sysfs_cdev;
    char ibdev_name[64];
    char ibdev_path[256];
    char modalias[512];
    std::uint64_t node_guid;
    std::uint32_t driver_id;
    std::uint32_t node_type;
    int ibdev_index;
    std::uint32_t num_ports;
    std::uint32_t abi_version;
};
static_assert(offsetof(VerbsSysfsDevice, match) == 24 && offsetof(VerbsSysfsDevice, ibdev_name) == 112 &&
              offsetof(VerbsSysfsDevice, driver_id) == 952 && offsetof(VerbsSysfsDevice, abi_version) == 968);

struct VerbsDeviceOps {
    const char* name;
    std::uint32_t match_min_abi_version;
    std::uint32_t match_max_abi_version;
    // Never null: the core walks it unasked, for any device that has a driver id.
    const VerbsMatchEntry* match_table;
    const VerbsDeviceOps** static_providers;
    bool (*match_device)(VerbsSysfsDevice* sysfs_device);
    // Owns cmd_fd, whether it fails or not.
    verbs_context* (*alloc_context)(ibv_device* device, int cmd_fd, void* private_data);
    verbs_context* (*import_context)(ibv_device* device, int cmd_fd);
    VerbsDevice* (*alloc_device)(VerbsSysfsDevice* sysfs_device);
    void (*uninit_device)(VerbsDevice* device);
};
static_assert(sizeof(VerbsDeviceOps) == 72);

// A struct that holds a pthread_mutex_t is that much larger than the numbers here, which are for the
// 40-byte mutex of most architectures: aarch64 has one of 48 bytes.
constexpr std::size_t kMutexExtra = sizeof(pthread_mutex_t) - 40;

// The struct verbs_context of the public header ends in an ibv_context and grows at its front.
// So everything is found from the ibv_context backwards, and what lies right behind it is ours.
static_assert(sizeof(ibv_context) == 328 + kMutexExtra && offsetof(ibv_context, cmd_fd) == 264 &&
              offsetof(ibv_context, abi_compat) == 320 + kMutexExtra);
static_assert(offsetof(verbs_context, context) - offsetof(verbs_context, sz) == 8);
static_assert(offsetof(verbs_context, context) - offsetof(verbs_context, priv) == 112);
static_assert(offsetof(verbs_context, context) - offsetof(verbs_context, create_cq_ex) == 120);

constexpr std::size_t kPrivOpsOffset = 24; // of the table of operations in struct verbs_ex_private

struct VerbsMr {
    ibv_mr mr;
    int type;
    int access;
};
constexpr int kMrTypeMr = 0;
constexpr int kMrTypeImported = 2;
constexpr int kMrTypeDmabuf = 3;
static_assert(sizeof(VerbsMr) == 56);

struct VerbsSrq {
    ibv_srq srq;
    ibv_srq_type srq_type;
    ibv_xrcd* xrcd;
    ibv_cq* cq;
    std::uint32_t srq_num;
};
static_assert(sizeof(VerbsSrq) == 160 + kMutexExtra && offsetof(VerbsSrq, srq_num) == 152 + kMutexExtra);

// A queue pair as the core sees it: the extended form, which gains functions at its end, and
// then a mask that tells whether the form is extended. The room is for versions to come; where
// the mask is, is measured.
struct VerbsQp {
    union {
        ibv_qp qp;
        ibv_qp_ex qp_ex;
        std::byte reserve[448];
    };
};
constexpr std::uint32_t kQpMaskExtended = 1U << 1;
static_assert(sizeof(ibv_qp) == 160 + kMutexExtra && offsetof(ibv_qp_ex, wr_abort) == 336 + kMutexExtra);
// Functions that were appended after the first layout; there only if the mask lies behind them.
constexpr std::size_t kQpAtomicWriteOffset = 344 + kMutexExtra;
constexpr std::size_t kQpFlushOffset = 352 + kMutexExtra;

static_assert(sizeof(ibv_cq) == 128 + kMutexExtra && sizeof(ibv_cq_ex) == 288 + kMutexExtra);

} // namespace sluice::abi
