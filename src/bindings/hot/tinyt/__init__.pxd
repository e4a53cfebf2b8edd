# The package as Cython sees it: its hot modules.
