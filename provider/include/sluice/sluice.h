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
#include <sys/socket.h>

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
 * The questions below work for any RDMA device, whichever driver it has. Each answer is an attribute:
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

/* atomics: what an RDMA atomic operation is atomic against. */
enum sluice_atomics {
    SLUICE_ATOMICS_UNKNOWN = 0,
    SLUICE_ATOMICS_NONE = 1,   /* there are none */
    SLUICE_ATOMICS_DEVICE = 2, /* others of the same device */
    SLUICE_ATOMICS_GLOBAL = 3  /* those of the CPU, too */
};

/* VALUE alone doesn't show that it is unknown where 0 is a value: then SOURCE is SLUICE_SOURCE_NONE. */
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
    struct sluice_text_attribute kernel_driver;  /* the kernel's module; "none": no kernel */
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
    /* Not in the first version: */
    struct sluice_attribute atomics;     /* enum sluice_atomics */
    struct sluice_attribute max_sge;     /* segments of memory in one request; 0 is unknown */
    struct sluice_attribute max_inline;  /* bytes in a request of one segment; 0 may be the answer */
    struct sluice_attribute numa_node;   /* the number of the node that it is near to */
    struct sluice_attribute iommu_group; /* the number of its group */
    struct sluice_attribute ats;         /* may it keep an IOMMU's translations (PCI ATS)? */
    struct sluice_attribute acs;         /* do requests to its neighbours pass the root (PCI ACS)? */
    struct sluice_text_attribute iommu;  /* "none", "identity", "DMA", "DMA-FQ" and what else Linux has */
    struct sluice_text_attribute pci_address; /* "0000:81:00.0"; "none": it isn't a PCI function */
    struct sluice_text_attribute pci_link;    /* "8.0 GT/s PCIe x8", and " of " what it could be */
    struct sluice_text_attribute netdev;      /* its network interface */
    struct sluice_text_attribute firmware;    /* its version */
};

/*
 * The attributes of an open device. Asks the device and reads /sys; on Linux 7.0 and later it
 * registers one page for a moment, because there that proves coherence. It makes queue pairs for
 * a moment, unless SIZE ends before max_inline: they tell that, and in_order_placement of hardware. Takes
 * milliseconds: ask once, not for each message. EINVAL for null or an impossible SIZE, and for an override
 * that can't be understood (the log names the place); ENOMEM. Attributes that can't be found out are unknown,
 * which is no error. ATTRIBUTES is written on success only.
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
    SLUICE_ATTRIBUTE_TEXT = 2,
    SLUICE_ATTRIBUTE_NUMBER = 3 /* a number of something else; 0 may be one */
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
    char value[256];        /* what holds; where there is a problem, what is said. "..." ends what was cut */
    char origin[128];       /* "default", "environment", or the file and line that say so */
    char default_value[96]; /* what holds when nobody says anything */
    char values[128];       /* what may stand there */
    char meaning[128];      /* one line */
    /* Not in the first version: */
    char problem[256];   /* why the value isn't valid; empty: nothing is wrong with it */
    uint32_t is_unknown; /* 1: no code of Sluice's reads a setting of that name */
    uint32_t reserved;
};

/*
 * The setting at INDEX: 0, 1, ... until ENOENT. First all environment variables, then all keys of
 * /etc/sluice/sluice.conf, or of that file under ROOT; behind them, up to 64 each, lines of the file that
 * can't be understood, and variables SLUICE_... that are set and that nobody reads. An unknown key's VALUES
 * are the keys that there are, with '|' between them. Whether the value of SLUICE_SYNC_HOST is valid, only
 * `sluice sync run` knows. With a SIZE that ends before PROBLEM: nothing that is unknown, and EPROTO when the
 * file can't be understood; the log names the line.
 */
int sluice_describe_setting(const char* root, unsigned index, struct sluice_setting* setting, size_t size);

/*
 * uroce: an RDMA device with no kernel module, no root and no NIC.
 *
 * The device speaks RoCEv2 in user space. What it gives is an ordinary ibv_context: all public calls of
 * libibverbs work on it but one, ibv_create_comp_channel(), in place of which there is
 * sluice_create_comp_channel(). docs/uroce.md tells what else is different.
 */
struct ibv_comp_channel;

/*
 * Opens the device with this name or address: "uroce0" to "uroce253", which are 127.0.0.1 to
 * 127.0.0.254 unless SLUICE_UROCE or sluice.conf says otherwise; "uroce_eth0" for the first address of the
 * interface eth0; or any IPv4 or IPv6 address of this machine. NULL is uroce0. Contexts of one address share
 * one device. ibv_close_device() closes. Null with errno set when it can't be opened, and the log says why:
 * EINVAL for what is neither, ENOENT for an address that no interface has, EOPNOTSUPP without a fitting
 * libibverbs (rdma-core 37 or later).
 *
 * After fork() a context works in the parent only. In the child every call on it fails with EIO;
 * destroying and closing give the child's memory back.
 */
struct ibv_context* sluice_open_uroce(const char* name_or_address);

/* A device that sluice_open_uroce() can be asked for; size-versioned like the attributes. */
struct sluice_uroce_device {
    char name[64];        /* "uroce0" */
    char address[64];     /* "127.0.0.1" */
    char origin[128];     /* who chose it: "default", "SLUICE_UROCE", or the file and line */
    char interface[32];   /* that has the address; empty: none has, and the device can't be opened */
    char used_by[160];    /* the holder that keeps its UDP port from this user; empty: it can be opened */
    uint32_t path_mtu;    /* in bytes, 256 to 4096; 0 without an interface, or with one that is too small */
    uint32_t is_hidden;   /* 1: programs aren't shown it: it has no interface, or rdma_rxe has its UDP port */
    uint64_t node_guid;   /* in network order, as ibv_get_device_guid() tells it of others */
    uint32_t gid_count;   /* entries of its port's GID table */
    uint32_t is_loopback; /* 1: each address of 127.0.0.0/8 becomes an entry when it is used */
    char gids[16][48];    /* the addresses there, "" for an empty entry; the first is ADDRESS */
};

/*
 * The device at INDEX: 0, 1, ... until ENOENT. These are uroce0 and one for each interface that is up and has
 * an address, or what SLUICE_UROCE or sluice.conf says instead; other numbers are there just as well, each at
 * its own loopback address. Opens nothing. EINVAL and EPROTO when the variable or the file can't be
 * understood; the log says where.
 */
int sluice_describe_uroce(unsigned index, struct sluice_uroce_device* device, size_t size);

/*
 * Before a queue pair of CONTEXT's device, a connection or an address handle uses ADDRESS, of which the port
 * doesn't matter: it becomes an entry of the GID table if it is the device's, and the device listens there,
 * until it is closed. uroce0 has all of 127.0.0.0/8 in this way. Twice is once. 0, or an errno: EADDRNOTAVAIL
 * for an address that isn't the device's; EADDRINUSE for one that a device of its own has, or somebody else;
 * ENOSPC for a 17th; EAFNOSUPPORT, EINVAL for null, EIO in the child of a fork. Connections do so by
 * themselves.
 */
int sluice_use_uroce_address(struct ibv_context* context, const struct sockaddr* address);

/* One counter of a uroce device. A name keeps its meaning in all versions; new ones may come. */
struct sluice_uroce_counter {
    const char* name; /* "path.udp.bytes_sent" */
    uint64_t value;
};

/* One queue pair of a uroce device. */
struct sluice_uroce_queue_pair {
    uint32_t qpn;
    uint32_t peer_qpn;  /* 0: it has no peer */
    const char* type;   /* "RC", "UC", "UD", "XRC_SEND", "XRC_RECV"; "?" for one of a later version */
    const char* state;  /* "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR", or "?" */
    const char* local;  /* the address that it uses; "" before it has one */
    const char* remote; /* of its peer; "" if it has none */
    uint64_t count;     /* of counters */
    const struct sluice_uroce_counter* counters;
};

/* What one device has counted in one process. New members may come at the end. */
struct sluice_uroce_use {
    const char* device;  /* "uroce0" */
    const char* address; /* "127.0.0.1" */
    const char* command; /* the program's name, without its directory */
    int64_t pid;         /* as this process sees it, or as that one saw itself, if it has ended */
    int32_t is_running;  /* 0: it has ended */
    uint32_t count;      /* of counters */
    uint64_t opened_ns;  /* when it opened its first device, in nanoseconds since 1970 */
    const struct sluice_uroce_counter* counters;
    /* Those that exist, or existed when the process ended, by number; at most 4096 of a process. */
    uint64_t queue_pair_count;
    const struct sluice_uroce_queue_pair* queue_pairs;
};

/*
 * Calls FOUND for each uroce device that a process of this user has or had open, in the order in which the
 * processes opened their first; what it is given is valid during the call. Processes that have ended are
 * told of until 128 others have ended after them. No such process is no error. EINVAL for null, ENOENT
 * where there is no directory in which processes can keep counters; the log names it.
 */
int sluice_list_uroce_counters(void (*found)(void* context, const struct sluice_uroce_use* use),
                               void* context);

/*
 * Where a library that keeps the memory of a device coherent counts what it does, so that
 * sluice_list_uroce_counters() has it ("sync.lines_cleaned"): its owner adds by relaxed atomic stores, one
 * thread at a time. A caller with several threads takes several; readers see their sum. New members may come
 * at the end.
 */
struct sluice_sync_counters {
    uint64_t before_device_reads; /* calls that were done */
    uint64_t after_device_wrote;
    uint64_t refused; /* calls that were not */
    uint64_t lines_cleaned;
    uint64_t lines_invalidated;
};

/*
 * All zero, for DEVICE, of any kind, by its name ("rxe0"), at ADDRESS, which may be "". SIZE is the caller's
 * sizeof(struct sluice_sync_counters). Null with errno set: EINVAL for null, a name of 64 bytes or more, or a
 * size that this version hasn't got. Where no file can be had, the numbers are counted for nobody.
 */
struct sluice_sync_counters* sluice_acquire_sync_counters(const char* device, const char* address,
                                                          size_t size);
/* Null is fine. What was counted stays readable. */
void sluice_release_sync_counters(struct sluice_sync_counters* counters);

/*
 * A completion channel for any context: one of uroce, or another, for which this is the same as
 * ibv_create_comp_channel(). Everything else that there is for a channel works on it, and so does poll() on
 * its fd. Null with errno set when there is none to be had.
 */
struct ibv_comp_channel* sluice_create_comp_channel(struct ibv_context* context);

/* How a field's number is meant. */
enum sluice_field_kind {
    SLUICE_FIELD_TEXT = 0,   /* the text is enough; the number is the code that it stands for */
    SLUICE_FIELD_NUMBER = 1, /* a count or a size */
    SLUICE_FIELD_HEX = 2,    /* a key, an address, a number of something */
    SLUICE_FIELD_FLAG = 3    /* 0 or 1 */
};

/* One field of a packet in words; size-versioned like the attributes. */
struct sluice_packet_field {
    const char* name; /* "opcode", "psn", "rkey": stays the same in all versions */
    char value[96];   /* "RC write first", "17", "0x1234" */
    uint64_t number;
    uint32_t kind;  /* enum sluice_field_kind */
    uint32_t brief; /* 1: belongs on a line that shows the packet at a glance */
};

/*
 * The field at INDEX of a RoCEv2 packet: 0, 1, ... until ENOENT. DATAGRAM begins with the IPv4 or IPv6
 * header. "icrc" comes last, "ok" or "bad"; a packet whose transport headers make no sense has
 * a field "refusal" instead of them. EPROTO when the bytes are no RoCEv2 packet, EINVAL for null or an
 * impossible SIZE. Any bytes are safe.
 */
int sluice_describe_packet(const void* datagram, size_t datagram_bytes, unsigned index,
                           struct sluice_packet_field* field, size_t size);

/*
 * Connections over uroce.
 *
 * A device that lives in this process has no kernel that would connect its queue pairs. These calls
 * do what librdmacm does for others, and speak the same protocol: the peer may be a program that uses
 * librdmacm over the kernel's rdma_rxe or over hardware. The order of calls and events is the same as
 * there, too:
 *
 *   passive side                          active side
 *   listen
 *                                         connect
 *   CONNECT_REQUEST (a new id)
 *   accept, or reject                     ESTABLISHED, or REJECTED
 *   ESTABLISHED
 *   disconnect, or DISCONNECTED           DISCONNECTED
 *   destroy_id                            destroy_id
 *
 * A queue pair that is passed in `qp` is led through its states by the library: to INIT by connect
 * (unless it is there), to RTR and RTS by accept, or when sluice_cm_get_event() finds the peer's
 * answer; and to ERR, which flushes what is posted, by disconnect and when get_event finds the end of the
 * connection. To post receives before all that, bring it to INIT with sluice_cm_qp_attr(). The queue pair
 * stays the caller's, and must not be destroyed before its id. Without `qp` the caller does the same by
 * itself, with sluice_cm_qp_attr(): see CONNECT_RESPONSE.
 *
 * Any function may be called from any thread at any time, but none with an id, channel or event that
 * another thread is destroying or acknowledging. Nothing blocks, but for get_event with a timeout
 * and destroy_id with events that were not acknowledged. Errors are as everywhere here: 0 or an errno.
 * EINVAL is also a state in which the call makes no sense. In the child of a fork everything fails
 * with EIO.
 */
struct ibv_qp;
struct ibv_qp_attr;
struct sluice_cm_channel;
struct sluice_cm_id;

enum sluice_cm_port_space {
    SLUICE_CM_TCP = 0x0106, /* reliable connections */
    SLUICE_CM_UDP = 0x0111  /* look-ups of datagram services */
};

enum sluice_cm_event_type {
    /* Somebody wants to connect to `listen_id`: `id` is new and the receiver's, to accept, reject or
     * destroy. Private data: 56 bytes, 180 for UDP. */
    SLUICE_CM_CONNECT_REQUEST = 1,
    /* Only without `qp`: the peer accepted. Lead the queue pair to RTS, then call
     * sluice_cm_establish(), or sluice_cm_reject(). Private data: 196 bytes. */
    SLUICE_CM_CONNECT_RESPONSE = 2,
    /* Both sides are ready. On the active side with the private data of accept, 196 bytes. For UDP
     * with qp_num, qkey and 136 bytes. */
    SLUICE_CM_ESTABLISHED = 3,
    /* By the peer's program (`status` is SLUICE_CM_STATUS_CONSUMER), or by what stands before it.
     * Private data: 148 bytes. Also on the passive side, when the peer withdraws. */
    SLUICE_CM_REJECTED = 4,
    /* No answer came; `status` is ETIMEDOUT. */
    SLUICE_CM_UNREACHABLE = 5,
    /* The peer accepted, but the queue pair could not be made ready: `status` is the errno. */
    SLUICE_CM_CONNECT_ERROR = 6,
    /* By the peer, or as we asked; once for each connection that was established, or that was given
     * up by sluice_cm_disconnect() before. `status` is ETIMEDOUT if the peer did not confirm, and
     * ECONNRESET if its process has ended without a word. */
    SLUICE_CM_DISCONNECTED = 7,
    /* Seconds later: the queue pair may be used for another connection. */
    SLUICE_CM_TIMEWAIT_EXIT = 8
};

/* `status` of SLUICE_CM_REJECTED: a reason of InfiniBand's. These are worth knowing. */
enum sluice_cm_status {
    SLUICE_CM_STATUS_NO_RESOURCES = 3,
    SLUICE_CM_STATUS_TIMEOUT = 4, /* the peer gave up */
    SLUICE_CM_STATUS_REFUSED = 8, /* nobody listens there */
    SLUICE_CM_STATUS_STALE = 10,  /* the peer still held an old connection of this queue pair; try again */
    SLUICE_CM_STATUS_INVALID_MTU = 26, /* the peer's link carries less than it understands to say */
    SLUICE_CM_STATUS_CONSUMER = 28     /* the program said no */
};

/*
 * What connecting and accepting take. Later versions add fields at the end; begin with
 * sluice_cm_default_params(), and pass the struct's size as you know it. As many reads and
 * atomics are granted as both sides and the device agree to; 255 is "as many as possible".
 */
struct sluice_cm_params {
    struct ibv_qp* qp;        /* led by the library; NULL (the default): by the caller */
    const void* private_data; /* the sizes above; more is EINVAL */
    uint32_t private_data_len;
    uint32_t qp_num;             /* instead of qp; in any case for UDP */
    uint32_t qkey;               /* for accept with UDP */
    uint32_t qp_access_flags;    /* for INIT; default: remote write, read and atomic */
    uint32_t timeout_ms;         /* for connecting as a whole; 0 (the default): what the retries take */
    uint16_t local_port;         /* told to the peer; 0 (the default): some free one */
    uint8_t responder_resources; /* reads and atomics that the peer may have open here; default 255 */
    uint8_t initiator_depth;     /* that this side may have open there; default 255 */
    uint8_t flow_control;        /* default 0 */
    uint8_t retry_count;         /* of the queue pairs, for connect; default 7, and more is taken for 7 */
    uint8_t rnr_retry_count;     /* default 7: without end; more is taken for 7 */
    uint8_t srq;                 /* without qp: it has an SRQ */
    uint8_t min_rnr_timer;       /* code; default 0: 655 ms, as with librdmacm */
    uint8_t qp_timeout;          /* code for this side's queue pair; default 0: as negotiated */
    uint8_t response_timeout;    /* code: 4.096 us * 2^code for each answer; default 20, 4.3 s */
    uint8_t packet_lifetime;     /* code: one way through the network; default 18, 1.1 s */
    uint8_t max_retries;         /* of each message, at most 15; default 15 */
    uint8_t reserved[3];
    const struct sockaddr* local; /* an address of the device to connect from, its port isn't looked at; NULL
                                   * (the default): the first one of the peer's family */
};

/* Later versions of the library may give more at the end. */
struct sluice_cm_event {
    struct sluice_cm_id* id;
    struct sluice_cm_id* listen_id; /* of CONNECT_REQUEST */
    void* id_context;               /* of id; of listen_id for CONNECT_REQUEST */
    const void* private_data;       /* valid until the event is acknowledged; null if there is none */
    uint32_t private_data_len;      /* what the message holds; how much of it was filled nobody tells */
    uint32_t type;                  /* enum sluice_cm_event_type */
    int32_t status;
    uint32_t qp_num;             /* the peer's */
    uint32_t qkey;               /* of ESTABLISHED for UDP */
    uint8_t responder_resources; /* what this side is asked for, or grants */
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t srq;
    uint8_t reserved[2];
    struct sockaddr_storage local;
    struct sockaddr_storage peer;
};

/* Where events of one device arrive. EOPNOTSUPP when CONTEXT isn't a uroce device's, ENOMEM, EMFILE. */
int sluice_cm_create_channel(struct ibv_context* context, struct sluice_cm_channel** channel);

/* EBUSY while it has ids. Before its context is closed. */
int sluice_cm_destroy_channel(struct sluice_cm_channel* channel);

/* Readable while an event waits. To poll, not to read; it stays the channel's. */
int sluice_cm_channel_fd(const struct sluice_cm_channel* channel);

/* The next event. Waits TIMEOUT_MS milliseconds for one, or without end if that is negative; EAGAIN when
 * there is none by then. EINTR, ENOMEM. Each event must be acknowledged. */
int sluice_cm_get_event(struct sluice_cm_channel* channel, int timeout_ms, struct sluice_cm_event** event);

/* Frees it. */
void sluice_cm_ack_event(struct sluice_cm_event* event);

/* PORT_SPACE is one of enum sluice_cm_port_space. CONTEXT comes back with each event. */
int sluice_cm_create_id(struct sluice_cm_channel* channel, int port_space, void* context,
                        struct sluice_cm_id** id);

/* Ends what it is used for, without an event; events that wait are dropped. Waits until those that were
 * taken are acknowledged. */
int sluice_cm_destroy_id(struct sluice_cm_id* id);

/* Events of ID, also those that wait, arrive at CHANNEL from now on. EINVAL if it is of another device. */
int sluice_cm_migrate_id(struct sluice_cm_id* id, struct sluice_cm_channel* channel);

/* For ids that CONNECT_REQUEST brings; theirs is null at first. */
int sluice_cm_set_context(struct sluice_cm_id* id, void* context);

/* Waits for requests at ADDRESS: one of the device's, or a wildcard. That of IPv4 is all its IPv4 addresses;
 * that of IPv6 is all addresses, but for those of IPv4 where another id has their wildcard. Port 0 becomes a
 * free one, see sluice_cm_local_port(). BACKLOG is how many may wait for an answer; 0 is 128. EADDRINUSE,
 * EADDRNOTAVAIL, EAFNOSUPPORT. */
int sluice_cm_listen(struct sluice_cm_id* id, const struct sockaddr* address, int backlog);

/* 0 before listen or connect. */
uint16_t sluice_cm_local_port(struct sluice_cm_id* id);

/* Every member as its comment says; fields of a later version than this library's are left alone. */
void sluice_cm_default_params(struct sluice_cm_params* params, size_t size);

/* For UDP: asks the service at PEER for its queue pair. EBUSY when the queue pair has a connection
 * already, or had one a moment ago (see TIMEWAIT_EXIT). */
int sluice_cm_connect(struct sluice_cm_id* id, const struct sockaddr* peer,
                      const struct sluice_cm_params* params, size_t size);
int sluice_cm_accept(struct sluice_cm_id* id, const struct sluice_cm_params* params, size_t size);

/* Before the connection is established. REASON 0 is SLUICE_CM_STATUS_CONSUMER. 148 bytes at most, 136 for
 * UDP. No event follows. */
int sluice_cm_reject(struct sluice_cm_id* id, int reason, const void* private_data, size_t len);

/* At once; a program that wants posted work to be done first waits for its completions before. 0, and nothing
 * happens, when the connection is over already. */
int sluice_cm_disconnect(struct sluice_cm_id* id);

/* After CONNECT_RESPONSE. */
int sluice_cm_establish(struct sluice_cm_id* id);

/* The queue pair of an accepted connection has received something (IBV_EVENT_COMM_EST): the peer is
 * ready, even if its message got lost. */
int sluice_cm_notify(struct sluice_cm_id* id);

/* What ibv_modify_qp() needs to bring the connection's queue pair to attr->qp_state: INIT at any time, RTR
 * and RTS from CONNECT_REQUEST or CONNECT_RESPONSE on. */
int sluice_cm_qp_attr(struct sluice_cm_id* id, struct ibv_qp_attr* attr, int* attr_mask);

/*
 * The flush operation of RDMA, for programs that are built or run with a libibverbs older than 45,
 * which has no ibv_wr_flush(). The numbers are those of libibverbs.
 */
#define SLUICE_QP_EX_WITH_FLUSH (UINT64_C(1) << 11) /* in send_ops_flags of ibv_create_qp_ex() */
enum {
    SLUICE_ACCESS_FLUSH_GLOBAL = 1 << 8, /* in the access of a memory region and a queue pair */
    SLUICE_ACCESS_FLUSH_PERSISTENT = 1 << 9,
    SLUICE_FLUSH_TYPE_GLOBAL = 1 << 0,     /* type: visible to every reader */
    SLUICE_FLUSH_TYPE_PERSISTENT = 1 << 1, /* type: survives a power cut */
    SLUICE_FLUSH_LEVEL_RANGE = 0,          /* level: the range alone */
    SLUICE_FLUSH_LEVEL_MR = 1              /* level: the whole memory region */
};

struct ibv_qp_ex;

/*
 * Adds a flush to the requests that are being built on QP, between ibv_wr_start() and
 * ibv_wr_complete(): what was written to LENGTH bytes at REMOTE_ADDR before it has reached the
 * place that TYPE tells when the flush completes. QP may be of any provider. EOPNOTSUPP, with
 * nothing added, if it wasn't made with SLUICE_QP_EX_WITH_FLUSH or its provider can't; all other
 * errors are those of ibv_wr_complete(). One thread at a time per queue pair, like the functions
 * around it.
 */
int sluice_wr_flush(struct ibv_qp_ex* qp, uint32_t rkey, uint64_t remote_addr, size_t length, uint8_t type,
                    uint8_t level);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
