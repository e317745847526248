/* Which instruction set runs: the best that this library contains and this machine supports. */
#include "cpu.h"
#include "internal.h"

#include <string.h>

#ifdef ES_FUZZ_CHANGES
void (*es_on_read)(const void *row, int32_t kind, int64_t n);
void (*es_on_bound)(const char *what, int64_t least, int64_t exact, int64_t most);
void (*es_on_decision)(int is_certain);
double es_bound_width = 1.0;
#endif

typedef struct es_candidate {
    const es_kernels *kernels;
    int usable;
} es_candidate;

const es_kernels *es_choose_kernels(const char *isa) {
#if defined(__x86_64__)
    const es_cpu cpu = es_this_cpu();
#endif
    const es_candidate candidates[] = {
#ifdef ES_HAVE_AVX512
        {&es_kernels_avx512, cpu.avx512},
#endif
#ifdef ES_HAVE_AVX2
        {&es_kernels_avx2, cpu.avx2},
#endif
#ifdef ES_HAVE_BASELINE
        {&es_kernels_baseline, 1},
#endif
#ifdef ES_HAVE_NEON
        {&es_kernels_neon, 1},
#endif
#ifdef ES_HAVE_PORTABLE
        {&es_kernels_portable, 1},
#endif
    };
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++)
        if (candidates[i].usable && (!isa || !strcmp(isa, candidates[i].kernels->name)))
            return candidates[i].kernels;
    return NULL;
}
