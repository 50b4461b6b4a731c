"""The face of verification: documented signatures over the compiled core.

Which rows are read, what is checked and in which order is the contract of these functions; it is executed, slowly, by
:mod:`specverify.reference`.
"""

from collections.abc import Callable
from typing import Any, Unpack

from . import _batch, _core
from ._batch import Options


def verify_greedy(target: Any, tokens: Any, **options: Unpack[Options]) -> Any:
    """Accept drafted tokens while they are the target's own greedy choice.

    Parameters
    ----------
    target : array_like, shape [K + 1, V], float32
        Target rows: probabilities or logits. Row ``i`` is the target's prediction for position ``i``, so row 0
        predicts ``tokens[0]`` and row K follows all of them. ``-inf`` is a legal mask.
    tokens : array_like of int, shape [K]
        Drafted tokens. K = 0 is valid.
    **options
        `mask` and `bias`, applied to the rows as logits, and batches: as in :func:`verify_sampled`.

    Returns
    -------
    Verdict
        ``(n_accepted, next_token)``: the length of the accepted prefix, and the target's greedy token after it. Arrays
        for a batch; see :func:`verify_sampled`.

    Raises
    ------
    TypeError
        `target` is not real or `tokens` are not integers.
    ValueError
        A shape does not fit; a token is outside ``[0, V)``; a visited row holds NaN or ``+inf``, or nothing but
        ``-inf``.

    Notes
    -----
    The greedy choice is the lowest index of the maximum, as ``numpy.argmax``, in float32. Row ``i + 1`` is not read
    before ``tokens[i]`` is accepted, and what it holds has no effect. O(V) for each visited row, nothing of size V is
    allocated, inputs are never written to. Float32, float16 and bfloat16 rows that are contiguous, at any distance from
    each other, are used in place; any other layout or type is copied first, float64 so that its own order decides. Safe
    to call from several threads, while none of them writes to the inputs.

    References
    ----------
    Stern, Shazeer, Uszkoreit: Blockwise Parallel Decoding, arXiv:1811.03115, section 3.

    Examples
    --------
    The target would say 2, then 0, then 3. The draft said 2, then 1:

    >>> import specverify
    >>> target = [[0.1, 0.1, 0.7, 0.1], [0.6, 0.2, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]]
    >>> specverify.verify_greedy(target, [2, 1])
    Verdict(n_accepted=1, next_token=0)
    """
    verdict = _core.verify_greedy(target, tokens, options)
    return _batch.verify("greedy", target, None, tokens, None, options) if verdict is None else verdict


def verify_sampled(
    target: Any, draft: Any, tokens: Any, uniforms: Any, *, normalized: bool = False, **options: Unpack[Options]
) -> Any:
    """Accept drafted tokens so that what is emitted follows the target's law exactly.

    Parameters
    ----------
    target : array_like, shape [K + 1, V], float32, or SparseRows
        Target rows: probabilities, each row up to a positive factor, or, with `sampling`, logits. Row 0 predicts
        ``tokens[0]``; row K is the bonus row.
    draft : array_like, shape [K, V], float32, or SparseRows, or None
        The rows that ``tokens`` were drawn from, each up to a positive factor. None: the tokens are deterministic
        (prompt lookup, the draft's argmax), that is, each is certain under its draft. An argmax draft passed with its
        softmax instead gives a wrong law: with target (.25, .6, .15), draft softmax (.45, .3, .25) and token 0 the
        emitted law is (.556, .444, 0).
    tokens : array_like of int, shape [K]
        Drafted tokens. K = 0 is valid: one draw from row 0.
    uniforms : array_like of float64, shape [K + 1]
        Independent uniform numbers in ``[0, 1)``: one for each acceptance test, the last for the final draw.
    normalized : bool
        Trust that every row sums to 1 and take no sums: K lookups and one pass over one pair of rows. Where rows sum
        to ``s_p`` and ``s_q`` instead, the emitted law is off by total variation ``|s_p/s_q - 1| * TV(target/s_p,
        residual/R)``, R the residual's sum: at most ``|s_p/s_q - 1|``. Only the looked-up entries and the rows that
        are drawn from are checked.
    sampling : Sampling, or a sequence of B of them
        Rows are logits (float32, float16 and bfloat16 in place), which become probabilities by these settings, on both
        sides alike. Sparse rows stay what they are, probabilities.
    mask : array_like of int32, shape [K + 1, ceil(V / 32)]
        With `sampling`: a packed token bitmask, one bit a token, lowest first, set where the token is allowed, as
        grammars give it; row i masks target and draft at position i. Booleans [K + 1, V] are packed first.
    bias : array_like of float32, shape [V] or [B, V]
        With `sampling`: added to the logits of both sides before anything else.
    lengths : array_like of int, shape [B]
        Draft lengths of a padded batch, each at most K: `target` [B, K + 1, V], `draft` [B, K, V], `tokens` [B, K],
        `uniforms` [B, K + 1], `mask` [B, K + 1, ceil(V / 32)]. What lies past a length is never read. All K without it.
        `draft` may be a list with one entry for each request: None, :class:`SparseRows`, or a matrix of the request's
        own length (or K) rows.
    cu_lengths : array_like of int, shape [B + 1]
        Cumulative draft lengths of a ragged batch, the first 0, bonus rows not counted: the rows of all requests, one
        after the other, in `target` [K_1 + 1 + K_2 + 1 + ..., V], `draft` [K_1 + K_2 + ..., V], and so on.
    threads : int
        Threads over the requests of a batch, 1 by default. Results do not depend on it.
    on_error : {"raise", "mark"}
        What one faulty request does to a batch: fail it, or get a status while the others go on.
    detail : bool
        Return a :class:`Detail`: the emitted tokens as an array, and their log-probabilities under the target.
    out : pair of ndarray of int64, shape [B]
        Where a batch's result is written.

    Returns
    -------
    Verdict
        ``(n_accepted, next_token)``: the length of the accepted prefix, and the token after it, drawn from the
        residual ``max(0, target - draft)`` of the first rejected position or from row K. A :class:`BatchVerdict` of
        arrays for a batch, a :class:`Detail` with ``detail=True`` or ``on_error="mark"``.

    Raises
    ------
    TypeError
        Rows or uniforms are not real, or tokens are not integers.
    ValueError
        A shape does not fit; a token is outside ``[0, V)``; a uniform is outside ``[0, 1)``; a visited row holds NaN,
        ``inf`` or a negative probability, or sums to 0; a visited row of logits holds NaN or ``+inf``, or nothing but
        ``-inf``. In a batch the message names the request.

    Notes
    -----
    With P, Q the float64 sums of the two rows, position i is accepted iff ``u * (q * P) < p * Q`` for p, q the entries
    of the token and u its uniform. The test is strict: a token of target probability 0 is never accepted. A token of
    draft probability 0 cannot have been drawn; it is accepted iff its target probability is positive, the limit of the
    rule. A draw takes the smallest index whose cumulative weight exceeds ``uniforms[K] *`` total, so it never returns
    an index of weight 0. A residual that is empty by rounding, a branch of probability 0, draws from the target row.

    Row ``i + 1`` is not read before position ``i`` is accepted, and what it holds has no effect. The same inputs give
    the same tokens on every machine and instruction set: sums run over 16 float64 lanes in a fixed order. Float32,
    float16 and bfloat16 rows that are contiguous, at any distance from each other, are used in place; any other layout
    or type is copied to float32 first. Inputs are never written to. O(V) for each visited row; nothing of size V is
    allocated. Safe to call from several threads, while none of them writes to the inputs.

    Engines apply samplers in different orders (llama.cpp's default has the temperature last, others min-p before
    top-k), so equal settings may name another law there.

    References
    ----------
    Leviathan, Kalman, Matias: Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192, algorithm 1.
    Chen et al.: Accelerating Large Language Model Decoding with Speculative Sampling, arXiv:2302.01318, algorithm 2.

    Examples
    --------
    Token 1 has target probability .3 and draft probability .5, so it is accepted with probability .6. The uniform .9
    rejects it. What remains is max(0, target - draft) = (.4, 0, 0, 0): token 0 is certain.

    >>> import specverify
    >>> target = [[0.6, 0.3, 0.1, 0.0], [0.6, 0.3, 0.1, 0.0]]
    >>> draft = [[0.2, 0.5, 0.3, 0.0]]
    >>> specverify.verify_sampled(target, draft, [1], [0.9, 0.99])
    Verdict(n_accepted=0, next_token=0)

    The uniform .5 accepts it. The bonus token comes from row 1, where .7 falls into token 1 (.6 <= .7 < .9):

    >>> specverify.verify_sampled(target, draft, [1], [0.5, 0.7])
    Verdict(n_accepted=1, next_token=1)
    """
    verdict = _core.verify_sampled(target, draft, tokens, uniforms, normalized, options)
    if verdict is None:
        return _batch.verify("token", target, draft, tokens, uniforms, options, normalized)
    return verdict


def verify_block(
    target: Any, draft: Any, tokens: Any, uniforms: Any, *, normalized: bool = False, **options: Unpack[Options]
) -> Any:
    """Accept a longer prefix on average than :func:`verify_sampled`, with the same exact law.

    The drafted tokens are judged together, from the longest prefix down, instead of one by one: no rule for a single
    path accepts more in expectation. It needs the sums of all rows up to the first impossible token, where the token
    rule stops at the first rejection.

    Parameters
    ----------
    target, draft, tokens, uniforms, normalized, **options
        As in :func:`verify_sampled`. K is at most 1024. With ``draft=None`` both rules are the same.

    Returns
    -------
    Verdict
        As :func:`verify_sampled`.

    Raises
    ------
    TypeError, ValueError
        As :func:`verify_sampled`; also for a draft of more than 1024 tokens.

    Notes
    -----
    With ``path[0] = 1`` and ``path[i] = min(1, path[i - 1] * p(x) / q(x))``, the prefix of i tokens is accepted iff
    ``uniforms[i - 1] * (S + 1 - path[i]) < S`` for S the sum of ``max(0, path[i] * p - q)`` over the rows after it,
    all K tokens iff ``uniforms[K - 1] < path[K]``. What follows is drawn from ``max(0, path[i] * p - q)``, or from row
    K. A prefix with ``uniforms[i - 1] >= path[i]`` is skipped without reading a row. With `normalized` the rows after
    the prefixes that are tried are still summed over, and checked.

    References
    ----------
    Sun et al.: Block Verification Accelerates Speculative Decoding, arXiv:2403.10444 (ICLR 2025), algorithm 2.

    Examples
    --------
    Token by token, 1 would be rejected here (.6 >= .3 / .6); together with the 0 after it, it is accepted:

    >>> import specverify
    >>> target, draft = [[0.7, 0.3], [0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.3, 0.7]]
    >>> specverify.verify_sampled(target, draft, [1, 0], [0.6, 0.6, 0.2])
    Verdict(n_accepted=0, next_token=0)
    >>> specverify.verify_block(target, draft, [1, 0], [0.6, 0.6, 0.2])
    Verdict(n_accepted=2, next_token=0)
    """
    verdict = _core.verify_block(target, draft, tokens, uniforms, normalized, options)
    if verdict is None:
        return _batch.verify("block", target, draft, tokens, uniforms, options, normalized)
    return verdict


#: The rules of verification by name.
RULES: dict[str, Callable[..., Any]] = {"token": verify_sampled, "block": verify_block}
