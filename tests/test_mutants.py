"""Every wrong verifier in mutants.py is wrong, the verifier made of the same parts is right, and decisions tell."""

import inspect

import exact
import mutants
import pytest

# Right in every single position of a short row. test_enumeration.py and test_law.py catch them.
NEEDS_TWO_POSITIONS = {"one_uniform", "counts_past_rejection"}
NEEDS_A_LONG_ROW = {"uniform_narrowed"}


def test_the_parts_of_the_mutants_are_right():
    assert list(exact.wrong_decisions(mutants.right)) == []


@pytest.mark.parametrize("name", sorted(mutants.MUTANTS.keys() - NEEDS_TWO_POSITIONS - NEEDS_A_LONG_ROW))
def test_decisions_reject(name):
    assert any(exact.wrong_decisions(mutants.MUTANTS[name]))


@pytest.mark.parametrize("name", mutants.MUTANTS)
def test_mutants_say_what_is_wrong_and_look_like_the_product(name):
    function = mutants.MUTANTS[name]
    assert function.__doc__.strip().endswith(".")
    assert list(inspect.signature(function).parameters) == ["target", "draft", "tokens", "uniforms"]
