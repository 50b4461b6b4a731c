# cython: language_level=3
# A Cython module that verifies inside a nogil block. See test_header.py.

from libc.stdint cimport int64_t
from libc.string cimport memset

cdef extern from "specverify/kernels.h" nogil:
    ctypedef struct sv_kernels:
        pass
    enum: SV_DENSE
    ctypedef struct sv_rows:
        int kind
        const void* data
        Py_ssize_t stride
    ctypedef struct sv_round:
        sv_rows target, draft
        const int64_t* tokens
        const double* uniforms
        Py_ssize_t k, vocab
        int normalized
    ctypedef struct sv_verdict:
        Py_ssize_t n_accepted, next_token
        int status
        Py_ssize_t where
    ctypedef struct sv_api:
        const sv_kernels* kernels
        void (*verify_sampled)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil
    const sv_api* sv_import() except NULL

cdef const sv_api* api = sv_import()


# Addresses, not memoryviews: those would make Cython translate, and the C compiler compile, ten times as much.
def run(size_t target, size_t draft, size_t tokens, size_t uniforms, Py_ssize_t k, Py_ssize_t vocab):
    cdef sv_round given
    cdef sv_verdict verdict
    with nogil:
        memset(&given, 0, sizeof(given))         # float32, probabilities, no more than is set here
        given.target.kind = given.draft.kind = SV_DENSE
        given.target.data = <const void*>target
        given.draft.data = <const void*>draft
        given.tokens = <const int64_t*>tokens
        given.uniforms = <const double*>uniforms
        given.target.stride = given.draft.stride = vocab * sizeof(float)
        given.k = k
        given.vocab = vocab
        given.normalized = False
        api.verify_sampled(api.kernels, &given, &verdict)
    return verdict.n_accepted, verdict.next_token, verdict.status, verdict.where
