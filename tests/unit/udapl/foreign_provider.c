/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A provider of somebody else's, in C, from the public headers alone: interface adapters, protection
 * zones and event dispatchers for software events. Its objects are memory that is freed. The entry's
 * instance data makes it misbehave.
 */
#include <dat/dat_registry.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAMES 16
#define MAX_EVENTS 8

struct object {
    const DAT_PROVIDER* provider; /* DAT finds the functions through this */
    DAT_HANDLE_TYPE type;
    DAT_CONTEXT context;
    struct object* ia;
    int children; /* of an IA */
    int first;    /* of an EVD: its oldest event, in a ring */
    int count;    /* of an EVD */
    DAT_EVENT events[MAX_EVENTS];
    char name[DAT_NAME_MAX_LENGTH]; /* of an IA: as it was opened */
};

struct entry {
    DAT_PROVIDER provider;
    DAT_PROVIDER_INFO info;         /* as it was registered */
    char name[DAT_NAME_MAX_LENGTH]; /* as the registry asked; empty: this one is free */
    char data[32];
};

static struct entry entries[MAX_NAMES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What fits. */
static void copy_text(char* to, size_t size, const char* from) {
    size_t i = 0;

    for (i = 0; i + 1 < size && from[i] != '\0'; ++i) {
        to[i] = from[i];
    }
    to[i] = '\0';
}

static DAT_RETURN error(DAT_RETURN_TYPE type, DAT_RETURN_SUBTYPE subtype) {
    return DAT_CLASS_ERROR | (DAT_RETURN)type | (DAT_RETURN)subtype;
}

static DAT_RETURN make(struct object* ia, DAT_HANDLE_TYPE type, DAT_HANDLE* handle) {
    struct object* object = calloc(1, sizeof *object);

    if (object == NULL) {
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    object->provider = ia->provider;
    object->type = type;
    object->ia = ia;
    pthread_mutex_lock(&lock);
    ++ia->children;
    pthread_mutex_unlock(&lock);
    *handle = object;
    return DAT_SUCCESS;
}

static DAT_RETURN destroy(struct object* object) {
    pthread_mutex_lock(&lock);
    --object->ia->children;
    pthread_mutex_unlock(&lock);
    free(object);
    return DAT_SUCCESS;
}

/* The entry of that name; "" finds a free one. */
static struct entry* find_entry(const char* name) {
    struct entry* found = NULL;
    int i = 0;

    pthread_mutex_lock(&lock);
    for (i = 0; i < MAX_NAMES && found == NULL; ++i) {
        if (strcmp(entries[i].name, name) == 0) {
            found = &entries[i];
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static DAT_RETURN ia_open(DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE* evd, DAT_IA_HANDLE* ia,
                          DAT_BOOLEAN ro_aware) {
    const struct entry* entry = find_entry(name);
    struct object* object = NULL;

    (void)qlen;
    if (entry == NULL || strcmp(entry->data, "absent") == 0) {
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    }
    if (strcmp(entry->data, "classless") == 0) {
        return DAT_INTERNAL_ERROR;
    }
    if (strcmp(entry->data, "nothing") == 0) {
        return DAT_SUCCESS;
    }
    object = calloc(1, sizeof *object);
    if (object == NULL) {
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    object->provider = &entry->provider;
    object->type = DAT_HANDLE_TYPE_IA;
    copy_text(object->name, sizeof object->name, ro_aware ? "relaxed " : "");
    copy_text(object->name + strlen(object->name), sizeof object->name - strlen(object->name), name);
    *evd = DAT_EVD_OUT_OF_SCOPE;
    *ia = object;
    return DAT_SUCCESS;
}

static DAT_RETURN ia_close(DAT_IA_HANDLE handle, DAT_CLOSE_FLAGS flags) {
    struct object* ia = handle;

    if (flags == DAT_CLOSE_GRACEFUL_FLAG && ia->children > 0) {
        return error(DAT_INVALID_STATE, DAT_INVALID_STATE_IA_IN_USE);
    }
    free(ia);
    return DAT_SUCCESS;
}

static DAT_RETURN ia_query(DAT_IA_HANDLE handle, DAT_EVD_HANDLE* evd, DAT_IA_ATTR_MASK ia_mask,
                           DAT_IA_ATTR* ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                           DAT_PROVIDER_ATTR* provider_attr) {
    const struct object* ia = handle;

    (void)provider_mask;
    (void)provider_attr;
    if (evd != NULL) {
        *evd = DAT_EVD_OUT_OF_SCOPE;
    }
    if ((ia_mask & DAT_IA_FIELD_IA_ADAPTER_NAME) != 0) {
        copy_text(ia_attr->adapter_name, sizeof ia_attr->adapter_name, ia->name);
    }
    return DAT_SUCCESS;
}

static DAT_RETURN set_context(DAT_HANDLE handle, DAT_CONTEXT context) {
    ((struct object*)handle)->context = context;
    return DAT_SUCCESS;
}

static DAT_RETURN get_context(DAT_HANDLE handle, DAT_CONTEXT* context) {
    *context = ((const struct object*)handle)->context;
    return DAT_SUCCESS;
}

static DAT_RETURN get_type(DAT_HANDLE handle, DAT_HANDLE_TYPE* type) {
    *type = ((const struct object*)handle)->type;
    return DAT_SUCCESS;
}

static DAT_RETURN pz_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE* pz) {
    return make(ia, DAT_HANDLE_TYPE_PZ, pz);
}

static DAT_RETURN pz_free(DAT_PZ_HANDLE pz) {
    return destroy(pz);
}

static DAT_RETURN evd_create(DAT_IA_HANDLE ia, DAT_COUNT qlen, DAT_CNO_HANDLE cno, DAT_EVD_FLAGS flags,
                             DAT_EVD_HANDLE* evd) {
    (void)cno;
    if (qlen > MAX_EVENTS || flags != DAT_EVD_SOFTWARE_FLAG) {
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    }
    return make(ia, DAT_HANDLE_TYPE_EVD, evd);
}

static DAT_RETURN evd_post_se(DAT_EVD_HANDLE handle, const DAT_EVENT* event) {
    struct object* evd = handle;

    if (evd->count == MAX_EVENTS) {
        return error(DAT_QUEUE_FULL, DAT_NO_SUBTYPE);
    }
    evd->events[(evd->first + evd->count++) % MAX_EVENTS] = *event;
    return DAT_SUCCESS;
}

static DAT_RETURN evd_dequeue(DAT_EVD_HANDLE handle, DAT_EVENT* event) {
    struct object* evd = handle;

    if (evd->count == 0) {
        return error(DAT_QUEUE_EMPTY, DAT_NO_SUBTYPE);
    }
    *event = evd->events[evd->first];
    evd->first = (evd->first + 1) % MAX_EVENTS;
    --evd->count;
    return DAT_SUCCESS;
}

static DAT_RETURN evd_free(DAT_EVD_HANDLE evd) {
    return destroy(evd);
}

static const DAT_PROVIDER kFunctions = {
    .ia_open_func = ia_open,
    .ia_close_func = ia_close,
    .ia_query_func = ia_query,
    .set_consumer_context_func = set_context,
    .get_consumer_context_func = get_context,
    .get_handle_type_func = get_type,
    .pz_create_func = pz_create,
    .pz_free_func = pz_free,
    .evd_create_func = evd_create,
    .evd_post_se_func = evd_post_se,
    .evd_dequeue_func = evd_dequeue,
    .evd_free_func = evd_free,
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&lock);
}

/* The threads that waited for one_at_a_time aren't here. */
static void after_fork_in_child(void) {
    const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_unlock(&lock);
    one_at_a_time = fresh;
}

__attribute__((constructor)) static void look_after_forks(void) {
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void dat_provider_init(const DAT_PROVIDER_INFO* info, const char* instance_data) {
    struct entry* entry = NULL;

    if (strcmp(instance_data, "refuse") == 0) {
        return;
    }
    pthread_mutex_lock(&one_at_a_time);
    entry = find_entry("");
    if (entry != NULL) {
        pthread_mutex_lock(&lock);
        copy_text(entry->name, sizeof entry->name, info->ia_name);
        copy_text(entry->data, sizeof entry->data, instance_data);
        entry->info = *info;
        entry->provider = kFunctions;
        entry->provider.device_name = entry->info.ia_name;
        if (strcmp(instance_data, "misname") == 0) {
            copy_text(entry->info.ia_name, sizeof entry->info.ia_name, "somebody-else");
        }
        pthread_mutex_unlock(&lock);
        dat_registry_add_provider(&entry->provider, &entry->info);
    }
    pthread_mutex_unlock(&one_at_a_time);
}

void dat_provider_fini(const DAT_PROVIDER_INFO* info) {
    struct entry* entry = find_entry(info->ia_name);

    if (entry != NULL && strcmp(entry->data, "forget") != 0 &&
        dat_registry_remove_provider(&entry->provider, &entry->info) == DAT_SUCCESS) {
        pthread_mutex_lock(&lock);
        entry->name[0] = '\0';
        pthread_mutex_unlock(&lock);
    }
}
