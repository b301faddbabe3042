"""Compilation where nothing can be written."""

import numba
import pytest

from latentstruct.kernels import jit


def add_one(x):
    return x + 1


@pytest.mark.parametrize("decorator", [jit.njit, jit.inlined])
def test_a_read_only_installation_still_works(decorator, monkeypatch):
    ordinary = numba.njit

    def refuse_cache(**options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function 'add_one': no locator available for file")
        return ordinary(**options)

    monkeypatch.setattr(jit.numba, "njit", refuse_cache)
    assert decorator(add_one)(1) == 2


def test_other_failures_are_not_hidden(monkeypatch):
    def fail(**options):
        raise RuntimeError("out of registers")

    monkeypatch.setattr(jit.numba, "njit", fail)
    with pytest.raises(RuntimeError, match="registers"):
        jit.njit(add_one)
