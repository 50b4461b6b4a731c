/* A C extension that verifies in a thread of its own, while Python does not hold its lock. See test_header.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <specverify/kernels.h>

static const sv_api *api;

typedef struct {
    sv_round round;
    sv_verdict verdict;
    int greedy;
} job;

static void *work(void *argument) {
    job *own = argument;
    (own->greedy ? api->verify_greedy : api->verify_sampled)(api->kernels, &own->round, &own->verdict);
    return NULL;
}

/* run(target, draft or None, tokens, uniforms, k, vocab, normalized, greedy) -> (n_accepted, next_token, status, where)
   Buffers: contiguous float32, float32, int64, float64. */
static PyObject *run(PyObject *self, PyObject *args) {
    Py_buffer target, draft, tokens, uniforms;
    job own = {0};
    pthread_t thread;
    int failed;
    (void)self;
    memset(&draft, 0, sizeof draft);
    if (!PyArg_ParseTuple(args, "y*z*y*y*nnpp", &target, &draft, &tokens, &uniforms, &own.round.k, &own.round.vocab,
                          &own.round.normalized, &own.greedy))
        return NULL;
    own.round.target = target.buf;
    own.round.draft = draft.buf;
    own.round.tokens = tokens.buf;
    own.round.uniforms = uniforms.buf;
    own.round.target_stride = own.round.draft_stride = own.round.vocab * (ptrdiff_t)sizeof(float);

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
