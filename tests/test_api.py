"""The public interface, compared with the list in api.txt; `python tests/test_api.py` writes that list."""

import inspect
from importlib import import_module
from pathlib import Path

SNAPSHOT = Path(__file__).with_name("api.txt")
PACKAGES = ("latentstruct", "latentstruct.testing", "latentstruct.torch")


def parameters(value):
    try:
        return f"({', '.join(inspect.signature(value).parameters)})"
    except (TypeError, ValueError):
        return ""


def members(value):
    """Return the public methods and properties of a class, inherited ones of the library among them."""
    for name in sorted(dir(value)):
        # Builtins and other libraries may have other members in other versions.
        owner = next((base for base in value.__mro__ if name in vars(base)), None)
        if name[0] != "_" and owner is not None and owner.__module__.startswith("latentstruct"):
            member = vars(owner)[name]
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) or isinstance(member, property):
                yield f"{name}{parameters(function) if inspect.isfunction(function) else ''}"


def public_interface():
    lines = []
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            value = getattr(module, name)
            lines.append(f"{package}.{name}{parameters(value) if callable(value) else ''}")
            if inspect.isclass(value):
                lines.extend(f"    {member}" for member in members(value))
    return lines


def test_the_public_interface_is_the_one_that_is_documented():
    assert public_interface() == SNAPSHOT.read_text(encoding="utf-8").splitlines(), "if this is meant, run this file"


if __name__ == "__main__":
    SNAPSHOT.write_text("\n".join(public_interface()) + "\n", encoding="utf-8")
