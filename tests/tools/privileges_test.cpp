// SPDX-License-Identifier: BSD-3-Clause
//
// A setuid program, or one with capabilities of its file, has more rights than its caller: none of our
// variables acts in it, nor one of the loader's.
#include <linux/capability.h>
#include <sys/xattr.h>

#include "tests/loopback.hpp"
#include "tests/tools/run_command.hpp"

using namespace sluice::test;

namespace {

constexpr uid_t kStranger = 65534;
constexpr uid_t kOwner = 1;

// A copy of a program, and a directory where it may write, both in /tmp: /dev/shm often gives programs no
// rights.
class Copy {
  public:
    Copy() {
        if (geteuid() != 0 || access("/usr/bin/setpriv", X_OK) != 0 || !strangers_reach(TEST_OPENING)) {
            print_message("needs root, setpriv, and a build tree that everybody may enter\n");
            skip();
        }
        assert_non_null(mkdtemp(directory_.data()));
        std::filesystem::copy_file(TEST_OPENING, program());
        assert_int_equal(chmod(directory_.c_str(), 0777), 0);
        assert_int_equal(mkdir(counters().c_str(), 0777), 0);
        assert_int_equal(chmod(counters().c_str(), 0777), 0);
    }
    ~Copy() { std::filesystem::remove_all(directory_); }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

    std::string program() const { return directory_ + "/program"; }
    std::string record() const { return directory_ + "/record.pcap"; }
    std::string counters() const { return directory_ + "/counters"; }
    bool has_record() const { return access(record().c_str(), F_OK) == 0; }
    bool has_counters() const { return !std::filesystem::is_empty(counters()); }

    // A user without rights starts it.
    Ran run() const {
        return run_program("/usr/bin/setpriv",
                           {"--reuid=" + std::to_string(kStranger), "--clear-groups", "/usr/bin/env",
                            "SLUICE_LOG=trace", "SLUICE_UROCE_PCAP=" + record(),
                            "SLUICE_UROCE_COUNTERS=" + counters(), "SLUICE_NONSENSE=yes",
                            std::string("LD_PRELOAD=") + TEST_PRELOAD, program(), own_address()});
    }

  private:
    std::string directory_ = "/tmp/sluice-privileges-XXXXXX";
};

void assert_all_ignored(const Copy& copy) {
    const Ran ran = copy.run();
    if (ran.out.starts_with("privileged no")) {
        print_message("/tmp gives programs no rights\n");
        skip();
    }
    assert_string_equal(ran.err.c_str(), "");
    assert_string_equal(ran.out.c_str(), "privileged yes\npreloaded no\n");
    assert_status(ran, 0);
    assert_false(copy.has_record());
    assert_false(copy.has_counters());
}

TEST(variables__ordinary_program__act) {
    const Copy copy;
    const Ran ran = copy.run();
    assert_string_equal(ran.out.c_str(), "privileged no\npreloaded yes\n");
    assert_status(ran, 0);
    assert_contains(ran.err, "sluice: ");
    assert_contains(ran.err, "SLUICE_NONSENSE");
    assert_true(copy.has_record());
    assert_true(copy.has_counters());
}

TEST(variables__setuid_program__none_acts) {
    const Copy copy;
    assert_int_equal(chown(copy.program().c_str(), kOwner, kOwner), 0);
    assert_int_equal(chmod(copy.program().c_str(), 04755), 0);
    assert_all_ignored(copy);
}

TEST(variables__program_with_capabilities_of_its_file__none_acts) {
    const Copy copy;
    const vfs_ns_cap_data capability{
        VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, {{1U << CAP_NET_RAW, 0}, {0, 0}}, 0};
    if (setxattr(copy.program().c_str(), "security.capability", &capability, XATTR_CAPS_SZ_2, 0) != 0) {
        print_message("/tmp keeps no capabilities\n");
        skip();
    }
    assert_all_ignored(copy);
}

} // namespace

int main() {
    return sluice::test::run_all_tests();
}
