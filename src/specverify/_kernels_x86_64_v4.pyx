# The row loops for x86-64-v4; the flags are in setup.py.
cdef const char* ISA = b"x86-64-v4"
include "_kernels.pxi"
