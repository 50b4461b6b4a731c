/* What a line of C says and a Cython loop cannot. No value depends on anything in here. */
#ifndef SPECVERIFY_TUNING_H
#define SPECVERIFY_TUNING_H

#include <stdint.h>
#include <string.h>

/* The kernel modules are compiled with -fno-inline: every function of _kernels.pxi is then a symbol whose machine code
   tests/test_assembly.py can read, and none loses its vector form by being merged into its caller. */
#define SV_INLINE static inline __attribute__((always_inline))

#define SV_LOG2_E 0x1.71547652b82fep+0   /* log2(e), to the nearest float64 */
#define SV_POSITIVE_INFINITY 0x7f800000u /* bits of float32; above: NaN, or the sign bit is set */
#define SV_NEGATIVE_INFINITY 0xff800000u /* above: NaN with the sign bit set */

SV_INLINE uint32_t sv_bits(const float *entry) {
    uint32_t bits;
    memcpy(&bits, entry, 4);
    return bits;
}

/* Orders like the float, NaN apart: positive NaN above all, negative NaN below. */
SV_INLINE int32_t sv_key(float entry) {
    int32_t key;
    memcpy(&key, &entry, 4);
    return key ^ ((key >> 31) & 0x7fffffff);
}

SV_INLINE float sv_from_key(int32_t key) {
    float entry;
    key ^= (key >> 31) & 0x7fffffff;
    memcpy(&entry, &key, 4);
    return entry;
}

/* Equal for all operands that are not NaN. On aarch64 the built-in is the one instruction fmaxnm; on x86-64 it would be a
   call of the library's fmax, while the comparison becomes the one instruction maxpd. */
SV_INLINE double sv_max(double a, double b) {
#ifdef __aarch64__
    return __builtin_fmax(a, b);
#else
    return a > b ? a : b;
#endif
}

/* Sign bits are collected where that costs least. An aarch64 core of this class converts on one vector pipe and adds on
   the other, so both are full while its integer pipes idle: there the words of 16 entries go through general registers,
   which the empty asm enforces (llvm-mca, Neoverse N1 model: 8.0 cycles per 16 entries; 10.0 with vector registers). On
   x86-64 vector registers are free and general ones would need twice the loads. */
#ifdef __aarch64__
#define SV_VECTOR_SIGNS 0
#else
#define SV_VECTOR_SIGNS 1
#endif

SV_INLINE void sv_collect_signs(uint64_t signs[2], const float *entries) {
    for (int pair = 0; pair < 8; pair++) {
        uint64_t word;
        memcpy(&word, entries + 2 * pair, 8);
        __asm__("" : "+r"(word));
        signs[pair & 1] |= word;
    }
}

#endif
