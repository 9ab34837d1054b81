/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asks every device in all three ways, demands the same answer from each, and prints it: one line
 * "NAME ATTRIBUTE VALUE SOURCE CONFIDENCE" for each attribute.
 */
#include <infiniband/verbs.h>
#include <sluice/sluice.h>
#include <stdio.h>
#include <string.h>

static int fail(const char* what, int result) {
    fprintf(stderr, "%s: %s\n", what, strerror(result));
    return 1;
}

static int check(struct ibv_device* device) {
    struct sluice_device_attributes by_context;
    struct sluice_device_attributes by_device;
    struct sluice_device_attributes by_name;
    struct sluice_attribute_description text;
    struct ibv_context* context = NULL;
    unsigned i = 0;
    int result = 0;

    if ((result = sluice_query_device(device, &by_device, sizeof by_device)) != 0) {
        return fail("sluice_query_device", result);
    }
    if ((result = sluice_query_name(NULL, ibv_get_device_name(device), &by_name, sizeof by_name)) != 0) {
        return fail("sluice_query_name", result);
    }
    context = ibv_open_device(device);
    if (context == NULL) {
        return fail("ibv_open_device", 0);
    }
    result = sluice_query_context(context, &by_context, sizeof by_context);
    ibv_close_device(context);
    if (result != 0) {
        return fail("sluice_query_context", result);
    }
    if (memcmp(&by_context, &by_device, sizeof by_context) != 0 ||
        memcmp(&by_context, &by_name, sizeof by_context) != 0) {
        return fail("the answers differ", 0);
    }
    for (i = 0; sluice_describe_attribute(&by_context, sizeof by_context, i, &text, sizeof text) == 0; ++i) {
        printf("%s %s %s %s %s\n", by_context.name, text.name, text.value, text.source, text.confidence);
    }
    return 0;
}

int main(void) {
    int count = 0;
    int failures = 0;
    int i = 0;
    struct ibv_device** devices = ibv_get_device_list(&count);

    for (i = 0; i < count; ++i) {
        failures += check(devices[i]);
    }
    ibv_free_device_list(devices);
    return failures != 0 || count == 0;
}
