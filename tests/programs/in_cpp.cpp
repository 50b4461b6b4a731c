// A C++ extension that calls the row loops themselves, without the rounds and without Python's lock. See test_header.py.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <specverify/kernels.h>

#include <string>
#include <thread>
#include <vector>

static const sv_api *api;

struct Measured {
    double mass, residual, piece;
    ptrdiff_t argmax;
    std::vector<float> weights;
    int32_t top;
};

static Measured measure(const float *target, const float *draft, double scale, ptrdiff_t n) {
    std::vector<double> sums(SV_MAX_GROUPS);
    std::vector<float> weights(n);
    int32_t top;
    uint32_t unsigned_top = 0;
    const sv_kernels *kernels = api->kernels;
    kernels->group_tops(target, n, n, &top, &unsigned_top);
    kernels->weigh(target, n, 1.5f, static_cast<float>(scale), weights.data());
    return {kernels->mass(target, n, sums.data()),
            kernels->residual_mass(target, draft, scale, n, sums.data()),
            kernels->piece_mass(target, n < SV_PIECE ? n : SV_PIECE),
            kernels->argmax(target, n),
            weights,
            top};
}

// run(target, draft, scale) -> (isa, mass, residual mass, mass of the first piece, argmax,
//                               weights 2^((target - 1.5) * scale) as bytes, key of the largest entry)
static PyObject *run(PyObject *, PyObject *args) {
    Py_buffer target, draft;
    double scale;
    if (!PyArg_ParseTuple(args, "y*y*d", &target, &draft, &scale)) return nullptr;
    Measured found;
    Py_BEGIN_ALLOW_THREADS
    std::thread([&] {
        found = measure(static_cast<const float *>(target.buf), static_cast<const float *>(draft.buf), scale,
                        target.len / static_cast<ptrdiff_t>(sizeof(float)));
    }).join();
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&target);
    PyBuffer_Release(&draft);
    const std::string isa = api->kernels->isa;
    return Py_BuildValue("sdddny#i", isa.c_str(), found.mass, found.residual, found.piece, found.argmax,
                         reinterpret_cast<const char *>(found.weights.data()),
                         static_cast<Py_ssize_t>(found.weights.size() * sizeof(float)), static_cast<int>(found.top));
}

static PyMethodDef methods[] = {{"run", run, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "in_cpp", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_in_cpp() {
    api = sv_import();
    return api ? PyModule_Create(&definition) : nullptr;
}
