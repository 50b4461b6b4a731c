"""Conformance: run any verifier through the contract, in ten lines.

:func:`check` takes a callable ``(target, draft, tokens, uniforms) -> (n_accepted, next_token)``, or one that draws its
own random numbers, and gives a :class:`Report`. :class:`VerifierContract` is the same as a class of tests for pytest.
What is asked stands in cases.py (fixed rounds and their answers) and layers.py (laws and frequencies); peers.py adapts
verifiers of other packages. Wrong verifiers to try it on: :mod:`specverify.mutants`.
"""

import unittest
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from .layers import FALSE_ALARM_RATE, LAYERS, Report, Result, Subject, run_layer

__all__ = ["FALSE_ALARM_RATE", "LAYERS", "Report", "Result", "VerifierContract", "check"]

TOLERANCE = 1e-13
ROUNDS = 20_000


def check(
    verifier: Callable[..., tuple[int, int]],
    *,
    takes_uniforms: bool = True,
    deterministic_drafts: bool = True,
    greedy: Callable[[Any, Any], tuple[int, int]] | None = None,
    tolerance: float = TOLERANCE,
    rounds: int = ROUNDS,
    seed: int = 0,
    layers: Sequence[str] | None = None,
    fail_fast: bool = False,
) -> Report:
    """Run a verifier through the contract.

    Parameters
    ----------
    verifier : callable
        ``(target, draft, tokens, uniforms) -> (n_accepted, next_token)``: target [K + 1, V] and draft [K, V] float32
        arrays of probabilities, tokens [K] int64, uniforms [K + 1] float64, the last one for the final draw. With
        ``takes_uniforms=False``: ``(target, draft, tokens)``.
    takes_uniforms : bool
        Whether the verifier is a function of its arguments. If it draws its own random numbers, exact laws cannot be
        found, and only frequencies are tested.
    deterministic_drafts : bool
        Whether ``draft=None`` says that the tokens are certain. If not, one-hot rows take its place where they can.
    greedy : callable, optional
        ``(target, tokens) -> (n_accepted, next_token)``, to be compared with argmax decoding.
    tolerance : float
        Total variation that an exact law may have. The default is for arithmetic in float64; in float32, 1e-6.
    rounds : int
        Texts or rounds of each test of frequencies.
    seed : int
        Of the random rows and rounds.
    layers : sequence of str, optional
        Which of :data:`LAYERS`; default: all that apply.
    fail_fast : bool
        Leave a layer of exact laws at the first law that is wrong.

    Returns
    -------
    Report
        ``passed``, ``results``, and readable as ``str``.

    Raises
    ------
    ValueError
        There is no such layer. What the verifier raises is reported, not passed on.

    Notes
    -----
    Exact laws and cases cannot fail by chance. Each of the three tests of frequencies does with probability 1e-8, so
    the whole kit raises a false alarm with probability below 1e-6. A report says which total variation the
    frequencies catch, with power .999.

    References
    ----------
    Leviathan, Kalman, Matias: Fast Inference from Transformers via Speculative Decoding, arXiv:2211.17192, algorithm 1.

    Examples
    --------
    >>> import specverify
    >>> check(specverify.verify_sampled, layers=["edge cases", "law of a position"]).passed
    True
    >>> from specverify import mutants
    >>> print(check(mutants.MUTANTS["accept_on_equality"], layers=["edge cases"]))
    FAIL edge cases: 3 of 21 wrong, first: zero probability at u = 0: (1, 0) instead of (0, 2)
    FAIL
    """
    subject = Subject(verifier, takes_uniforms, deterministic_drafts, greedy, tolerance, rounds, seed, fail_fast)
    unknown = set(layers or ()) - set(LAYERS)
    if unknown:
        raise ValueError(f"layers: expected some of {', '.join(LAYERS)}, got {', '.join(sorted(unknown))}")
    results, skipped = [], []
    for name, layer in LAYERS.items():
        if layers is not None and name not in layers:
            continue
        if layer.applies(subject):
            results.append(run_layer(name, subject))
        else:
            skipped.append(name)
    return Report(tuple(results), tuple(skipped))


class VerifierContract:
    """Tests of a verifier for pytest: inherit from it, and say which.

    Attributes
    ----------
    verifier : callable
        As in :func:`check`; a plain function needs ``staticmethod``.
    options : dict
        Further arguments of :func:`check`.

    Examples
    --------
    In a file of tests::

        from specverify.conformance import VerifierContract

        class TestMyVerifier(VerifierContract):
            verifier = staticmethod(my_verify)
            options = {"deterministic_drafts": False}
    """

    verifier: ClassVar[Callable[..., tuple[int, int]]]
    options: ClassVar[dict[str, Any]] = {}

    def assert_layer(self, name: str) -> None:
        """Fail with the report of one layer, or skip what does not apply."""
        report = check(type(self).verifier, layers=[name], **self.options)
        if report.skipped:
            raise unittest.SkipTest(f"{name}: does not apply")
        assert report.passed, str(report)

    def test_edge_cases(self) -> None:
        """Fixed rounds and their answers."""
        self.assert_layer("edge cases")

    def test_bad_input(self) -> None:
        """What cannot be right raises ValueError or TypeError."""
        self.assert_layer("bad input")

    def test_temperature_0(self) -> None:
        """One-hot rows give argmax decoding."""
        self.assert_layer("temperature 0")

    def test_law_of_a_position(self) -> None:
        """The exact law of one position is the target's."""
        self.assert_layer("law of a position")

    def test_law_of_a_deterministic_draft(self) -> None:
        """The exact law with ``draft=None`` is the target's."""
        self.assert_layer("law of a deterministic draft")

    def test_law_of_a_round(self) -> None:
        """The exact joint law of a round is the target's."""
        self.assert_layer("law of a round")

    def test_joint_frequencies(self) -> None:
        """The first two tokens of many texts have the target's joint law."""
        self.assert_layer("joint frequencies")

    def test_frequencies_of_a_deterministic_draft(self) -> None:
        """The same with an argmax draft."""
        self.assert_layer("frequencies of a deterministic draft")

    def test_accepted_length(self) -> None:
        """Accepted lengths follow their law given the drafts."""
        self.assert_layer("accepted length")
