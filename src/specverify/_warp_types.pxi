# Workspace of the selection in _warp.pxi.

cdef enum:
    BINS = 2048
    LEAST_GROUP = 64         # entries of a group, the maximum of which is kept while a row is read
    MAX_KEPT_TOPS = 4096     # such maxima; a longer row has longer groups, at most a block (_inputs.LONGEST_ROW)
    SURVIVORS = 1024         # a filtered row with at most this many tokens left is kept as a list
    FEW = 64                 # entries to look for a nucleus in at first


ctypedef struct selection:
    int32_t tops[MAX_KEPT_TOPS]
    uint32_t counts[BINS]
    double masses[BINS]
    int32_t keys[SURVIVORS]
    Py_ssize_t group


ctypedef struct bound_at:
    int32_t key              # the smallest key kept
    Py_ssize_t last_tie      # index up to which that key is kept
