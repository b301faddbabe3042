"""Imports at first use."""

import pickle
from importlib import import_module

import numpy as np
import pytest
from scipy import sparse

from latentstruct.core import lazy
from latentstruct.core.lazy import LazyModule, issparse, lazy_names


def test_a_lazy_module_has_what_the_module_has():
    assert lazy.sparse.csr_array is sparse.csr_array
    assert "csr_array" in vars(lazy.sparse)
    assert lazy.linalg.lapack.dpstrf is import_module("scipy.linalg.lapack").dpstrf
    assert LazyModule("email").message is import_module("email.message")
    with pytest.raises(ImportError, match="none"):
        _ = lazy.sparse.none
    assert not hasattr(lazy.sparse, "__wrapped__")


@pytest.mark.parametrize("form", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_sparse_matrices_are_known_without_scipy(form):
    assert issparse(sparse.eye_array(3, format=form))
    assert issparse(sparse.csr_matrix((2, 2)).asformat(form))


@pytest.mark.parametrize("values", [np.eye(2), [[1.0]], None, "tocsr", sparse.csr_array, {"tocsr": 1}])
def test_other_values_are_not_sparse(values):
    assert not issparse(values)


def test_lazy_names_are_found_when_they_are_used(tmp_path):
    package = tmp_path / "__init__.py"
    imports = "from email.message import Message\n    from email.utils import parseaddr"
    package.write_text(f"import typing\n\nif typing.TYPE_CHECKING:\n    {imports}\n")
    load, listed, public = lazy_names("email", str(package), ["parseaddr"])
    assert public == ["Message"]
    assert listed() == ["Message", "parseaddr"]
    assert load("Message") is import_module("email.message").Message
    assert load("parseaddr") is import_module("email.utils").parseaddr
    with pytest.raises(AttributeError, match="module 'email' has no attribute 'nothing'"):
        load("nothing")


@pytest.mark.parametrize("package", ["tasks", "solvers", "estimators", "metrics", "io"])
def test_the_names_of_packages_are_those_of_their_modules(package):
    module = import_module(f"latentstruct.{package}")
    assert set(module.__all__) <= set(dir(module))
    for name in dir(module):
        assert getattr(module, name).__module__.startswith(f"latentstruct.{package}.")


def test_all_names_of_structures_estimators_and_solvers_are_names_of_the_library():
    import latentstruct

    packages = (latentstruct.estimators, latentstruct.solvers, latentstruct.tasks)
    assert set().union(*map(dir, packages)) - set(latentstruct.__all__) == {"chosen_boxes"}
    assert all(hasattr(latentstruct, name) for name in latentstruct.__all__)


def test_classes_are_pickled_by_the_names_of_their_modules():
    from latentstruct import Chain

    assert pickle.loads(pickle.dumps(Chain)) is Chain
