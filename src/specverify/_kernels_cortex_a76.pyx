# The row loops for cortex-a76; the flags are in setup.py.
cdef const char* ISA = b"cortex-a76"
include "_kernels.pxi"
