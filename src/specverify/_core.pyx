# From Python arguments to the C structs of rounds, and from verdicts to results.
#
# Holds the gate for one round, in which arrays that already are what the rounds read are used in place, the walk over
# the requests of a batch, the choice of the kernel table and the release of the GIL. Holds no rule of verification
# (_rounds.pxi), no notion of a row (_rows.pxi, _warp.pxi), no loop over one (_kernels.pxi) and no message (_inputs.py,
# which also converts what is not yet such an array; _batch.py makes the records of a batch).

from cpython.object cimport PyTypeObject
from cpython.pyport cimport PY_SSIZE_T_MAX
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.float cimport FLT_MAX
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset
cimport numpy as np

from . import _inputs
from ._result import Verdict
from .rows import SparseRows

np.import_array()

include "_table.pxi"


cdef extern from "specverify/kernels.h" nogil:
    enum: SV_ABI
    ctypedef enum sv_status:
        SV_OK, SV_BAD_TOKEN, SV_BAD_UNIFORM, SV_BAD_TARGET, SV_BAD_DRAFT
    ctypedef enum sv_kind:
        SV_CERTAIN, SV_DENSE, SV_SPARSE
    ctypedef enum sv_dtype:
        SV_FLOAT32, SV_FLOAT16, SV_BFLOAT16
    ctypedef struct sv_rows:
        sv_kind kind
        sv_dtype dtype
        const void* data
        Py_ssize_t stride
        const int64_t* ids
        const float* probs
        const int64_t* offsets
    ctypedef struct sv_sampling:
        double temperature
        Py_ssize_t top_k
        double top_p, min_p
    ctypedef struct sv_round:
        sv_rows target, draft
        const int64_t* tokens
        const double* uniforms
        Py_ssize_t k, vocab
        int normalized
        const sv_sampling* sampling
        const uint32_t* mask
        Py_ssize_t mask_stride
        const float* bias
        double* emitted_probs
    ctypedef struct sv_verdict:
        Py_ssize_t n_accepted, next_token
        sv_status status
        Py_ssize_t where
    ctypedef struct sv_api:
        uint32_t abi
        const sv_kernels* kernels
        void (*verify_greedy)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil
        void (*verify_sampled)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil
        void (*verify_block)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil


cdef extern from "_cpu.h" nogil:
    bint sv_cpu_runs(const char*) noexcept


cdef extern from "_tuning.h" nogil:
    const uint32_t SV_NEGATIVE_INFINITY
    const int32_t LOWEST_KEY "INT32_MIN"
    const double LOG2_E "SV_LOG2_E"
    int32_t sv_key(float) noexcept
    float sv_from_key(int32_t) noexcept


cdef extern from *:
    """
    /* Fields of an object that is known to be an array, without the type test that NumPy's Cython names would add. */
    #define SV_DATA(array) PyArray_DATA((PyArrayObject *)(array))
    #define SV_NDIM(array) PyArray_NDIM((PyArrayObject *)(array))
    #define SV_DIM(array, axis) PyArray_DIM((PyArrayObject *)(array), axis)
    #define SV_STRIDE(array, axis) PyArray_STRIDE((PyArrayObject *)(array), axis)
    #define SV_TYPE(array) PyArray_TYPE((PyArrayObject *)(array))
    #define SV_ITEMSIZE(array) PyArray_ITEMSIZE((PyArrayObject *)(array))
    #define SV_ISBEHAVED(array) PyArray_ISBEHAVED_RO((PyArrayObject *)(array))
    """
    void* data_of "SV_DATA"(object)
    int ndim_of "SV_NDIM"(object)
    Py_ssize_t dim_of "SV_DIM"(object, int)
    Py_ssize_t stride_of "SV_STRIDE"(object, int)
    int type_of "SV_TYPE"(object)
    Py_ssize_t itemsize_of "SV_ITEMSIZE"(object)
    bint is_behaved "SV_ISBEHAVED"(object)


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
include "_warp_types.pxi"
include "_rows.pxi"
include "_warp.pxi"
include "_rounds.pxi"


cdef enum:
    STACK_TOKENS = 64       # tokens and uniforms of a round up to this K are copied to the stack
    GIL_FLOATS = 1 << 14    # rounds that may read more floats than this release the GIL: some 2 µs, 20 times its cost

ctypedef void (*round_rule)(const sv_kernels*, const sv_round*, sv_verdict*) noexcept nogil

cdef sv_api api
api.abi = SV_ABI
api.kernels = NULL
api.verify_greedy = verify_greedy_round
api.verify_sampled = verify_sampled_round
api.verify_block = verify_block_round
API = PyCapsule_New(&api, b"specverify._core.API", NULL)
LONGEST_BLOCK = MAX_BLOCK_TOKENS
cdef object SINGLE_OPTIONS = frozenset(("sampling", "mask", "bias"))


def cpu_runs(str isa not None) -> bool:
    """Whether this CPU has every instruction that the variant may use."""
    return sv_cpu_runs(isa.encode())


def use_kernels(capsule) -> None:
    """Take the row loops of this variant from now on, in every thread."""
    api.kernels = <const sv_kernels*>PyCapsule_GetPointer(capsule, b"specverify.kernels")


def kernels_in_use() -> str:
    return api.kernels.isa.decode()


cdef object as_view(object value):
    """The array that a tensor shares its memory with, or the value itself, of which _inputs then makes what it can."""
    if np.PyArray_CheckExact(value) or isinstance(value, (list, tuple)) or type(value) is SparseRows:
        return value
    if np.PyArray_Check(value):
        return _inputs.as_plain_array(value)
    try:
        return value.numpy()
    except Exception:
        return value


cdef inline bint are_rows(object rows) noexcept:
    """A float32 or float16 matrix in native order whose rows are contiguous; rows may be any distance apart."""
    return (np.PyArray_Check(rows) and ndim_of(rows) == 2
            and (type_of(rows) == np.NPY_FLOAT32 or type_of(rows) == np.NPY_FLOAT16)
            and is_behaved(rows)
            and (stride_of(rows, 1) == itemsize_of(rows) or dim_of(rows, 1) == 1))


cdef inline bint is_vector(object vector, int kind) noexcept:
    return (np.PyArray_Check(vector) and ndim_of(vector) == 1 and type_of(vector) == kind
            and is_behaved(vector))


cdef void point_at_dense(object rows, sv_rows* to) noexcept:
    to.kind = SV_DENSE
    to.dtype = (SV_FLOAT32 if type_of(rows) == np.NPY_FLOAT32 else
                SV_FLOAT16 if type_of(rows) == np.NPY_FLOAT16 else SV_BFLOAT16)
    to.data = data_of(rows)
    to.stride = stride_of(rows, 0)


cdef void point_at_sparse(object rows, sv_rows* to):
    to.kind = SV_SPARSE
    to.ids = <const int64_t*>data_of(rows.ids)
    to.probs = <const float*>data_of(rows.probs)
    to.offsets = <const int64_t*>data_of(rows.offsets)


cdef object gate_target(object target, sv_round* given, bint as_scores=False):
    memset(given, 0, sizeof(given[0]))
    if type(target) is SparseRows:
        given.k, given.vocab = len(target) - 1, _inputs.known_vocab(target)
        point_at_sparse(target, &given.target)
    else:
        if not are_rows(target):
            target = (_inputs.as_scores(target) if as_scores else _inputs.as_float_rows(target, "target", (2,)))
        given.k, given.vocab = dim_of(target, 0) - 1, dim_of(target, 1)
        point_at_dense(target, &given.target)
    if given.k < 0 or given.vocab < 1:
        _inputs.fail_target_shape(target)
    return target


cdef object gate_draft(object draft, sv_round* given):
    if type(draft) is SparseRows:
        _inputs.check_sparse_draft(draft, given.k, given.vocab)
        point_at_sparse(draft, &given.draft)
        return draft
    if not are_rows(draft):
        draft = _inputs.as_float_rows(draft, "draft", (2,), (given.k, given.vocab))
    if dim_of(draft, 0) != given.k or dim_of(draft, 1) != given.vocab:
        _inputs.fail_draft_shape(draft, given.k, given.vocab)
    point_at_dense(draft, &given.draft)
    return draft


cdef object gate_tokens(object tokens, sv_round* given, int64_t* stack):
    cdef Py_ssize_t i, stride
    cdef const char* data
    if not is_vector(tokens, np.NPY_INT64) and not is_vector(tokens, np.NPY_INT32):
        tokens = _inputs.as_tokens(tokens)
    if dim_of(tokens, 0) != given.k:
        _inputs.fail_length(tokens, "tokens", "K", given.k)
    if given.k > STACK_TOKENS:
        tokens = _inputs.contiguous(tokens, "int64")
        given.tokens = <const int64_t*>data_of(tokens)
        return tokens
    data = <const char*>data_of(tokens)
    stride = stride_of(tokens, 0)
    if type_of(tokens) == np.NPY_INT32:
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
    if dim_of(uniforms, 0) != given.k + 1:
        _inputs.fail_length(uniforms, "uniforms", "K + 1", given.k + 1)
    if given.k > STACK_TOKENS:
        uniforms = _inputs.contiguous(uniforms, "float64")
        given.uniforms = <const double*>data_of(uniforms)
        return uniforms
    data = <const char*>data_of(uniforms)
    stride = stride_of(uniforms, 0)
    for i in range(given.k + 1):
        stack[i] = (<const double*>(data + i * stride))[0]
    given.uniforms = stack
    return uniforms


cdef object gate_sampling(dict options, sv_round* given, sv_sampling* sampling):
    """Take the options of a single round; what they point into, which must be kept alive."""
    cdef object one = options.get("sampling"), mask = options.get("mask"), bias = options.get("bias")
    if one is not None:
        _inputs.check_sampling(one, given.vocab)
        sampling.temperature, sampling.top_k = one.temperature, one.top_k
        sampling.top_p, sampling.min_p = one.top_p, one.min_p
        given.sampling = sampling
    if mask is not None:
        mask = _inputs.as_mask(mask, (given.k + 1, (given.vocab + 31) // 32), given.vocab)
        given.mask = <const uint32_t*>data_of(mask)
        given.mask_stride = stride_of(mask, 0)
    if bias is not None:
        bias = _inputs.as_bias(bias, 1, given.vocab).reshape(-1)
        given.bias = <const float*>data_of(bias)
    return mask, bias


cdef void run(round_rule rule, const sv_round* given, sv_verdict* verdict) noexcept:
    if (given.k + 1) * given.vocab > GIL_FLOATS:
        with nogil:
            rule(api.kernels, given, verdict)
    else:
        rule(api.kernels, given, verdict)


cdef verify_one(round_rule rule, target, draft, tokens, uniforms, bint normalized, dict options):
    """One round; None if it is a batch or asks for more than a verdict."""
    cdef sv_round given
    cdef sv_verdict verdict
    cdef sv_sampling sampling
    cdef int64_t token_stack[STACK_TOKENS]
    cdef double uniform_stack[STACK_TOKENS + 1]
    if options and not options.keys() <= SINGLE_OPTIONS:
        return None
    target = as_view(target)
    if not are_rows(target) and _inputs.is_batch(target):
        return None
    target = gate_target(target, &given, rule == verify_greedy_round and not options)
    if draft is not None:
        draft = gate_draft(as_view(draft), &given)
    tokens = gate_tokens(as_view(tokens), &given, token_stack)
    if rule != verify_greedy_round:
        uniforms = gate_uniforms(as_view(uniforms), &given, uniform_stack)
    given.normalized = normalized
    if options:
        options = dict(options, kept=gate_sampling(options, &given, &sampling))
        _inputs.check_options(options, normalized, rule == verify_greedy_round)
    if rule == verify_greedy_round and given.target.kind == SV_SPARSE:
        _inputs.fail_sparse_greedy()
    if rule == verify_block_round and given.k > MAX_BLOCK_TOKENS:
        _inputs.fail_long_block(given.k, MAX_BLOCK_TOKENS)
    run(rule, &given, &verdict)
    if verdict.status != SV_OK:
        explain_round(&given, &verdict, _inputs.Place())
    return sv_pair(<PyTypeObject*>Verdict, verdict.n_accepted, verdict.next_token)


def verify_greedy(target, tokens, dict options):
    return verify_one(verify_greedy_round, target, None, tokens, None, False, options)


def verify_sampled(target, draft, tokens, uniforms, bint normalized, dict options):
    return verify_one(verify_sampled_round, target, draft, tokens, uniforms, normalized, options)


def verify_block(target, draft, tokens, uniforms, bint normalized, dict options):
    return verify_one(verify_block_round, target, draft, tokens, uniforms, normalized, options)


# `rounds` and `verdicts` are record arrays with the layout of the C structs, made by _batch.py, which keeps alive what
# their addresses point to.

cdef extern from *:
    """
    static Py_ssize_t sv_take(Py_ssize_t *next) { return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED); }
    """
    Py_ssize_t sv_take(Py_ssize_t*) noexcept nogil


cdef class Queue:
    """The number of the next request that no thread has taken."""
    cdef Py_ssize_t next

    def close(self) -> None:
        """Let nobody take another one."""
        self.next = PY_SSIZE_T_MAX // 2


cdef round_rule rule_named(str rule) except NULL:
    if rule == "token":
        return verify_sampled_round
    if rule == "block":
        return verify_block_round
    if rule == "greedy":
        return verify_greedy_round
    raise ValueError(f"rule: expected 'token', 'block' or 'greedy', got {rule!r}")


cdef sv_round* round_records(rounds) except? NULL:
    if itemsize_of(rounds) != sizeof(sv_round) or not is_behaved(rounds):
        raise ValueError(f"expected records of {sizeof(sv_round)} bytes, got {itemsize_of(rounds)}")
    return <sv_round*>data_of(rounds)


cdef sv_verdict* verdict_records(verdicts) except? NULL:
    if itemsize_of(verdicts) != sizeof(sv_verdict) or not is_behaved(verdicts):
        raise ValueError(f"expected records of {sizeof(sv_verdict)} bytes, got {itemsize_of(verdicts)}")
    return <sv_verdict*>data_of(verdicts)


def run_rounds(str rule, rounds, verdicts, Queue queue not None, keep=None) -> None:
    """Take rounds from the queue and run them until none is left. `keep` is what they point to, held meanwhile."""
    cdef round_rule run_one = rule_named(rule)
    cdef const sv_round* given = round_records(rounds)
    cdef sv_verdict* verdict = verdict_records(verdicts)
    cdef Py_ssize_t i, n = len(rounds)
    with nogil:
        i = sv_take(&queue.next)
        while i < n:
            run_one(api.kernels, given + i, verdict + i)
            i = sv_take(&queue.next)


cdef object written_row(const sv_round* given, const sv_rows* rows, Py_ssize_t where):
    """One row as float32, a sparse one written out, logits after bias and mask."""
    cdef workspace work
    cdef row_view view
    cdef Py_ssize_t start, length, i
    row = np.PyArray_ZEROS(1, <np.npy_intp*>&given.vocab, np.NPY_FLOAT32, 0)
    cdef float* to = <float*>data_of(row)
    if rows.kind == SV_SPARSE:
        for i in range(rows.offsets[where], rows.offsets[where + 1]):
            if 0 <= rows.ids[i] < given.vocab:
                to[rows.ids[i]] = rows.probs[i]
        return row
    view.dtype = rows.dtype
    view.data = <const char*>rows.data + rows.stride * where
    view.bias = given.bias
    view.mask = NULL
    if given.mask != NULL:
        view.mask = <const uint32_t*>(<const char*>given.mask + given.mask_stride * where)
    for start in range(0, given.vocab, SV_BLOCK):
        length = min(<Py_ssize_t>SV_BLOCK, given.vocab - start)
        memcpy(to + start, load_logits(api.kernels, &view, start, length, work.logits), length * sizeof(float))
    return row


cdef explain_round(const sv_round* given, const sv_verdict* verdict, place):
    """Raise what is wrong with a round."""
    cdef sv_kind kind = given.draft.kind if verdict.status == SV_BAD_DRAFT else given.target.kind
    number = row = None
    if verdict.status == SV_BAD_TOKEN:
        number = given.tokens[verdict.where]
    elif verdict.status == SV_BAD_UNIFORM:
        number = given.uniforms[verdict.where]
    elif verdict.status == SV_BAD_TARGET:
        row = written_row(given, &given.target, verdict.where)
    else:
        row = written_row(given, &given.draft, verdict.where)
    _inputs.fail_request(place, verdict.status, verdict.where, number, row, given.vocab,
                         "logits" if given.sampling != NULL and kind == SV_DENSE else
                         "scores" if given.uniforms == NULL else "probabilities")


def explain(rounds, verdicts, Py_ssize_t b, place) -> None:
    """Raise what is wrong with round b, an `_inputs.Place`."""
    explain_round(round_records(rounds) + b, verdict_records(verdicts) + b, place)


def write_probabilities(rounds, verdicts, out) -> None:
    """For each round, its first target row's probabilities to a row of `out`, float32, shape [B, V]."""
    cdef workspace work
    cdef const sv_round* given = round_records(rounds)
    cdef sv_verdict* verdict = verdict_records(verdicts)
    cdef Py_ssize_t b, i, start, length
    cdef const float* weights
    cdef float* to = <float*>data_of(out)
    cdef double total
    for b in range(len(rounds)):
        verdict[b].status, verdict[b].where = SV_OK, 0
        total = -1.0
        if open_row(api.kernels, &work, given + b, &given[b].target, 0, &work.target_row):
            total = sum_of(api.kernels, &work, &work.target_row, given[b].vocab)
        if not total > 0.0:
            fail(verdict + b, SV_BAD_TARGET, 0)
            continue
        if work.target_row.form == LISTED:
            memset(to, 0, given[b].vocab * sizeof(float))
            for i in range(work.target_row.count):
                to[work.target_row.ids[i]] = <float>(work.target_row.weights[i] / total)
        else:
            for start in range(0, given[b].vocab, SV_BLOCK):
                length = min(<Py_ssize_t>SV_BLOCK, given[b].vocab - start)
                weights = load(api.kernels, &work, &work.target_row, start, length, work.target)
                for i in range(length):
                    to[start + i] = <float>(weights[i] / total)
        to += given[b].vocab


cdef object gate_float32(object rows, sv_round* given):
    rows = gate_target(rows, given)
    if given.target.kind != SV_DENSE or given.target.dtype != SV_FLOAT32:
        raise TypeError("expected dense float32 rows")
    return rows


def row_masses(rows) -> list[float]:
    """Sum of each row as a round computes it; -1.0 for a row that is no distribution."""
    cdef sv_round given
    cdef double sums[SV_MAX_GROUPS]
    rows = gate_float32(rows, &given)
    cdef const char* first = <const char*>given.target.data
    return [api.kernels.mass(<const float*>(first + given.target.stride * i), given.vocab, sums)
            for i in range(given.k + 1)]


def residual_mass(target, draft, double scale) -> float:
    """Sum of max(0, target - scale * draft) over one row each, shape [1, V]."""
    cdef sv_round target_row, draft_row
    cdef double sums[SV_MAX_GROUPS]
    target = gate_float32(target, &target_row)
    draft = gate_float32(draft, &draft_row)
    if target_row.k != 0 or draft_row.k != 0 or target_row.vocab != draft_row.vocab:
        raise ValueError("expected one row of the same length each")
    return api.kernels.residual_mass(<const float*>target_row.target.data, <const float*>draft_row.target.data, scale,
                                     target_row.vocab, sums)
