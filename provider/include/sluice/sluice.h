/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sluice: RDMA for user space with memory coherence taken seriously.
 *
 * Plain C, usable from C99 and C++. Every function may be called from any thread. Functions
 * that can fail return 0 or a positive errno; the log tells the reason in words.
 */
#ifndef SLUICE_SLUICE_H
#define SLUICE_SLUICE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * The version of the library that is loaded, as "MAJOR.MINOR.PATCH". The text is valid as long
 * as the library stays loaded. Never fails.
 */
const char* sluice_version(void);

/* How much a message matters. Asking for a level asks for all that stand above it here. */
enum sluice_log_level {
    SLUICE_LOG_NONE = 0,    /* nothing at all */
    SLUICE_LOG_ERROR = 1,   /* a call fails and the reason is worth a line */
    SLUICE_LOG_WARNING = 2, /* it goes on, but not as you may think (the default) */
    SLUICE_LOG_INFO = 3,    /* decisions: which device, which provider, which instruction */
    SLUICE_LOG_DEBUG = 4,   /* every object's birth and death */
    SLUICE_LOG_TRACE = 5    /* every event */
};

/*
 * Receives one message. LEVEL is one of enum sluice_log_level. AREA names the part that speaks ("cm",
 * "provider"); MESSAGE is one line without a newline. Both are valid during the call only. May be called from
 * several threads at once, with no lock held; must not throw.
 */
typedef void (*sluice_log_sink)(void* context, int level, const char* area, const char* message);

/*
 * Sends messages to SINK instead of standard error; NULL restores standard error. When it
 * returns, the former sink is not running and will not be called again, so its context may be
 * freed. Called from inside a sink it takes effect without that promise.
 */
void sluice_set_log_sink(sluice_log_sink sink, void* context);

/*
 * Chooses what is logged: LEVEL[,AREA=LEVEL...], for example "info,cm=debug", with the levels
 * none, error, warning, info, debug and trace. Replaces what the environment variable
 * SLUICE_LOG asked for. EINVAL when the text can't be understood or is NULL, E2BIG or ENOMEM
 * when it names too many areas; then nothing changes.
 */
int sluice_set_log_levels(const char* levels);

/*
 * What a device's memory does.
 *
 * The questions below work for any RDMA device, whoever drives it. Each answer is an attribute:
 * a value, where it comes from, and how far to trust it. "Unknown" is a value, 0 in every
 * enumeration here: Linux can't always tell. docs/attributes.md says what to do then.
 */
struct ibv_context; /* <infiniband/verbs.h>, which this header does not need */
struct ibv_device;

/* Where a value comes from. */
enum sluice_source {
    SLUICE_SOURCE_NONE = 0,            /* nowhere: it is unknown */
    SLUICE_SOURCE_ENVIRONMENT = 1,     /* SLUICE_COHERENCE says so */
    SLUICE_SOURCE_CONFIG = 2,          /* /etc/sluice/sluice.conf says so */
    SLUICE_SOURCE_REGISTRATION = 3,    /* Linux 7.0 or later registered memory for the device */
    SLUICE_SOURCE_ARCHITECTURE = 4,    /* it is so on every machine of this architecture */
    SLUICE_SOURCE_DEVICE_TREE = 5,     /* the firmware's device tree, read as the kernel reads it */
    SLUICE_SOURCE_SOFTWARE_DEVICE = 6, /* the "device" is the kernel's code: CPU loads and stores */
    SLUICE_SOURCE_DEFAULT = 7,         /* nobody told: the cautious assumption */
    SLUICE_SOURCE_DEVICE = 8,          /* the device, asked through libibverbs */
    SLUICE_SOURCE_PCI = 9,             /* the device's PCI configuration */
    SLUICE_SOURCE_CPU = 10,            /* a probe of this CPU */
    SLUICE_SOURCE_KERNEL = 11,         /* the kernel, through /sys or its version */
    SLUICE_SOURCE_PROCESS = 12         /* the code that is loaded in this process */
};

/* How far to trust a value. */
enum sluice_confidence {
    SLUICE_CONFIDENCE_NONE = 0,    /* there is no value */
    SLUICE_CONFIDENCE_ASSUMED = 1, /* nothing speaks against it */
    SLUICE_CONFIDENCE_LIKELY = 2,  /* told by something that can be wrong, such as firmware */
    SLUICE_CONFIDENCE_CERTAIN = 3  /* it can't be otherwise, or a person said so */
};

/* cpu_coherence and io_coherence. */
enum sluice_coherence {
    SLUICE_COHERENCE_UNKNOWN = 0,
    SLUICE_COHERENCE_COHERENT = 1,
    SLUICE_COHERENCE_NONCOHERENT = 2,
    SLUICE_COHERENCE_SIMULATED = 3 /* non-coherent by Sluice's simulation, on request */
};

/* Attributes that answer yes or no. */
enum sluice_answer { SLUICE_ANSWER_UNKNOWN = 0, SLUICE_ANSWER_NO = 1, SLUICE_ANSWER_YES = 2 };

/* flush: what an RDMA flush can promise. */
enum sluice_flush {
    SLUICE_FLUSH_UNKNOWN = 0,
    SLUICE_FLUSH_NONE = 1,
    SLUICE_FLUSH_GLOBAL = 2,     /* visible to everybody */
    SLUICE_FLUSH_PERSISTENT = 3, /* survives a loss of power */
    SLUICE_FLUSH_BOTH = 4
};

/* on_demand_paging */
enum sluice_paging {
    SLUICE_PAGING_UNKNOWN = 0,
    SLUICE_PAGING_NONE = 1,
    SLUICE_PAGING_EXPLICIT = 2, /* for registered ranges */
    SLUICE_PAGING_IMPLICIT = 3  /* for the whole address space too */
};

struct sluice_attribute {
    uint64_t value;
    uint32_t source;     /* enum sluice_source */
    uint32_t confidence; /* enum sluice_confidence */
};

/* An empty text is an unknown one. */
struct sluice_text_attribute {
    char value[248];
    uint32_t source;
    uint32_t confidence;
};

/*
 * All attributes of one device. Later versions of the library add fields at the end, never
 * elsewhere: each call takes sizeof(struct sluice_device_attributes) as the caller knows it, so
 * that a program and a library of different versions understand each other. Fields that the
 * library doesn't know are set to zero, which is "unknown".
 */
struct sluice_device_attributes {
    char name[64];                               /* as `rdma link` calls it */
    char coherence_evidence[256];                /* what told cpu_coherence, in words */
    struct sluice_text_attribute provider;       /* the file whose code drives it here */
    struct sluice_text_attribute kernel_driver;  /* the kernel's module */
    struct sluice_text_attribute clean;          /* the CPU's instruction; "none": it has none */
    struct sluice_text_attribute invalidate;     /* the CPU's instruction; "none": it has none */
    struct sluice_attribute cpu_coherence;       /* does the device snoop the CPU's caches? */
    struct sluice_attribute io_coherence;        /* are there no caches on the device's side? */
    struct sluice_attribute line_bytes;          /* of the CPU's caches; 0 is unknown */
    struct sluice_attribute granule_bytes;       /* two owners must not share one of these */
    struct sluice_attribute relaxed_ordering;    /* may its writes be seen out of order? */
    struct sluice_attribute no_snoop;            /* may single accesses bypass the caches? */
    struct sluice_attribute in_order_placement;  /* do the bytes of a message land in order? */
    struct sluice_attribute native_atomic_write; /* RDMA atomic write */
    struct sluice_attribute flush;               /* RDMA flush: enum sluice_flush */
    struct sluice_attribute on_demand_paging;    /* enum sluice_paging */
    struct sluice_attribute dma_bounce;          /* confidential guest: is DMA copied? */
};

/*
 * The attributes of an open device. Asks the device and reads /sys; on Linux 7.0 and later it
 * registers one page for a moment, because there that proves coherence. Takes milliseconds:
 * ask once, not for each message. EINVAL for null or an impossible SIZE, and for an override that can't be
 * understood (the log names the place); ENOMEM. Attributes that can't be found out are
 * unknown, which is no error. ATTRIBUTES is written on success only.
 */
int sluice_query_context(struct ibv_context* context, struct sluice_device_attributes* attributes,
                         size_t size);

/* The same for a device from ibv_get_device_list(). Opens it for a moment to ask it; what only an
 * open device tells is unknown when that is not possible. */
int sluice_query_device(struct ibv_device* device, struct sluice_device_attributes* attributes, size_t size);

/*
 * The same by name. ROOT is NULL for this machine; otherwise it is a directory that holds a
 * recorded machine's /sys and /proc, and nothing but files under it is looked at. ENODEV when
 * there is no such device.
 */
int sluice_query_name(const char* root, const char* name, struct sluice_device_attributes* attributes,
                      size_t size);

/* Calls FOUND for each RDMA device of this machine, or of the one recorded under ROOT, in the order
 * of their names; NAME is valid during the call. No device is no error. */
int sluice_list_devices(const char* root, void (*found)(void* context, const char* name), void* context);

/* Which member of an attribute's description to print. */
enum sluice_attribute_kind {
    SLUICE_ATTRIBUTE_CHOICE = 0, /* one of an enumeration: the text is enough */
    SLUICE_ATTRIBUTE_BYTES = 1,  /* a number of bytes; 0 is unknown */
    SLUICE_ATTRIBUTE_TEXT = 2
};

/* One attribute in words; size-versioned like the attributes. */
struct sluice_attribute_description {
    const char* name;       /* "cpu-coherence": stays the same in all versions */
    const char* meaning;    /* one line */
    const char* source;     /* "device-tree" */
    const char* confidence; /* "likely" */
    char value[256];        /* "coherent", "64", "unknown" */
    uint64_t number;        /* the value as a number; 0 for texts */
    uint32_t kind;          /* enum sluice_attribute_kind */
    uint32_t reserved;
};

/*
 * The attribute at INDEX in words: 0, 1, ... until ENOENT. A program that shows attributes needs
 * to know none of them. ATTRIBUTES_SIZE is what was passed to the query.
 */
int sluice_describe_attribute(const struct sluice_device_attributes* attributes, size_t attributes_size,
                              unsigned index, struct sluice_attribute_description* description, size_t size);

/* The words for single values: "coherent", "device-tree", "likely". "unknown" for other numbers;
 * never null. */
const char* sluice_coherence_name(uint64_t coherence);
const char* sluice_source_name(uint32_t source);
const char* sluice_confidence_name(uint32_t confidence);

/* One variable or one key of the configuration; size-versioned like the attributes. */
struct sluice_setting {
    char name[96];          /* "SLUICE_LOG", "claim", "coherence of mlx5_0" */
    char value[256];        /* what holds */
    char origin[128];       /* "default", "environment", or the file and line that say so */
    char default_value[96]; /* what holds when nobody says anything */
    char values[128];       /* what may stand there */
    char meaning[128];      /* one line */
};

/*
 * The setting at INDEX: 0, 1, ... until ENOENT. First all environment variables, then all keys of
 * /etc/sluice/sluice.conf, or of that file under ROOT. EPROTO when the file can't be understood;
 * the log names the line.
 */
int sluice_describe_setting(const char* root, unsigned index, struct sluice_setting* setting, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
