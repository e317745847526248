/* What kind of device the library behind engine_sampler.h serves; set by tests before a library is loaded. */
#ifndef SIM_LIBRARY_H
#define SIM_LIBRARY_H

#include <stdint.h>

#pragma GCC visibility push(default)
/* cdef: begin */

/* Entries of the table that a library of an older version leaves out. */
typedef enum sim_without {
    SIM_WITHOUT_POLL = 1,
    SIM_WITHOUT_ALLOCATE = 2, /* and deallocate */
    SIM_WITHOUT_ENTER_THREAD = 4,
    SIM_WITHOUT_STAGE_MASKS = 8,
    SIM_WITHOUT_READ_ROWS = 16,
    SIM_WITHOUT_TARGET = 32
} sim_without;

typedef struct sim_settings {
    uint64_t samplers; /* bit k: runs programs with the op of kind k */
    uint64_t selectors; /* bit k: the op of kind 64 + k */
    uint32_t promises; /* es_promise bits, of those that it can keep */
    uint32_t types; /* of logits, as bits: 1 float32, 2 float16, 4 bfloat16 */
    int64_t max_rows, max_top_k, alignment, max_survivors;
    int32_t random; /* es_random, what it wants for `dist` */
    int32_t random_width; /* exponential numbers of a row, by rank of its tokens; 0: one for each token */
    int32_t ties; /* es_ties; if they are kept, truncations run without a selector only */
    int32_t synchronous; /* `run` returns when all is done */
    int32_t most_programs;
    uint32_t without; /* sim_without bits */
} sim_settings;

/* Everything it can, at its best. */
void sim_default_settings(sim_settings *out);
/* For tables and contexts from now on. */
void sim_configure(const sim_settings *settings);
/* The packaged kernels, which do the arithmetic while the device works. */
int32_t sim_use_kernels(const char *path);
/* Live contexts of the library. */
int64_t sim_contexts(void);

/* cdef: end */
#pragma GCC visibility pop
#endif
