/* engine_sampler_arrays.h: what frameworks call when they no longer need an array that the host has handed out. */
#ifndef ENGINE_SAMPLER_ARRAYS_H
#define ENGINE_SAMPLER_ARRAYS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The text between the two marks is also the host's cffi definition: plain declarations only. */
/* cdef: begin */

/* The deleter of a DLManagedTensor of DLPack whose `manager_ctx` points to an int32_t: sets that to 1, and nothing
 * else. It may be called while an exception is being raised, where Python itself must not run. */
void es_release_array(void *managed);

/* cdef: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
