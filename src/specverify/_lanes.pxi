# The fold of the summation order, shared by the row loops and by the rounds, which add up one block without a token.

cdef double fold(const double* lanes) noexcept nogil:
    cdef double half[8]
    cdef int j
    for j in range(8):
        half[j] = lanes[j] + lanes[j + 8]
    for j in range(4):
        half[j] = half[j] + half[j + 4]
    half[0] = half[0] + half[2]
    half[1] = half[1] + half[3]
    return half[0] + half[1]
