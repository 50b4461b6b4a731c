# A row of one model, whatever it is given as, seen as one thing: non-negative weights over the vocabulary.
#
# Holds the view on a row (probabilities in place, half precision, logits with their sampler, a sparse list), and what
# is done with weights: the sum of a row or of a residual, and the draw. Rows that are not float32 probabilities are
# turned into weights one block at a time in the workspace; nothing of the size of the vocabulary is ever written. How a
# sampler becomes a bound on logits is in _warp.pxi, how rows make a round in _rounds.pxi.

cdef enum:
    NO_TOKEN = -1


ctypedef enum row_form:
    PLAIN                    # float32 probabilities, used in place
    LOADED                   # half-precision probabilities
    LOGITS
    LISTED                   # ids and weights


ctypedef struct row_view:
    row_form form
    sv_dtype dtype
    const void* data
    # logits
    const float* bias
    const uint32_t* mask
    float top, scale         # weight = 2^((logit - top) * scale)
    float bound, above       # logits below `bound` have weight 0; `above` is the next float
    Py_ssize_t last_tie      # logits equal to `bound` count up to this index
    float least              # weights below this become 0
    # list
    Py_ssize_t count
    const int64_t* ids       # ascending
    const float* weights
    int64_t own_ids[SURVIVORS]
    float own_weights[SURVIVORS]
    float own_logits[SURVIVORS]


ctypedef struct workspace:
    double sums[SV_MAX_GROUPS]
    float logits[SV_BLOCK]
    float target[SV_BLOCK]
    float draft[SV_BLOCK]
    selection select
    row_view target_row, draft_row


# What is drawn from: the target row, or the target row less the scaled draft row, or the target row without one token.
ctypedef struct weights_view:
    row_view* target
    row_view* draft          # NULL: nothing is taken away
    double scale
    Py_ssize_t without       # NO_TOKEN, or an index that counts as weight 0


cdef const float* load_logits(const sv_kernels* kernels, const row_view* row, Py_ssize_t start, Py_ssize_t n,
                              float* scratch) noexcept nogil:
    """Logits [start, start + n) after bias and mask; start is a multiple of SV_PIECE, n at most SV_BLOCK."""
    if row.dtype == SV_FLOAT16:
        kernels.widen_float16(<const uint16_t*>row.data + start, n, scratch)
    elif row.dtype == SV_BFLOAT16:
        kernels.widen_bfloat16(<const uint16_t*>row.data + start, n, scratch)
    else:
        kernels.copy(<const float*>row.data + start, n, scratch)
    if row.bias != NULL:
        kernels.add_bias(scratch, row.bias + start, n)
    if row.mask != NULL:
        kernels.apply_mask(scratch, row.mask + start // 32, (n + 31) // 32 * 32)
    return scratch


cdef inline const float* logits_of(const sv_kernels* kernels, const row_view* row, Py_ssize_t start, Py_ssize_t n,
                                   float* scratch) noexcept nogil:
    """As load_logits, in place where that is possible: zeros keep their sign."""
    if row.dtype == SV_FLOAT32 and row.bias == NULL and row.mask == NULL:
        return <const float*>row.data + start
    return load_logits(kernels, row, start, n, scratch)


cdef const float* load(const sv_kernels* kernels, workspace* work, const row_view* row, Py_ssize_t start, Py_ssize_t n,
                       float* scratch) noexcept nogil:
    """Weights [start, start + n) of a dense row, in place or in `scratch`."""
    cdef const float* logits
    cdef Py_ssize_t ties
    if row.form == PLAIN:
        return <const float*>row.data + start
    if row.form == LOADED:
        return load_logits(kernels, row, start, n, scratch)
    logits = logits_of(kernels, row, start, n, work.logits)  # a zero's sign changes no weight
    kernels.weigh(logits, n, row.top, row.scale, scratch)
    if row.bound > -INFINITY or row.least > 0.0:
        ties = max(<Py_ssize_t>0, min(n, row.last_tie + 1 - start))
        kernels.keep(logits, scratch, ties, row.bound, row.least)
        kernels.keep(logits + ties, scratch + ties, n - ties, row.above, row.least)
    return scratch


cdef Py_ssize_t first_listed(const row_view* row, Py_ssize_t token) noexcept nogil:
    """Place in the list of the first id that is not below `token`."""
    cdef Py_ssize_t low = 0, high = row.count, middle
    while low < high:
        middle = (low + high) // 2
        if row.ids[middle] < token:
            low = middle + 1
        else:
            high = middle
    return low


cdef double weight_of(const sv_kernels* kernels, workspace* work, const row_view* row, Py_ssize_t token) noexcept nogil:
    """Weight of one token."""
    cdef Py_ssize_t place
    if row.form == PLAIN:
        return (<const float*>row.data)[token]
    if row.form == LISTED:
        place = first_listed(row, token)
        return row.weights[place] if place < row.count and row.ids[place] == token else 0.0
    place = token - token % SV_PIECE
    return load(kernels, work, row, place, token - place + 1, work.target)[token - place]


cdef double listed_sum(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t first,
                       Py_ssize_t last) noexcept nogil:
    """Sum of the list's entries [first, last), which are one part, in lane order: all other tokens would add 0."""
    cdef double lanes[16]
    cdef Py_ssize_t place
    if last - first == 1:                            # one or two give the same in any lanes
        return listed_weight(kernels, work, view, first)
    if last - first == 2:
        return listed_weight(kernels, work, view, first) + listed_weight(kernels, work, view, first + 1)
    memset(lanes, 0, sizeof(lanes))
    for place in range(first, last):
        lanes[view.target.ids[place] % 16] += listed_weight(kernels, work, view, place)
    return fold(lanes)


cdef double listed_weight(const sv_kernels* kernels, workspace* work, const weights_view* view,
                          Py_ssize_t place) noexcept nogil:
    cdef double weight = view.target.weights[place], taken
    if view.target.ids[place] == view.without:
        return 0.0
    if view.draft != NULL:
        taken = weight_of(kernels, work, view.draft, view.target.ids[place]) * view.scale
        weight = weight - taken if weight > taken else 0.0
    return weight


cdef const float* load_taken(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t start,
                             Py_ssize_t n) noexcept nogil:
    """What the draft takes away from a part, or NULL where that is nothing."""
    cdef const row_view* draft = view.draft
    cdef Py_ssize_t place
    if draft == NULL:
        return NULL
    if draft.form != LISTED:
        return load(kernels, work, draft, start, n, work.draft)
    place = first_listed(draft, start)
    if place == draft.count or draft.ids[place] >= start + n:
        return NULL
    memset(work.draft, 0, n * sizeof(float))
    while place < draft.count and draft.ids[place] < start + n:
        work.draft[draft.ids[place] - start] = draft.weights[place]
        place += 1
    return work.draft


cdef const float* load_kept(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t start,
                            Py_ssize_t n) noexcept nogil:
    """The dense target's part, without the token that does not count."""
    cdef const float* target = load(kernels, work, view.target, start, n, work.target)
    if not start <= view.without < start + n:
        return target
    if target != work.target:
        memcpy(work.target, target, n * sizeof(float))
    work.target[view.without - start] = 0.0
    return work.target


cdef double part_sum(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t start,
                     Py_ssize_t n) noexcept nogil:
    """Sum of the weights [start, start + n) in lane order; at most a block."""
    cdef const float* taken
    if view.target.form == LISTED:
        return listed_sum(kernels, work, view, first_listed(view.target, start), first_listed(view.target, start + n))
    taken = load_taken(kernels, work, view, start, n)
    if taken == NULL:
        return kernels.piece_mass(load_kept(kernels, work, view, start, n), n)
    return kernels.piece_residual(load_kept(kernels, work, view, start, n), taken, view.scale, n)


cdef double total_of_listed(const sv_kernels* kernels, workspace* work, const weights_view* view,
                            Py_ssize_t n) noexcept nogil:
    """As total_of, visiting only the blocks in which a token is listed."""
    cdef Py_ssize_t group = sv_group(n), g, block, first = 0, last
    cdef double total = 0.0
    for g in range((n + group - 1) // group):
        work.sums[g] = 0.0
    while first < view.target.count:
        block = view.target.ids[first] - view.target.ids[first] % SV_BLOCK
        last = first + 1
        while last < view.target.count and view.target.ids[last] < block + SV_BLOCK:
            last += 1
        work.sums[block // group] += listed_sum(kernels, work, view, first, last)
        first = last
    for g in range((n + group - 1) // group):
        total += work.sums[g]
    return total


cdef double total_of(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t n) noexcept nogil:
    """Sum of all weights, the sums of the groups left in the workspace."""
    cdef Py_ssize_t length, start = 0, group = sv_group(n), g = 0
    cdef double total = 0.0
    if view.target.form == LISTED:
        return total_of_listed(kernels, work, view, n)
    if view.target.form == PLAIN and view.without == NO_TOKEN:
        if view.draft == NULL:
            return kernels.mass(<const float*>view.target.data, n, work.sums)
        if view.draft.form == PLAIN:
            return kernels.residual_mass(<const float*>view.target.data, <const float*>view.draft.data, view.scale, n,
                                         work.sums)
    while start < n:
        work.sums[g] = 0.0
        while start < min((g + 1) * group, n):
            length = min(<Py_ssize_t>SV_BLOCK, n - start)
            work.sums[g] += part_sum(kernels, work, view, start, length)
            start += length
        total += work.sums[g]
        g += 1
    return total


# `point` is uniform * total, total being the sum of the group sums in the order of the search: since uniform < 1,
# point < total, so a group is always found. Inside it the sums of blocks are added to what came before, then the sums
# of pieces, then the entries one by one. Should those stay below their part's own sum by rounding, the last positive
# entry up to there is the answer. A running sum grows only at a positive entry, so no entry of weight 0 is returned.

cdef Py_ssize_t draw(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t n,
                     double point) noexcept nogil:
    cdef double part, running = 0.0
    cdef Py_ssize_t size = sv_group(n), start = 0, stop
    while running + work.sums[start // size] <= point:
        running += work.sums[start // size]
        start += size
    stop = min(start + size, n)
    while size > SV_PIECE:
        size = SV_BLOCK if size > SV_BLOCK else SV_PIECE
        while start + size < stop:
            part = part_sum(kernels, work, view, start, size)
            if running + part > point:
                break
            running += part
            start += size
        stop = min(start + size, stop)
    return draw_entry(kernels, work, view, start, stop, running, point)


cdef Py_ssize_t draw_entry(const sv_kernels* kernels, workspace* work, const weights_view* view, Py_ssize_t start,
                           Py_ssize_t stop, double running, double point) noexcept nogil:
    cdef Py_ssize_t i, last = NO_TOKEN
    cdef double weight
    cdef const float* target
    cdef const float* taken
    while True:
        if view.target.form == LISTED:
            i = first_listed(view.target, start)
            while i < view.target.count and view.target.ids[i] < stop:
                weight = listed_weight(kernels, work, view, i)
                if weight > 0.0:
                    last = view.target.ids[i]
                    running += weight
                    if running > point:
                        return last
                i += 1
        else:
            taken = load_taken(kernels, work, view, start, stop - start)
            target = load_kept(kernels, work, view, start, stop - start)
            for i in range(stop - start):
                weight = target[i]
                if taken != NULL:
                    weight -= <double>taken[i] * view.scale
                if weight > 0.0:
                    last = start + i
                    running += weight
                    if running > point:
                        return last
        if last != NO_TOKEN or start == 0:
            return last
        # Nothing positive in this piece: it was the last one, reached by rounding. Look at the one before.
        stop = start
        start -= SV_PIECE
        point = INFINITY
