// SPDX-License-Identifier: BSD-3-Clause
#include "udapl/provider/dat_functions.hpp"

namespace sluice::dapl {

namespace {

DAT_PROVIDER make_table() noexcept {
    DAT_PROVIDER table{};
    add_ia_functions(table);
    add_evd_functions(table);
    add_cno_functions(table);
    add_ep_functions(table);
    add_connection_functions(table);
    add_post_functions(table);
    add_memory_functions(table);
    add_rmr_functions(table);
    add_rsp_functions(table);
    add_srq_functions(table);
    add_own_functions(table);
    return table;
}

} // namespace

const DAT_PROVIDER& functions() noexcept {
    static const DAT_PROVIDER table = make_table();
    return table;
}

} // namespace sluice::dapl
