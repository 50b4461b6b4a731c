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

#define SV_ABI 1         /* raised whenever a struct below changes */
#define SV_LANES 16      /* float64 accumulators of a block sum */
#define SV_BLOCK 4096    /* elements of a block */
#define SV_MAX_GROUPS 256 /* doubles of scratch that a kernel may write to `sums` */
#define SV_PIECE 256     /* elements of a piece: what a draw looks at one by one */

/* Elements of a group of blocks for a row of n: one block, doubled until SV_MAX_GROUPS groups are enough. */
static inline ptrdiff_t sv_group(ptrdiff_t n) {
    ptrdiff_t group = SV_BLOCK;
    while (n > group * SV_MAX_GROUPS) group *= 2;
    return group;
}

/* The loops over one row or part of a row, one table per instruction set. Every table gives the same bits. */
typedef struct sv_kernels {
    const char *isa;
    /* Sum of a part (at most a block) in lane order: of its entries, or of max(0, target - scale * draft). */
    double (*piece_mass)(const float *row, ptrdiff_t n);
    double (*piece_residual)(const float *target, const float *draft, double scale, ptrdiff_t n);
    /* Sum of a row in float64; the sum of each group goes to `sums`. -1.0 if an entry is negative, NaN or infinite. */
    double (*mass)(const float *row, ptrdiff_t n, double *sums);
    /* Sum of max(0, target - scale * draft), with its group sums. The rows must be proper. */
    double (*residual_mass)(const float *target, const float *draft, double scale, ptrdiff_t n, double *sums);
    /* Whether no entry is negative, NaN or infinite. */
    int (*proper)(const float *row, ptrdiff_t n);
    /* Index of the first maximum. -1 if the row holds NaN or +infinity, or nothing but -infinity. */
    ptrdiff_t (*argmax)(const float *row, ptrdiff_t n);
    /* Largest int32 bit pattern of a part; `unsigned_top` is raised to its largest uint32 pattern. */
    int32_t (*tops)(const float *row, ptrdiff_t n, uint32_t *unsigned_top);
    /* Logits: copies that turn -0.0 into 0.0, bias and mask in place, weights 2^((logit - top) * scale). */
    void (*copy)(const float *row, ptrdiff_t n, float *to);
    void (*widen_float16)(const uint16_t *row, ptrdiff_t n, float *to);
    void (*widen_bfloat16)(const uint16_t *row, ptrdiff_t n, float *to);
    void (*add_bias)(float *row, const float *bias, ptrdiff_t n);
    void (*apply_mask)(float *row, const uint32_t *words, ptrdiff_t n); /* n a multiple of 32 */
    void (*weigh)(const float *logits, ptrdiff_t n, float top, float scale, float *weights);
    /* Weights to 0 where the logit is below `bound` or the weight below `least`. */
    void (*keep)(const float *logits, float *weights, ptrdiff_t n, float bound, float least);
    /* Largest key of every `group` entries (keys order like floats, zeros are equal: see sv_key); `unsigned_top` is
       raised to the largest uint32 pattern: above that of -infinity there is a NaN with its sign set; one without has a
       key above that of infinity. */
    void (*group_tops)(const float *logits, ptrdiff_t n, ptrdiff_t group, int32_t *keys, uint32_t *unsigned_top);
} sv_kernels;

/* Why a round has no result. `where` of the verdict is the position, or the row. */
typedef enum sv_status {
    SV_OK = 0,
    SV_BAD_TOKEN = 1,   /* tokens[where] is outside [0, vocab) */
    SV_BAD_UNIFORM = 2, /* uniforms[where] is outside [0, 1) or NaN */
    SV_BAD_TARGET = 3,  /* target row `where` is no distribution (greedy: has no maximum) */
    SV_BAD_DRAFT = 4    /* draft row `where` is no distribution */
} sv_status;

typedef enum sv_kind {
    SV_CERTAIN = 0, /* no rows: each drafted token is certain (one-hot) */
    SV_DENSE = 1,
    SV_SPARSE = 2
} sv_kind;

typedef enum sv_dtype { SV_FLOAT32 = 0, SV_FLOAT16 = 1, SV_BFLOAT16 = 2 } sv_dtype;

/* The rows of one model in one round. */
typedef struct sv_rows {
    sv_kind kind;
    /* Dense: rows `stride` bytes apart, of any sign; the entries of one row are contiguous. */
    sv_dtype dtype;
    const void *data;
    ptrdiff_t stride;
    /* Sparse: row i has entries offsets[i] to offsets[i + 1], ids ascending and in [0, vocab), 0 elsewhere. */
    const int64_t *ids;
    const float *probs;
    const int64_t *offsets;
} sv_rows;

/* How logits become probabilities, applied in this order; see specverify.Sampling. */
typedef struct sv_sampling {
    double temperature; /* 0: one-hot at the first maximum */
    ptrdiff_t top_k;    /* 0: all */
    double top_p;       /* 1: all */
    double min_p;       /* 0: all */
} sv_sampling;

typedef struct sv_round {
    sv_rows target;          /* k + 1 rows */
    sv_rows draft;           /* k rows */
    const int64_t *tokens;   /* k, contiguous */
    const double *uniforms;  /* k + 1, contiguous, each in [0, 1); not read by verify_greedy */
    ptrdiff_t k, vocab;
    int normalized;              /* probabilities whose rows sum to 1: take no sums */
    const sv_sampling *sampling; /* NULL: rows are probabilities; else dense rows are logits */
    const uint32_t *mask;        /* NULL, or one bit a token, set where allowed, per target row (logits only) */
    ptrdiff_t mask_stride;       /* in bytes */
    const float *bias;           /* NULL, or one number a token, added to every logit */
    double *emitted_probs;       /* NULL, or k + 1: probability of each emitted token under the target */
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
    void (*verify_block)(const sv_kernels *, const sv_round *, sv_verdict *);
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
