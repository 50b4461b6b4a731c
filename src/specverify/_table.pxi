# The kernel table of include/specverify/kernels.h, as Cython sees it.

cdef extern from "specverify/kernels.h" nogil:
    enum: SV_BLOCK
    enum: SV_MAX_GROUPS
    enum: SV_PIECE
    Py_ssize_t sv_group(Py_ssize_t) noexcept
    ctypedef struct sv_kernels:
        const char* isa
        double (*piece_mass)(const float*, Py_ssize_t) noexcept nogil
        double (*piece_residual)(const float*, const float*, double, Py_ssize_t) noexcept nogil
        double (*mass)(const float*, Py_ssize_t, double*) noexcept nogil
        double (*residual_mass)(const float*, const float*, double, Py_ssize_t, double*) noexcept nogil
        bint (*proper)(const float*, Py_ssize_t) noexcept nogil
        Py_ssize_t (*argmax)(const float*, Py_ssize_t) noexcept nogil
        int32_t (*tops)(const float*, Py_ssize_t, uint32_t*) noexcept nogil
        void (*copy)(const float*, Py_ssize_t, float*) noexcept nogil
        void (*widen_float16)(const uint16_t*, Py_ssize_t, float*) noexcept nogil
        void (*widen_bfloat16)(const uint16_t*, Py_ssize_t, float*) noexcept nogil
        void (*add_bias)(float*, const float*, Py_ssize_t) noexcept nogil
        void (*apply_mask)(float*, const uint32_t*, Py_ssize_t) noexcept nogil
        void (*weigh)(const float*, Py_ssize_t, float, float, float*) noexcept nogil
        void (*keep)(const float*, float*, Py_ssize_t, float, float) noexcept nogil
        void (*group_tops)(const float*, Py_ssize_t, Py_ssize_t, int32_t*, uint32_t*) noexcept nogil
