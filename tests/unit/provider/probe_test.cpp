// SPDX-License-Identifier: BSD-3-Clause
#include "provider/abi/probe.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "provider/claim.hpp"
#include "tests/cmocka.hpp"

using sluice::ErrorKind;
using sluice::Result;
using sluice::abi::find_symbols;
using sluice::abi::Layout;
using sluice::abi::measure;
using sluice::abi::Slot;
using sluice::abi::slot_index;
using sluice::abi::Symbols;

namespace {

// A fake libibverbs of the build tree, closed at the end of the test.
class Library {
  public:
    explicit Library(const std::string& name)
        : handle_(dlopen((std::string(FAKE_IBVERBS_DIR "/libfake_ibverbs_") + name + ".so").c_str(),
                         RTLD_NOW | RTLD_LOCAL)) {
        assert_non_null(handle_);
    }
    ~Library() { dlclose(handle_); }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    void* handle() const { return handle_; }
    int live_contexts() const { return *static_cast<int*>(dlsym(handle_, "fake_live_contexts")); }

  private:
    void* handle_;
};

struct Expected {
    const char* name;
    int version;
    Layout layout;
};

// As on most machines, where a mutex has 40 bytes.
constexpr Expected kKnown[] = {
    {"v34", 34, {73, 648, 344}}, {"v35", 34, {75, 648, 344}}, {"v36", 34, {76, 648, 344}},
    {"v37", 34, {76, 648, 344}}, {"v44", 34, {76, 648, 352}}, {"v45", 34, {76, 648, 360}},
    {"v57", 57, {76, 648, 360}}, {"v59", 59, {79, 672, 360}}, {"v62", 59, {81, 680, 360}},
    {"v64", 64, {83, 696, 360}}, {"v65", 65, {93, 696, 360}},
};

TEST(measure__each_known_layout__is_found) {
    for (const Expected& expected : kKnown) {
        const Library library(expected.name);
        const Result<Symbols> symbols = find_symbols(library.handle());
        assert_true(symbols.ok());
        assert_int_equal(symbols->version, expected.version);
        const Result<Layout> layout = measure(*symbols);
        assert_true(layout.ok());
        assert_int_equal(layout->slot_count, expected.layout.slot_count);
        assert_int_equal(layout->verbs_context_bytes,
                         expected.layout.verbs_context_bytes + sluice::abi::kMutexExtra);
        assert_int_equal(layout->qp_mask_offset, expected.layout.qp_mask_offset + sluice::abi::kMutexExtra);
        assert_int_equal(library.live_contexts(), 0);
    }
}

// Lines of tests/fixtures/libibverbs_layouts that begin with KIND, without it.
std::vector<std::istringstream> facts(const std::string& kind) {
    std::ifstream file(LIBIBVERBS_LAYOUTS);
    std::vector<std::istringstream> found;
    for (std::string line; std::getline(file, line);) {
        if (line.rfind(kind + ' ', 0) == 0) {
            found.emplace_back(line.substr(kind.size() + 1));
        }
    }
    return found;
}

// The functions are one word each, and all that grows.
TEST(releases__each_layout__is_one_that_is_measured_above) {
    std::size_t releases = 0;
    for (std::istringstream& line : facts("layout")) {
        std::string version;
        int label = 0;
        std::size_t operations = 0;
        std::size_t in_context = 0;
        std::size_t in_queue_pair = 0;
        line >> version >> label >> operations >> in_context >> in_queue_pair;
        const bool measured = std::ranges::any_of(kKnown, [&](const Expected& known) {
            return known.version == label && known.layout.slot_count == operations &&
                   known.layout.verbs_context_bytes == 648 + (in_context - 35) * 8 &&
                   known.layout.qp_mask_offset == 344 + (in_queue_pair - 20) * 8;
        });
        if (!measured) {
            fail_msg("no layout above is that of rdma-core %s", version.c_str());
        }
        ++releases;
    }
    assert_true(releases > 250);
}

TEST(releases__each_order_of_operations__is_the_one_in_our_table) {
    std::set<std::size_t> counts;
    for (std::istringstream& line : facts("operations")) {
        const std::vector<std::string> names{std::istream_iterator<std::string>(line), {}};
        counts.insert(names.size());
        for (std::size_t i = 0; i < sluice::abi::kSlotNames.size(); ++i) {
            const auto index = slot_index(static_cast<Slot>(i), names.size());
            const auto at = std::ranges::find(names, sluice::abi::kSlotNames[i]);
            assert_int_equal(index.has_value(), at != names.end());
            assert_true(!index || names[*index] == sluice::abi::kSlotNames[i]);
        }
    }
    assert_true(std::ranges::equal(counts, sluice::abi::kKnownSlotCounts));
}

TEST(measure__larger_context__is_still_found) {
    const Library library("larger");
    const Result<Symbols> symbols = find_symbols(library.handle());
    const Result<Layout> layout = measure(*symbols);
    assert_true(layout.ok());
    assert_int_equal(layout->verbs_context_bytes, 1024 + sluice::abi::kMutexExtra);
}

void expect_declined(const char* name, const char* because) {
    const Library library(name);
    const Result<Symbols> symbols = find_symbols(library.handle());
    assert_true(symbols.ok());
    const Result<Layout> layout = measure(*symbols);
    assert_false(layout.ok());
    assert_int_equal(static_cast<int>(layout.error().kind()), static_cast<int>(ErrorKind::kNotSupported));
    assert_non_null(strstr(layout.error().text(), because));
    assert_int_equal(library.live_contexts(), 0);
}

// What upstream may do next.
TEST(measure__operations_behind_the_known_ones__is_used_without_them) {
    const Library library("appended");
    const Result<Symbols> symbols = find_symbols(library.handle());
    assert_int_equal(symbols->version, 66);
    const Result<Layout> layout = measure(*symbols);
    assert_true(layout.ok());
    assert_int_equal(layout->slot_count, 93);
    assert_int_equal(layout->appended, 2);
    assert_int_equal(layout->verbs_context_bytes, 712 + sluice::abi::kMutexExtra);
    assert_int_equal(layout->qp_mask_offset, 368 + sluice::abi::kMutexExtra);
    assert_int_equal(library.live_contexts(), 0);
}

TEST(measure__new_label_on_a_known_layout__is_used) {
    const Library library("relabelled");
    const Result<Symbols> symbols = find_symbols(library.handle());
    assert_int_equal(symbols->version, 66);
    const Result<Layout> layout = measure(*symbols);
    assert_true(layout.ok());
    assert_int_equal(layout->slot_count, 93);
    assert_int_equal(layout->appended, 0);
}

TEST(measure__operation_between_the_known_ones__declines_and_says_which) {
    expect_declined("inserted", "94 provider operations, but not in the known order: free_dm is operation ");
}

TEST(measure__operation_where_the_header_shows_none__declines) {
    expect_declined("inserted_late", "unimport_pd is not operation 92");
}

TEST(measure__append_that_can_not_be_proved__declines) {
    const Library library("appended");
    Result<Symbols> symbols = find_symbols(library.handle());
    symbols->unimport_pd = nullptr;
    assert_false(measure(*symbols).ok());
}

TEST(measure__unknown_number_of_operations__declines) {
    expect_declined("unknown", "85 operations");
}

TEST(measure__known_number_in_another_order__declines) {
    expect_declined("shuffled", "not in the known order: post_recv is operation ");
}

TEST(measure__queue_pair_mask_nowhere__declines) {
    expect_declined("nomask", "mask cannot be determined");
}

TEST(find_symbols__rdma_core_36_and_37__only_the_newer_opens_without_kernel) {
    const Library older("v36");
    assert_false(find_symbols(older.handle())->opens_without_kernel);
    const Library newer("v37");
    assert_true(find_symbols(newer.handle())->opens_without_kernel);
}

TEST(find_symbols__a_function_missing__declines) {
    const Library library("incomplete");
    const Result<Symbols> symbols = find_symbols(library.handle());
    assert_false(symbols.ok());
    assert_int_equal(static_cast<int>(symbols.error().kind()), static_cast<int>(ErrorKind::kNotFound));
}

TEST(find_symbols__no_libibverbs_at_all__declines) {
    void* self = dlopen(nullptr, RTLD_NOW);
    assert_false(find_symbols(self).ok());
    dlclose(self);
}

// Counted by hand, so that the table in the code can be wrong.
TEST(slot_index__known_layouts__are_as_observed) {
    struct Observed {
        std::size_t slots, advise_mr, alloc_pd, create_qp, post_send, query_port, reg_mr, unimport_pd;
    };
    constexpr Observed kObserved[] = {
        {73, 0, 5, 19, 54, 59, 66, 72}, {75, 0, 5, 19, 55, 60, 67, 74}, {76, 0, 5, 19, 55, 60, 68, 75},
        {79, 0, 6, 20, 57, 62, 70, 78}, {81, 0, 6, 20, 58, 63, 72, 80}, {83, 0, 7, 21, 60, 65, 74, 82},
        {93, 0, 7, 22, 64, 71, 82, 92},
    };
    for (const Observed& seen : kObserved) {
        assert_int_equal(*slot_index(Slot::advise_mr, seen.slots), seen.advise_mr);
        assert_int_equal(*slot_index(Slot::alloc_pd, seen.slots), seen.alloc_pd);
        assert_int_equal(*slot_index(Slot::create_qp, seen.slots), seen.create_qp);
        assert_int_equal(*slot_index(Slot::post_send, seen.slots), seen.post_send);
        assert_int_equal(*slot_index(Slot::query_port, seen.slots), seen.query_port);
        assert_int_equal(*slot_index(Slot::reg_mr, seen.slots), seen.reg_mr);
        assert_int_equal(*slot_index(Slot::unimport_pd, seen.slots), seen.unimport_pd);
    }
    assert_false(slot_index(Slot::import_dm, 73).has_value());
    assert_false(slot_index(Slot::alloc_buf, 81).has_value());
    assert_false(slot_index(Slot::post_send, 77).has_value());
}

TEST(device_abi_version__oldest_layout__is_one_word_earlier) {
    sluice::abi::VerbsSysfsDevice device{};
    device.num_ports = 2;
    device.abi_version = 7;
    assert_int_equal(device_abi_version(device, {73, 648, 344}), 2);
    assert_int_equal(device_abi_version(device, {76, 648, 352}), 7);
}

TEST(list_names_sluice__names_and_paths__are_told_apart) {
    using sluice::provider::list_names_sluice;
    assert_true(list_names_sluice("sluice"));
    assert_true(list_names_sluice("rxe:sluice"));
    assert_true(list_names_sluice("mlx5;sluice;rxe"));
    assert_true(list_names_sluice("/opt/x/libsluice"));
    assert_false(list_names_sluice(""));
    assert_false(list_names_sluice(":;"));
    assert_false(list_names_sluice("sluices"));
    assert_false(list_names_sluice("/opt/sluice/librxe"));
    assert_false(list_names_sluice("libsluice"));
}

TEST(is_provider_path__provider_names__are_recognised) {
    using sluice::provider::is_provider_path;
    assert_true(is_provider_path("/usr/lib/libibverbs/libsluice-rdmav34.so"));
    assert_true(is_provider_path("librxe-rdmav64.so"));
    assert_false(is_provider_path("/usr/lib/libsluice.so.1"));
    assert_false(is_provider_path("/x-rdmav34/libsluice.so.1"));
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
