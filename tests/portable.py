"""Run the tests as on other machines: other instruction sets, in random order, beside a process that keeps a core busy.

    python tests/portable.py [--variant NAME] [--seed NUMBER] [--numerical] [OPTIONS OF PYTEST]

Results that depend on the order of summation, on fused multiplication or on time fail in one of the variants.
"""

import argparse
import os
import platform
import random
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

# The instructions that a processor must have, and settings of OpenBLAS that use no later ones.
VARIANTS = {
    "baseline": ("sse2", {"OPENBLAS_CORETYPE": "Prescott"}),
    "haswell": ("avx2", {"OPENBLAS_CORETYPE": "Haswell"}),
    "skylakex": ("avx512f", {"OPENBLAS_CORETYPE": "SkylakeX"}),
}
# Files whose tests compare trainings, which another order of summation changes most.
NUMERICAL = (
    "cccp", "checkpoints", "edges", "estimators", "groupnorm", "kernel_svm", "latent_training", "marginal",
    "measure_training", "modlat", "operation_counts", "sampled_cuts", "shards", "solvers", "states", "threads",
)  # fmt: skip
# It ends with this process, however that ends.
LOAD = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


def possible() -> list[str]:
    """Return the variants that this processor can run."""
    cpuinfo = Path("/proc/cpuinfo")
    if platform.machine() not in ("x86_64", "AMD64") or not cpuinfo.exists():
        sys.exit(f"the variants are for x86-64 with Linux, and this is {platform.platform()}")
    flags = set(cpuinfo.read_text().split())
    return [name for name, (needed, _) in VARIANTS.items() if needed in flags]


def settings_of(variant: str) -> dict[str, str]:
    """Return the environment of a variant; numpy names its own loops, here those that this processor runs."""
    loops = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    kept = {"baseline": (), "haswell": ("X86_V3", "AVX2", "FMA3"), "skylakex": loops}[variant]
    return {**VARIANTS[variant][1], "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in loops if name not in kept)}


def run(variant: str, seed: int, options: list[str]) -> int:
    """Run the tests once; return the exit code of pytest."""
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-p", "randomly"]
    command += [f"--randomly-seed={seed}", *options]
    load = subprocess.Popen([sys.executable, "-c", LOAD])
    try:
        code = subprocess.run(command, env={**os.environ, **settings_of(variant)}, check=False).returncode
    finally:
        load.kill()
        load.wait()
    again = shlex.join([sys.executable, __file__, "--variant", variant, "--seed", str(seed), *options])
    print(f"{variant}: {'failed' if code else 'passed'}; again: {again}")
    return code


def main() -> int:
    """Run one variant, or all that this processor has."""
    parser = argparse.ArgumentParser(description="Run the tests as on other machines; other options are for pytest.")
    parser.add_argument("--variant", choices=possible(), help="all by default")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31), help="of the order")
    parser.add_argument("--numerical", action="store_true", help="only tests that compare trainings")
    given, options = parser.parse_known_args()
    if given.numerical:
        options += [str(next(Path("tests").rglob(f"test_{name}.py"))) for name in NUMERICAL]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return max(run(name, given.seed, options) for name in ([given.variant] if given.variant else possible()))


if __name__ == "__main__":
    sys.exit(main())
