// SPDX-License-Identifier: BSD-3-Clause
//
// A drop-in has nothing of its own but its name and the nodes of its versions: what it is made of,
// CMakeLists.txt says. C knows no empty source.
typedef int sluice_drop_in;
