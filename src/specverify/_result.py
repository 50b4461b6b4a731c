"""The result of one round. Holds nothing else, since the compiled core builds it without calling Python."""

from typing import NamedTuple


class Verdict(NamedTuple):
    """What a round of verification decided.

    Attributes
    ----------
    n_accepted : int
        How many drafted tokens were accepted: the first ``n_accepted`` of them, between 0 and K.
    next_token : int
        The token that follows them: the residual token after a rejection, the bonus token when all K passed.
    """

    n_accepted: int
    next_token: int
