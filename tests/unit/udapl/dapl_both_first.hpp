// SPDX-License-Identifier: BSD-3-Clause
//
// An adapter for DAT 1.2, for a test that sees the headers of 2.0.
#pragma once

#include <cstdint>
#include <string>

namespace sluice::dapl2::test {

class FirstAdapter {
  public:
    explicit FirstAdapter(std::string name);
    ~FirstAdapter();
    FirstAdapter(const FirstAdapter&) = delete;
    FirstAdapter& operator=(const FirstAdapter&) = delete;

    // 0: it couldn't be opened.
    std::uint32_t version() const;
    void* handle() const { return ia_; }
    // Whether libdat takes HANDLE for one of its own.
    bool knows(void* handle) const;

  private:
    void* ia_ = nullptr;
};

} // namespace sluice::dapl2::test
