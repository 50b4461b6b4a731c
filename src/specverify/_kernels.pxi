# The loops over one row. One body, included by _kernels_<isa>.pyx once per instruction set.
#
# Holds pure functions on raw pointers: no Python object, no memoryview (their reference counts become atomic
# instructions that a Raspberry Pi 4 does not have), no allocation, no random number. How rows make a round is in
# _rounds.pxi.
#
# Summation order, the same in every variant and in specverify.reference:
#   1. A row is cut into blocks of SV_BLOCK elements, and blocks are taken together in groups of sv_group(n) elements
#      (one block each, up to a row of 1,048,576).
#   2. Element j of a block is added to lane j % 16 in float64, lanes in index order.
#   3. The lanes are folded 16 -> 8 -> 4 -> 2 -> 1, each time the lower half plus the upper half.
#   4. The block sums of a group are added one after the other, then the sums of the groups.
#
# The shape `double lanes[16]`, a literal outer step and a literal inner trip count is what GCC turns into vector code
# without any fast-math flag (tests/test_assembly.py reads the result). Compiled with -ffp-contract=off: a fused
# multiply-add would round differently from one instruction set to the next.

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int32_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset


include "_table.pxi"


cdef extern from "_tuning.h" nogil:
    double sv_max(double, double) noexcept
    uint32_t sv_bits(const float*) noexcept
    int32_t sv_key(float) noexcept
    void sv_collect_signs(uint64_t*, const float*) noexcept
    const bint VECTOR_SIGNS "SV_VECTOR_SIGNS"
    const uint32_t POSITIVE_INFINITY "SV_POSITIVE_INFINITY"
    const uint32_t NEGATIVE_INFINITY "SV_NEGATIVE_INFINITY"
    const int32_t LOWEST "INT32_MIN"


cdef extern from "_exp2.h" nogil:
    float sv_weight(float, float, float) noexcept
    float sv_from_float16(uint16_t) noexcept
    float sv_from_bfloat16(uint16_t) noexcept


cdef enum:
    LONG_STRETCH = 4096              # entries whose maximum is taken at a time
    STRETCH = 256                    # entries that are searched at a time for one known to be among them
    QUARTER_BLOCK = 1024             # of SV_BLOCK


include "_lanes.pxi"


cdef bint has_negative(const float* row, Py_ssize_t n) noexcept nogil:
    """Tell a negative entry from -0.0, which is a legal probability."""
    cdef Py_ssize_t i
    for i in range(n):
        if row[i] < 0.0:
            return True
    return False


cdef uint32_t top_bits(const float* row, Py_ssize_t n) noexcept nogil:
    """Largest bit pattern: below POSITIVE_INFINITY iff every entry is finite and its sign bit clear.

    In four strips, so that no chain of maxima waits for itself.
    """
    cdef uint32_t bits, a = 0, b = 0, c = 0, d = 0
    cdef Py_ssize_t i, quarter = n // 4
    for i in range(quarter):
        bits = sv_bits(row + i)
        a = bits if bits > a else a
        bits = sv_bits(row + i + quarter)
        b = bits if bits > b else b
        bits = sv_bits(row + i + 2 * quarter)
        c = bits if bits > c else c
        bits = sv_bits(row + i + 3 * quarter)
        d = bits if bits > d else d
    for i in range(4 * quarter, n):
        bits = sv_bits(row + i)
        a = bits if bits > a else a
    return max(max(a, b), max(c, d))


cdef double whole_mass(const float* row, Py_ssize_t n, uint64_t* signs) noexcept nogil:
    """Sum of n entries, n a multiple of 16; the bits of all are or'ed into `signs`, to be asked for sign bits."""
    cdef double lanes[16]
    cdef uint32_t sign_lanes[16]
    cdef uint64_t sign_words[2]
    cdef uint32_t bits, sign = 0
    cdef Py_ssize_t i
    cdef int j
    memset(lanes, 0, sizeof(lanes))
    if VECTOR_SIGNS:                             # known to the C compiler, which drops one of the two
        memset(sign_lanes, 0, sizeof(sign_lanes))
        for i in range(0, n, 16):
            for j in range(16):
                lanes[j] += <double>row[i + j]
            for j in range(16):
                memcpy(&bits, &row[i + j], 4)
                sign_lanes[j] |= bits
        for j in range(16):
            sign |= sign_lanes[j]
        signs[0] |= sign
    else:
        memset(sign_words, 0, sizeof(sign_words))
        for i in range(0, n, 16):
            for j in range(16):
                lanes[j] += <double>row[i + j]
            sv_collect_signs(sign_words, row + i)
        signs[0] |= sign_words[0] | sign_words[1]
    return fold(lanes)


cdef double piece_mass(const float* row, Py_ssize_t n) noexcept nogil:
    """Sum of any number of entries, signs not asked for."""
    cdef double lanes[16]
    cdef Py_ssize_t i, whole = n - n % 16
    cdef int j
    memset(lanes, 0, sizeof(lanes))
    for i in range(0, whole, 16):
        for j in range(16):
            lanes[j] += <double>row[i + j]
    for j in range(<int>(n - whole)):
        lanes[j] += <double>row[whole + j]
    return fold(lanes)


cdef double short_mass(const float* row, Py_ssize_t n, uint64_t* signs) noexcept nogil:
    """Sum of fewer than 16 entries: what mass does of a toy vocabulary, without the price of its loops."""
    cdef double lanes[16]
    cdef int j
    memset(lanes, 0, sizeof(lanes))
    for j in range(<int>n):
        lanes[j] += <double>row[j]
        signs[0] |= sv_bits(row + j)
    return fold(lanes)


cdef double mass(const float* row, Py_ssize_t n, double* sums) noexcept nogil:
    cdef Py_ssize_t length, start = 0, group = sv_group(n), g = 0, i
    cdef uint64_t signs = 0
    cdef double total = 0.0
    if n < 16:
        total = sums[0] = short_mass(row, n, &signs)
        start = n
    while start < n:
        sums[g] = 0.0
        while start < min((g + 1) * group, n):
            length = min(<Py_ssize_t>SV_BLOCK, n - start)
            if length % 16 == 0:
                sums[g] += whole_mass(row + start, length, &signs)
            else:
                sums[g] += piece_mass(row + start, length)
                for i in range(start, n):
                    signs |= sv_bits(row + i)
            start += length
        total += sums[g]
        g += 1
    if total - total != 0.0:                     # infinity or NaN went in: finite float32 cannot overflow float64
        return -1.0
    if signs & <uint64_t>0x8000000080000000 and has_negative(row, n):
        return -1.0
    return total


# max(0, target - s) is written max(target, s) - s: the same value, and two instructions instead of three.

cdef double piece_residual(const float* target, const float* draft, double scale, Py_ssize_t n) noexcept nogil:
    cdef double lanes[16]
    cdef double scaled
    cdef Py_ssize_t i, whole = n - n % 16
    cdef int j
    memset(lanes, 0, sizeof(lanes))
    for i in range(0, whole, 16):
        for j in range(16):
            scaled = <double>draft[i + j] * scale
            lanes[j] += sv_max(<double>target[i + j], scaled) - scaled
    for j in range(<int>(n - whole)):
        scaled = <double>draft[whole + j] * scale
        lanes[j] += sv_max(<double>target[whole + j], scaled) - scaled
    return fold(lanes)


cdef double residual_mass(const float* target, const float* draft, double scale, Py_ssize_t n,
                          double* sums) noexcept nogil:
    cdef Py_ssize_t length, start = 0, group = sv_group(n), g = 0
    cdef double total = 0.0
    while start < n:
        sums[g] = 0.0
        while start < min((g + 1) * group, n):
            length = min(<Py_ssize_t>SV_BLOCK, n - start)
            sums[g] += piece_residual(target + start, draft + start, scale, length)
            start += length
        total += sums[g]
        g += 1
    return total


cdef bint is_proper(const float* row, Py_ssize_t n) noexcept nogil:
    """Whether no entry is negative, NaN or infinite: the slow answer, for rows that hold -0.0."""
    cdef Py_ssize_t i
    for i in range(n):
        if not 0.0 <= row[i] or sv_bits(row + i) == POSITIVE_INFINITY:
            return False
    return True


cdef bint proper(const float* row, Py_ssize_t n) noexcept nogil:
    """Whether no entry is negative, NaN or infinite."""
    cdef Py_ssize_t start = 0
    cdef uint32_t top = 0
    while start < n:
        top = max(top, top_bits(row + start, min(<Py_ssize_t>SV_BLOCK, n - start)))
        start += SV_BLOCK
    return top < POSITIVE_INFINITY or is_proper(row, n)


# Argmax on integers. Read as int32, floats that are not negative keep their order and every negative one is below them,
# so integer maxima find the maximum of a row that has an entry >= 0. Where there is none, the largest float is the one
# with the smallest unsigned pattern. The largest unsigned pattern gives away a NaN of either sign.

cdef int32_t tops(const float* row, Py_ssize_t n, uint32_t* unsigned_top) noexcept nogil:
    """Largest int32 pattern, and the largest uint32 pattern; in four strips, as top_bits."""
    cdef int32_t key, a = LOWEST, b = LOWEST, c = LOWEST, d = LOWEST
    cdef uint32_t bits, ua = 0, ub = 0, uc = 0, ud = 0
    cdef Py_ssize_t i, quarter = n // 4
    for i in range(quarter):
        bits = sv_bits(row + i)
        key = <int32_t>bits
        ua = bits if bits > ua else ua
        a = key if key > a else a
        bits = sv_bits(row + i + quarter)
        key = <int32_t>bits
        ub = bits if bits > ub else ub
        b = key if key > b else b
        bits = sv_bits(row + i + 2 * quarter)
        key = <int32_t>bits
        uc = bits if bits > uc else uc
        c = key if key > c else c
        bits = sv_bits(row + i + 3 * quarter)
        key = <int32_t>bits
        ud = bits if bits > ud else ud
        d = key if key > d else d
    for i in range(4 * quarter, n):
        bits = sv_bits(row + i)
        key = <int32_t>bits
        ua = bits if bits > ua else ua
        a = key if key > a else a
    unsigned_top[0] = max(unsigned_top[0], max(max(ua, ub), max(uc, ud)))
    return max(max(a, b), max(c, d))


cdef uint32_t lowest_bits(const float* row, Py_ssize_t n) noexcept nogil:
    cdef uint32_t bits, low = 0xffffffff
    cdef Py_ssize_t i
    for i in range(n):
        bits = sv_bits(row + i)
        low = bits if bits < low else low
    return low


cdef bint holds(const float* row, Py_ssize_t n, uint32_t pattern) noexcept nogil:
    cdef uint32_t found = 0
    cdef Py_ssize_t i
    for i in range(n):
        found |= sv_bits(row + i) == pattern
    return found


cdef Py_ssize_t find(const float* row, Py_ssize_t n, uint32_t pattern) noexcept nogil:
    """First entry with this pattern, which is there."""
    cdef Py_ssize_t i = 0
    while i + STRETCH < n and not holds(row + i, STRETCH, pattern):
        i += STRETCH
    while sv_bits(row + i) != pattern:
        i += 1
    return i


cdef Py_ssize_t argmax(const float* row, Py_ssize_t n) noexcept nogil:
    cdef int32_t key, top = LOWEST
    cdef uint32_t unsigned_top = 0, low
    cdef Py_ssize_t stop, start = 0, best = 0
    # The first stretch is short, so that the others start at a multiple of 64 bytes.
    stop = LONG_STRETCH - (<uintptr_t>row >> 2) % 16
    while start < n:
        stop = min(stop, n)
        key = tops(row + start, stop - start, &unsigned_top)
        if key > top:
            top = key
            best = start
        start = stop
        stop += LONG_STRETCH
    if unsigned_top > NEGATIVE_INFINITY or top >= <int32_t>POSITIVE_INFINITY:
        return -1
    if top > 0:
        return best + find(row + best, n - best, <uint32_t>top)
    if top == 0:                                 # 0.0 and -0.0 are equal
        best = 0
        while row[best] != 0.0:
            best += 1
        return best
    low = lowest_bits(row, n)
    return -1 if low == NEGATIVE_INFINITY else find(row, n, low)


# Logits. These loops run over parts of a row that fit the first-level cache. The sum with 0.0 turns -0.0 into 0.0, so
# that equal logits have equal bits.

cdef void copy(const float* row, Py_ssize_t n, float* to) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = row[i] + <float>0.0


cdef void widen_float16(const uint16_t* row, Py_ssize_t n, float* to) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = sv_from_float16(row[i]) + <float>0.0


cdef void widen_bfloat16(const uint16_t* row, Py_ssize_t n, float* to) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = sv_from_bfloat16(row[i]) + <float>0.0


cdef void add_bias(float* row, const float* bias, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        row[i] = row[i] + bias[i]


cdef uint32_t single[32]
for _bit in range(32):
    single[_bit] = <uint32_t>1 << <int>_bit


cdef void apply_mask(float* row, const uint32_t* words, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef int j
    cdef uint32_t word, bits
    for i in range(0, n, 32):
        word = words[i >> 5]
        for j in range(32):
            memcpy(&bits, &row[i + j], 4)
            bits = bits if word & single[j] else NEGATIVE_INFINITY
            memcpy(&row[i + j], &bits, 4)


cdef void weigh(const float* logits, Py_ssize_t n, float top, float scale, float* weights) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        weights[i] = sv_weight(logits[i], top, scale)


cdef void keep(const float* logits, float* weights, Py_ssize_t n, float bound, float least) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        weights[i] = weights[i] if logits[i] >= bound and weights[i] >= least else <float>0.0


# Maxima of groups are taken of entries that lie 16 apart, then pair by pair: to reduce every group of 64 by itself
# takes longer than to read it. The sum with 0.0 makes zeros equal, as in copy(): a bound found among these keys is
# compared with those.

cdef void quarter_keys(const float* logits, Py_ssize_t n, int32_t* keys, uint32_t* tops) noexcept nogil:
    """Of each stretch of 64 entries, n of them: the 16 largest keys, and patterns, of entries that lie 16 apart."""
    cdef Py_ssize_t g
    cdef int j
    cdef int32_t key, best
    cdef uint32_t bits, high
    for g in range(n):
        for j in range(16):
            best = sv_key(logits[64 * g + j] + <float>0.0)
            key = sv_key(logits[64 * g + j + 16] + <float>0.0)
            best = key if key > best else best
            key = sv_key(logits[64 * g + j + 32] + <float>0.0)
            best = key if key > best else best
            key = sv_key(logits[64 * g + j + 48] + <float>0.0)
            keys[16 * g + j] = key if key > best else best
        for j in range(16):
            memcpy(&high, &logits[64 * g + j], 4)
            memcpy(&bits, &logits[64 * g + j + 16], 4)
            high = bits if bits > high else high
            memcpy(&bits, &logits[64 * g + j + 32], 4)
            high = bits if bits > high else high
            memcpy(&bits, &logits[64 * g + j + 48], 4)
            tops[16 * g + j] = bits if bits > high else high


cdef uint32_t highest(const uint32_t* tops, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint32_t high = 0
    for i in range(n):
        high = tops[i] if tops[i] > high else high
    return high


cdef void pair_tops(const int32_t* keys, Py_ssize_t n, int32_t* to) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = keys[2 * i] if keys[2 * i] > keys[2 * i + 1] else keys[2 * i + 1]


cdef void block_group_tops(const float* logits, Py_ssize_t n, Py_ssize_t group, int32_t* keys,
                           uint32_t* unsigned_top) noexcept nogil:
    """As group_tops, for whole groups of a power of 2, at least 64, in at most a block."""
    cdef int32_t some[QUARTER_BLOCK]
    cdef int32_t others[QUARTER_BLOCK]
    cdef uint32_t tops[QUARTER_BLOCK]
    cdef uint32_t high
    n //= 4
    quarter_keys(logits, n // 16, some, tops)
    high = highest(tops, n)
    unsigned_top[0] = high if high > unsigned_top[0] else unsigned_top[0]
    group //= 4
    while group > 4:
        pair_tops(some, n // 2, others)
        pair_tops(others, n // 4, some)
        n //= 4
        group //= 4
    if group == 4:
        pair_tops(some, n // 2, others)
        pair_tops(others, n // 4, keys)
    else:
        pair_tops(some, n // 2, keys)


cdef void group_tops(const float* logits, Py_ssize_t n, Py_ssize_t group, int32_t* keys,
                     uint32_t* unsigned_top) noexcept nogil:
    cdef Py_ssize_t start = 0, g = 0
    cdef Py_ssize_t stretch = SV_BLOCK if group < SV_BLOCK else group
    cdef Py_ssize_t whole
    while start < n:
        whole = min(stretch, n - start) // group * group
        if 64 <= group <= SV_BLOCK and group & (group - 1) == 0 and whole > 0:
            block_group_tops(logits + start, whole, group, keys + g, unsigned_top)
            start += whole
            g += whole // group
        else:
            keys[g] = top_key(logits + start, min(group, n - start), unsigned_top)
            start += group
            g += 1


cdef int32_t top_key(const float* logits, Py_ssize_t n, uint32_t* unsigned_top) noexcept nogil:
    cdef Py_ssize_t i
    cdef int32_t key, top = LOWEST
    cdef uint32_t bits, high = unsigned_top[0]
    for i in range(n):
        memcpy(&bits, &logits[i], 4)
        high = bits if bits > high else high
        key = sv_key(logits[i] + <float>0.0)
        top = key if key > top else top
    unsigned_top[0] = high
    return top


cdef sv_kernels table
table.isa = ISA
table.piece_mass = piece_mass
table.piece_residual = piece_residual
table.mass = mass
table.residual_mass = residual_mass
table.proper = proper
table.argmax = argmax
table.tops = tops
table.copy = copy
table.widen_float16 = widen_float16
table.widen_bfloat16 = widen_bfloat16
table.add_bias = add_bias
table.apply_mask = apply_mask
table.weigh = weigh
table.keep = keep
table.group_tops = group_tops

KERNELS = PyCapsule_New(&table, b"specverify.kernels", NULL)
