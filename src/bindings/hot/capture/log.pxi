# The capture log as Python sees it: what a recording is made again from for other sizes.

cdef extern from "core/graph/capture_log.h" namespace "tinyt":
    cdef cppclass Graph "tinyt::Graph":
        CCaptureLog* log
        void share_scalars(const Graph&)
    cdef cppclass CCaptureLog "tinyt::CaptureLog":
        CCaptureLog(const Graph&)
        SymbolicScalars& table()
        int64_t of(ScalarOp, const CTensor&, int64_t) except +raise_python_error
        void fail(string)
        const string& failure()
        optional[vector[int64_t]] replay(vector[CTensor], Graph&, string&, int64_t&) except +raise_python_error
        void (*on_guard)(void*)
        void* owner
    CCaptureLog* tracing()

cdef str LIBRARY = os.path.dirname(os.path.abspath(__file__)) + os.sep


cdef object core_object(object x, kind):
    """An object of the core, whose address is taken; TypeError for another."""
    if not isinstance(x, kind):
        raise TypeError(f"expected a {kind.__name__}, got {type(x).__name__}")
    return x


cdef str user_line():
    """The line of the user's own code that runs."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(LIBRARY):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


cdef int note_guard_for_core(void* owner) except -1:
    (<CaptureLog><object>owner).lines.append(user_line())
    return 0


note_guard = note_guard_for_core


cdef class CaptureLog:
    """How sizes come to be and what is decided by them while a graph is recorded, from when this is
    made until the recording ends: the recording is then made again for other arguments, without the
    recorded function."""

    cdef CCaptureLog* log
    cdef readonly list lines      # of the user's code, one for each guard

    def __cinit__(self, core):
        cdef Graph* graph = <Graph*><size_t>core_object(core, tinyt._core.Graph).address
        self.lines = []
        self.log = new CCaptureLog(graph[0])
        self.log.on_guard, self.log.owner = note_guard_or_throw, <void*>self
        graph.log = self.log

    def __dealloc__(self):
        del self.log

    @property
    def failure(self):
        """Why the recording cannot be made again; "" where it can."""
        return self.log.failure().decode()

    @property
    def guards(self):
        """How many different guards there are."""
        return self.log.table().guards().size()

    def replay(self, core, again, list arguments, list numbers):
        """Records into ``again`` what ``core`` is with other arguments (None: as they were).
        Returns the plain numbers that stand for some now; or, where the recorded function would do
        something else, a word on why."""
        cdef vector[CTensor] given
        cdef string why
        cdef int64_t guard = -1
        cdef Graph* graph = <Graph*><size_t>core_object(again, tinyt._core.Graph).address
        cdef optional[vector[int64_t]] rows
        cdef vector[int64_t] values
        for x in arguments:
            given.push_back(CTensor() if x is None else (<TensorBase?>x).t)
        core_object(core, tinyt._core.Graph)
        graph.share_scalars((<Graph*><size_t>core.address)[0])
        rows = self.log.replay(given, graph[0], why, guard)
        if not rows.has_value():
            line = self.lines[guard] if 0 <= guard < len(self.lines) else ""
            return why.decode() + (f" ({line})" if line else "")
        values = rows.value()
        return [values[<size_t>(<SymInt>x).row] if type(x) is SymInt else x for x in numbers]


def stop_tracing(str why):
    """What is recorded is not followed any further, and cannot be made for other sizes."""
    if tracing() != NULL:
        tracing().fail(why.encode())
