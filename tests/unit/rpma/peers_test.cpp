// SPDX-License-Identifier: BSD-3-Clause
//
// Devices, memory, configurations, descriptors, words and the log: what doesn't need a connection.
#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <random>

#include "rpma/conn.hpp"
#include "tests/unit/rpma/rpma.hpp"

using namespace sluice::rpma::test;

namespace {

using Descriptor = std::array<unsigned char, 21>;

TEST(context__nobody_has_the_address__provider_error) {
    ibv_context* context = nullptr;
    for (const auto type : {RPMA_UTIL_IBV_CONTEXT_LOCAL, RPMA_UTIL_IBV_CONTEXT_REMOTE}) {
        assert_int_equal(rpma_utils_get_ibv_context("no such address", type, &context), RPMA_E_PROVIDER);
    }
    // Of documentation, and so of nobody.
    assert_int_equal(rpma_utils_get_ibv_context("192.0.2.1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
                     RPMA_E_PROVIDER);
    assert_null(context);
}

int refuse_query(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, std::size_t) {
    return EIO;
}

// What a device answers is in a public table of it.
TEST(device__does_not_answer__provider_error) {
    const Host host;
    verbs_context* const verbs = verbs_get_ctx(host.context);
    const auto before = verbs->query_device_ex;
    verbs->query_device_ex = refuse_query;
    int is_capable = -1;
    const int code = rpma_utils_ibv_context_is_odp_capable(host.context, &is_capable);
    rpma_peer* peer = nullptr;
    const int made = rpma_peer_new(host.context, &peer);
    verbs->query_device_ex = before;
    assert_int_equal(code, RPMA_E_PROVIDER);
    assert_int_equal(made, RPMA_E_PROVIDER);
    assert_int_equal(is_capable, -1);
    assert_null(peer);
}

int pages_everything(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr, std::size_t) {
    *attr = {};
    attr->odp_caps.general_caps = IBV_ODP_SUPPORT;
    attr->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
    return 0;
}

int pages_reads(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attr,
                std::size_t size) {
    pages_everything(context, input, attr, size);
    attr->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_READ;
    return 0;
}

TEST(odp__asked__as_the_device_says) {
    const Host host;
    int is_capable = -1;
    must(rpma_utils_ibv_context_is_odp_capable(host.context, &is_capable));
    assert_int_equal(is_capable, 1); // uroce pages
    verbs_context* const verbs = verbs_get_ctx(host.context);
    const auto before = verbs->query_device_ex;
    verbs->query_device_ex = pages_everything;
    must(rpma_utils_ibv_context_is_odp_capable(host.context, &is_capable));
    assert_int_equal(is_capable, 1);
    verbs->query_device_ex = pages_reads;
    must(rpma_utils_ibv_context_is_odp_capable(host.context, &is_capable));
    verbs->query_device_ex = before;
    assert_int_equal(is_capable, 0);
}

// What is persistent memory the lab has to show.
TEST(is_pmem__ordinary_memory__false) {
    std::array<char, 16> here{};
    bool is_pmem = true;
    must(rpma_utils_is_pmem(here.data(), here.size(), &is_pmem));
    assert_false(is_pmem);
    for (const int flags : {MAP_PRIVATE | MAP_ANONYMOUS, MAP_SHARED | MAP_ANONYMOUS}) {
        void* const memory = mmap(nullptr, 8192, PROT_READ, flags, -1, 0);
        assert_true(memory != MAP_FAILED);
        is_pmem = true;
        must(rpma_utils_is_pmem(memory, 8192, &is_pmem));
        assert_false(is_pmem);
        munmap(memory, 8192);
    }
}

TEST(is_pmem__file_of_an_ordinary_file_system__false) {
    std::FILE* const file = std::tmpfile();
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 8192), 0);
    void* const memory = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
    assert_true(memory != MAP_FAILED);
    bool is_pmem = true;
    must(rpma_utils_is_pmem(memory, 8192, &is_pmem));
    assert_false(is_pmem);
    munmap(memory, 8192);
    std::fclose(file);
}

TEST(is_pmem__a_hole_in_it__invalid) {
    constexpr std::size_t kPage = 4096;
    for (const std::size_t hole : {0, 1, 2}) {
        auto* const memory =
            static_cast<char*>(mmap(nullptr, 3 * kPage, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        assert_true(memory != MAP_FAILED);
        assert_int_equal(munmap(memory + hole * kPage, kPage), 0);
        bool is_pmem = true;
        assert_int_equal(rpma_utils_is_pmem(memory, 3 * kPage, &is_pmem), RPMA_E_INVAL);
        assert_true(is_pmem);
        munmap(memory, 3 * kPage);
    }
}

TEST(peer_delete__a_region_is_there__provider_error) {
    const LossExpected loss;
    Host host;
    rpma_peer* peer = nullptr;
    must(rpma_peer_new(host.context, &peer));
    rpma_mr_local* mr = nullptr;
    must(rpma_mr_reg(peer, host.block.data(), 64, kAllUsages, &mr));
    assert_int_equal(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
    assert_null(peer);
    must(rpma_mr_dereg(&mr));
    assert_null(mr);
}

TEST(region__registered__tells_where_and_how_long) {
    Host host;
    void* ptr = nullptr;
    std::size_t size = 0;
    must(rpma_mr_get_ptr(host.mr, &ptr));
    must(rpma_mr_get_size(host.mr, &size));
    assert_ptr_equal(ptr, host.block.data());
    assert_int_equal(size, host.block.size());
}

TEST(region__memory_is_not_there__provider_error) {
    const Host host;
    rpma_mr_local* mr = nullptr;
    assert_int_equal(rpma_mr_reg(host.peer, reinterpret_cast<void*>(4096), 4096, 1, &mr), RPMA_E_PROVIDER);
    assert_null(mr);
}

// fio's servers end if this is RPMA_E_INVAL.
TEST(advise__of_any_region__taken_by_uroce) {
    const Host host;
    must(rpma_mr_advise(host.mr, 0, 64, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH));
}

int advice_error = 0;
int answer_advice(ibv_pd*, ibv_advise_mr_advice, std::uint32_t, ibv_sge*, std::uint32_t) {
    return advice_error;
}

TEST(advise__device_answers__code_follows) {
    const Host host;
    verbs_context* const verbs = verbs_get_ctx(host.context);
    const auto before = verbs->advise_mr;
    verbs->advise_mr = answer_advice;
    const std::pair<int, int> answers[] = {{0, 0},
                                           {EFAULT, RPMA_E_INVAL},
                                           {EINVAL, RPMA_E_INVAL},
                                           {EOPNOTSUPP, RPMA_E_NOSUPP},
                                           {EIO, RPMA_E_PROVIDER}};
    for (const auto& [error, code] : answers) {
        advice_error = error;
        assert_int_equal(rpma_mr_advise(host.mr, 0, 64, IBV_ADVISE_MR_ADVICE_PREFETCH, 0), code);
    }
    verbs->advise_mr = before;
}

TEST(descriptor__of_a_region__has_its_fields_little_endian) {
    Host host;
    Descriptor bytes{};
    std::size_t size = 0;
    must(rpma_mr_get_descriptor_size(host.mr, &size));
    assert_int_equal(size, bytes.size());
    must(rpma_mr_get_descriptor(host.mr, bytes.data()));
    const auto number = [&](std::size_t at, std::size_t length) {
        std::uint64_t value = 0;
        for (std::size_t i = length; i-- > 0;) {
            value = value << 8 | bytes[at + i];
        }
        return value;
    };
    assert_int_equal(number(0, 8), reinterpret_cast<std::uintptr_t>(host.block.data()));
    assert_int_equal(number(8, 8), host.block.size());
    assert_int_not_equal(number(16, 4), 0);
    assert_int_equal(bytes[20], kAllUsages);
}

TEST(descriptor__of_known_fields__has_these_bytes) {
    using namespace sluice::rpma;
    const auto bytes = to_bytes(
        {.address = 0x0102030405060708, .length = 0x1112131415161718, .key = 0x21222324, .usage = 0x39});
    const unsigned char expected[21] = {8,    7,    6,    5,    4,    3,    2,    1,    0x18, 0x17, 0x16,
                                        0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0x39};
    assert_memory_equal(bytes.data(), expected, sizeof expected);
    const auto back = region_from(bytes);
    assert_true(back.has_value());
    assert_true(to_bytes(*back) == bytes);
}

TEST(descriptor__short_or_longer__needs_all_its_bytes_and_no_more) {
    const Host host;
    std::array<unsigned char, 24> bytes{};
    must(rpma_mr_get_descriptor(host.mr, bytes.data()));
    rpma_mr_remote* remote = nullptr;
    for (std::size_t size = 0; size < 21; ++size) {
        assert_int_equal(rpma_mr_remote_from_descriptor(bytes.data(), size, &remote), RPMA_E_INVAL);
    }
    assert_null(remote);
    for (const unsigned char filler : {0, 0xff}) {
        bytes[21] = bytes[22] = bytes[23] = filler;
        must(rpma_mr_remote_from_descriptor(bytes.data(), bytes.size(), &remote));
        std::size_t size = 0;
        must(rpma_mr_remote_get_size(remote, &size));
        assert_int_equal(size, host.block.size());
        int type = 0;
        must(rpma_mr_remote_get_flush_type(remote, &type));
        assert_int_equal(type, RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
        must(rpma_mr_remote_delete(&remote));
    }
}

TEST(descriptor__of_no_region__invalid) {
    const Host host;
    Descriptor good{};
    must(rpma_mr_get_descriptor(host.mr, good.data()));
    Descriptor no_usage = good;
    no_usage[20] = 0;
    Descriptor no_length = good;
    std::fill(no_length.begin() + 8, no_length.begin() + 16, static_cast<unsigned char>(0));
    Descriptor wraps = good;
    std::fill(wraps.begin() + 8, wraps.begin() + 16, static_cast<unsigned char>(0xff));
    rpma_mr_remote* remote = nullptr;
    for (const Descriptor& bad : {no_usage, no_length, wraps}) {
        assert_int_equal(rpma_mr_remote_from_descriptor(bad.data(), bad.size(), &remote), RPMA_E_INVAL);
        assert_null(remote);
    }
    // The last byte of the address space is one.
    Descriptor last = no_length;
    std::fill(last.begin(), last.begin() + 8, static_cast<unsigned char>(0xff));
    last[8] = 1;
    must(rpma_mr_remote_from_descriptor(last.data(), last.size(), &remote));
    must(rpma_mr_remote_delete(&remote));
}

// Whatever a peer sends, what is accepted describes a region, and comes out again as the same bytes.
TEST(descriptors__random__accepted_or_refused_for_a_reason) {
    constexpr std::uint64_t kSeed = 20231;
    print_message("seed %llu\n", static_cast<unsigned long long>(kSeed));
    std::mt19937_64 random(kSeed);
    int accepted = 0;
    for (int i = 0; i < 100'000; ++i) {
        std::array<std::byte, 24> bytes{};
        for (std::byte& byte : bytes) {
            byte = static_cast<std::byte>(random());
        }
        if (i % 2 == 0) { // lengths and addresses as they are in life, too
            std::fill(bytes.begin() + 6, bytes.begin() + 8, std::byte{0});
            std::fill(bytes.begin() + 11, bytes.begin() + 16, std::byte{0});
        }
        const std::size_t size = random() % 25;
        rpma_mr_remote* remote = nullptr;
        const int code = rpma_mr_remote_from_descriptor(bytes.data(), size, &remote);
        const auto region = sluice::rpma::region_from({bytes.data(), size});
        assert_int_equal(code, region ? 0 : RPMA_E_INVAL);
        if (region) {
            ++accepted;
            assert_true(region->usage != 0 && region->length != 0);
            assert_true(region->address + (region->length - 1) >= region->address);
            assert_memory_equal(sluice::rpma::to_bytes(*region).data(), bytes.data(), 21);
            must(rpma_mr_remote_delete(&remote));
        }
    }
    assert_true(accepted > 1000);
}

TEST(peer_cfg__as_bytes_and_back__keeps_what_it_says) {
    rpma_peer_cfg* cfg = nullptr;
    must(rpma_peer_cfg_new(&cfg));
    bool is_direct = true;
    must(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &is_direct));
    assert_false(is_direct);
    std::size_t size = 0;
    must(rpma_peer_cfg_get_descriptor_size(cfg, &size));
    assert_int_equal(size, 1);
    unsigned char byte = 0xee;
    must(rpma_peer_cfg_get_descriptor(cfg, &byte));
    assert_int_equal(byte, 0);
    must(rpma_peer_cfg_set_direct_write_to_pmem(cfg, true));
    must(rpma_peer_cfg_get_descriptor(cfg, &byte));
    assert_int_equal(byte, 1);
    must(rpma_peer_cfg_delete(&cfg));
    for (const int told : {0, 1, 2, 0xff}) {
        const unsigned char bytes[2] = {static_cast<unsigned char>(told), 0xff};
        must(rpma_peer_cfg_from_descriptor(bytes, 2, &cfg));
        must(rpma_peer_cfg_get_direct_write_to_pmem(cfg, &is_direct));
        assert_int_equal(is_direct, told != 0);
        must(rpma_peer_cfg_delete(&cfg));
    }
}

TEST(offer__room_or_not__is_taken_out_again) {
    using namespace sluice::rpma;
    const std::vector<std::byte> text(10, std::byte{'x'});
    std::vector<std::byte> data = with_offer(text, 56, kAtomicWrite | kFlushVisibility);
    assert_int_equal(data.size(), 56);
    assert_int_equal(take_offer(data), kAtomicWrite | kFlushVisibility);
    std::vector<std::byte> expected = text;
    expected.resize(56);
    assert_true(data == expected);
    assert_int_equal(take_offer(data), kNoFeature);
    for (const std::size_t length : {53, 54, 55, 56, 57}) {
        const std::vector<std::byte> full(length, std::byte{'y'});
        assert_true(with_offer(full, 56, kAtomicWrite) == full);
    }
    assert_int_equal(with_offer(std::vector<std::byte>(52), 56, kAtomicWrite).size(), 56);
    assert_true(with_offer(text, 56, kNoFeature) == text);
    assert_true(with_offer({}, 3, kAtomicWrite).empty());
    // A later version's features are none of ours, and a program's bytes no offer.
    std::vector<std::byte> later = with_offer(text, 56, 0xf9);
    assert_int_equal(take_offer(later), kAtomicWrite);
    std::vector<std::byte> almost = with_offer(text, 56, kAtomicWrite);
    almost[55] = std::byte{0};
    const std::vector<std::byte> before = almost;
    assert_int_equal(take_offer(almost), kNoFeature);
    assert_true(almost == before);
}

TEST(conn_cfg__new__has_the_defaults) {
    const Config config;
    int timeout = 0;
    std::uint32_t size = 0;
    bool is_shared = true;
    rpma_srq* srq = reinterpret_cast<rpma_srq*>(&size);
    must(rpma_conn_cfg_get_timeout(config.cfg, &timeout));
    assert_int_equal(timeout, 1000);
    must(rpma_conn_cfg_get_cq_size(config.cfg, &size));
    assert_int_equal(size, 10);
    must(rpma_conn_cfg_get_rcq_size(config.cfg, &size));
    assert_int_equal(size, 0);
    must(rpma_conn_cfg_get_sq_size(config.cfg, &size));
    assert_int_equal(size, 10);
    must(rpma_conn_cfg_get_rq_size(config.cfg, &size));
    assert_int_equal(size, 10);
    must(rpma_conn_cfg_get_compl_channel(config.cfg, &is_shared));
    assert_false(is_shared);
    must(rpma_conn_cfg_get_srq(config.cfg, &srq));
    assert_null(srq);
    rpma_srq_cfg* srq_cfg = nullptr;
    must(rpma_srq_cfg_new(&srq_cfg));
    must(rpma_srq_cfg_get_rq_size(srq_cfg, &size));
    assert_int_equal(size, 20);
    must(rpma_srq_cfg_get_rcq_size(srq_cfg, &size));
    assert_int_equal(size, 20);
    must(rpma_srq_cfg_delete(&srq_cfg));
    assert_null(srq_cfg);
}

template<typename Value, typename Handle>
void keeps(int (*set)(Handle*, Value), int (*get)(const Handle*, Value*), Handle* cfg, Value value) {
    must(set(cfg, value));
    Value kept{};
    must(get(cfg, &kept));
    assert_true(kept == value);
}

TEST(configurations__set__keep_it) {
    const Config config;
    keeps(rpma_conn_cfg_set_timeout, rpma_conn_cfg_get_timeout, config.cfg, 0);
    keeps<std::uint32_t>(rpma_conn_cfg_set_cq_size, rpma_conn_cfg_get_cq_size, config.cfg, 1);
    keeps<std::uint32_t>(rpma_conn_cfg_set_rcq_size, rpma_conn_cfg_get_rcq_size, config.cfg, 2);
    keeps<std::uint32_t>(rpma_conn_cfg_set_sq_size, rpma_conn_cfg_get_sq_size, config.cfg, 3);
    keeps<std::uint32_t>(rpma_conn_cfg_set_rq_size, rpma_conn_cfg_get_rq_size, config.cfg, UINT32_MAX);
    keeps(rpma_conn_cfg_set_compl_channel, rpma_conn_cfg_get_compl_channel, config.cfg, true);
    std::uint32_t size = 0;
    must(rpma_conn_cfg_get_cq_size(config.cfg, &size)); // each has a place of its own
    assert_int_equal(size, 1);
    rpma_srq_cfg* srq_cfg = nullptr;
    must(rpma_srq_cfg_new(&srq_cfg));
    keeps<std::uint32_t>(rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size, srq_cfg, 4);
    keeps<std::uint32_t>(rpma_srq_cfg_set_rcq_size, rpma_srq_cfg_get_rcq_size, srq_cfg, 5);
    must(rpma_srq_cfg_get_rq_size(srq_cfg, &size));
    assert_int_equal(size, 4);
    must(rpma_srq_cfg_delete(&srq_cfg));
}

TEST(errors__in_words__as_they_always_were) {
    const std::pair<int, const char*> words[] = {{0, "Success"},
                                                 {-100000, "Unknown error"},
                                                 {-100001, "Not supported"},
                                                 {-100002, "Provider error occurred"},
                                                 {-100003, "Out of memory"},
                                                 {-100004, "Invalid argument"},
                                                 {-100005, "No next completion available"},
                                                 {-100006, "No next event available"},
                                                 {-100007, "Temporary error, try again"},
                                                 {-100008, "Completion channel is shared"},
                                                 {-100009, "Completion channel is not shared"},
                                                 {-100010, "Unknown error"},
                                                 {1, "Unknown error"}};
    for (const auto& [code, text] : words) {
        assert_string_equal(rpma_err_2str(code), text);
    }
}

TEST(events__in_words__as_they_always_were) {
    const std::pair<int, const char*> words[] = {
        {-1, "Undefined connection event"}, {0, "Connection established"},
        {1, "Connection closed"},           {2, "Connection lost"},
        {3, "Connection rejected"},         {4, "Connection unreachable"},
        {5, "Unsupported connection event"}};
    for (const auto& [event, text] : words) {
        assert_string_equal(rpma_utils_conn_event_2str(static_cast<rpma_conn_event>(event)), text);
    }
}

TEST(events__of_the_fabric__have_these_names) {
    using sluice::glue::ConnectionEventKind;
    using sluice::rpma::name_of;
    assert_true(name_of(ConnectionEventKind::kEstablished) == RPMA_CONN_ESTABLISHED);
    assert_true(name_of(ConnectionEventKind::kRejected) == RPMA_CONN_REJECTED);
    assert_true(name_of(ConnectionEventKind::kUnreachable) == RPMA_CONN_UNREACHABLE);
    assert_true(name_of(ConnectionEventKind::kFailed) == RPMA_CONN_LOST);
    assert_true(name_of(ConnectionEventKind::kDeviceGone) == RPMA_CONN_LOST);
    assert_true(name_of(ConnectionEventKind::kPeerDied) == RPMA_CONN_LOST);
    assert_true(name_of(ConnectionEventKind::kDisconnected) == RPMA_CONN_CLOSED);
    assert_true(name_of(ConnectionEventKind::kTimedWait) == RPMA_CONN_CLOSED);
    assert_false(name_of(ConnectionEventKind::kRequest).has_value());
    assert_false(name_of(ConnectionEventKind::kAddressFound).has_value());
    assert_false(name_of(ConnectionEventKind::kPathFound).has_value());
}

struct Logged {
    int count = 0;
    rpma_log_level level = RPMA_LOG_DISABLED;
    std::string file;
    std::string function;
    std::string text;
};
Logged logged; // a log function has no context

[[gnu::format(printf, 5, 6)]] void remember(rpma_log_level level, const char* file, int, const char* function,
                                            const char* format, ...);

void remember(rpma_log_level level, const char* file, const int, const char* function, const char* format,
              ...) {
    std::array<char, 512> text{};
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text.data(), text.size(), format, arguments);
    va_end(arguments);
    logged = {logged.count + 1, level, file, function, text.data()};
}

void fail_a_call() {
    ibv_context* context = nullptr;
    assert_int_equal(rpma_utils_get_ibv_context("no such address", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context),
                     RPMA_E_PROVIDER);
}

TEST(log__a_call_fails__function_gets_why_and_where) {
    must(rpma_log_set_function(remember));
    logged = {};
    fail_a_call();
    assert_int_equal(logged.count, 1);
    assert_int_equal(logged.level, RPMA_LOG_LEVEL_ERROR);
    assert_string_equal(logged.function.c_str(), "rpma_utils_get_ibv_context");
    assert_true(logged.file.ends_with("api_peer.cpp"));
    assert_true(logged.text.find("no such address") != std::string::npos && logged.text.ends_with('\n'));
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_FATAL));
    fail_a_call();
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_DISABLED));
    fail_a_call();
    assert_int_equal(logged.count, 1);
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING));
    must(rpma_log_set_function(RPMA_LOG_USE_DEFAULT_FUNCTION));
    fail_a_call();
    assert_int_equal(logged.count, 1);
}

TEST(log__default_function_and_aux_threshold__writes_to_stderr) {
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_ERROR));
    FILE* const file = std::tmpfile();
    assert_non_null(file);
    const int saved = dup(STDERR_FILENO);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    fail_a_call();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_DISABLED));
    std::array<char, 512> line{};
    std::rewind(file);
    assert_non_null(std::fgets(line.data(), line.size(), file));
    (void)std::fclose(file);
    const std::string text = line.data();
    assert_true(text.find("*ERROR* api_peer.cpp: ") != std::string::npos);
    assert_true(text.find("[" + std::to_string(gettid()) + "]") != std::string::npos);
}

TEST(log_thresholds__set__kept_and_wrong_ones_refused) {
    rpma_log_level level = RPMA_LOG_LEVEL_DEBUG;
    must(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level));
    assert_int_equal(level, RPMA_LOG_LEVEL_WARNING);
    must(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level));
    assert_int_equal(level, RPMA_LOG_DISABLED);
    for (const int bad : {-1, 2, 100}) {
        const auto threshold = static_cast<rpma_log_threshold>(bad);
        assert_int_equal(rpma_log_set_threshold(threshold, RPMA_LOG_LEVEL_INFO), RPMA_E_INVAL);
        assert_int_equal(rpma_log_get_threshold(threshold, &level), RPMA_E_INVAL);
    }
    for (const int bad : {-2, 6}) {
        assert_int_equal(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, static_cast<rpma_log_level>(bad)),
                         RPMA_E_INVAL);
    }
    assert_int_equal(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, nullptr), RPMA_E_INVAL);
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_DEBUG));
    must(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level));
    assert_int_equal(level, RPMA_LOG_LEVEL_DEBUG);
    must(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_WARNING));
}

TEST(listen__address_of_somebody_else_or_taken__provider_error) {
    const Host host;
    rpma_ep* ep = nullptr;
    assert_int_equal(rpma_ep_listen(host.peer, own_address(3).c_str(), "4", &ep), RPMA_E_PROVIDER);
    assert_int_equal(rpma_ep_listen(host.peer, "no such address", "4", &ep), RPMA_E_PROVIDER);
    assert_int_equal(rpma_ep_listen(host.peer, host.address.c_str(), "no such port", &ep), RPMA_E_PROVIDER);
    assert_int_equal(rpma_ep_listen(host.peer, host.address.c_str(), "65537", &ep), RPMA_E_PROVIDER);
    const Listening listening(host);
    assert_int_equal(rpma_ep_listen(host.peer, host.address.c_str(), listening.port.c_str(), &ep),
                     RPMA_E_PROVIDER);
    assert_null(ep);
}

TEST(req_new__no_such_address__provider_error) {
    const Host host;
    rpma_conn_req* request = nullptr;
    assert_int_equal(rpma_conn_req_new(host.peer, "no such address", "4", nullptr, &request),
                     RPMA_E_PROVIDER);
    assert_int_equal(rpma_conn_req_new(host.peer, host.address.c_str(), "no such port", nullptr, &request),
                     RPMA_E_PROVIDER);
    assert_int_equal(rpma_conn_req_new(host.peer, host.address.c_str(), "4294967300", nullptr, &request),
                     RPMA_E_PROVIDER);
    assert_null(request);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
