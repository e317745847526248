/* Running the cases under the eyes of a second process, which prints the seed of one that crashes or hangs. */
#pragma once

#include <stdint.h>

enum { FZ_USAGE = 2 }; /* the exit status of a command line that is wrong */

/* The case that begins now, and the command that runs it again. */
void fz_watch_case(uint64_t seed, const char *again);

/* The exit status of `run(argc, argv)`. On Windows nobody watches: it runs in this process. */
int fz_watched(int (*run)(int argc, char **argv), int argc, char **argv);
