# One round of verification: walks the positions, calls the row loops of the kernel table, draws the last token.
#
# Holds the rules of the round and nothing about Python: inputs are the C structs of specverify/kernels.h, output is a
# verdict. Checks that need a position are made here, before the position is used; their messages are in _inputs.py.
# The same rules in plain NumPy: reference.py.

cdef inline const float* row_at(const float* rows, Py_ssize_t stride, Py_ssize_t i) noexcept nogil:
    return <const float*>(<const char*>rows + stride * i)


cdef inline void fail(sv_verdict* verdict, sv_status status, Py_ssize_t where) noexcept nogil:
    verdict.n_accepted = -1
    verdict.next_token = -1
    verdict.status = status
    verdict.where = where


cdef inline void succeed(sv_verdict* verdict, Py_ssize_t n_accepted, Py_ssize_t next_token) noexcept nogil:
    verdict.n_accepted = n_accepted
    verdict.next_token = next_token
    verdict.status = SV_OK
    verdict.where = -1


cdef bint tokens_fit(const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(given.k):
        if not 0 <= given.tokens[i] < given.vocab:
            fail(verdict, SV_BAD_TOKEN, i)
            return False
    return True


cdef bint uniforms_fit(const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(given.k + 1):
        if not 0.0 <= given.uniforms[i] < 1.0:       # also false for NaN
            fail(verdict, SV_BAD_UNIFORM, i)
            return False
    return True


cdef inline bint is_probability(float entry) noexcept nogil:
    return 0.0 <= entry and entry - entry == 0.0


# The draw. `sums` are the block sums that a mass kernel wrote and `point` is uniform * total, total being their sum in
# the same order: since uniform < 1, point < total, so a block is always found. Inside it the sums of pieces are added
# to what came before, and inside a piece the entries one by one. Should those stay below their block's own sum by
# rounding, the last positive entry that was walked over is the answer. A running sum grows only at a positive entry,
# so no entry of weight 0 is ever returned.

cdef Py_ssize_t find_block(const double* sums, double point, double* before) noexcept nogil:
    cdef Py_ssize_t b = 0
    cdef double running = sums[0]
    before[0] = 0.0
    while running <= point:
        before[0] = running
        b += 1
        running += sums[b]
    return b


cdef Py_ssize_t draw_from_row(const sv_kernels* kernels, const float* row, Py_ssize_t n, const double* sums,
                              double point, Py_ssize_t without) noexcept nogil:
    """`without` is an index that counts as weight 0, or -1."""
    cdef double running, piece
    cdef Py_ssize_t block = sv_block(n)
    cdef Py_ssize_t start = block * find_block(sums, point, &running)
    cdef Py_ssize_t i, stop = min(start + block, n)
    while start + SV_PIECE < stop:
        if start <= without < start + SV_PIECE:
            piece = sum_without(row + start, SV_PIECE, without - start)
        else:
            piece = kernels.piece_mass(row + start, SV_PIECE)
        if running + piece > point:
            break
        running += piece
        start += SV_PIECE
    stop = min(start + SV_PIECE, stop)
    for i in range(start, stop):
        if i != without:
            running += <double>row[i]
            if running > point:
                return i
    i = stop - 1
    while not row[i] > 0.0 or i == without:
        i -= 1
    return i


cdef Py_ssize_t draw_from_residual(const sv_kernels* kernels, const float* target, const float* draft, double scale,
                                   Py_ssize_t n, const double* sums, double point) noexcept nogil:
    cdef double running, piece, weight
    cdef Py_ssize_t block = sv_block(n)
    cdef Py_ssize_t start = block * find_block(sums, point, &running)
    cdef Py_ssize_t i, stop = min(start + block, n)
    while start + SV_PIECE < stop:
        piece = kernels.piece_residual(target + start, draft + start, scale, SV_PIECE)
        if running + piece > point:
            break
        running += piece
        start += SV_PIECE
    stop = min(start + SV_PIECE, stop)
    for i in range(start, stop):
        weight = <double>target[i] - <double>draft[i] * scale
        if weight > 0.0:
            running += weight
            if running > point:
                return i
    i = stop - 1
    while not <double>target[i] - <double>draft[i] * scale > 0.0:
        i -= 1
    return i


cdef void add_groups(double* lanes, const float* row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef int j
    for i in range(0, n, 16):
        for j in range(16):
            lanes[j] += <double>row[i + j]


cdef double sum_without(const float* row, Py_ssize_t n, Py_ssize_t token) noexcept nogil:
    """Sum of a block or piece in lane order, with row[token] counted as 0."""
    cdef double lanes[16]
    cdef float group[16]
    cdef Py_ssize_t whole = n - n % 16, first = token - token % 16
    memset(lanes, 0, sizeof(lanes))
    memset(group, 0, sizeof(group))
    add_groups(lanes, row, first)
    memcpy(group, row + first, min(<Py_ssize_t>16, n - first) * sizeof(float))
    group[token - first] = 0.0
    add_groups(lanes, group, 16)
    if first < whole:
        add_groups(lanes, row + first + 16, whole - first - 16)
        memset(group, 0, sizeof(group))
        memcpy(group, row + whole, (n - whole) * sizeof(float))
        add_groups(lanes, group, 16)
    return fold(lanes)


cdef double remove_token(const float* row, Py_ssize_t n, double* sums, Py_ssize_t token) noexcept nogil:
    """Change the block sums of a row to those of the same row with row[token] = 0; the new total."""
    cdef double total = 0.0
    cdef Py_ssize_t block = sv_block(n), start = token - token % block
    cdef Py_ssize_t b
    sums[start // block] = sum_without(row + start, min(block, n - start), token - start)
    for b in range((n + block - 1) // block):
        total += sums[b]
    return total


cdef void draw_from_target(const sv_kernels* kernels, const sv_round* given, Py_ssize_t position, double* sums,
                           sv_verdict* verdict) noexcept nogil:
    cdef const float* row = row_at(given.target, given.target_stride, position)
    cdef double total = kernels.mass(row, given.vocab, sums)
    if not total > 0.0:
        fail(verdict, SV_BAD_TARGET, position)
        return
    succeed(verdict, position, draw_from_row(kernels, row, given.vocab, sums, given.uniforms[given.k] * total, -1))


cdef void draw_without_token(const sv_kernels* kernels, const sv_round* given, Py_ssize_t position, double* sums,
                             sv_verdict* verdict) noexcept nogil:
    """The residual of a certain token: the target row without it."""
    cdef const float* row = row_at(given.target, given.target_stride, position)
    cdef Py_ssize_t token = given.tokens[position]
    cdef double total
    if given.normalized and not kernels.mass(row, given.vocab, sums) > 0.0:
        fail(verdict, SV_BAD_TARGET, position)
        return
    total = remove_token(row, given.vocab, sums, token)
    if total > 0.0:
        succeed(verdict, position, draw_from_row(kernels, row, given.vocab, sums, given.uniforms[given.k] * total, token))
    else:
        draw_from_target(kernels, given, position, sums, verdict)


cdef void draw_residual(const sv_kernels* kernels, const sv_round* given, Py_ssize_t position, double scale,
                        double* sums, sv_verdict* verdict) noexcept nogil:
    cdef const float* target = row_at(given.target, given.target_stride, position)
    cdef const float* draft = row_at(given.draft, given.draft_stride, position)
    cdef double total
    if given.normalized:
        total = kernels.trusted_residual_mass(target, draft, given.vocab, sums)
    else:
        total = kernels.residual_mass(target, draft, scale, given.vocab, sums)
    if total > 0.0:
        succeed(verdict, position, draw_from_residual(kernels, target, draft, scale, given.vocab, sums,
                                                      given.uniforms[given.k] * total))
    elif total == 0.0:                               # empty by rounding: in exact arithmetic never reached
        draw_from_target(kernels, given, position, sums, verdict)
    else:
        fail(verdict, SV_BAD_ROWS, position)


cdef void verify_sampled_round(const sv_kernels* kernels, const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef double sums[SV_MAX_BLOCKS]
    cdef const float* target
    cdef const float* draft
    cdef float in_target, in_draft = 1.0
    cdef double target_mass = 1.0, draft_mass = 1.0
    cdef Py_ssize_t i, token
    if not tokens_fit(given, verdict) or not uniforms_fit(given, verdict):
        return
    for i in range(given.k):
        token = given.tokens[i]
        if given.draft != NULL:
            draft = row_at(given.draft, given.draft_stride, i)
            in_draft = draft[token]
            if given.normalized:
                draft_mass = 1.0 if is_probability(in_draft) else -1.0
            else:
                draft_mass = kernels.mass(draft, given.vocab, sums)
            if not draft_mass > 0.0:
                fail(verdict, SV_BAD_DRAFT, i)
                return
        target = row_at(given.target, given.target_stride, i)
        in_target = target[token]
        if given.normalized:
            target_mass = 1.0 if is_probability(in_target) else -1.0
        else:
            target_mass = kernels.mass(target, given.vocab, sums)    # `sums` now holds the target row's
        if not target_mass > 0.0:
            fail(verdict, SV_BAD_TARGET, i)
            return
        # u * (q * P) < p * Q, in this order: where q * P equals p * Q every u < 1 accepts, also after rounding.
        if given.uniforms[i] * (<double>in_draft * target_mass) < <double>in_target * draft_mass:
            continue
        if given.draft == NULL:
            draw_without_token(kernels, given, i, sums, verdict)
        else:
            draw_residual(kernels, given, i, target_mass / draft_mass, sums, verdict)
        return
    draw_from_target(kernels, given, given.k, sums, verdict)


cdef void verify_greedy_round(const sv_kernels* kernels, const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef Py_ssize_t i, best
    if not tokens_fit(given, verdict):
        return
    for i in range(given.k + 1):
        best = kernels.argmax(row_at(given.target, given.target_stride, i), given.vocab)
        if best < 0:
            fail(verdict, SV_BAD_TARGET, i)
            return
        if i == given.k or best != given.tokens[i]:
            succeed(verdict, i, best)
            return
