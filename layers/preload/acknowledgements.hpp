// SPDX-License-Identifier: BSD-3-Clause
//
// The events of an id that a program has taken and not yet acknowledged. Destroying an id waits for them.
// Only events that this library makes are counted: libsluice counts its own.
//
// Thread safety: all functions may be called from any thread.
#pragma once

namespace sluice::layers::preload {

struct Id;

void taken(const Id& id);
void acknowledged(const Id& id);
void await_acknowledgements(const Id& id);

} // namespace sluice::layers::preload
