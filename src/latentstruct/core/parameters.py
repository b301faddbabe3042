"""Base classes of objects with parameters, which follow the conventions of scikit-learn without importing it."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from types import MethodType
from typing import Any, Self, TypeVar

from latentstruct.core.formatting import format_value
from latentstruct.core.lazy import sklearn
from latentstruct.exceptions import InputError

T = TypeVar("T")


def clone(original: T) -> T:
    """Return an unfitted object with copies of the parameters, as `sklearn.base.clone` does."""
    if isinstance(original, type) or not hasattr(original, "get_params"):
        raise TypeError(f"{format_value(original)} has no parameters")
    return _copy_of(original)


def _copy_of(value: Any) -> Any:
    """Return a copy of a parameter; objects with parameters, also in collections, are cloned."""
    if isinstance(value, Parametrized):
        return value.__sklearn_clone__()
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(_copy_of, value))
    if type(value) is dict:
        return {name: _copy_of(item) for name, item in value.items()}
    if hasattr(value, "get_params") and not isinstance(value, type):
        return sklearn.base.clone(value)
    return deepcopy(value)


class Parametrized:
    """Base of estimators, tasks, solvers, regularizers and feature extractors.

    The parameters are the arguments of the constructor, which stores them unchanged in attributes of the same names.
    """

    @classmethod
    @lru_cache(maxsize=256)
    def _get_param_names(cls) -> tuple[str, ...]:
        # Kept, because reading a signature takes long.
        given = inspect.signature(cls).parameters.values()
        return tuple(one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, and those of parameters that have some as ``name__parameter`` if `deep`."""
        found = {name: getattr(self, name) for name in self._get_param_names()}
        for name, value in list(found.items()) if deep else ():
            if hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": item for inner, item in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``name__parameter`` sets a parameter of a parameter.

        Raises
        ------
        InputError
            If there is no such parameter.
        """
        inner: dict[str, dict[str, Any]] = {}
        known = self.get_params(deep=False) if params else {}
        for key, value in params.items():
            name, nested, parameter = key.partition("__")
            if name not in known:
                expected = f"parameters of {type(self).__name__} ({', '.join(known)})"
                raise InputError("params", name, expected)
            if nested:
                inner.setdefault(name, {})[parameter] = value
            else:
                known[name] = value
                setattr(self, name, value)
        for name, some in inner.items():
            known[name].set_params(**some)
        return self

    def __sklearn_clone__(self) -> Self:
        params = {name: _copy_of(value) for name, value in self.get_params(deep=False).items()}
        copied = type(self)(**params)
        kept = copied.get_params(deep=False)
        changed = [name for name, value in params.items() if kept[name] is not value]
        if changed:
            raise RuntimeError(f"the constructor of {type(self).__name__} does not keep {changed[0]} unchanged")
        return copied

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        shown = [
            f"{name}={format_value(value)}"
            for name, value in self.get_params(deep=False).items()
            if not _is_same(value, defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        return sklearn.utils.Tags(estimator_type=None, target_tags=sklearn.utils.TargetTags(required=False))

    @property
    def _repr_html_(self) -> Callable[[], str]:
        if sklearn.get_config()["display"] != "diagram":
            raise AttributeError("scikit-learn is configured to display text")
        return self._diagram

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        """Return the representations for notebooks."""
        as_html = sklearn.get_config()["display"] == "diagram"
        return {"text/plain": repr(self)} | ({"text/html": self._diagram()} if as_html else {})

    def _diagram(self) -> str:
        return sklearn.utils.estimator_html_repr(self)

    def _get_params_html(self, *settings: Any, **named: Any) -> Any:
        # Called by scikit-learn for the table of parameters in a diagram.
        return sklearn.base.BaseEstimator._get_params_html(self, *settings, **named)


def _is_same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and not hasattr(value, "shape") and value == default)


class Transformer(Parametrized):
    """Base of feature extractors that can be steps of a `sklearn.pipeline.Pipeline`."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to X, and return its features."""
        return self.fit(X, y).transform(X)  # type: ignore[attr-defined]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags = sklearn.utils.TransformerTags()
        return tags


class _ConditionalMethod:
    """A method that is available on some objects of a class only."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], bool]) -> None:
        self.method, self.check = method, check

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is None:
            return self.method
        if not self.check(owner):
            raise AttributeError(f"this {kind.__name__} has no method {self.method.__name__}")
        return MethodType(self.method, owner)


def available_if(check: Callable[[Any], bool]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a method that is available only if `check` of the object is true."""
    return lambda method: _ConditionalMethod(method, check)


def check_is_fitted(estimator: Any, attribute: str) -> None:
    """Raise `sklearn.exceptions.NotFittedError` unless `fit` has set an attribute."""
    if not hasattr(estimator, attribute):
        raise sklearn.exceptions.NotFittedError(f"this {type(estimator).__name__} is not fitted yet: call fit first")
