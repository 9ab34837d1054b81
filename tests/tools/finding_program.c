// SPDX-License-Identifier: BSD-3-Clause
//
// A program about which things are found: finding_program WHAT [ARGUMENT]. It prints "FUNCTION:LINE" for each
// place that a finding has to name.
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "finder.h"

// Of one line, so that the call has the line that is printed.
#define HERE(call) (printf("%s:%d\n", __func__, __LINE__), fflush(stdout), call)

__attribute__((noinline)) static void post_message(void) {
    HERE(finder_note());
    __asm__ volatile(""); // the call isn't the last thing here, which would be a jump
}

__attribute__((always_inline)) static inline void fill_inlined(const char* rule) {
    HERE(finder_find(rule));
}

__attribute__((noinline)) static void fill_buffer(const char* rule) {
    fill_inlined(rule);
    __asm__ volatile("");
}

static void be_wrong(void) {
    post_message();
    fill_buffer("buffer-changed-while-sent");
}

// As a program would that writes at random: to the file itself.
static int findings_file(void) {
    const char* const told = getenv("SLUICE_CHECK");
    const char* const name = told != NULL ? strchr(told, ':') : NULL;
    const int file = name != NULL ? open(name + 1, O_WRONLY | O_APPEND) : -1;
    if (file < 0) {
        abort();
    }
    return file;
}

static void write_text(int file, const char* text) {
    if (write(file, text, strlen(text)) < 0) {
        abort();
    }
}

static void write_garbage(void) {
    const int file = findings_file();
    char bytes[5000];
    for (size_t i = 0; i < sizeof bytes; ++i) {
        bytes[i] = (char)(i * 7919 >> 3);
    }
    write_text(file, "finding 1\nrule \033[2J\nside \nframe 0xzz ");
    if (write(file, bytes, sizeof bytes) < 0) {
        abort();
    }
    write_text(file,
               "\nend\nfinding 99999999999999999999\nfinding 1\nrule cut-off\nside cut off\nframe 0x1 f");
    close(file);
}

// So many records, each of which names another place of this program: as the innermost one, or further out.
static void write_many(int count, int is_innermost) {
    const int file = findings_file();
    char program[1024] = "";
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) {
        abort();
    }
    for (int i = 0; i < count; ++i) {
        char record[4096];
        (void)snprintf(record, sizeof record,
                       "finding 1\npid 1\nrule many\nobject o\nwhat w\nremedy r\nside s\n"
                       "frame 0x%x f %s\nframe 0x%x g /no/such/file\nend\n",
                       is_innermost ? 0x100000 + i : 0x100000, program, i);
        write_text(file, record);
    }
    close(file);
}

static void fork_children(int count) {
    for (int i = 0; i < count; ++i) {
        if (fork() == 0) {
            be_wrong();
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
}

// A grandchild that finds something, and is still there when its parent has ended.
static void leave_grandchild(void) {
    int ends[2];
    char byte = 0;
    if (pipe(ends) != 0) {
        abort();
    }
    const pid_t child = fork();
    if (child == 0) {
        be_wrong();
        if (write(ends[1], "", 1) != 1) {
            abort();
        }
        alarm(60);
        pause();
    }
    if (read(ends[0], &byte, 1) != 1) {
        abort();
    }
    printf("grandchild:%d\n", (int)child);
}

// Loaded as "./NAME", and the working directory is another one when something is found.
static void load_plugin(const char* folder) {
    void* const plugin = chdir(folder) == 0 ? dlopen("./libfinding_plugin.so", RTLD_NOW) : NULL;
    void (*be_wrong_there)(void) = NULL;
    void* const found = plugin != NULL ? dlsym(plugin, "plugin_be_wrong") : NULL;
    if (found == NULL || chdir("/") != 0) {
        abort();
    }
    memcpy(&be_wrong_there, &found, sizeof found);
    be_wrong_there();
}

static void await_signal(void) {
    sigset_t wanted;
    int number = 0;
    sigemptyset(&wanted);
    sigaddset(&wanted, SIGTERM);
    sigprocmask(SIG_BLOCK, &wanted, NULL);
    kill(getppid(), SIGTERM);
    sigwait(&wanted, &number);
    printf("signal %d came\n", number);
}

int main(int argc, char** argv) {
    const char* const what = argc > 1 ? argv[1] : "";
    const int number = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    if (strcmp(what, "once") == 0) {
        be_wrong();
    } else if (strcmp(what, "twice") == 0) {
        be_wrong();
        fill_buffer("another-rule");
    } else if (strcmp(what, "kill") == 0) {
        be_wrong();
        raise(number);
    } else if (strcmp(what, "close") == 0) {
        printf("closes all\n");
        fflush(stdout);
        for (int fd = 0; fd < 1024; ++fd) {
            close(fd);
        }
        be_wrong();
    } else if (strcmp(what, "fork") == 0) {
        fork_children(number);
    } else if (strcmp(what, "leave") == 0) {
        leave_grandchild();
    } else if (strcmp(what, "garbage") == 0) {
        write_garbage();
        be_wrong();
        write_garbage();
    } else if (strcmp(what, "many") == 0) {
        write_many(number, 1);
    } else if (strcmp(what, "stacks") == 0) {
        write_many(number, 0);
    } else if (strcmp(what, "signal") == 0) {
        await_signal();
    } else if (strcmp(what, "plugin") == 0) {
        load_plugin(argv[2]);
    } else if (strcmp(what, "blind") == 0) {
        finder_find_blind_spot("memory of a GPU");
        finder_find_blind_spot("memory of a GPU");
    }
    return strcmp(what, "once") == 0 ? number : 0;
}
