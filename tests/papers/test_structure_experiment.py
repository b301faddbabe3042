"""The alignment experiment with secondary structure: its parts, choices and a small run."""

import gzip
import json
import os

import numpy as np
import pytest

from error_fields import raises
from latentstruct_papers import run_experiment, ssvm_structure
from latentstruct_papers.datasets import load_protein_structures
from latentstruct_papers.ssvm_structure import BLOSUM, SIMPLE, Results, load_parts

needs_data = pytest.mark.skipif(not os.environ.get("LATENTSTRUCT_DATA"), reason="LATENTSTRUCT_DATA is not set")


def write_pairs(home, pairs):
    (home / "protein_pairs_ss").mkdir()
    lines = pairs if isinstance(pairs, bytes) else "".join(json.dumps(one) + "\n" for one in pairs).encode()
    (home / "protein_pairs_ss" / "pairs_ss.jsonl.gz").write_bytes(gzip.compress(lines))
    return home


PAIR = {
    "id": "ox/1/a/b",
    "set": "ox",
    "a": "a",
    "b": "b",
    "row_a": "ARnD-C",
    "row_b": "AR-DDC",
    "ss_a": "HHEEC",
    "ss_b": "HHE-C",
    "core_identity": 0.5,
}


def draw_pairs(n_sets, n_each, seed=0):
    """Pairs whose structure shows the alignment: the second protein is the first without a part, other letters."""
    rng = np.random.default_rng(seed)
    pairs = []
    for number in range(n_sets):
        for pair in range(n_each):
            n, start = int(rng.integers(24, 32)), int(rng.integers(4, 12))
            structure = "".join(rng.choice(list("HEC"), n))
            kept = [k for k in range(n) if not start <= k < start + 4]
            first, second = ("".join(rng.choice(list("ARNDCQEGHILK"), n)) for _ in range(2))
            pairs.append(
                PAIR
                | {
                    "id": f"ox/{number}/{pair}/x",
                    "a": f"a{number}{pair}",
                    "row_a": first,
                    "row_b": "".join(letter if k in kept else "-" for k, letter in enumerate(second)),
                    "ss_a": structure,
                    "ss_b": "".join(structure[k] for k in kept),
                    "core_identity": 0.4,
                }
            )
    return pairs


def test_pairs_are_read(tmp_path):
    found = load_protein_structures(write_pairs(tmp_path, [PAIR, PAIR | {"id": "bali3/2/x", "core_identity": 0.25}]))
    assert found.sequences[0] == ("ARNDC", "ARDDC")
    assert found.structures[0] == ("HHEEC", "HHE-C")
    assert found.matches[0].tolist() == [[0, 0], [1, 1], [3, 2], [4, 4]]
    assert (found.sets, found.identities.tolist()) == (["ox/1", "bali3/2"], [50.0, 25.0])


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([PAIR | {"ss_a": "HHEE"}], "structures of 5 and 5 letters"),
        ([PAIR | {"ss_a": "HHEEX"}], "structures of 5 and 5 letters H, E, C"),
        ([{"id": "x"}], "an object with id, a, b"),
        (b"[", "an object with id, a, b"),
        (b"", "one pair per line"),
    ],
)
def test_bad_pairs(pairs, expected, tmp_path):
    with raises(file="pairs_ss.jsonl.gz", line=1, expected=expected):
        load_protein_structures(write_pairs(tmp_path, pairs))


def test_families_are_whole_and_limited(tmp_path):
    home = str(write_pairs(tmp_path, draw_pairs(9, 6)))
    parts = load_parts(home, 40, 4)
    families = [set(part.families.tolist()) for part in parts]
    assert sum(map(len, families)) == 9
    assert len(set.union(*families)) == 9
    assert all((np.unique(part.families, return_counts=True)[1] == 4).all() for part in parts)
    assert all(len(x.a.structure) == len(x.a.letters) <= 40 for part in parts for x in part.X)
    assert len(parts[0].at_least(40.0).Y) == len(parts[0].Y)
    assert len(parts[0].at_least(41.0).Y) == 0


def test_settings_are_chosen_by_validation_and_compared_by_families():
    def measured(model, setting, validation, test):
        scores = {"Q": test, "Q4": test}
        valid = {"Q": validation, "Q4": validation}
        return {
            "model": model,
            "mode": "global",
            "setting": setting,
            "n_weights": 3,
            "validation": valid,
            "test": scores,
        }

    results = Results(
        [
            measured(BLOSUM, "a", [0.2], [0.1, 0.1, 0.1]),
            measured(SIMPLE.name, "a", [0.2], [0.9, 0.9, 0.9]),
            measured(SIMPLE.name, "b", [0.3], [0.4, 0.6, 0.1]),
        ],
        np.array([1, 1, 2]),
    )
    assert results.best(SIMPLE.name)["setting"] == "b"
    assert results.family_means(SIMPLE.name, "Q").tolist() == [0.5, 0.1]
    (claim,) = results.claims()
    assert claim.found == "30.0, 10.0: +20.0 ± 20.0 over 2 families"
    assert results.table().rows[1][:3] == [SIMPLE.name, "global", "b"]


def test_structure_is_learned_where_it_shows_the_alignment(tmp_path, monkeypatch):
    setting = ssvm_structure.QUICK._replace(cuts=(0.0,), strengths=(0.1,), opens=(10,), rungs=ssvm_structure.LADDER[:2])
    monkeypatch.setattr(ssvm_structure, "QUICK", setting)
    home = write_pairs(tmp_path, draw_pairs(12, 3))
    findings = run_experiment("ssvm-structure", home, quick=True, say=lambda line: None)
    assert [claim.verdict for claim in findings.claims] == ["not reproduced", "reproduced"]
    findings.save(tmp_path / "out")


@pytest.mark.data
@needs_data
def test_true_structure_helps(tmp_path):
    findings = run_experiment("ssvm-structure", quick=True, say=lambda line: None)
    claims = {claim.what: claim for claim in findings.claims}
    assert claims[f"Q, Simple above {SIMPLE.name}"].verdict == "reproduced"
