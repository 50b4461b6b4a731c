/* Weights from logits: 2^y in float32 for y <= 0, the same bits on every machine.
 *
 * y = (logit - top) * scale with scale = log2(e) / temperature, so one multiplication does the temperature and the change
 * of base, and splitting y = k + f with k integer and |f| <= 1/2 is exact. 2^f is a polynomial of degree 6 with 2^0 = 1
 * exactly (coefficients: least squares on the relative error at Chebyshev nodes, then searched around in float32); its
 * error is at most 1.08 ulp against 2^f; with the rounding of y a weight is off by at most 2^-24 (2.16 + 2.08 |y|) of
 * itself (tests/test_exp2.py derives it, against mpmath). Results below 2^-125 become 0.
 */
#ifndef SPECVERIFY_EXP2_H
#define SPECVERIFY_EXP2_H

#include <stdint.h>
#include <string.h>

#define SV_ROUNDING 0x1.8p23f  /* adding it leaves the nearest integer in the low bits of the significand */
#define SV_LOWEST_POWER -125.0f /* 2^-125 is still a normal number after |f| <= 1/2 */

static inline __attribute__((always_inline)) float sv_weight(float logit, float top, float scale) {
    float y = (logit - top) * scale;
    float shifted = y + SV_ROUNDING;
    float f = y - (shifted - SV_ROUNDING);
    float power = 0x1.4258d8p-13f;
    uint32_t bits, exponent;
    power = power * f + 0x1.5f44dcp-10f;
    power = power * f + 0x1.3b2cc6p-7f;
    power = power * f + 0x1.c6aed0p-5f;
    power = power * f + 0x1.ebfbd6p-3f;
    power = power * f + 0x1.62e430p-1f;
    power = power * f + 1.0f;
    memcpy(&bits, &power, 4);
    memcpy(&exponent, &shifted, 4);
    bits += exponent << 23;
    bits = y >= SV_LOWEST_POWER ? bits : 0u; /* also for y = -infinity, where f is NaN */
    memcpy(&power, &bits, 4);
    return power;
}

/* float16 (IEEE 754 binary16) to float32, every value, subnormals included. */
static inline __attribute__((always_inline)) float sv_from_float16(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16, bits;
    float value;
    memcpy(&value, &magnitude, 4);
    value *= 0x1p112f;
    memcpy(&bits, &value, 4);
    bits = (half & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u : bits;
    bits |= sign;
    memcpy(&value, &bits, 4);
    return value;
}

/* bfloat16 is the upper half of a float32. */
static inline __attribute__((always_inline)) float sv_from_bfloat16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

#endif
