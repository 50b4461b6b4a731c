/* Compiled, as C and as C++, to see that the header needs no Python.h. See test_header.py. */
#include <specverify/kernels.h>

int main(void) {
    sv_round given;
    sv_verdict verdict;
    sv_kernels kernels;
    (void)given, (void)verdict, (void)kernels;
    return sv_block(9) != SV_BLOCK || sv_block(SV_BLOCK * SV_MAX_BLOCKS + 1) != 2 * SV_BLOCK;
}
