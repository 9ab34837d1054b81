// SPDX-License-Identifier: BSD-3-Clause
#include "outcome.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { FAILED = 2 };

void end_with_error(const char* what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(FAILED);
}

int patience_ms(void) {
    const char* text = getenv("RACES_PATIENCE_MS");
    return text != NULL ? (int)strtol(text, NULL, 10) : 5000;
}

static const char* of_waiting = NULL;

static void give_up(int number) {
    static const char before[] = "symptom: ";
    (void)number;
    const int is_told = write(STDOUT_FILENO, before, sizeof before - 1) > 0 &&
                        write(STDOUT_FILENO, of_waiting, strlen(of_waiting)) > 0 &&
                        write(STDOUT_FILENO, "\n", 1) == 1;
    _exit(is_told ? 1 : FAILED);
}

void watch(const char* symptom) {
    const int ms = patience_ms();
    const struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
    of_waiting = symptom;
    signal(SIGALRM, give_up);
    setitimer(ITIMER_REAL, &timer, NULL);
}

int verdict(const char* symptom) {
    if (symptom != NULL) {
        printf("symptom: %s\n", symptom);
        return 1;
    }
    printf("all is right\n");
    return 0;
}

const char* with_status(const char* what, enum ibv_wc_status status) {
    static char text[200];
    snprintf(text, sizeof text, "%s: %s", what, ibv_wc_status_str(status));
    return text;
}
