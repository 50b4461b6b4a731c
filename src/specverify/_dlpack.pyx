# bfloat16 tensors through DLPack. NumPy reads every other type by itself, but has no name for this one.
#
# Source of the structs: dlpack.h, version 0.8 (DLManagedTensor), which every producer still hands out when it is not
# asked for a newer one.

cimport numpy as np
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

np.import_array()


cdef extern from *:
    """
    #include <stdint.h>
    typedef struct { int32_t device_type; int32_t device_id; } sv_dl_device;
    typedef struct { uint8_t code; uint8_t bits; uint16_t lanes; } sv_dl_type;
    typedef struct {
        void *data; sv_dl_device device; int32_t ndim; sv_dl_type dtype;
        int64_t *shape; int64_t *strides; uint64_t byte_offset;
    } sv_dl_tensor;
    typedef struct sv_dl_managed {
        sv_dl_tensor tensor; void *manager; void (*deleter)(struct sv_dl_managed *);
    } sv_dl_managed;
    enum { SV_DL_CPU = 1, SV_DL_BFLOAT = 4 };
    """
    ctypedef struct sv_dl_device:
        int32_t device_type
    ctypedef struct sv_dl_type:
        uint8_t code, bits
        uint16_t lanes
    ctypedef struct sv_dl_tensor:
        void* data
        sv_dl_device device
        int32_t ndim
        sv_dl_type dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct sv_dl_managed:
        sv_dl_tensor tensor
        void (*deleter)(sv_dl_managed*) noexcept
    enum: SV_DL_CPU
    enum: SV_DL_BFLOAT


def bfloat16_bits(tensor) -> np.ndarray:
    """View a bfloat16 tensor on the CPU as a uint16 array of its bit patterns, without a copy."""
    capsule = tensor.__dlpack__()
    cdef sv_dl_managed* managed = <sv_dl_managed*>PyCapsule_GetPointer(capsule, b"dltensor")
    cdef sv_dl_tensor* dl = &managed.tensor
    cdef np.npy_intp shape[32]
    cdef np.npy_intp strides[32]
    cdef np.npy_intp step = sizeof(uint16_t)
    cdef int axis
    if dl.device.device_type != SV_DL_CPU:
        raise ValueError("expected a tensor on the CPU")
    if dl.dtype.code != SV_DL_BFLOAT or dl.dtype.bits != 16 or dl.dtype.lanes != 1 or dl.ndim > 32:
        raise TypeError("expected a bfloat16 tensor")
    for axis in range(dl.ndim - 1, -1, -1):
        shape[axis] = dl.shape[axis]
        strides[axis] = step if dl.strides == NULL else dl.strides[axis] * sizeof(uint16_t)
        step *= dl.shape[axis]
    view = np.PyArray_New(np.ndarray, dl.ndim, shape, np.NPY_UINT16, strides, <char*>dl.data + dl.byte_offset,
                          0, np.NPY_ARRAY_ALIGNED, <object>NULL)
    np.set_array_base(view, capsule)        # never consumed: its own destructor frees the tensor, after the view
    return view
