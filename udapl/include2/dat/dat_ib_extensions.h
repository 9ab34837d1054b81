/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * As much of OpenFabrics' extensions of DAT 2.0, version 2.0.9, as our provider has.
 */
#ifndef SLUICE_UDAPL_INCLUDE2_DAT_DAT_IB_EXTENSIONS_H
#define SLUICE_UDAPL_INCLUDE2_DAT_DAT_IB_EXTENSIONS_H

#include <dat/udat.h>

#define DAT_IB_EXTENSION_VERSION 209

/* A bit of DAT_MEM_PRIV_FLAGS: peers may do atomics. */
#define DAT_IB_MEM_PRIV_REMOTE_ATOMIC 0x40

typedef enum dat_ib_op DAT_ENUM_BASE {
    DAT_IB_FETCH_AND_ADD_OP = 0,
    DAT_IB_CMP_AND_SWAP_OP = 1,
    DAT_IB_RDMA_WRITE_IMMED_OP = 2
} DAT_IB_OP;

/* What the event of a DAT_IB_DTO_EVENT is. */
typedef enum dat_ib_ext_type DAT_ENUM_BASE {
    DAT_IB_FETCH_AND_ADD = 0,
    DAT_IB_CMP_AND_SWAP = 1,
    DAT_IB_RDMA_WRITE_IMMED = 2,
    DAT_IB_RDMA_WRITE_IMMED_DATA = 3, /* at the receiver */
    DAT_IB_RECV_IMMED_DATA = 4
} DAT_IB_EXT_TYPE;

typedef enum dat_ib_status DAT_ENUM_BASE { DAT_OP_SUCCESS = 0, DAT_IB_OP_ERR = 1 } DAT_IB_STATUS;

/* Where event_extension_data begins; what follows there is of other extensions. */
typedef struct dat_ib_extension_event_data {
    DAT_IB_EXT_TYPE type;
    DAT_IB_STATUS status;
    DAT_UINT32 immediate;
} DAT_IB_EXTENSION_EVENT_DATA;

#endif
