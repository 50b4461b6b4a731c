/* What this CPU can run. Part of the portable module: a variant's own module may not even be imported to ask. */
#ifndef SPECVERIFY_CPU_H
#define SPECVERIFY_CPU_H

#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
/* What -mcpu=cortex-a76 lets the compiler use beyond ARMv8.0-A, as bits of AT_HWCAP (Linux, asm/hwcap.h):
   CRC32 7, ATOMICS 8, FPHP 9, ASIMDHP 10, ASIMDRDM 12, LRCPC 15, ASIMDDP 20. */
static int sv_cpu_is_a76_class(void) {
    const unsigned long needed = 1ul << 7 | 1ul << 8 | 1ul << 9 | 1ul << 10 | 1ul << 12 | 1ul << 15 | 1ul << 20;
    return (getauxval(AT_HWCAP) & needed) == needed;
}
#endif

static int sv_cpu_runs(const char *isa) {
    if (!strcmp(isa, "generic")) return 1;
#if defined(__x86_64__) && defined(__GNUC__)
    if (!strcmp(isa, "x86-64-v3")) {
        __builtin_cpu_init();
#if !defined(__clang__) && __GNUC__ >= 12
        return __builtin_cpu_supports("x86-64-v3") != 0;
#else
        /* The rest of the level (F16C, LZCNT, MOVBE) came to market with these four or earlier. */
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi")
            && __builtin_cpu_supports("bmi2");
#endif
    }
    if (!strcmp(isa, "x86-64-v4")) {
        __builtin_cpu_init();
#if !defined(__clang__) && __GNUC__ >= 12
        return __builtin_cpu_supports("x86-64-v4") != 0;
#else
        return sv_cpu_runs("x86-64-v3") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
            && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512vl");
#endif
    }
#elif defined(__aarch64__) && defined(__linux__)
    if (!strcmp(isa, "cortex-a76")) return sv_cpu_is_a76_class();
#endif
    return 0;
}

#endif
