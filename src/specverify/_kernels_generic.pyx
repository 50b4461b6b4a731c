# The row loops for generic; the flags are in setup.py.
cdef const char* ISA = b"generic"
include "_kernels.pxi"
