# Where the end of a growing text occurred before: the index behind drafts/lookup.py.
#
# Holds a suffix automaton (Blumer et al., The smallest automaton recognizing the subwords of a text, Theoretical
# Computer Science 40, 1985) that grows by one token at a time, and in it the place of the longest suffix that occurs
# earlier. Holds no rule of what is proposed and no message (drafts/).
#
# 1. A state stands for all substrings of the text that end at the same places: those of lengths link.length + 1 to
#    length. Its `end` is the earliest of these places, which no later token can change.
# 2. A text of n tokens has fewer than 2 n states and 3 n transitions, whatever it is. Most states have one transition,
#    which is kept in the state; the others are edges, found by a hash of (state, token), and chained by state because
#    a state that is split hands them on.
# 3. The longest suffix that occurs earlier is the longest of the last state's link. `here` and `matched` are the same,
#    but of at most `longest` tokens: beyond that, `here` is moved along the transitions, and then along the links. A
#    token takes it two links further from the root at most (one may be new), and each step along a link brings it
#    nearer, so keeping it is linear too, and the limit costs nothing.
# 4. All tokens are converted before the first is appended, so an __index__ of a caller's type that comes back here
#    meets a whole index. One that ran out of memory is emptied. Threads are kept apart by the caller.

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.number cimport PyNumber_Index
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, realloc


cdef struct State:
    int64_t token       # of the transition kept here
    int32_t target      # where it leads, 0: the state has none; nothing leads to the root
    int32_t edges       # the first of the other transitions, 0: there are none
    int32_t length
    int32_t link        # the longest suffix that ends at more places; -1 at the root
    int32_t end


cdef struct Edge:
    int64_t token
    int32_t state
    int32_t target
    int32_t next        # of the same state, 0: the last


cdef enum:
    LONGEST_TEXT = 1 << 29      # numbers of states and edges are 32 bits wide
    FEWEST_SLOTS = 64


cdef class SuffixIndex:
    """The tokens of a text, and the longest of its suffixes, of at most `longest` tokens, that occurs earlier."""

    cdef State* states
    cdef Edge* edges            # the first is not used
    cdef int32_t* slots         # open addressing; 0: free, else an edge
    cdef int64_t* text
    cdef Py_ssize_t n, text_room
    cdef Py_ssize_t n_states, state_room
    cdef Py_ssize_t n_edges, edge_room, n_slots
    cdef Py_ssize_t longest, matched
    cdef int32_t last, here

    def __cinit__(self, Py_ssize_t longest):
        self.longest = longest
        self._begin()

    def __dealloc__(self):
        self._release()

    def __len__(self):
        return self.n

    def __getitem__(self, Py_ssize_t i):
        if not 0 <= i < self.n:
            raise IndexError(i)
        return self.text[i]

    def clear(self):
        """Forget the text, and give its memory back."""
        self._release()

    def extend(self, list tokens not None):
        """Append tokens: integers of 0 to 2**63 - 1, else TypeError, OverflowError or ValueError, and none is."""
        cdef Py_ssize_t count = len(tokens), i = 0
        cdef int64_t* converted = <int64_t*>PyMem_Malloc(count * sizeof(int64_t))
        if converted == NULL:
            raise MemoryError
        try:
            for token in tokens:
                if i == count:          # an __index__ made the list longer
                    break
                converted[i] = PyNumber_Index(token)
                if converted[i] < 0:
                    raise ValueError(token)
                i += 1
            count = i
            for i in range(count):
                if self._append(converted[i]):
                    self._release()
                    raise MemoryError
        finally:
            PyMem_Free(converted)

    def longest_repeat(self):
        """Give the length of the longest suffix that occurs earlier, and where it ends first; (0, 0) without any."""
        return self.matched, self.states[self.here].end if self.here else 0

    cdef void _begin(self) noexcept:
        self.n = self.n_states = self.n_edges = self.matched = 0
        self.last = self.here = 0

    cdef void _release(self) noexcept:
        free(self.states)
        free(self.edges)
        free(self.slots)
        free(self.text)
        self.states, self.edges, self.slots, self.text = NULL, NULL, NULL, NULL
        self.text_room = self.state_room = self.edge_room = self.n_slots = 0
        self._begin()

    cdef bint _reserve(self) noexcept:
        """Make room for one more token and its states; true if there is none."""
        if self.n >= LONGEST_TEXT:
            return True
        if room(<void**>&self.text, self.n + 1, &self.text_room, sizeof(int64_t)):
            return True
        if room(<void**>&self.states, self.n_states + 3, &self.state_room, sizeof(State)):
            return True
        if self.n_states == 0:
            self.states[self._new_state(0, 0)].link = -1
        return False

    cdef bint _reserve_slots(self) noexcept:
        """Leave at least half of the slots free with one more edge; true if there is no memory for that."""
        cdef Py_ssize_t count = max(<Py_ssize_t>FEWEST_SLOTS, 2 * self.n_slots), edge
        cdef int32_t* slots
        if 2 * (self.n_edges + 1) <= self.n_slots:
            return False
        slots = <int32_t*>calloc(count, sizeof(int32_t))
        if slots == NULL:
            return True
        free(self.slots)
        self.slots, self.n_slots = slots, count
        for edge in range(1, self.n_edges + 1):
            self.slots[self._slot_of(self.edges[edge].state, self.edges[edge].token)] = <int32_t>edge
        return False

    cdef Py_ssize_t _slot_of(self, int32_t state, int64_t token) noexcept:
        """The slot of an edge, or the free one in which it belongs."""
        cdef Py_ssize_t slot = <Py_ssize_t>(mixed(state, token) & <uint64_t>(self.n_slots - 1))
        cdef Edge* edge
        while self.slots[slot]:
            edge = &self.edges[self.slots[slot]]
            if edge.token == token and edge.state == state:
                break
            slot = (slot + 1) & (self.n_slots - 1)
        return slot

    cdef int32_t* _target(self, int32_t state, int64_t token) noexcept:
        """Where the target of a transition stands until the next one is added; NULL if there is no such transition."""
        cdef State* one = &self.states[state]
        cdef int32_t edge
        if one.target and one.token == token:
            return &one.target
        if not one.edges:
            return NULL
        edge = self.slots[self._slot_of(state, token)]
        return &self.edges[edge].target if edge else NULL

    cdef bint _connect(self, int32_t state, int64_t token, int32_t target) noexcept:
        """Add a transition that is not there; true if there is no memory for it."""
        cdef State* one = &self.states[state]
        if not one.target:
            one.token, one.target = token, target
            return False
        if room(<void**>&self.edges, self.n_edges + 2, &self.edge_room, sizeof(Edge)) or self._reserve_slots():
            return True
        self.n_edges += 1
        self.edges[self.n_edges] = Edge(token=token, state=state, target=target, next=one.edges)
        self.slots[self._slot_of(state, token)] = one.edges = <int32_t>self.n_edges
        return False

    cdef bint _append(self, int64_t token) noexcept:
        """Take one more token in; true if there is no memory for it, and then the index is of no more use."""
        cdef int32_t state, new, link = 0
        cdef int32_t* target = NULL
        if self._reserve():
            return True
        new = self._new_state(<int32_t>self.n + 1, <int32_t>self.n + 1)
        state = self.last
        while state >= 0:
            target = self._target(state, token)
            if target != NULL:
                break
            if self._connect(state, token, new):
                return True
            state = self.states[state].link
        if state >= 0:
            link = target[0]
            if self.states[link].length > self.states[state].length + 1:
                link = self._split(state, token)
                if link < 0:
                    return True
        self.states[new].link = link
        self.last = new
        self.text[self.n] = token
        self.n += 1
        self._move(token, link)
        return False

    cdef void _move(self, int64_t token, int32_t repeat) noexcept:
        """Follow the text by a token; `repeat` is the state of the longest suffix that occurs earlier, unlimited."""
        self.matched = min(<Py_ssize_t>self.states[repeat].length, self.longest)
        if self.states[repeat].length <= self.longest:
            self.here = repeat
            return
        # One token ago the suffix was as long as the limit lets it be, and all of it goes on with this token.
        self.here = self._target(self.here, token)[0]
        while self.states[self.states[self.here].link].length >= self.longest:
            self.here = self.states[self.here].link

    cdef int32_t _split(self, int32_t state, int64_t token) noexcept:
        """Give the substrings that end with a state's and this token a state of their own; -1 without memory."""
        cdef int32_t original = self._target(state, token)[0], clone, edge
        cdef int32_t* target
        clone = self._new_state(self.states[state].length + 1, self.states[original].end)
        self.states[clone].token = self.states[original].token
        self.states[clone].target = self.states[original].target
        edge = self.states[original].edges
        while edge:
            if self._connect(clone, self.edges[edge].token, self.edges[edge].target):
                return -1
            edge = self.edges[edge].next
        self.states[clone].link = self.states[original].link
        self.states[original].link = clone
        while state >= 0:
            target = self._target(state, token)
            if target == NULL or target[0] != original:
                break
            target[0] = clone
            state = self.states[state].link
        return clone

    cdef int32_t _new_state(self, int32_t length, int32_t end) noexcept:
        """A state without transitions, for which there is room."""
        cdef int32_t new = <int32_t>self.n_states
        self.n_states += 1
        self.states[new] = State(token=0, target=0, edges=0, length=length, link=0, end=end)
        return new


cdef uint64_t mixed(int32_t state, int64_t token) noexcept:
    """Spread (state, token) over all bits: the finaliser of splitmix64 on a sum with odd factors."""
    cdef uint64_t h = <uint64_t>token * 0x9E3779B97F4A7C15u + <uint64_t>state * 0xC2B2AE3D27D4EB4Fu
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu
    return h ^ (h >> 31)


cdef bint room(void** items, Py_ssize_t needed, Py_ssize_t* there, size_t size) noexcept:
    """Make room for so many items, half as many again as there was at least; true if there is no memory for them."""
    cdef Py_ssize_t more
    cdef void* moved
    if needed <= there[0]:
        return False
    more = max(needed, there[0] + there[0] // 2, <Py_ssize_t>64)
    moved = realloc(items[0], more * size)
    if moved == NULL:
        return True
    items[0], there[0] = moved, more
    return False
