/* Another build of the library beside this one. */
#pragma once

#include "world.h"

/* The table of the shared library at `path`. */
const es_api *fz_load(const char *path);

/* One case by both on one instruction set: tokens, notes, processed rows and logprobs must be the same, byte for
 * byte. Returns how many rows were run. */
int64_t fz_run_against(const es_api *api, const es_api *other, const char *isa, uint64_t seed);
