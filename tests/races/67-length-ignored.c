// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: a message's length isn't looked at.
//
// What happens: a receive is filled as far as the message goes. Behind that its buffer holds what the message
// before has left. A text without a zero at its end, or a record that has grown by a field, is read together
// with a piece of an older one, which may have been another client's.
//
// Remedy: wc.byte_len says how much has come. Nothing behind it belongs to the message.
#include <stdio.h>
#include <string.h>

#include "pair.h"

enum { BYTES = 64 };

// What b understands of a message of LENGTH bytes.
static void read_name(const char* message, size_t length, char* name) {
#ifdef CORRECTED
    snprintf(name, BYTES, "%.*s", (int)length, message);
#else
    (void)length;
    snprintf(name, BYTES, "%s", message);
#endif
}

int main(void) {
    static char from[BYTES], to[BYTES], name[BYTES];
    static const char* const names[] = {"Wilhelmina", "Ann"};
    const struct options options = {0};
    struct pair pair;

    pair_open(&pair, &options);
    pair_connect(&pair);
    struct ibv_mr* const source = register_memory(&pair, from, sizeof from, 0);
    struct ibv_mr* const target = register_memory(&pair, to, sizeof to, 0);
    for (int i = 0; i < 2; ++i) {
        post_receive(&pair.b, target, to, sizeof to);
        memcpy(from, names[i], strlen(names[i]));
        post_message(&pair.a, source, from, strlen(names[i]));
        must(await_sent(&pair.a).status == IBV_WC_SUCCESS, "a message");
        const struct ibv_wc received = await_received(&pair.b);
        must(received.status == IBV_WC_SUCCESS, "a receive");
        read_name(to, received.byte_len, name);
    }
    const int right = strcmp(name, "Ann") == 0;

    must(ibv_dereg_mr(source) == 0, "ibv_dereg_mr");
    must(ibv_dereg_mr(target) == 0, "ibv_dereg_mr");
    pair_close(&pair);
    return verdict(right ? NULL : "b reads the end of the message before");
}
