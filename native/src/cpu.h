/* What this x86 processor and its system support. The compiler's own __builtin_cpu_supports needs a runtime
 * library that fills its table; the one that Zig links when it builds for other platforms does not.
 */
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdint.h>

typedef struct es_cpu {
    int avx2, avx512; /* with everything that the kernels of that name are compiled for */
} es_cpu;

/* XCR0: the registers that the system saves when it switches threads. */
static inline uint64_t es_saved_registers(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

static inline int es_has(uint64_t bits, uint64_t wanted) { return (bits & wanted) == wanted; }

/* Bits of CPUID as Intel's and AMD's manuals number them. */
static inline es_cpu es_this_cpu(void) {
    enum {
        FMA = 1 << 12,
        POPCNT = 1 << 23,
        OSXSAVE = 1 << 27,
        AVX = 1 << 28,
        F16C = 1 << 29
    }; /* leaf 1, ecx */
    enum { BMI = 1 << 3, AVX2 = 1 << 5, BMI2 = 1 << 8 };                         /* leaf 7, ebx */
    const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;           /* f, dq, bw, vl */
    enum { LZCNT = 1 << 5 };                                                     /* leaf 0x80000001, ecx */
    enum { YMM = 0x06, ZMM = 0xE6 };                                             /* XCR0 */
    uint32_t a, b, c, d, basic, extended;
    es_cpu cpu = {0, 0};
    if (!__get_cpuid(1, &a, &b, &basic, &d) || !es_has(basic, FMA | POPCNT | OSXSAVE | AVX | F16C))
        return cpu;
    if (!__get_cpuid_count(7, 0, &a, &extended, &c, &d)) return cpu;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !es_has(c, LZCNT)) return cpu;
    const uint64_t saved = es_saved_registers();
    cpu.avx2 = es_has(saved, YMM) && es_has(extended, BMI | AVX2 | BMI2);
    cpu.avx512 = cpu.avx2 && es_has(saved, ZMM) && es_has(extended, avx512);
    return cpu;
}
#endif
