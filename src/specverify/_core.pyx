# From Python arguments to the C structs of one round, and from its verdict to a result.
#
# Holds the fast gate (arrays that already are what the rounds read are used in place), the choice of the kernel table
# and the release of the GIL. Holds no rule of verification (_rounds.pxi), no loop over a row (_kernels.pxi) and no
# message (_inputs.py, which also converts whatever does not pass the fast gate).

from cpython.object cimport PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy, memset
cimport numpy as np

from . import _inputs
from ._result import Verdict

np.import_array()


cdef extern from "specverify/kernels.h" nogil:
    enum: SV_ABI
    enum: SV_MAX_BLOCKS
    enum: SV_PIECE
    ctypedef struct sv_kernels:
        const char* isa
        double (*mass)(const float*, Py_ssize_t, double*) noexcept nogil
        double (*piece_mass)(const float*, Py_ssize_t) noexcept nogil
        double (*piece_residual)(const float*, const float*, double, Py_ssize_t) noexcept nogil
        double (*residual_mass)(const float*, const float*, double, Py_ssize_t, double*) noexcept nogil
        double (*trusted_residual_mass)(const float*, const float*, Py_ssize_t, double*) noexcept nogil
        Py_ssize_t (*argmax)(const float*, Py_ssize_t) noexcept nogil
    ctypedef enum sv_status:
        SV_OK, SV_BAD_TOKEN, SV_BAD_UNIFORM, SV_BAD_TARGET, SV_BAD_DRAFT, SV_BAD_ROWS
    ctypedef struct sv_round:
        const float* target
        const float* draft
        const int64_t* tokens
        const double* uniforms
        Py_ssize_t target_stride, draft_stride
        Py_ssize_t k, vocab
        int normalized
    ctypedef struct sv_verdict:
        Py_ssize_t n_accepted, next_token
        sv_status status
        Py_ssize_t where
    ctypedef struct sv_api:
        uint32_t abi
        const sv_kernels* kernels
        void (*verify_greedy)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil
        void (*verify_sampled)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil
    Py_ssize_t sv_block(Py_ssize_t) noexcept


cdef extern from "_cpu.h" nogil:
    bint sv_cpu_runs(const char*) noexcept


cdef extern from *:
    """
    /* A tuple subclass without instance attributes, filled in place: a tenth of what calling the class costs. */
    static PyObject *sv_pair(PyTypeObject *type, Py_ssize_t first, Py_ssize_t second) {
        PyObject *a = PyLong_FromSsize_t(first), *b = PyLong_FromSsize_t(second);
        PyObject *pair = a && b ? type->tp_alloc(type, 2) : NULL;
        if (!pair) { Py_XDECREF(a); Py_XDECREF(b); return NULL; }
        PyTuple_SET_ITEM(pair, 0, a);
        PyTuple_SET_ITEM(pair, 1, b);
        return pair;
    }
    """
    object sv_pair(PyTypeObject*, Py_ssize_t, Py_ssize_t)


include "_lanes.pxi"
include "_rounds.pxi"


cdef enum:
    STACK_TOKENS = 64       # tokens and uniforms of a round up to this K are copied to the stack
    GIL_FLOATS = 1 << 14    # rounds that may read more floats than this release the GIL: some 2 µs, 20 times its cost

cdef sv_api api
api.abi = SV_ABI
api.kernels = NULL
api.verify_greedy = verify_greedy_round
api.verify_sampled = verify_sampled_round
API = PyCapsule_New(&api, b"specverify._core.API", NULL)


def cpu_runs(str isa not None) -> bool:
    """Whether this CPU has every instruction that the variant may use."""
    return sv_cpu_runs(isa.encode())


def use_kernels(capsule) -> None:
    """Take the row loops of this variant from now on, in every thread."""
    api.kernels = <const sv_kernels*>PyCapsule_GetPointer(capsule, b"specverify.kernels")


def kernels_in_use() -> str:
    return api.kernels.isa.decode()


# --- the gate ---------------------------------------------------------------------------------------------------

cdef inline bint are_rows(object rows) noexcept:
    """A float32 matrix in native order whose rows are contiguous; rows may be any distance apart."""
    return (np.PyArray_Check(rows) and np.PyArray_NDIM(rows) == 2 and np.PyArray_TYPE(rows) == np.NPY_FLOAT32
            and np.PyArray_ISBEHAVED_RO(rows)
            and (np.PyArray_STRIDE(rows, 1) == sizeof(float) or np.PyArray_DIM(rows, 1) == 1))


cdef inline bint is_vector(object vector, int kind) noexcept:
    return (np.PyArray_Check(vector) and np.PyArray_NDIM(vector) == 1 and np.PyArray_TYPE(vector) == kind
            and np.PyArray_ISBEHAVED_RO(vector))


cdef object gate_target(object target, sv_round* given):
    if not are_rows(target):
        target = _inputs.as_rows(target, "target")
    given.target = <const float*>np.PyArray_DATA(target)
    given.target_stride = np.PyArray_STRIDE(target, 0)
    given.k = np.PyArray_DIM(target, 0) - 1
    given.vocab = np.PyArray_DIM(target, 1)
    if given.k < 0 or given.vocab < 1:
        _inputs.fail_target_shape(target)
    return target


cdef object gate_draft(object draft, sv_round* given):
    if draft is None:
        given.draft = NULL
        given.draft_stride = 0
        return None
    if not are_rows(draft):
        draft = _inputs.as_rows(draft, "draft", given.vocab)
    if np.PyArray_DIM(draft, 0) != given.k or np.PyArray_DIM(draft, 1) != given.vocab:
        _inputs.fail_draft_shape(draft, given.k, given.vocab)
    given.draft = <const float*>np.PyArray_DATA(draft)
    given.draft_stride = np.PyArray_STRIDE(draft, 0)
    return draft


cdef object gate_tokens(object tokens, sv_round* given, int64_t* stack):
    cdef Py_ssize_t i, stride
    cdef const char* data
    if not is_vector(tokens, np.NPY_INT64) and not is_vector(tokens, np.NPY_INT32):
        tokens = _inputs.as_tokens(tokens)
    if np.PyArray_DIM(tokens, 0) != given.k:
        _inputs.fail_length(tokens, "tokens", "K", given.k)
    if given.k > STACK_TOKENS:
        tokens = _inputs.contiguous(tokens, "int64")
        given.tokens = <const int64_t*>np.PyArray_DATA(tokens)
        return tokens
    data = <const char*>np.PyArray_DATA(tokens)
    stride = np.PyArray_STRIDE(tokens, 0)
    if np.PyArray_TYPE(tokens) == np.NPY_INT32:
        for i in range(given.k):
            stack[i] = (<const int32_t*>(data + i * stride))[0]
    else:
        for i in range(given.k):
            stack[i] = (<const int64_t*>(data + i * stride))[0]
    given.tokens = stack
    return tokens


cdef object gate_uniforms(object uniforms, sv_round* given, double* stack):
    cdef Py_ssize_t i, stride
    cdef const char* data
    if not is_vector(uniforms, np.NPY_FLOAT64):
        uniforms = _inputs.as_uniforms(uniforms)
    if np.PyArray_DIM(uniforms, 0) != given.k + 1:
        _inputs.fail_length(uniforms, "uniforms", "K + 1", given.k + 1)
    if given.k > STACK_TOKENS:
        uniforms = _inputs.contiguous(uniforms, "float64")
        given.uniforms = <const double*>np.PyArray_DATA(uniforms)
        return uniforms
    data = <const char*>np.PyArray_DATA(uniforms)
    stride = np.PyArray_STRIDE(uniforms, 0)
    for i in range(given.k + 1):
        stack[i] = (<const double*>(data + i * stride))[0]
    given.uniforms = stack
    return uniforms


# --- the two operations; documented in verify.py ----------------------------------------------------------------

def verify_greedy(target, tokens):
    cdef sv_round given
    cdef sv_verdict verdict
    cdef int64_t token_stack[STACK_TOKENS]
    target = gate_target(target, &given)
    tokens = gate_tokens(tokens, &given, token_stack)
    given.draft = NULL
    given.uniforms = NULL
    given.normalized = False
    if (given.k + 1) * given.vocab > GIL_FLOATS:
        with nogil:
            verify_greedy_round(api.kernels, &given, &verdict)
    else:
        verify_greedy_round(api.kernels, &given, &verdict)
    if verdict.status != SV_OK:
        _inputs.fail_greedy(verdict.status, verdict.where, target, tokens)
    return sv_pair(<PyTypeObject*>Verdict, verdict.n_accepted, verdict.next_token)


def verify_sampled(target, draft, tokens, uniforms, bint normalized):
    cdef sv_round given
    cdef sv_verdict verdict
    cdef int64_t token_stack[STACK_TOKENS]
    cdef double uniform_stack[STACK_TOKENS + 1]
    target = gate_target(target, &given)
    draft = gate_draft(draft, &given)
    tokens = gate_tokens(tokens, &given, token_stack)
    uniforms = gate_uniforms(uniforms, &given, uniform_stack)
    given.normalized = normalized
    if (given.k + 1) * given.vocab > GIL_FLOATS:
        with nogil:
            verify_sampled_round(api.kernels, &given, &verdict)
    else:
        verify_sampled_round(api.kernels, &given, &verdict)
    if verdict.status != SV_OK:
        _inputs.fail_sampled(verdict.status, verdict.where, target, draft, tokens, uniforms)
    return sv_pair(<PyTypeObject*>Verdict, verdict.n_accepted, verdict.next_token)


# --- the row loops one by one, for tests, proofs and benchmarks -------------------------------------------------

def row_masses(rows) -> list[float]:
    """Sum of each row as a round computes it; -1.0 for a row that is no distribution."""
    cdef sv_round given
    cdef double sums[SV_MAX_BLOCKS]
    rows = gate_target(rows, &given)
    return [api.kernels.mass(row_at(given.target, given.target_stride, i), given.vocab, sums)
            for i in range(given.k + 1)]


def residual_mass(target, draft, double scale) -> float:
    """Sum of max(0, target - scale * draft) over one row each, shape [1, V]."""
    cdef sv_round target_row, draft_row
    cdef double sums[SV_MAX_BLOCKS]
    target = gate_target(target, &target_row)
    draft = gate_target(draft, &draft_row)
    if target_row.k != 0 or draft_row.k != 0 or target_row.vocab != draft_row.vocab:
        raise ValueError("expected one row of the same length each")
    return api.kernels.residual_mass(target_row.target, draft_row.target, scale, target_row.vocab, sums)
