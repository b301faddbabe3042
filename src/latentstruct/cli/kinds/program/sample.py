"""Workers that are assigned to jobs by their skills."""

import json

import numpy as np

from latentstruct.cli.packing import lines_as_bytes
from latentstruct.core.lazy import optimize

N_PROGRAMS = 60
WORKERS = ("ana", "ben", "eva", "leo", "mia")
SKILLS = {"skill": 2.0, "distance": -1.0, "cost": -0.5}
"""True weights of features."""


def make_example(seed: int, missing: float = 0.0) -> bytes:
    """Return JSON lines, one per day: each job has one worker, and each worker at most one job."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(N_PROGRAMS):
        jobs = [f"job{k}" for k in range(int(rng.integers(3, 6)))]
        features = rng.normal(size=(len(WORKERS), len(jobs), len(SKILLS))).round(2)
        noisy = features @ np.array([*SKILLS.values()]) + 0.3 * rng.normal(size=features.shape[:2])
        chosen = set(zip(*(part.tolist() for part in optimize.linear_sum_assignment(-noisy)), strict=True))
        variables = {}
        for i, worker in enumerate(WORKERS):
            for j, job in enumerate(jobs):
                one = {"features": dict(zip(SKILLS, features[i, j].tolist(), strict=True))}
                if not rng.random() < missing:
                    one["value"] = int((i, j) in chosen)  # type: ignore[assignment]
                variables[f"{worker}-{job}"] = one
        constraints = [
            {"name": job, "terms": {f"{worker}-{job}": 1 for worker in WORKERS}, "lower": 1, "upper": 1} for job in jobs
        ]
        constraints += [
            {"name": worker, "terms": {f"{worker}-{job}": 1 for job in jobs}, "upper": 1} for worker in WORKERS
        ]
        lines.append(json.dumps({"variables": variables, "constraints": constraints}))
    return lines_as_bytes(lines)
