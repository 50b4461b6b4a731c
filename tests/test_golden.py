"""The same bits everywhere: every variant reproduces the golden file of the reference, to the last bit.

The files are read, not made, here: an x86-64 machine and an emulated Raspberry Pi check against the same text. How the
inputs are made is in golden_rounds.py and golden_samplers.py; tools/make_golden.py writes the files.
"""

import golden_rounds
import golden_samplers
import numpy as np
import pytest

import specverify
from specverify import _core, _isa, reference

EXPECTED = golden_rounds.FILE.read_text().splitlines()
EXPECTED_SAMPLERS = golden_samplers.FILE.read_text().splitlines()


def kernel_line(given: golden_rounds.Round) -> str:
    if given.greedy:
        return golden_rounds.line(given, specverify.verify_greedy(given.target, given.tokens), [])
    verdict = specverify.verify_sampled(
        given.target, given.draft, given.tokens, given.uniforms, normalized=given.normalized
    )
    at = slice(given.position, given.position + 1)
    masses = _core.row_masses(given.target[at])
    if given.draft is not None and given.position < len(given.draft):
        masses += _core.row_masses(given.draft[at])
        masses.append(_core.residual_mass(given.target[at], given.draft[at], masses[0] / masses[1]))
    return golden_rounds.line(given, verdict, masses)


@pytest.fixture(scope="module")
def lines() -> dict[str, list[str]]:
    """What each variant makes of each round. Made in one pass, since the inputs cost more than the rounds."""
    got: dict[str, list[str]] = {isa: [] for isa in specverify.available_isas()}
    for given in golden_rounds.rounds():
        for isa, mine in got.items():
            with _isa.using(isa):
                mine.append(kernel_line(given))
    return got


@pytest.mark.parametrize("isa", specverify.available_isas())
def test_every_variant_reproduces_the_golden_rounds(isa: str, lines: dict[str, list[str]]) -> None:
    different = [(want, got) for want, got in zip(EXPECTED, lines[isa], strict=True) if want != got]
    assert different == []


def sampler_line(given: golden_samplers.Round) -> str:
    def sampling(settings):
        return specverify.Sampling(settings.temperature, settings.top_k, settings.top_p, settings.min_p)

    return golden_samplers.result_line(given, specverify, specverify.SparseRows, sampling, specverify.probabilities)


@pytest.fixture(scope="module")
def sampler_lines() -> dict[str, list[str]]:
    """As `lines`, for what is not plain probabilities."""
    got: dict[str, list[str]] = {isa: [] for isa in specverify.available_isas()}
    for given in golden_samplers.rounds():
        for isa, mine in got.items():
            with _isa.using(isa):
                mine.append(sampler_line(given))
    return got


@pytest.mark.parametrize("isa", specverify.available_isas())
def test_every_variant_reproduces_the_golden_samplers(isa: str, sampler_lines: dict[str, list[str]]) -> None:
    different = [(want, got) for want, got in zip(EXPECTED_SAMPLERS, sampler_lines[isa], strict=True) if want != got]
    assert different == []


def test_the_golden_samplers_reach_every_branch() -> None:
    accepted = [int(line.split()[1]) for line in EXPECTED_SAMPLERS]
    assert len(EXPECTED_SAMPLERS) == sum(golden_samplers.ROUNDS.values()) > 900
    assert all(accepted.count(n) >= 10 for n in (0, 1, 2, 3, 4))
    assert len({line.split()[3] for line in EXPECTED_SAMPLERS}) > 400
    given = list(golden_samplers.rounds(largest=300))
    assert all(
        sum(fact) > 40
        for fact in zip(
            *(
                (
                    one.block,
                    one.draft is None,
                    isinstance(one.draft, tuple),
                    one.mask is not None,
                    one.bias is not None,
                    one.sampling is not None and one.sampling.temperature == 0,
                    one.sampling is not None and one.sampling.top_k > 0,
                    one.sampling is not None and one.sampling.top_p < 1,
                    one.sampling is not None and one.sampling.min_p > 0,
                    one.target.dtype == np.float16,
                )
                for one in given
            ),
            strict=True,
        )
    )


def test_the_golden_rounds_reach_every_branch() -> None:
    """A file in which nothing is rejected, or nothing is accepted, would prove little."""
    accepted = [int(line.split()[1]) for line in EXPECTED]
    assert len(EXPECTED) == sum(golden_rounds.ROUNDS.values()) > 2500
    assert all(accepted.count(n) >= 50 for n in (0, 1, 2, 3, 4))
    assert sum(line.endswith(" 0x0.0p+0") for line in EXPECTED) > 100  # no residual left
    assert len({line.split()[2] for line in EXPECTED}) > 300


def test_the_reference_still_makes_the_golden_file() -> None:
    """On every 17th round, up to rows of 4097."""
    for given in golden_rounds.rounds(largest=4097, every=17):
        assert golden_rounds.reference_line(given, reference) == EXPECTED[given.number]
    for given in golden_samplers.rounds(largest=4097, every=17):
        assert golden_samplers.reference_line(given, reference) == EXPECTED_SAMPLERS[given.number]


@pytest.mark.parametrize("isa", specverify.available_isas())
def test_no_multiplication_is_contracted(isa: str) -> None:
    """A fused multiply-add would leave the rounding error of a product where its rounded value leaves nothing."""
    with _isa.using(isa):
        # max(0, 0 - s * d) is 0 for every d.
        draft = (golden_rounds.SplitMix64(7).words(4096) >> np.uint64(40)).astype(np.float32)[None]
        assert _core.residual_mass(np.zeros_like(draft), draft, 1 / 3) == 0.0
        # The scale is 1/3 rounded down. Times 3 that rounds to 1, so only entry 40 has a residual, 2 - 1; without the
        # rounding every entry has one, and u = 0 would draw the first.
        target, draft = np.ones((2, 64), np.float32), np.full((1, 64), 3.0, np.float32)
        target[0, 40], target[0, 41] = 2.0, 0.0
        assert specverify.verify_sampled(target, draft, [41], [0.5, 0.0]) == (0, 40)
