# cython: language_level=3
"""Memory that is lent to other libraries and borrowed from them: the buffer protocol and DLPack capsules.

In: addresses, shapes and type codes. Out: views and capsules that keep a Python object alive until the other side lets go.
`Lender` gives a class written in Python the buffer protocol, which before Python 3.12 only native classes have. `capsule`
and `Borrowed` are the two ends of DLPack (https://dmlc.github.io/dlpack/latest/). Invariants: whoever holds a view or a
capsule's memory holds the owner; a capsule is consumed once; a deleter runs once, with or without the interpreter's lock.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

cdef extern from *:
    """
    #include <stdint.h>
    /* The structures of DLPack 1.0, as its specification lays them out. */
    typedef struct { int32_t device_type, device_id; } tg_dl_device;
    typedef struct { uint8_t code, bits; uint16_t lanes; } tg_dl_dtype;
    typedef struct {
      void *data; tg_dl_device device; int32_t ndim; tg_dl_dtype dtype;
      int64_t *shape, *strides; uint64_t byte_offset;
    } tg_dl_tensor;
    typedef struct tg_dl_old { tg_dl_tensor tensor; void *context; void (*deleter)(struct tg_dl_old *); } tg_dl_old;
    typedef struct tg_dl_new {
      uint32_t major, minor; void *context; void (*deleter)(struct tg_dl_new *);
      uint64_t flags; tg_dl_tensor tensor;
    } tg_dl_new;
    """
    ctypedef struct tg_dl_device:
        int32_t device_type
        int32_t device_id
    ctypedef struct tg_dl_dtype:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct tg_dl_tensor:
        void *data
        tg_dl_device device
        int32_t ndim
        tg_dl_dtype dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct tg_dl_old:
        tg_dl_tensor tensor
        void *context
        void (*deleter)(tg_dl_old *) noexcept nogil
    ctypedef struct tg_dl_new:
        uint32_t major
        uint32_t minor
        void *context
        void (*deleter)(tg_dl_new *) noexcept nogil
        uint64_t flags
        tg_dl_tensor tensor

cdef extern from "Python.h":
    int Py_IsInitialized() nogil
    ctypedef void (*Destructor)(PyObject *) noexcept
    object PyCapsule_New(void *pointer, const char *name, Destructor destructor)
    int PyCapsule_IsValid(PyObject *capsule, const char *name)
    void *PyCapsule_GetPointer(PyObject *capsule, const char *name) except NULL
    int PyCapsule_SetName(PyObject *capsule, const char *name) except -1
    int PyObject_GetBuffer(object exporter, Py_buffer *view, int flags) except -1
    void PyBuffer_Release(Py_buffer *view)
    int PyBUF_WRITABLE, PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_SIMPLE, PyBUF_F_CONTIGUOUS

cdef const char *OLD = b"dltensor"
cdef const char *NEW = b"dltensor_versioned"

cdef enum:
    READ_ONLY = 1
    COPIED = 2
    MAX_AXES = 64
    ON_HOST = 1

# device type and number of the host
HOST = (ON_HOST, 0)


# ---------------------------------------------------------------------------------------------- the buffer protocol


cdef struct Lent:
    # what a Py_buffer points to besides the memory
    Py_ssize_t *sizes
    PyObject *kept
    Py_buffer memory


cdef class Lender:
    """A base for classes whose instances can be seen as memory by `memoryview`, `bytes` or `numpy.asarray`.

    A subclass gives `_lend(writable)`, which returns (memory, owner, shape, format, itemsize): an object with the buffer
    protocol that holds the elements in row-major order, and what else is to be kept as long as somebody looks at it.
    """

    __slots__ = ()

    def _lend(self, writable):
        raise BufferError(f"{type(self).__name__} lends no memory")

    def __getbuffer__(self, Py_buffer *view, int flags):
        memory, owner, shape, format, itemsize = self._lend(bool(flags & PyBUF_WRITABLE))
        kept = (owner, format)
        if flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS and len(shape) > 1:
            raise BufferError("the elements lie in row-major order, column-major was asked for")
        cdef Py_ssize_t axes = len(shape), axis, stride = itemsize
        cdef Lent *lent = <Lent *>calloc(1, sizeof(Lent))
        if lent is NULL:
            raise MemoryError()
        lent.sizes = <Py_ssize_t *>calloc(2 * axes + 1, sizeof(Py_ssize_t))
        if lent.sizes is NULL:
            free(lent)
            raise MemoryError()
        try:
            PyObject_GetBuffer(memory, &lent.memory, PyBUF_WRITABLE if flags & PyBUF_WRITABLE else PyBUF_SIMPLE)
        except BaseException:
            free(lent.sizes)
            free(lent)
            raise
        for axis in range(axes - 1, -1, -1):
            lent.sizes[axis] = shape[axis]
            lent.sizes[axes + axis] = stride
            stride *= lent.sizes[axis]
        Py_INCREF(kept)
        lent.kept = <PyObject *>kept
        view.internal = <void *>lent
        view.buf, view.len, view.itemsize = lent.memory.buf, stride, itemsize
        view.readonly = not flags & PyBUF_WRITABLE
        view.ndim = axes if flags & PyBUF_ND else 1
        view.format = PyBytes_AS_STRING(format) if flags & PyBUF_FORMAT else NULL
        view.shape = lent.sizes if flags & PyBUF_ND else NULL
        view.strides = lent.sizes + axes if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.obj = self

    def __releasebuffer__(self, Py_buffer *view):
        cdef Lent *lent = <Lent *>view.internal
        PyBuffer_Release(&lent.memory)
        Py_DECREF(<object>lent.kept)
        free(lent.sizes)
        free(lent)


# ---------------------------------------------------------------------------------------------- lending by DLPack


cdef void _drop(void *owner) noexcept nogil:
    # at interpreter exit the system takes everything back anyway
    if owner is not NULL and Py_IsInitialized():
        with gil:
            Py_DECREF(<object>owner)


cdef void _delete_old(tg_dl_old *managed) noexcept nogil:
    _drop(managed.context)
    free(managed.tensor.shape)
    free(managed)


cdef void _delete_new(tg_dl_new *managed) noexcept nogil:
    _drop(managed.context)
    free(managed.tensor.shape)
    free(managed)


cdef void _destroy_capsule(PyObject *capsule) noexcept:
    """Of a capsule that nobody consumed; a consumed one has another name."""
    cdef tg_dl_old *old
    cdef tg_dl_new *new
    if PyCapsule_IsValid(capsule, OLD):
        old = <tg_dl_old *>PyCapsule_GetPointer(capsule, OLD)
        old.deleter(old)
    elif PyCapsule_IsValid(capsule, NEW):
        new = <tg_dl_new *>PyCapsule_GetPointer(capsule, NEW)
        new.deleter(new)


cdef int _describe(tg_dl_tensor *t, uintptr_t address, tuple shape, int code, int bits) except -1:
    cdef Py_ssize_t axes = len(shape), axis
    cdef int64_t stride = 1
    t.shape = <int64_t *>calloc(2 * axes + 1, sizeof(int64_t))
    if t.shape is NULL:
        raise MemoryError()
    t.strides = t.shape + axes
    for axis in range(axes - 1, -1, -1):
        t.shape[axis] = shape[axis]
        t.strides[axis] = stride
        stride *= t.shape[axis]
    t.data, t.ndim, t.byte_offset = <void *>address, axes, 0
    t.device.device_type, t.device.device_id = ON_HOST, 0
    t.dtype.code, t.dtype.bits, t.dtype.lanes = code, bits, 1
    return 0


def capsule(size_t address, tuple shape, int code, int bits, owner, bint versioned, bint copied=False):
    """A DLPack capsule of elements in row-major order at `address` in host memory, which `owner` keeps alive."""
    cdef tg_dl_old *old
    cdef tg_dl_new *new
    if versioned:
        new = <tg_dl_new *>calloc(1, sizeof(tg_dl_new))
        if new is NULL:
            raise MemoryError()
        new.major, new.minor, new.flags = 1, 0, COPIED if copied else 0
        new.deleter = _delete_new
        try:
            _describe(&new.tensor, address, shape, code, bits)
            made = PyCapsule_New(new, NEW, _destroy_capsule)
        except BaseException:
            _delete_new(new)
            raise
        Py_INCREF(owner)
        new.context = <void *>owner
        return made
    old = <tg_dl_old *>calloc(1, sizeof(tg_dl_old))
    if old is NULL:
        raise MemoryError()
    old.deleter = _delete_old
    try:
        _describe(&old.tensor, address, shape, code, bits)
        made = PyCapsule_New(old, OLD, _destroy_capsule)
    except BaseException:
        _delete_old(old)
        raise
    Py_INCREF(owner)
    old.context = <void *>owner
    return made


# ---------------------------------------------------------------------------------------------- borrowing by DLPack


cdef class Borrowed:
    """Memory of another library, from its capsule; given back when this dies.

    Raises BufferError for a capsule of a kind or version that is not known, or one that was consumed before.
    """

    cdef tg_dl_old *old
    cdef tg_dl_new *new
    cdef tg_dl_tensor *tensor

    def __cinit__(self, source):
        cdef PyObject *raw = <PyObject *>source
        if PyCapsule_IsValid(raw, NEW):
            self.new = <tg_dl_new *>PyCapsule_GetPointer(raw, NEW)
            PyCapsule_SetName(raw, b"used_dltensor_versioned")
            if self.new.major != 1:
                raise BufferError(f"the capsule has version {self.new.major} of DLPack, 1 is known")
            self.tensor = &self.new.tensor
        elif PyCapsule_IsValid(raw, OLD):
            self.old = <tg_dl_old *>PyCapsule_GetPointer(raw, OLD)
            PyCapsule_SetName(raw, b"used_dltensor")
            self.tensor = &self.old.tensor
        else:
            raise BufferError(
                f"expected a DLPack capsule that nobody has consumed, got {source!r}: ask for a new one"
            )
        self._check()

    cdef int _check(self) except -1:
        cdef Py_ssize_t axis
        cdef int axes = self.tensor.ndim
        if not 0 <= axes <= MAX_AXES or (axes and self.tensor.shape is NULL):
            raise BufferError(f"a tensor with {axes} axes can't be taken over; at most {MAX_AXES} can")
        for axis in range(axes):
            if self.tensor.shape[axis] < 0:
                raise BufferError(f"a tensor has an axis of {self.tensor.shape[axis]} elements")
        if self.tensor.data is NULL and 0 not in self.shape:
            raise BufferError("the capsule has elements but no address")
        return 0

    def __dealloc__(self):
        if self.new is not NULL and self.new.deleter is not NULL:
            with nogil:
                self.new.deleter(self.new)
        if self.old is not NULL and self.old.deleter is not NULL:
            with nogil:
                self.old.deleter(self.old)

    @property
    def address(self):
        """Of the first element."""
        return <uintptr_t>self.tensor.data + self.tensor.byte_offset

    @property
    def shape(self):
        """The length of every axis."""
        return tuple([self.tensor.shape[i] for i in range(self.tensor.ndim)])

    @property
    def strides(self):
        """Elements from one entry of an axis to the next."""
        cdef int64_t step = 1
        if self.tensor.strides is not NULL:
            return tuple([self.tensor.strides[i] for i in range(self.tensor.ndim)])
        found = []
        for size in reversed(self.shape):
            found.append(step)
            step *= size
        return tuple(reversed(found))

    @property
    def element(self):
        """(type code, bits, lanes)."""
        return self.tensor.dtype.code, self.tensor.dtype.bits, self.tensor.dtype.lanes

    @property
    def device(self):
        """(device type, number)."""
        return self.tensor.device.device_type, self.tensor.device.device_id

    @property
    def read_only(self):
        """Whether the memory must not be written."""
        return self.new is not NULL and bool(self.new.flags & READ_ONLY)
