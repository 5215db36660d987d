# cython: language_level=3
"""Host memory, and the native launch of compiled kernels.

In: addresses of kernels and of memory. Out: their effects. `HostBuffer` is what the CPU allocator
hands out; `Kernel` is a loaded kernel that is called with buffers and ints; `LaunchList` is a list
of launches that runs without Python in between, for captured graphs. The GIL is released while
kernels run. The scheme of the thread pool is told in pool.h.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

cdef extern from "pool.h" nogil:
    ctypedef struct tg_task:
        void *fn
        int64_t *args
        int32_t nargs
        int32_t threads
        int32_t id_slot
    int TG_MAX_ARGS
    int tg_room(int count)
    void tg_run(const tg_task *task, int limit)
    void tg_run_list(const tg_task *tasks, int count, int limit)
    double tg_seconds()
    int tg_workers()
    void tg_flush_code(void *start, size_t size)
    void tg_copy(int64_t target, int64_t source, int64_t size, int64_t unused)

cdef struct Place:
    int launch
    int argument
    int number

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __linux__
    #include <sys/mman.h>
    #endif
    /* Cache lines for small blocks; huge pages, which are touched at a 512th of the faults, for large. */
    static void *tg_alloc(size_t size) {
      void *p = NULL;
      size_t large = (size_t)1 << 21;
      size_t align = size >= 2 * large ? large : 64;
      if (posix_memalign(&p, align, size ? size : 1)) return NULL;
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
      if (align == large) madvise(p, size & ~(large - 1), MADV_HUGEPAGE);
    #endif
      return p;
    }
    """
    void *tg_alloc(size_t size) nogil


@cython.final
cdef class HostBuffer:
    """`size` bytes of host memory at `address`: its own (64-byte aligned), or lent by `owner`.

    Supports the buffer protocol, so that a memoryview of it shares and keeps the memory.
    """

    cdef readonly size_t address
    cdef readonly Py_ssize_t size
    cdef readonly object owner
    cdef bint owned

    def __cinit__(self, Py_ssize_t size, size_t address=0, owner=None):
        self.size, self.owner = size, owner
        self.owned = address == 0
        if self.owned:
            self.address = <size_t>tg_alloc(size)
            if self.address == 0:
                raise MemoryError(f"the host has no {size} bytes left for a buffer")
        else:
            self.address = address

    def __dealloc__(self):
        if self.owned:
            free(<void *>self.address)

    @property
    def va_addr(self):
        """`address`, by the name that command queues have for it."""
        return self.address

    def view(self, Py_ssize_t size, Py_ssize_t offset):
        """`size` bytes from `offset` on, sharing this memory."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(
                f"a view of {size} bytes at {offset} is outside a buffer of {self.size} bytes"
            )
        return HostBuffer(size, self.address + offset, self)

    def copy_in(self, source):
        """Copies the bytes of `source`, at most `size`, to the front."""
        _copy(self, source, True)

    def copy_out(self, target):
        """Copies as many bytes as `target` holds, at most `size`, into it."""
        _copy(self, target, False)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, <void *>self.address, self.size, 0, flags)

    def __repr__(self):
        return f"HostBuffer({self.size} bytes at {self.address:#x})"


cdef int _copy(HostBuffer buf, other, bint inwards) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(other, &view, PyBUF_SIMPLE if inwards else PyBUF_SIMPLE | 1)
    try:
        if view.len > buf.size:
            raise ValueError(f"can't copy {view.len} bytes, the buffer has {buf.size}")
        with nogil:
            if inwards:
                memcpy(<void *>buf.address, view.buf, view.len)
            else:
                memcpy(view.buf, <void *>buf.address, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int64_t _argument(value) except? -1:
    """What is passed for a buffer (its address) or an int."""
    if type(value) is HostBuffer:
        return <int64_t>(<HostBuffer>value).address
    return <int64_t>value


cdef int _check_count(Py_ssize_t count) except -1:
    if count > TG_MAX_ARGS:
        raise ValueError(
            f"a kernel with {count} arguments, at most {TG_MAX_ARGS} can be passed; split the kernel"
        )
    return 0


@cython.final
cdef class Kernel:
    """A kernel at address `entry`; `code` is kept alive with it."""

    cdef readonly size_t entry
    cdef readonly object code

    def __cinit__(self, size_t entry, code=None):
        self.entry, self.code = entry, code

    def launch(self, tuple bufs, tuple vals, int threads, int limit, bint wait):
        """Runs with buffers, then ints; `threads` > 0: with each id below it as one more int, by at
        most `limit` threads. Returns seconds if `wait`, else None.
        """
        cdef int64_t args[512]
        cdef tg_task task
        cdef Py_ssize_t count = len(bufs) + len(vals) + (1 if threads > 0 else 0)
        cdef int at = 0
        cdef double began, ended
        _check_count(count)
        for value in bufs:
            args[at] = _argument(value)
            at += 1
        for value in vals:
            args[at] = <int64_t>value
            at += 1
        task.id_slot = at if threads > 0 else -1
        memset(&args[at], 0, sizeof(int64_t) * (tg_room(count) - at))
        task.fn, task.args, task.nargs = <void *>self.entry, args, count
        task.threads = threads if threads > 0 else 1
        with nogil:
            began = tg_seconds()
            tg_run(&task, limit)
            ended = tg_seconds()
        return ended - began if wait else None


@cython.final
cdef class LaunchList:
    """Launches that run in order without Python between them.

    `add` returns the number of a launch; `set_argument` changes one of its arguments afterwards, and
    `bind` makes it an input, which every `run` sets.
    """

    cdef tg_task *tasks
    cdef int count, room
    cdef list kept
    cdef Place *places
    cdef int place_count, place_room, inputs

    def __cinit__(self):
        self.kept = []

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            free(self.tasks[i].args)
        free(self.tasks)
        free(self.places)

    def __len__(self):
        return self.count

    def add(self, Kernel kernel, tuple bufs, tuple vals, int threads):
        """Appends a launch, with arguments as in `Kernel.launch`."""
        cdef Py_ssize_t count = len(bufs) + len(vals) + (1 if threads > 0 else 0)
        self._append(<void *>kernel.entry, bufs + vals, count, threads)
        self.kept.append((kernel, bufs))
        return self.count - 1

    def add_copy(self, HostBuffer target, HostBuffer source, Py_ssize_t size):
        """Appends a copy of `size` bytes; its arguments are target, source and size."""
        if size > target.size or size > source.size:
            raise ValueError(f"a copy of {size} bytes between {source} and {target}")
        self._append(<void *>tg_copy, (target, source, size), 3, 0)
        self.kept.append((target, source))
        return self.count - 1

    cdef int _append(self, void *fn, tuple values, Py_ssize_t count, int threads) except -1:
        cdef tg_task *grown
        cdef tg_task *task
        cdef int at = 0
        _check_count(count)
        if self.count == self.room:
            grown = <tg_task *>realloc(self.tasks, sizeof(tg_task) * (2 * self.room + 8))
            if grown == NULL:
                raise MemoryError("no memory left for a launch list")
            self.tasks, self.room = grown, 2 * self.room + 8
        task = &self.tasks[self.count]
        task.args = <int64_t *>calloc(tg_room(count), sizeof(int64_t))
        if task.args == NULL:
            raise MemoryError("no memory left for the arguments of a launch")
        task.fn, task.nargs = fn, count
        task.threads = threads if threads > 0 else 1
        task.id_slot = count - 1 if threads > 0 else -1
        self.count += 1
        for value in values:
            task.args[at] = _argument(value)
            at += 1
        return 0

    def set_argument(self, int launch, int place, value):
        """Sets argument `place` (buffers first, then ints) of a launch."""
        if not (0 <= launch < self.count and 0 <= place < self.tasks[launch].nargs):
            raise IndexError(f"launch {launch} argument {place} is outside the list")
        self.tasks[launch].args[place] = _argument(value)

    def set_threads(self, int launch, int threads):
        """Sets how many ids a launch with a thread id runs."""
        if not 0 <= launch < self.count or self.tasks[launch].id_slot < 0:
            raise IndexError(f"launch {launch} is outside the list or takes no thread id")
        self.tasks[launch].threads = threads

    def bind(self, int launch, int place, int number):
        """Makes argument `place` of a launch the buffer `inputs[number]` of every run."""
        cdef Place *grown
        if not (0 <= launch < self.count and 0 <= place < self.tasks[launch].nargs and number >= 0):
            raise IndexError(f"launch {launch} argument {place} is outside the list")
        if self.place_count == self.place_room:
            grown = <Place *>realloc(self.places, sizeof(Place) * (2 * self.place_room + 8))
            if grown == NULL:
                raise MemoryError("no memory left for a launch list")
            self.places, self.place_room = grown, 2 * self.place_room + 8
        self.places[self.place_count] = Place(launch, place, number)
        self.place_count += 1
        self.inputs = max(self.inputs, number + 1)

    def run(self, list inputs, int limit, bint wait):
        """Runs all launches on these buffers; returns seconds if `wait`, else None."""
        cdef double began, ended
        cdef int i
        cdef Place *p
        if len(inputs) < self.inputs:
            raise ValueError(f"got {len(inputs)} inputs, the launches use {self.inputs}")
        for i in range(self.place_count):
            p = &self.places[i]
            self.tasks[p.launch].args[p.argument] = _argument(inputs[p.number])
        with nogil:
            began = tg_seconds()
            tg_run_list(self.tasks, self.count, limit)
            ended = tg_seconds()
        return ended - began if wait else None


def flush_code(size_t address, size_t size):
    """Makes written machine code visible to instruction fetch."""
    tg_flush_code(<void *>address, size)


def worker_count():
    """Threads the pool has made in this process."""
    return tg_workers()
