"""The stubs of the compiled kernels describe what is bound."""

import ast
import importlib
from pathlib import Path

import pytest

import latentstruct._native

FOLDER = Path(latentstruct._native.__file__).parent
SCALARS = {"int", "float", "bool"}


def signature(function: ast.FunctionDef, source: str) -> list[str]:
    """The kinds of a function's arguments: numbers by their type, else "object"."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    kinds = [ast.get_source_segment(source, one.annotation) for one in arguments if one.annotation is not None]
    return [kind if kind in SCALARS else "object" for kind in kinds]


def functions(source: str) -> dict[str, list[str]]:
    return {one.name: signature(one, source) for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.pyi")))
def test_stubs_have_the_bound_functions_and_arguments(name):
    module = importlib.import_module(f"latentstruct._native.{name}")
    bound = {}
    for attribute, item in vars(module).items():
        if not attribute.startswith("_") and callable(item):
            ((text, *_),) = item.__nb_signature__
            bound |= functions(f"{text}: ...")
            assert attribute in bound
    stub = (FOLDER / f"{name}.pyi").read_text(encoding="utf-8")
    assert bound == functions(stub)
    constants = {a for a in vars(module) if a.isupper()}
    assert constants == {one.target.id for one in ast.parse(stub).body if isinstance(one, ast.AnnAssign)}


def test_every_kernel_has_a_stub():
    built = {path.name.split(".")[0] for path in FOLDER.iterdir() if path.suffix in {".so", ".pyd"}}
    assert {path.stem for path in FOLDER.glob("*.pyi")} <= built
    sources = Path(__file__).parents[2] / "native"
    assert {path.stem for path in sources.glob("*.cpp")} == {path.stem for path in FOLDER.glob("*.pyi")}
