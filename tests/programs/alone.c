/* Compiled, as C and as C++, to see that the header needs no Python.h. See test_header.py. */
#include <specverify/kernels.h>

int main(void) {
    sv_round given;
    sv_verdict verdict;
    sv_kernels kernels;
    sv_sampling sampling;
    (void)given, (void)verdict, (void)kernels, (void)sampling;
    return sv_group(9) != SV_BLOCK || sv_group(SV_BLOCK * SV_MAX_GROUPS + 1) != 2 * SV_BLOCK;
}
