"""The stubs of the compiled kernels describe what is bound."""

import ast
import importlib
from pathlib import Path

import pytest

import latentstruct._native

FOLDER = Path(latentstruct._native.__file__).parent
SCALARS = {"int", "float", "bool"}


def described(source: str) -> dict[str, list[str]]:
    """The functions and methods of a source, with the kinds of arguments: numbers by their type, else "object"."""
    found = {}
    for one in ast.walk(ast.parse(source)):
        if isinstance(one, ast.FunctionDef):
            arguments = [argument for argument in one.args.posonlyargs + one.args.args if argument.arg != "self"]
            kinds = [ast.unparse(argument.annotation) for argument in arguments if argument.annotation]
            found[one.name] = [kind if kind in SCALARS else "object" for kind in kinds]
    return found


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.pyi")))
def test_stubs_have_the_bound_functions_and_arguments(name):
    module = importlib.import_module(f"latentstruct._native.{name}")
    public = {name: item for name, item in vars(module).items() if not name.startswith("__")}
    constants = {name for name, item in public.items() if not callable(item)}
    bound = {}
    for item in public.values():
        for function in vars(item).values() if isinstance(item, type) else [item]:
            if hasattr(function, "__nb_signature__"):
                ((text, *_),) = function.__nb_signature__
                bound |= described(f"{text}: ...")
    stub = (FOLDER / f"{name}.pyi").read_text(encoding="utf-8")
    assert bound == described(stub)
    declared = {one.target.id for one in ast.parse(stub).body if isinstance(one, ast.AnnAssign)}
    classes = {one.name for one in ast.parse(stub).body if isinstance(one, ast.ClassDef)}
    assert constants == declared
    assert {name for name, item in public.items() if isinstance(item, type)} == classes


def test_every_kernel_has_a_stub():
    built = {path.name.split(".")[0] for path in FOLDER.iterdir() if path.suffix in {".so", ".pyd"}}
    assert {path.stem for path in FOLDER.glob("*.pyi")} <= built
    sources = Path(__file__).parents[2] / "native"
    assert {path.stem for path in sources.glob("*.cpp")} == {path.stem for path in FOLDER.glob("*.pyi")}
