/* A C extension that verifies in a thread of its own, while Python does not hold its lock. See test_header.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <specverify/kernels.h>

static const sv_api *api;

typedef struct {
    sv_round round;
    sv_verdict verdict;
    int rule;
} job;

enum { TOKEN, BLOCK, GREEDY };

static void *work(void *argument) {
    job *own = argument;
    (own->rule == GREEDY  ? api->verify_greedy
     : own->rule == BLOCK ? api->verify_block
                          : api->verify_sampled)(api->kernels, &own->round, &own->verdict);
    return NULL;
}

static sv_rows dense(const void *data, ptrdiff_t vocab) {
    sv_rows rows = {0};
    rows.kind = data ? SV_DENSE : SV_CERTAIN;
    rows.dtype = SV_FLOAT32;
    rows.data = data;
    rows.stride = vocab * (ptrdiff_t)sizeof(float);
    return rows;
}

/* run(target, draft or None, tokens, uniforms, k, vocab, normalized, rule, temperature or -1)
   -> (n_accepted, next_token, status, where)
   Buffers: contiguous float32, float32, int64, float64. With a temperature rows are logits, filtered by top-p 0.9. */
static PyObject *run(PyObject *self, PyObject *args) {
    Py_buffer target, draft, tokens, uniforms;
    job own = {0};
    sv_sampling sampling = {0.0, 0, 0.9, 0.0};
    pthread_t thread;
    int failed;
    (void)self;
    memset(&draft, 0, sizeof draft);
    if (!PyArg_ParseTuple(args, "y*z*y*y*nnpid", &target, &draft, &tokens, &uniforms, &own.round.k, &own.round.vocab,
                          &own.round.normalized, &own.rule, &sampling.temperature))
        return NULL;
    own.round.target = dense(target.buf, own.round.vocab);
    own.round.draft = dense(draft.buf, own.round.vocab);
    own.round.tokens = tokens.buf;
    own.round.uniforms = uniforms.buf;
    own.round.sampling = sampling.temperature < 0.0 ? NULL : &sampling;

    Py_BEGIN_ALLOW_THREADS
    failed = pthread_create(&thread, NULL, work, &own) || pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS

    PyBuffer_Release(&target);
    if (draft.obj) PyBuffer_Release(&draft);
    PyBuffer_Release(&tokens);
    PyBuffer_Release(&uniforms);
    if (failed) return PyErr_SetFromErrno(PyExc_OSError);
    return Py_BuildValue("nnin", own.verdict.n_accepted, own.verdict.next_token, (int)own.verdict.status,
                         own.verdict.where);
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "in_c", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_in_c(void) {
    api = sv_import();
    return api ? PyModule_Create(&definition) : NULL;
}
