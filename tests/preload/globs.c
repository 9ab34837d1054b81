/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints what glob() and glob64() find, one name a line, for patterns that are appended to each other. An
 * argument "own" in front of them: with functions of this program's own for directories, which find nothing.
 */
#include <dirent.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void* no_directory(const char* path) {
    (void)path;
    return NULL;
}

static struct dirent* no_entry(void* directory) {
    (void)directory;
    return NULL;
}

static void no_end(void* directory) {
    (void)directory;
}

static int no_file(const char* path, struct stat* status) {
    (void)path;
    (void)status;
    return -1;
}

int main(int count, char** arguments) {
    const int own = count > 1 && strcmp(arguments[1], "own") == 0;
    glob_t found;
    glob64_t found64;
    memset(&found, 0, sizeof found);
    memset(&found64, 0, sizeof found64);
    if (own) {
        found.gl_opendir = no_directory;
        found.gl_readdir = no_entry;
        found.gl_closedir = no_end;
        found.gl_stat = no_file;
        found.gl_lstat = no_file;
    }
    for (int i = 1 + own; i < count; ++i) {
        const int flags = GLOB_BRACE | GLOB_MARK | (i > 1 + own ? GLOB_APPEND : 0);
        const int result = glob(arguments[i], flags | (own ? GLOB_ALTDIRFUNC : 0), NULL, &found);
        const int result64 = own ? result : glob64(arguments[i], flags, NULL, &found64);
        if (result != result64 || (result != 0 && result != GLOB_NOMATCH)) {
            fprintf(stderr, "%s: glob() returned %d and glob64() %d\n", arguments[i], result, result64);
            return 1;
        }
        if (!own &&
            ((found.gl_flags & GLOB_ALTDIRFUNC) != 0 || found.gl_opendir != NULL || found.gl_lstat != NULL)) {
            fprintf(stderr, "%s: the structure has functions that its owner didn't set\n", arguments[i]);
            return 1;
        }
    }
    if (!own && found.gl_pathc != found64.gl_pathc) {
        fprintf(stderr, "glob() found %zu and glob64() %zu\n", (size_t)found.gl_pathc,
                (size_t)found64.gl_pathc);
        return 1;
    }
    for (size_t i = 0; i < found.gl_pathc; ++i) {
        puts(found.gl_pathv[i]);
        if (!own && strcmp(found.gl_pathv[i], found64.gl_pathv[i]) != 0) {
            fprintf(stderr, "glob64() found %s\n", found64.gl_pathv[i]);
            return 1;
        }
    }
    globfree(&found);
    globfree64(&found64);
    return 0;
}
