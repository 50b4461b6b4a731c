# One round of verification: walks the positions, asks the rows, draws the last token.
#
# Holds the rules and nothing about Python: inputs are the C structs of specverify/kernels.h, output is a verdict.
# Checks that need a position are made here, before the position is used; their messages are in _inputs.py. What a row
# is and how it is drawn from: _rows.pxi. The same rules in plain NumPy: reference/rounds.py.

cdef enum:
    MAX_BLOCK_TOKENS = 1024  # longest draft of the block rule, whose path must be remembered


cdef inline void fail(sv_verdict* verdict, sv_status status, Py_ssize_t where) noexcept nogil:
    verdict.n_accepted = -1
    verdict.next_token = -1
    verdict.status = status
    verdict.where = where


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


cdef bint list_is_proper(const sv_kernels* kernels, const row_view* row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(row.count):
        if not 0 <= row.ids[i] < n or i > 0 and row.ids[i] <= row.ids[i - 1]:
            return False
    return kernels.proper(row.weights, row.count)


cdef bint loaded_is_proper(const sv_kernels* kernels, workspace* work, const row_view* row,
                           Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t start = 0, length
    while start < n:
        length = min(<Py_ssize_t>SV_BLOCK, n - start)
        if not kernels.proper(load(kernels, work, row, start, length, work.target), length):
            return False
        start += length
    return True


cdef bint open_row(const sv_kernels* kernels, workspace* work, const sv_round* given, const sv_rows* rows, Py_ssize_t i,
                   row_view* row) noexcept nogil:
    """Look at row i as weights; False where that shows that it has none. Float32 probabilities are not read here."""
    row.bias = NULL
    row.mask = NULL
    if rows.kind == SV_SPARSE:
        row.form = LISTED
        row.ids = rows.ids + rows.offsets[i]
        row.weights = rows.probs + rows.offsets[i]
        row.count = rows.offsets[i + 1] - rows.offsets[i]
        return list_is_proper(kernels, row, given.vocab)
    row.dtype = rows.dtype
    row.data = <const char*>rows.data + rows.stride * i
    if given.sampling != NULL:
        row.bias = given.bias
        if given.mask != NULL:
            row.mask = <const uint32_t*>(<const char*>given.mask + given.mask_stride * i)
        return warp(kernels, work, row, given.vocab, given.sampling)
    if rows.dtype == SV_FLOAT32:
        row.form = PLAIN
        return True
    row.form = LOADED
    return loaded_is_proper(kernels, work, row, given.vocab)


cdef double sum_of(const sv_kernels* kernels, workspace* work, row_view* row, Py_ssize_t n) noexcept nogil:
    """Mass of an open row, -1.0 if it has an entry that is no probability; group sums in the workspace."""
    cdef weights_view whole
    whole.target, whole.draft, whole.scale, whole.without = row, NULL, 1.0, NO_TOKEN
    return total_of(kernels, work, &whole, n)


cdef double mass_of(const sv_kernels* kernels, workspace* work, const sv_round* given, row_view* row,
                    double entry) noexcept nogil:
    """Mass of an open row; where rows are trusted 1, if the entry that was looked up is a probability."""
    if given.normalized:
        return 1.0 if 0.0 <= entry < INFINITY else -1.0
    if row.form == PLAIN:
        return kernels.mass(<const float*>row.data, given.vocab, work.sums)
    return sum_of(kernels, work, row, given.vocab)


cdef inline bint is_trusted_proper(const sv_kernels* kernels, const sv_round* given,
                                   const row_view* row) noexcept nogil:
    """Whether a row that was not summed may be drawn from."""
    return not given.normalized or row.form != PLAIN or kernels.proper(<const float*>row.data, given.vocab)


cdef bint open_pair(const sv_kernels* kernels, workspace* work, const sv_round* given, Py_ssize_t i, double* in_target,
                    double* target_mass, double* in_draft, double* draft_mass, sv_verdict* verdict) noexcept nogil:
    """Open row i of both: the drafted token's entries and the masses, 1 of 1 if it is certain. False if it failed."""
    cdef Py_ssize_t token = given.tokens[i]
    in_draft[0] = draft_mass[0] = 1.0
    if given.draft.kind != SV_CERTAIN:
        if not open_row(kernels, work, given, &given.draft, i, &work.draft_row):
            fail(verdict, SV_BAD_DRAFT, i)
            return False
        in_draft[0] = weight_of(kernels, work, &work.draft_row, token)
        draft_mass[0] = mass_of(kernels, work, given, &work.draft_row, in_draft[0])
        if not draft_mass[0] > 0.0:
            fail(verdict, SV_BAD_DRAFT, i)
            return False
    if not open_row(kernels, work, given, &given.target, i, &work.target_row):
        fail(verdict, SV_BAD_TARGET, i)
        return False
    in_target[0] = weight_of(kernels, work, &work.target_row, token)
    target_mass[0] = mass_of(kernels, work, given, &work.target_row, in_target[0])    # its group sums stay in `work`
    if not target_mass[0] > 0.0:
        fail(verdict, SV_BAD_TARGET, i)
        return False
    return True


cdef void emit(const sv_kernels* kernels, workspace* work, const sv_round* given, Py_ssize_t position, Py_ssize_t token,
               double mass, sv_verdict* verdict) noexcept nogil:
    verdict.n_accepted = position
    verdict.next_token = token
    verdict.status = SV_OK
    verdict.where = -1
    if given.emitted_probs != NULL:
        given.emitted_probs[position] = weight_of(kernels, work, &work.target_row, token) / mass


cdef void draw_from_target(const sv_kernels* kernels, workspace* work, const sv_round* given, Py_ssize_t position,
                           sv_verdict* verdict) noexcept nogil:
    """Draw from the open target row."""
    cdef weights_view whole
    cdef double total
    whole.target, whole.draft, whole.scale, whole.without = &work.target_row, NULL, 1.0, NO_TOKEN
    total = total_of(kernels, work, &whole, given.vocab)
    if not total > 0.0:
        fail(verdict, SV_BAD_TARGET, position)
        return
    emit(kernels, work, given, position, draw(kernels, work, &whole, given.vocab, given.uniforms[given.k] * total),
         1.0 if given.normalized else total, verdict)


cdef void draw_bonus(const sv_kernels* kernels, workspace* work, const sv_round* given,
                     sv_verdict* verdict) noexcept nogil:
    if open_row(kernels, work, given, &given.target, given.k, &work.target_row):
        draw_from_target(kernels, work, given, given.k, verdict)
    else:
        fail(verdict, SV_BAD_TARGET, given.k)


cdef void draw_residual(const sv_kernels* kernels, workspace* work, const sv_round* given, Py_ssize_t position,
                        double scale, double target_mass, sv_verdict* verdict) noexcept nogil:
    """Draw from the open target row less what the draft had of it: the scaled draft row, or the certain token."""
    cdef weights_view residual
    cdef double total
    residual.target, residual.draft, residual.scale, residual.without = &work.target_row, NULL, scale, NO_TOKEN
    if given.draft.kind == SV_CERTAIN:
        residual.without = given.tokens[position]
    else:
        residual.draft = &work.draft_row
        if not is_trusted_proper(kernels, given, &work.draft_row):
            fail(verdict, SV_BAD_DRAFT, position)
            return
    if not is_trusted_proper(kernels, given, &work.target_row):
        fail(verdict, SV_BAD_TARGET, position)
        return
    total = total_of(kernels, work, &residual, given.vocab)
    if total > 0.0:
        emit(kernels, work, given, position, draw(kernels, work, &residual, given.vocab,
                                                  given.uniforms[given.k] * total), target_mass, verdict)
    else:                                            # empty by rounding: in exact arithmetic never reached
        draw_from_target(kernels, work, given, position, verdict)


cdef void verify_sampled_round(const sv_kernels* kernels, const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef workspace work
    cdef double in_target, target_mass, in_draft, draft_mass
    cdef Py_ssize_t i
    if not tokens_fit(given, verdict) or not uniforms_fit(given, verdict):
        return
    for i in range(given.k):
        if not open_pair(kernels, &work, given, i, &in_target, &target_mass, &in_draft, &draft_mass, verdict):
            return
        # u * (q * P) < p * Q, in this order: where q * P equals p * Q every u < 1 accepts, also after rounding.
        if given.uniforms[i] * (in_draft * target_mass) < in_target * draft_mass:
            if given.emitted_probs != NULL:
                given.emitted_probs[i] = in_target / target_mass
            continue
        draw_residual(kernels, &work, given, i, target_mass / draft_mass, target_mass, verdict)
        return
    draw_bonus(kernels, &work, given, verdict)


# path[i] is the probability that the target would have kept the first i tokens together: path[0] = 1, path[i] =
# min(1, path[i - 1] * p(x) / q(x)). The longest prefix i, from K down, is tried first: with S the sum of
# max(0, path[i] * p - q) over the row after it, it is accepted iff u * (S + 1 - path[i]) < S; all K iff u < path[K].
# Acceptance is at most path[i], so u >= path[i] needs no pass over a row.

cdef void verify_block_round(const sv_kernels* kernels, const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef workspace work
    cdef double path[MAX_BLOCK_TOKENS + 1]
    cdef double in_target, target_mass, in_draft, draft_mass, ratio, surplus, uniform
    cdef Py_ssize_t i, reached = 0
    cdef weights_view behind
    if given.draft.kind == SV_CERTAIN:               # there both rules accept the same number of tokens
        verify_sampled_round(kernels, given, verdict)
        return
    if not tokens_fit(given, verdict) or not uniforms_fit(given, verdict):
        return
    path[0] = 1.0
    while reached < given.k and path[reached] > 0.0:
        if not open_pair(kernels, &work, given, reached, &in_target, &target_mass, &in_draft, &draft_mass, verdict):
            return
        if given.emitted_probs != NULL:
            given.emitted_probs[reached] = in_target / target_mass
        ratio = 0.0 if in_target == 0.0 else (in_target * draft_mass) / (in_draft * target_mass)
        path[reached + 1] = min(1.0, path[reached] * ratio)
        reached += 1
    if given.k == 0 or reached == given.k and given.uniforms[given.k - 1] < path[given.k]:
        draw_bonus(kernels, &work, given, verdict)
        return
    for i in range(min(reached, given.k - 1), -1, -1):
        uniform = given.uniforms[i - 1] if i > 0 else 0.0
        if i > 0 and uniform >= path[i]:
            continue
        if not open_pair(kernels, &work, given, i, &in_target, &target_mass, &in_draft, &draft_mass, verdict):
            return
        behind.target, behind.draft, behind.without = &work.target_row, &work.draft_row, NO_TOKEN
        behind.scale = target_mass / (draft_mass * path[i])
        if i > 0:
            if not is_trusted_proper(kernels, given, &work.draft_row):
                fail(verdict, SV_BAD_DRAFT, i)
                return
            if not is_trusted_proper(kernels, given, &work.target_row):
                fail(verdict, SV_BAD_TARGET, i)
                return
            surplus = total_of(kernels, &work, &behind, given.vocab) / target_mass * path[i]
            if not uniform * (surplus + (1.0 - path[i])) < surplus and surplus + (1.0 - path[i]) > 0.0:
                continue
        draw_residual(kernels, &work, given, i, behind.scale, target_mass, verdict)
        return


cdef Py_ssize_t greedy_token(const sv_kernels* kernels, workspace* work, const sv_round* given,
                             Py_ssize_t i) noexcept nogil:
    """First maximum of target row i, -1 if it has none."""
    cdef sv_sampling greedy
    cdef sv_round warped
    if given.target.kind == SV_DENSE and given.target.dtype == SV_FLOAT32 and given.mask == NULL and given.bias == NULL:
        return kernels.argmax(<const float*>(<const char*>given.target.data + given.target.stride * i), given.vocab)
    warped = given[0]
    greedy.temperature, greedy.top_k, greedy.top_p, greedy.min_p = 0.0, 0, 1.0, 0.0
    warped.sampling = &greedy
    if not open_row(kernels, work, &warped, &warped.target, i, &work.target_row):
        return -1
    return work.target_row.ids[0]


cdef void verify_greedy_round(const sv_kernels* kernels, const sv_round* given, sv_verdict* verdict) noexcept nogil:
    cdef workspace work
    cdef Py_ssize_t i, best
    if not tokens_fit(given, verdict):
        return
    for i in range(given.k + 1):
        best = greedy_token(kernels, &work, given, i)
        if best < 0:
            fail(verdict, SV_BAD_TARGET, i)
            return
        if i == given.k or best != given.tokens[i]:
            verdict.n_accepted, verdict.next_token, verdict.status, verdict.where = i, best, SV_OK, -1
            return
