"""Run tests with the kernels compiled for AddressSanitizer and UndefinedBehaviorSanitizer; needs g++ and Linux.

    python tests/sanitize.py [OPTIONS OF PYTEST]

Without options, damaged matrices and files are given to all tasks and readers, too. An error of the sanitizers ends the
run with their report.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "sanitize"
PACKAGE = BUILD / "src" / "latentstruct"
# An editable install finds its package before PYTHONPATH is searched, in child processes too.
FORGET_EDITABLE = """import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "_editable_" not in type(finder).__module__]
"""
FUZZERS = [["fuzz.matrices", "--mutants", "1000"], ["fuzz", "--inputs", "2000"]]
TESTS = [
    "tests/kernels",
    "tests/inference",
    "tests/neural",
    "tests/planes",
    "tests/tasks",
    "tests/features/test_features.py",
    "tests/solvers/test_simplex_qp.py",
]


def build() -> None:
    """Copy the package, and compile its kernels into the copy."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "latentstruct", PACKAGE, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (PACKAGE.parent / "sitecustomize.py").write_text(FORGET_EDITABLE)
    found = subprocess.run(
        [sys.executable, "-m", "nanobind", "--cmake_dir"], capture_output=True, text=True, check=True
    )
    configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-G", "Ninja", "-DLATENTSTRUCT_SANITIZE=ON"]
    configure += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={found.stdout.strip()}"]
    configure += [f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={PACKAGE / '_native'}", "-DCMAKE_CXX_COMPILER=g++"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in (configure, ["cmake", "--build", str(BUILD)]):
        subprocess.run(command, check=True, env={**os.environ, "PATH": path})


def runtime(name: str) -> str:
    """Return the path of a library of the compiler."""
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def main() -> int:
    """Build, run, and return the first exit code other than 0."""
    build()
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(BUILD / "src"), str(ROOT / "papers")]),
        "LD_PRELOAD": f"{runtime('libasan.so')} {runtime('libstdc++.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    where = [sys.executable, "-c", "import latentstruct; print(latentstruct.__file__)"]
    used = subprocess.run(where, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    if Path(used).parent != PACKAGE:
        sys.exit(f"tests would use {used}, whose kernels are not sanitized; expected {PACKAGE}")
    runs = [["pytest", "-q", *sys.argv[1:]]] if sys.argv[1:] else [["pytest", "-q", *TESTS], *FUZZERS]
    codes = (subprocess.call([sys.executable, "-m", *run], cwd=ROOT, env=environment) for run in runs)
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(main())
