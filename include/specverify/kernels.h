/* specverify/kernels.h: what another program needs to call the loops without Python.
 *
 * Holds: the kernel table of one instruction set, the description of one round, its verdict, and how to get both from
 * the installed package. Holds no loop: those are in src/specverify/_kernels.pxi (rows) and _rounds.pxi (rounds).
 *
 * Getting the table needs the GIL once (see sv_import below); every function in it may then be called from any thread,
 * with or without the GIL. They allocate nothing, keep no state and write only to what the caller passes for output.
 */
#ifndef SPECVERIFY_KERNELS_H
#define SPECVERIFY_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SV_ABI 1          /* raised whenever a struct below changes */
#define SV_LANES 16       /* float64 accumulators of a block sum */
#define SV_BLOCK 4096     /* elements of a block, while a row has at most SV_MAX_BLOCKS of them */
#define SV_MAX_BLOCKS 256 /* doubles of scratch that a kernel may write to `sums` */
#define SV_PIECE 256      /* elements of a piece: what a draw looks at one by one */

/* Elements of a block for a row of n: SV_BLOCK, doubled until SV_MAX_BLOCKS blocks are enough (V > 1,048,576). */
static inline ptrdiff_t sv_block(ptrdiff_t n) {
    ptrdiff_t block = SV_BLOCK;
    while (n > block * SV_MAX_BLOCKS) block *= 2;
    return block;
}

/* The loops over one row, one table per instruction set. Every table gives the same bits. */
typedef struct sv_kernels {
    const char *isa;
    /* Sum of a block or piece in lane order, of its entries or of max(0, target - scale * draft). */
    double (*piece_mass)(const float *row, ptrdiff_t n);
    double (*piece_residual)(const float *target, const float *draft, double scale, ptrdiff_t n);
    /* Sum of a row in float64; the sum of each block goes to `sums`. -1.0 if an entry is negative, NaN or infinite. */
    double (*mass)(const float *row, ptrdiff_t n, double *sums);
    /* Sum of max(0, target - scale * draft), with its block sums. The rows must have passed `mass`. */
    double (*residual_mass)(const float *target, const float *draft, double scale, ptrdiff_t n, double *sums);
    /* The same with scale 1 for rows that were never summed: -1.0 if an entry of either is negative, NaN or infinite. */
    double (*trusted_residual_mass)(const float *target, const float *draft, ptrdiff_t n, double *sums);
    /* Index of the first maximum. -1 if the row holds NaN or +infinity, or nothing but -infinity. */
    ptrdiff_t (*argmax)(const float *row, ptrdiff_t n);
} sv_kernels;

/* Why a round has no result. `where` of the verdict is the position, or the row. */
typedef enum sv_status {
    SV_OK = 0,
    SV_BAD_TOKEN = 1,   /* tokens[where] is outside [0, vocab) */
    SV_BAD_UNIFORM = 2, /* uniforms[where] is outside [0, 1) or NaN */
    SV_BAD_TARGET = 3,  /* target row `where` is no distribution (greedy: has no maximum) */
    SV_BAD_DRAFT = 4,   /* draft row `where` is no distribution */
    SV_BAD_ROWS = 5     /* trusted rows: one of the two rows `where` is no distribution */
} sv_status;

/* One round. Strides are in bytes, of any sign; the entries of one row are contiguous. */
typedef struct sv_round {
    const float *target;     /* k + 1 rows */
    const float *draft;      /* k rows; NULL: the drafted tokens are certain under the draft (one-hot) */
    const int64_t *tokens;   /* k, contiguous */
    const double *uniforms;  /* k + 1, contiguous, each in [0, 1); not read by verify_greedy */
    ptrdiff_t target_stride, draft_stride;
    ptrdiff_t k, vocab;
    int normalized;          /* every row sums to 1: take no sums */
} sv_round;

typedef struct sv_verdict {
    ptrdiff_t n_accepted, next_token;
    sv_status status;
    ptrdiff_t where;
} sv_verdict;

typedef struct sv_api {
    uint32_t abi;              /* SV_ABI of the build */
    const sv_kernels *kernels; /* the variant in use */
    void (*verify_greedy)(const sv_kernels *, const sv_round *, sv_verdict *);
    void (*verify_sampled)(const sv_kernels *, const sv_round *, sv_verdict *);
} sv_api;

#ifdef Py_PYTHON_H
/* With the GIL held: the table of the installed package, or NULL with a Python exception set. */
static inline const sv_api *sv_import(void) {
    PyObject *module = PyImport_ImportModule("specverify._core");
    PyObject *capsule = module ? PyObject_GetAttrString(module, "API") : NULL;
    const sv_api *api = capsule ? (const sv_api *)PyCapsule_GetPointer(capsule, "specverify._core.API") : NULL;
    Py_XDECREF(capsule);
    Py_XDECREF(module);
    if (api && api->abi != SV_ABI) {
        PyErr_Format(PyExc_ImportError, "specverify: built for kernel interface %d, found %d", SV_ABI, (int)api->abi);
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
