# Methods of extension types check their first argument, from here on. None may have `*args` or
# `**kwargs`: Cython calls such a method in another way.

cdef extern from "self_check.h" namespace "tinyt":
    cbool check_self(object method, object type)


cdef check_selves(dict names, function):
    """Of every extension type among the names of a module, whose functions are of a type."""
    for kind in list(names.values()):
        if isinstance(kind, type) and kind.__module__ == __name__:
            for name, method in vars(kind).items():
                if type(method) is function:
                    check_self(method, kind)   # a test asks for all
