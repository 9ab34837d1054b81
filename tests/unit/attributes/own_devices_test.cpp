// SPDX-License-Identifier: BSD-3-Clause
//
// Devices that this process makes itself, of which neither the kernel nor sysfs knows.
#include "provider/attributes/query.hpp"
#include "provider/attributes/sysfs_device.hpp"
#include "tests/cmocka.hpp"
#include "tests/machine.hpp"

using sluice::ErrorKind;
using sluice::FileTree;
using sluice::attributes::LiveFacts;
using sluice::test::Machine;
namespace attributes = sluice::attributes;

namespace {

bool is_uroce(std::string_view name) noexcept {
    return name.starts_with("uroce");
}

struct Registered {
    Registered() { attributes::set_own_devices(is_uroce); }
    ~Registered() { attributes::set_own_devices(nullptr); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
};

void assert_attribute(const sluice_attribute& attribute, std::uint64_t value, sluice_source source) {
    assert_int_equal(attribute.value, value);
    assert_int_equal(attribute.source, source);
    assert_int_equal(attribute.confidence, SLUICE_CONFIDENCE_CERTAIN);
}

TEST(query__own_device__coherent_because_of_this_process) {
    const Registered registered;
    const auto found = attributes::query(FileTree(), "uroce0", nullptr, nullptr);
    assert_true(found.ok());
    assert_string_equal(found->name, "uroce0");
    assert_attribute(found->cpu_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_PROCESS);
    assert_attribute(found->io_coherence, SLUICE_COHERENCE_COHERENT, SLUICE_SOURCE_SOFTWARE_DEVICE);
    assert_attribute(found->relaxed_ordering, SLUICE_ANSWER_NO, SLUICE_SOURCE_SOFTWARE_DEVICE);
    assert_attribute(found->dma_bounce, SLUICE_ANSWER_NO, SLUICE_SOURCE_SOFTWARE_DEVICE);
    assert_string_equal(found->kernel_driver.value, "none");
}

TEST(query__own_device_that_is_open__tells_its_provider) {
    const Registered registered;
    LiveFacts facts;
    facts.provider_path = "/lib/libsluice.so.1";
    const auto give = [](void* context, attributes::Trials trials) {
        assert_false(trials.registration || trials.queue_pair);
        return std::optional(*static_cast<LiveFacts*>(context));
    };
    const auto found = attributes::query(FileTree(), "uroce0", give, &facts);
    assert_true(found.ok());
    assert_string_equal(found->provider.value, "/lib/libsluice.so.1");
}

TEST(query__nobody_owns_the_name__not_found) {
    {
        const Registered registered;
        assert_false(attributes::query(FileTree(), "x-uroce0", nullptr, nullptr).ok());
    }
    const auto found = attributes::query(FileTree(), "uroce0", nullptr, nullptr);
    assert_false(found.ok());
    assert_int_equal(static_cast<int>(found.error().kind()), static_cast<int>(ErrorKind::kNotFound));
}

TEST(query__recorded_machine__knows_no_devices_of_this_process) {
    const Registered registered;
    const Machine machine("x86-server");
    assert_false(attributes::query(FileTree(machine.root()), "uroce0", nullptr, nullptr).ok());
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
