"""The wrong verifiers, which ship with the package: ``specverify verify`` shows that its checks reject them."""

from specverify.mutants import CLAIMED_BY, MUTANTS, right

__all__ = ["CLAIMED_BY", "MUTANTS", "right"]
