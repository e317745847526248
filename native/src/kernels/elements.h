/* Elements of a row as given, of any type, as floats. */
#pragma once

#include "internal.h"
#include "kernels/simd.h"

ES_INLINE size_t kind_size(int32_t kind) { return kind == ES_FLOAT ? 4 : 2; }

ES_INLINE vf load_kind(const void *p, int64_t i, int32_t kind) {
    if (kind == ES_FLOAT) return vf_load((const float *)p + i);
    if (kind == ES_HALF) return vf_load_half((const uint16_t *)p + i);
    return vf_load_bfloat((const uint16_t *)p + i);
}

ES_INLINE float value_kind(const void *p, int64_t i, int32_t kind) {
    if (kind == ES_FLOAT) return ((const float *)p)[i];
    if (kind == ES_HALF) return half_to_float(((const uint16_t *)p)[i]);
    return bfloat_to_float(((const uint16_t *)p)[i]);
}

/* Two vectors of the row, in any order. */
ES_INLINE void load_two(const void *p, int64_t i, int32_t kind, vf *two) {
    if (kind == ES_BFLOAT) vf_load_bfloats((const uint16_t *)p + i, two);
    else {
        two[0] = load_kind(p, i, kind);
        two[1] = load_kind(p, i + W, kind);
    }
}

/* Execute `call`, in which KIND is the element type `of` as a constant: each type gets its own loops. */
#define BY_KIND(of, call)              \
    do {                               \
        if ((of) == ES_FLOAT) {        \
            enum { KIND = ES_FLOAT };  \
            call;                      \
        } else if ((of) == ES_HALF) {  \
            enum { KIND = ES_HALF };   \
            call;                      \
        } else {                       \
            enum { KIND = ES_BFLOAT }; \
            call;                      \
        }                              \
    } while (0)
