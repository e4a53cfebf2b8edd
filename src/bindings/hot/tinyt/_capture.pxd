# Recordings: what they note of Python's side, numbers and sizes that are read anew.
cimport cython
from core cimport *
from cpython.object cimport PyObject

from tinyt._tensor cimport TensorBase


cdef class Recorder:
    cdef readonly dict grads
    cdef readonly list arguments
    cdef readonly list layouts
    cdef readonly list numbers
    cdef list scalars             # what stands for them and is computed of them
    cdef bint by_value            # numbers are plain, and guarded
    cdef list thread              # its number, and whether another has used such a number
    cdef readonly list generators
    cdef readonly list constants
    cdef readonly list buffers
    cdef readonly list reads
    cdef readonly list held
    cdef readonly dict tensors
    cdef readonly list made
    cdef list nodes               # (tensor that was there, its node), as the recording met them
    cdef list drawn               # counters taken of each generator
    cdef list parts               # of the recordings around a part, what they have drawn
    cdef readonly list placeholders  # of the arguments
    cdef dict gradients           # id of what stands for a gradient -> its leaf
    cdef dict leaves              # id of what stands for a leaf -> (what, the leaf, its number)
    cdef readonly list wanted     # what stands for arguments, and is to be known by its values
    cdef readonly object refused  # the first CaptureError, which the function may have caught
    cdef readonly bint needs_run
    cdef readonly bint may_wait   # what needs a run may be left out of it: the next one may do
    cdef record_touched(self, TensorBase x)
    cdef list grad_state(self, TensorBase leaf)
    cdef object grad(self, TensorBase leaf)


cdef class SymScalar:
    cdef uint64_t graph            # the recording
    cdef int owner
    cdef object holder             # a SizeGuards; of a runtime scalar Recorder.thread
    cdef int64_t row
    cdef readonly object value     # as it is in this recording


@cython.final
cdef class SymInt(SymScalar):
    pass


@cython.final
cdef class SymFloat(SymScalar):
    pass


cpdef object index(x)
cpdef refuse_recording(str what)
cdef object held_all(object data)
cdef TensorBase record_constant(TensorBase x)
cdef record_touched(TensorBase x)
cdef record_touched_all(Operands& args)
cdef object recorded_item(TensorBase x)
cdef int refuse_form(str what, TensorBase x) except -1
cdef int refuse_reading(str what, TensorBase x) except -1
cdef int64_t scalar_index_for_core(void* x) noexcept
cdef object length_of(const CTensor& t, size_t d)
cdef object offset_of(const CTensor& t)
cdef object plain_symbol(object x)
cdef object product_of(const CTensor& t)
cdef object shape_of(const CTensor& t, object kind=*)
cdef object strides_of(const CTensor& t)
cdef CTensor symbol_operand(SymScalar x) except *
cdef object with_rows(object plain, const vector[int64_t]& rows)


cdef inline bint is_symbolic(object x):
    return type(x) is SymFloat or type(x) is SymInt


cdef inline Recorder recorder_of(TensorBase leaf):
    """Where a leaf's gradient is while this thread records; None: in the leaf."""
    cdef PyObject* owner = recording_owner()
    if owner == NULL:
        return None
    recorder = <Recorder><object>owner
    return None if leaf.t.is_recorded() and id(leaf) not in recorder.leaves else recorder


cdef inline object grad_of(TensorBase leaf):
    cdef Recorder recording = recorder_of(leaf)
    return leaf._grad if recording is None else recording.grad(leaf)


cdef inline set_grad(TensorBase leaf, object value):
    cdef Recorder recording = recorder_of(leaf)
    if recording is None:
        leaf._grad = value
    else:
        recording.grad_state(leaf)[2] = value
