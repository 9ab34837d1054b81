// SPDX-License-Identifier: BSD-3-Clause
//
// What the versions of DAT say differently about the same objects, as functions that have the same names for
// both:
//
//     as_programs_know()   an adapter's handle, as a program knows it
//     segment_of(), segments_of(), triplet_of(), remote_of(), all_batches()   memory
//     add_own()            the members of a structure that one version alone has
//
// and constants.
#pragma once

#include <dat/udat.h>

#if DAT_VERSION_MAJOR == 2
#include "udapl/provider/dat2_version.hpp"
#else
#include "udapl/provider/dat1_version.hpp"
#endif
