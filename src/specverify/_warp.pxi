# From a sampler's settings to a bound on the logits of one row, without sorting it.
#
# Every filter keeps the largest logits, ties by lowest index, so together they come down to three numbers: the smallest
# logit kept, the index up to which logits equal to it are kept, and the smallest weight kept. Selection is by the bits
# of the logits (a radix of 11, 11 and 10 bits, from the top): top-k counts, top-p adds weights. The order of additions
# of top-p is part of the numerics; reference/warp.py has the same.

cdef inline uint32_t ordered(int32_t key) noexcept nogil:
    """Keys as unsigned numbers in the same order."""
    return <uint32_t>key ^ <uint32_t>0x80000000


cdef inline int shift_of(int level) noexcept nogil:
    return 21 if level == 0 else 10 if level == 1 else 0


cdef inline uint32_t bin_of(uint32_t key, int level) noexcept nogil:
    return (key >> shift_of(level)) & (0x3ff if level == 2 else 0x7ff)


cdef inline bint in_prefix(uint32_t key, uint32_t prefix, int level) noexcept nogil:
    """Whether the bits above this level's are those of `prefix`."""
    return level == 0 or key >> shift_of(level - 1) == prefix >> shift_of(level - 1)


cdef inline Py_ssize_t group_count(const selection* select, Py_ssize_t n) noexcept nogil:
    return (n + select.group - 1) // select.group


cdef inline bint survives(const row_view* row, float logit, Py_ssize_t i) noexcept nogil:
    return logit > row.bound or (logit == row.bound and i <= row.last_tie)


cdef inline void count_key(selection* select, float logit, float weight, uint32_t prefix, int level) noexcept nogil:
    cdef uint32_t key = ordered(sv_key(logit))
    if in_prefix(key, prefix, level):
        select.counts[bin_of(key, level)] += 1
        select.masses[bin_of(key, level)] += weight


cdef void count_keys(const sv_kernels* kernels, workspace* work, const row_view* row, Py_ssize_t n, int32_t floor,
                     uint32_t prefix, int level) noexcept nogil:
    """Fill the bins of one level with the survivors: how many, and the sum of their weights in index order. Keys below
    `floor` are not looked for; groups whose maximum is below it are skipped."""
    cdef selection* select = &work.select
    cdef Py_ssize_t start, length, i, g
    cdef const float* logits
    memset(select.counts, 0, sizeof(select.counts))
    memset(select.masses, 0, sizeof(select.masses))
    if row.form == LISTED:
        for i in range(row.count):
            if survives(row, row.own_logits[i], row.ids[i]):
                count_key(select, row.own_logits[i], row.weights[i], prefix, level)
        return
    for g in range(group_count(select, n)):
        if select.tops[g] >= floor:
            start = g * select.group
            length = min(select.group, n - start)
            logits = load_logits(kernels, row, start, length, work.logits)
            kernels.weigh(logits, length, row.top, row.scale, work.target)
            for i in range(length):
                if sv_key(logits[i]) >= floor and survives(row, logits[i], start + i):
                    count_key(select, logits[i], work.target[i], prefix, level)


cdef int32_t kth_largest(const int32_t* keys, Py_ssize_t n, Py_ssize_t k, uint32_t* counts,
                         int levels) noexcept nogil:
    """The k-th largest of some keys, 1 <= k <= n; with 2 levels of 3 a key not above it that shares its upper bits."""
    cdef uint32_t key, prefix = 0
    cdef int level, b, highest
    cdef Py_ssize_t i
    for level in range(levels):
        memset(counts, 0, BINS * sizeof(uint32_t))
        highest = 0
        for i in range(n):
            key = ordered(keys[i])
            if in_prefix(key, prefix, level):
                b = bin_of(key, level)
                counts[b] += 1
                highest = max(highest, b)
        b = highest
        while counts[b] < k:
            k -= counts[b]
            b -= 1
        prefix |= <uint32_t>b << shift_of(level)
    return <int32_t>(prefix ^ <uint32_t>0x80000000)


cdef Py_ssize_t nth_tie(const sv_kernels* kernels, workspace* work, const row_view* row, Py_ssize_t n, int32_t key,
                        Py_ssize_t count) noexcept nogil:
    """Index of the count-th entry with this key, from 1."""
    cdef selection* select = &work.select
    cdef Py_ssize_t start, length, i, g
    cdef const float* logits
    if row.form == LISTED:
        for i in range(row.count):
            if sv_key(row.own_logits[i]) == key:
                count -= 1
                if count == 0:
                    return row.ids[i]
    for g in range(group_count(select, n)):
        if select.tops[g] >= key:
            start = g * select.group
            length = min(select.group, n - start)
            logits = load_logits(kernels, row, start, length, work.logits)
            for i in range(length):
                if sv_key(logits[i]) == key:
                    count -= 1
                    if count == 0:
                        return start + i
    return n - 1                                 # not reached


cdef void set_bound(row_view* row, int32_t key, Py_ssize_t last_tie) noexcept nogil:
    row.bound = sv_from_key(key)
    row.above = sv_from_key(key + 1)
    row.last_tie = last_tie


# A list is made of the entries that are not below some bound, if there are at most SURVIVORS, and thinned out in place
# by the filters that follow.

cdef bint list_from(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n,
                    int32_t floor) noexcept nogil:
    """Turn a row into the list of its survivors with keys of at least `floor`; False if there are too many."""
    cdef selection* select = &work.select
    cdef Py_ssize_t start, length, i, g, count = 0
    cdef const float* logits
    for g in range(group_count(select, n)):
        if select.tops[g] >= floor:
            start = g * select.group
            length = min(select.group, n - start)
            logits = load_logits(kernels, row, start, length, work.logits)
            for i in range(length):
                if sv_key(logits[i]) >= floor and survives(row, logits[i], start + i):
                    if count == SURVIVORS:
                        return False
                    row.own_ids[count] = start + i
                    row.own_logits[count] = logits[i]
                    count += 1
    kernels.weigh(row.own_logits, count, row.top, row.scale, row.own_weights)
    row.form, row.ids, row.weights, row.count = LISTED, row.own_ids, row.own_weights, count
    return True


cdef void thin_out(row_view* row) noexcept nogil:
    """Drop from a list what the bound or the smallest weight no longer admits."""
    cdef Py_ssize_t i, count = 0
    for i in range(row.count):
        if survives(row, row.own_logits[i], row.own_ids[i]) and row.own_weights[i] >= row.least:
            row.own_ids[count] = row.own_ids[i]
            row.own_logits[count] = row.own_logits[i]
            row.own_weights[count] = row.own_weights[i]
            count += 1
    row.count = count


cdef void keep_top_k(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n,
                     Py_ssize_t k) noexcept nogil:
    """Bound the row to its k largest logits, k < n, and make a list of them if it is not too long."""
    cdef selection* select = &work.select
    cdef Py_ssize_t groups = group_count(select, n), i
    # k groups have a maximum of at least the k-th largest maximum, so at least k entries are not below it.
    cdef int32_t floor = kth_largest(select.tops, groups, k, select.counts, 2) if k <= groups else LOWEST_KEY
    cdef uint32_t prefix = 0
    cdef int level, b
    cdef int32_t key
    cdef int32_t* keys = select.keys
    if k <= SURVIVORS and list_from(kernels, work, row, n, floor):
        for i in range(row.count):
            keys[i] = sv_key(row.own_logits[i])
        key = kth_largest(keys, row.count, k, select.counts, 3)
        for i in range(row.count):
            k -= keys[i] > key                   # what remains are the ties that are kept
        set_bound(row, key, nth_tie(kernels, work, row, n, key, k))
        thin_out(row)
        return
    for level in range(3):
        count_keys(kernels, work, row, n, floor, prefix, level)
        b = BINS - 1
        while select.counts[b] < k:
            k -= select.counts[b]
            b -= 1
        prefix |= <uint32_t>b << shift_of(level)
        floor = max(floor, <int32_t>(prefix ^ <uint32_t>0x80000000))
    key = <int32_t>(prefix ^ <uint32_t>0x80000000)
    set_bound(row, key, nth_tie(kernels, work, row, n, key, k))
    if row.last_tie >= 0:
        list_from(kernels, work, row, n, key)


cdef int32_t negligible_below(const row_view* row, double mass, Py_ssize_t n) noexcept nogil:
    """A key such that all entries below it weigh less than `mass` together."""
    cdef int exponent = 0
    while mass < n and exponent > -126:          # 2^exponent <= mass / n, for every entry alike
        mass *= 2.0
        exponent -= 1
    return sv_key(row.top + (<float>exponent - <float>1.0) / row.scale)


cdef void keep_top_p(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n, double top_p,
                     double total) noexcept nogil:
    """Bound the row to the fewest largest logits whose weights reach top_p * total, and list them if they are few."""
    cdef selection* select = &work.select
    cdef double goal = top_p * total
    cdef Py_ssize_t groups = group_count(select, n), k = FEW
    cdef int32_t floor
    # In a row of a language model a few weights reach the goal. So look first among the entries that are not below the
    # k-th largest maximum of a group, k of them at least: if those reach it, all others have no part in the answer.
    while row.form != LISTED and k < min(groups, <Py_ssize_t>SURVIVORS):
        floor = kth_largest(select.tops, groups, k, select.counts, 2)
        if not list_from(kernels, work, row, n, floor):
            break
        if bound_top_p(kernels, work, row, n, goal, floor, True):
            return
        row.form = LOGITS
        k *= 8
    floor = negligible_below(row, (1.0 - top_p) * total / 2.0, n) if 1.0 - top_p > 1e-9 else LOWEST_KEY
    bound_top_p(kernels, work, row, n, goal, floor, False)


cdef bint bound_top_p(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n, double goal,
                      int32_t floor, bint only_if_reached) noexcept nogil:
    """Bound the row where its weights, from the largest down, reach the goal, or by rounding at the last of them. With
    `only_if_reached` nothing is done in the latter case, and False is returned."""
    cdef selection* select = &work.select
    cdef double reached = 0.0, weight
    cdef uint32_t prefix = 0
    cdef int level, b, last
    cdef bint crossed
    cdef Py_ssize_t ties
    cdef int32_t key
    for level in range(3):
        count_keys(kernels, work, row, n, floor, prefix, level)
        last = -1
        crossed = False
        for b in range(BINS - 1, -1, -1):
            if select.counts[b] > 0:
                if last >= 0:
                    reached += select.masses[last]
                last = b
                if reached + select.masses[b] >= goal:
                    crossed = True
                    break
        if only_if_reached and not crossed:
            return False
        prefix |= <uint32_t>last << shift_of(level)
        floor = max(floor, <int32_t>(prefix ^ <uint32_t>0x80000000))    # what is below the bin has been decided
    weight = select.masses[last] / select.counts[last]
    ties = 0
    while ties < select.counts[last]:
        ties += 1
        reached += weight
        if reached >= goal:
            break
    key = <int32_t>(prefix ^ <uint32_t>0x80000000)
    set_bound(row, key, nth_tie(kernels, work, row, n, key, ties))
    if row.form == LISTED:
        thin_out(row)
    else:
        list_from(kernels, work, row, n, key)
    return True


cdef bint find_top(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n,
                   bint groups) noexcept nogil:
    """Set the largest logit; False if the row has NaN or infinity, or nothing but -infinity. With `groups` also the
    maxima of the groups."""
    cdef selection* select = &work.select
    cdef Py_ssize_t start = 0, length, i
    cdef uint32_t unsigned_top = 0
    cdef int32_t key, top = LOWEST_KEY
    cdef const float* logits
    select.group = LEAST_GROUP
    while n > select.group * MAX_KEPT_TOPS:
        select.group *= 2
    while start < n:
        length = min(<Py_ssize_t>SV_BLOCK, n - start)
        logits = logits_of(kernels, row, start, length, work.logits)
        if groups:
            kernels.group_tops(logits, length, select.group, select.tops + start // select.group, &unsigned_top)
        else:
            key = top_of(kernels, logits, length, &unsigned_top)
            top = key if key > top else top
        start += length
    if groups:
        for i in range(group_count(select, n)):
            top = select.tops[i] if select.tops[i] > top else top
    row.top = sv_from_key(top)
    return unsigned_top <= SV_NEGATIVE_INFINITY and -INFINITY < row.top < INFINITY


cdef int32_t top_of(const sv_kernels* kernels, const float* logits, Py_ssize_t n,
                    uint32_t* unsigned_top) noexcept nogil:
    """Key of the largest logit of a part."""
    cdef int32_t key = kernels.tops(logits, n, unsigned_top)
    if key < 0:                                  # all negative: bit patterns run the other way round
        kernels.group_tops(logits, n, n, &key, unsigned_top)
    return key


cdef Py_ssize_t first_of(const sv_kernels* kernels, workspace* work, const row_view* row, Py_ssize_t n) noexcept nogil:
    """Index of the first entry equal to the top."""
    cdef Py_ssize_t start = 0, length, i
    cdef const float* logits
    while start < n:
        length = min(<Py_ssize_t>SV_BLOCK, n - start)
        logits = load_logits(kernels, row, start, length, work.logits)
        for i in range(length):
            if logits[i] == row.top:
                return start + i
        start += length
    return n - 1                                 # not reached


cdef bint warp(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n,
               const sv_sampling* sampling) noexcept nogil:
    """Apply the sampler to a row of logits; False if it has no distribution."""
    cdef weights_view whole
    cdef double inverse
    cdef bint filtered = 0 < sampling.top_k < n or sampling.top_p < 1.0
    row.bound = -INFINITY
    row.above = -INFINITY
    row.last_tie = n - 1
    row.least = 0.0
    if not find_top(kernels, work, row, n, filtered and sampling.temperature > 0.0):
        return False
    if sampling.temperature == 0.0:
        row.own_ids[0] = first_of(kernels, work, row, n)
        row.own_weights[0] = 1.0
        row.form, row.ids, row.weights, row.count = LISTED, row.own_ids, row.own_weights, 1
        return True
    inverse = LOG2_E / sampling.temperature
    row.scale = <float>min(inverse, <double>FLT_MAX)
    row.form = LOGITS
    if 0 < sampling.top_k < n:
        keep_top_k(kernels, work, row, n, sampling.top_k)
    if sampling.top_p < 1.0:
        whole.target, whole.draft, whole.scale, whole.without = row, NULL, 1.0, NO_TOKEN
        keep_top_p(kernels, work, row, n, sampling.top_p, total_of(kernels, work, &whole, n))
    if sampling.min_p > 0.0:
        row.least = <float>sampling.min_p
        if <double>row.least < sampling.min_p:
            row.least = sv_from_key(sv_key(row.least) + 1)
        if row.form == LISTED:
            thin_out(row)
    return True
