// SPDX-License-Identifier: BSD-3-Clause
//
// finder: loads a plugin that only this program's own search path leads to. The loader looks at the caller of
// dlopen().
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void* plugin = dlopen("libtest_plugin.so", RTLD_NOW);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int (*answer)(void) = (int (*)(void))dlsym(plugin, "test_plugin_answer");
    return answer != NULL && answer() == 42 ? 0 : 1;
}
