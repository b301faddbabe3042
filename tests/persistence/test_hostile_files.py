"""Files that mean harm, or were damaged: they are read or refused, and nothing else ever comes of them.

`python -m fuzz` does the same at length; what it and a hostile reading of the code found is here, input by input.
"""

import gzip
import io
import json
import os
import pickle
import stat
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.numpy import save_file

import latentstruct
from command import weights_file
from error_fields import raises
from latentstruct import (
    FormatError,
    Graph,
    InputError,
    LatentMulticlass,
    LatentSSVM,
    Multiclass,
    PairwiseRanking,
    StructuralSVM,
)
from latentstruct import io as formats
from latentstruct.cli.config import read_tables
from latentstruct.data.images import ImageFiles, parse_image, parse_label_image
from latentstruct.data.sharded import ShardedData
from latentstruct.io import text
from latentstruct.io.fasta import read_sites
from latentstruct.io.npz import load_arrays
from latentstruct.persistence.models import _checksum
from latentstruct.tasks.packing import PackedArrays
from latentstruct_papers import datasets

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parents[2])
    from fuzz import data_sets, pictures, texts
    from fuzz.child import judge, make_input

READERS = {reader.name: reader for module in (texts, pictures, data_sets) for reader in module.READERS}
SEEDS: dict[str, list[bytes]] = {}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(name="graphs", number=181)
@given(name=st.sampled_from(sorted(READERS)), number=st.integers(0, 10**9))
def test_damaged_files_are_read_or_refused(tmp_path, name, number):
    reader = READERS[name]
    good = SEEDS.setdefault(name, list(reader.seeds()))
    assert judge(reader, tmp_path, make_input(reader, good, 0, number))[0] in ("read", "refused")


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- texts: what took forever, or ended in an error of Python ---

LONG = 100_000
REFUSED = {
    "digits and a letter": ("a.mat", f"A\nA {'1' * LONG}x\n", formats.read_ncbi_matrix, 2, "", "finite numbers"),
    "a separator as blank": (
        "a.csv",
        "x,y\n\x1c1,b\n",
        formats.read_csv,
        2,
        "",
        "a finite number",
    ),
    "one long label": (
        "a.svm",
        f"{'L' * 2000} 1:1\na 1:1\n",
        formats.read_svmlight,
        1,
        "",
        "a label",
    ),
    "thousands of zeros": (
        "a.svm",
        f"1 {'0' * 5000}:1\n",
        lambda path: formats.read_svmlight(path, zero_based=True),
        1,
        "",
        "an index of at most 100 digits",
    ),
    "a product of thousands": (
        "a.uai",
        f"MARKOV 15000 {'2 ' * 15000} 1 15000 {' '.join(map(str, range(15000)))} 4 1 1 1 1",
        formats.read_uai,
        1,
        "'4'",
        "2 · 2 · 2 · 2 · 2 · 2 · 2 · 2",
    ),
    "a scope that repeats": (
        "a.uai",
        f"MARKOV {LONG} {'2 ' * LONG} 1 {LONG} {' '.join(map(str, range(LONG - 1)))} 7 2 1 1",
        formats.read_uai,
        1,
        "'7'",
        "distinct variables of factor 0",
    ),
    "a logarithm too large": (
        "a.uai",
        "MARKOV 1 2 1 1 0 2 0 -1e308",
        lambda path: formats.read_uai(path, scale="log10"),
        1,
        "'-1e308'",
        "the logarithm of a weight in",
    ),
    "a long column": (
        "a.conll",
        f"#begin document (x)\na 0 0 w {'c' * LONG} c 9\n",
        formats.read_coreference,
        2,
        "'9'",
        "'(3', '3)' or '(3)' separated",
    ),
    "blanks in a name": (
        "a.conll",
        f"#begin document (x{' ' * LONG}y)\n",
        formats.read_coreference,
        1,
        "",
        "words",
    ),
    "a part of many digits": (
        "a.conll",
        f"#begin document (x); part {'1' * 5000}\n",
        formats.read_coreference,
        1,
        "",
        "words",
    ),
    "a matrix of one letter": (
        "a.mat",
        "A " * LONG,
        formats.read_ncbi_matrix,
        1,
        "",
        "distinct",
    ),
    "JSON that is deep": (
        "a.jsonl",
        '{"nodes": [{"features": ' + "[" * LONG,
        formats.read_graphs,
        1,
        "",
        "float at nodes[0].features[0]",
    ),
    "a place in underscores": (
        "a.bed",
        f"{texts.SITES.decode()}a\t1_0\t2\tm\t1\t+\tA\n",
        read_sites,
        4,
        "",
        "the seven columns",
    ),
    "a name of many parts": ("a.toml", f"{'a.' * 5000}b = 1\n", read_tables, 1, "5000 dots in one line", ""),
    "a table in a list": (
        "a.toml",
        f"train = [{{ {'a.' * 150}b = 1 }}]\n",
        read_tables,
        None,
        "lists or tables nested more than 10 deep",
        "",
    ),
    "options without end": ("a.toml", "#" * 2**19, read_tables, None, "more than 262144 bytes", ""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path):
    file, content, read, line, got, expected = REFUSED[name]
    with raises(str(tmp_path / file), line=line, got=got, expected=expected, error=FormatError):
        read(written(tmp_path / file, content))


def test_a_query_of_many_variables_is_read(tmp_path):
    path = written(tmp_path / "a.query", f"{LONG} {' '.join(map(str, range(LONG)))}")
    assert formats.read_uai_query(path, LONG) == list(range(LONG))


@given(name=st.text("(); part0x\t", min_size=1, max_size=8), part=st.one_of(st.none(), st.integers(0, 999)))
@example(name="a; part x", part=3)
@settings(deadline=None)
def test_names_of_documents_are_read_as_they_stand(tmp_path_factory, name, part):
    reported = "" if part is None else f"; part {part:03d}"
    path = written(tmp_path_factory.mktemp("names") / "a.conll", f"#begin document ({name}){reported}\na 0 0 w -\n")
    (document,) = formats.read_coreference(path)
    assert (document.name, document.part) == (name, part or 0)


def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_UNPACKED", 2**16)
    path = written(tmp_path / "a.txt.gz", gzip.compress(b"a b\n" * 2**17))
    with raises(file="a.txt.gz", expected="compressed text"):
        formats.read_conll(path)
    monkeypatch.setattr(text, "MAX_GROWTH", 10**6)
    assert formats.read_conll(path).n_tokens == 2**17


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 1000)
    with raises(file="a.txt", line=2, expected="a line of text of at most"):
        formats.read_conll(written(tmp_path / "a.txt", b"a b\n" + b"x" * 1001))


def test_messages_can_be_printed():
    error = FormatError(f"\x1b[2J\ud800\n{'x' * 10_000}", "\x07", "a file", "Correct it.")
    assert str(error).isprintable()
    assert str(error).startswith("\\x1b[2J\\ud800\\nxxx")
    assert str(error).endswith("Correct it.")
    assert len(str(error)) < 5000


# --- images and archives ---


def encoded(image, kind):
    stream = io.BytesIO()
    image.save(stream, kind)
    return stream.getvalue()


def test_images_that_announce_too_much_are_refused():
    grey = Image.new("L", (8, 8))
    jpeg = encoded(grey, "JPEG")
    with raises("the image", got="201 scans", expected="at most 100 scans", error=FormatError):
        parse_image(jpeg[:-2] + b"\xff\xda\0\2" * 200 + jpeg[-2:])
    wide = bytearray(encoded(grey, "BMP"))
    wide[18:26] = struct.pack("<ii", 40_000_000, 1)
    with raises(got="40000000 × 1 pixels", expected="1 to 65535 on each side", error=FormatError):
        parse_image(bytes(wide))
    # A PNG may have those bytes anywhere.
    noise = np.random.default_rng(0).integers(0, 2, (400, 400, 3), dtype=np.uint8) * 37 + 218
    assert parse_image(encoded(Image.fromarray(noise), "PNG")).shape == (400, 400, 3)
    several = io.BytesIO()
    grey.convert("RGB").save(several, "MPO", save_all=True, append_images=[grey.convert("RGB")])
    with raises(got="a JPEG, which blurs labels", error=FormatError):
        parse_label_image(several.getvalue())


def archive(tmp_path, name="a.png", method=zipfile.ZIP_STORED, mode=0o644):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK if mode is None else stat.S_IFREG | mode) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr(info, encoded(Image.new("L", (8, 8)), "PNG"), method)
    return tmp_path / "a.zip"


@pytest.mark.parametrize("name", ["../a.png", "/etc/a.png", "x/../../a.png", "..\\a.png"])
def test_names_that_lead_out_of_an_archive_are_refused(name, tmp_path):
    with raises(file="a.zip", expected="file names within the archive"):
        ImageFiles(archive(tmp_path, name))


def test_links_and_other_compressions_are_refused(tmp_path):
    with raises(file="a.zip", expected="files"):
        ImageFiles(archive(tmp_path, mode=None))
    with raises(file="a.zip:a.png", expected="a stored or deflated file"):
        ImageFiles(archive(tmp_path, method=zipfile.ZIP_LZMA)).image("a")


def test_sizes_are_held_against_an_archive_of_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as made:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (2**37,)})
        made.writestr("x.npy", header.getvalue() + bytes(8))
    with pytest.raises(ValueError, match=r"states int64 of shape \(137438953472,\)"):
        load_arrays(tmp_path / "a.npz", ["x"])
    kept = {"x": np.arange(6).reshape(2, 3), "y": np.asfortranarray(np.eye(3)), "z": np.zeros(0, dtype=np.float32)}
    np.savez_compressed(tmp_path / "b.npz", **kept)
    found = load_arrays(tmp_path / "b.npz", kept)
    assert all(np.array_equal(found[name], kept[name]) and found[name].dtype == kept[name].dtype for name in kept)


def test_large_members_of_a_tar_archive_are_not_read(tmp_path):
    path = written(tmp_path / "litbank_coref/litbank_coref_conll_tsv.tar.gz", b"")
    with tarfile.open(path, "w:gz") as made:
        info = tarfile.TarInfo("coref/tsv/a.ann")
        info.size = 2**40
        made.addfile(info)
    with raises(file="litbank_coref_conll_tsv.tar.gz", got="has 1099511627776 bytes"):
        datasets.load_litbank(tmp_path)


# --- models ---


@pytest.fixture
def model(tmp_path):
    StructuralSVM(Multiclass()).fit(np.eye(3), ["a", "b", "c"]).save(tmp_path / "model")
    return tmp_path / "model"


def edit(folder, change):
    file = json.loads((folder / "model.json").read_bytes())
    change(file)
    (folder / "model.json").write_text(json.dumps(file))


def refuse(folder, **fields):
    with raises(error=FormatError, **fields):
        latentstruct.load(folder)


class Payload:
    """Runs when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_a_model_that_would_run_code_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weights_file(model).write_bytes(pickle.dumps({"coef": Payload()}))
    refuse(model, file=".safetensors", expected="an undamaged file of weights")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    "value",
    [
        {"$object": "os.system", "params": {"command": "true"}},
        {"$object": "Multiclass", "params": {"__class__": "x"}},
        {"$object": "Multiclass", "params": {"__init__": {"$object": "eval", "params": {}}}},
        {"$object": ["Chain"], "params": {}},
        # 2000 texts, each as large as the longest, would be 8 GB.
        {"$array": ["x" * 1_000_000, *map(str, range(2000))]},
    ],
)
def test_parameters_that_are_no_parameters_are_refused(model, value):
    edit(model, lambda file: file["params"].update(task=value))
    refuse(model, file="model.json", expected="the description of a model")


@pytest.mark.parametrize(
    ("key", "value"), [("n_inputs", -1), ("n_inputs", 2**40), ("n_inputs", True), ("labels", []), ("labels", "abc")]
)
def test_states_that_do_not_fit_the_weights_are_refused(model, key, value):
    def change(file):
        state = dict(file["state"]["$dict"])
        file["state"]["$dict"] = [[name, one] for name, one in {**state, key: value}.items()]

    edit(model, change)
    refuse(model, file="model.json", expected="the description of a model")


def test_weights_that_announce_a_terabyte_or_another_type_are_refused(model):
    for entry in (
        {"dtype": "F64", "shape": [2**37], "data_offsets": [0, 2**40]},
        {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "F64", "shape": [2**62, 4], "data_offsets": [0, 8]},
    ):
        header = json.dumps({"coef": entry}).encode()
        weights_file(model).write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
        refuse(model, file=".safetensors", expected="an undamaged file of weights")


@pytest.mark.parametrize("name", ["model.json", "weights"])
def test_a_pipe_in_place_of_a_file_does_not_block(model, name):
    path = weights_file(model) if name == "weights" else model / name
    path.unlink()
    os.mkfifo(path)
    refuse(model, got="is no file")


def test_a_model_does_not_say_where_to_work(model):
    edit(model, lambda file: file["params"].update(executor="dask"))
    assert latentstruct.load(model).get_params()["executor"] is None


@pytest.mark.parametrize(
    "change",
    [
        {"states": [2**62, 4]},
        {"states": [-2]},
        {"states": [3]},
        {"n_inputs": 2**62},
        {"edge_types": [["edge", 0, 1]]},
        {"edge_types": [["edge", 0, -1]]},
        {"graph": {"types": [0, 5], "edges": [[0, 1]]}},
        {"graph": {"types": [0, 0], "edges": [[0, 2]]}},
        {"node_types": []},
    ],
)
def test_layouts_of_graphs_that_do_not_fit_together_are_refused(change):
    task = Graph()
    graph = latentstruct.GraphInput(features=np.eye(2), edges=np.array([[0, 1]]))
    task.learn([graph], [["a", "b"]])
    Graph().restore(task.state())
    with pytest.raises((InputError, ValueError)):
        Graph().restore({**task.state(), **change})


def test_states_that_share_rows_have_a_number():
    task = LatentMulticlass(n_states=2, weights="state")
    task.learn(np.eye(3), ["a", "b", "a"])
    assert task.state()["shared"]
    with raises("state['n_states']", expected="an integer if states share rows"):
        LatentMulticlass(n_states=2, weights="state").restore({**task.state(), "n_states": None})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_inputs_whose_scores_are_no_numbers_are_refused():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(6, 2, 3)) * 10.0 ** rng.integers(0, 305, (6, 2, 3))
    # Which sum is the first that is no number depends on the order of summation, and so does `got`.
    with raises("X", hint="Standardize the features"):
        LatentSSVM(LatentMulticlass(n_states=2)).fit(list(X), [0, 1, 2] * 2)


@pytest.mark.parametrize(
    ("change", "got"),
    [
        ({"state": None}, "ValueError('its task has not learned')"),
        ({"state": {"$dict": [["n_inputs", -1]]}}, "n_inputs is -1"),
        ({"state": {"$dict": [["n_inputs", 2**40]]}}, "n_inputs is 1099511627776"),
    ],
)
def test_prepared_data_whose_task_is_damaged_are_refused(change, got, tmp_path):
    data = ShardedData.write(tmp_path / "data", PairwiseRanking(), [([np.eye(3)], [[0, 1, 2]])])
    path = data.folder / "data.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **change}))
    with raises(file="data.json", got=got):
        ShardedData(data.folder)


def test_weights_of_a_kernel_machine_lie_within_its_data(tmp_path):
    folder = tmp_path / "model"
    latentstruct.KernelStructuralSVM(Multiclass(), kernel="precomputed").fit(np.eye(4), [0, 1, 0, 1]).save(folder)
    found = dict(latentstruct.persistence.models.load_file(weights_file(folder)))
    found["part.support"] = found["part.support"] + 10
    save_file(found, weights_file(folder))
    edit(folder, lambda file: file.update(weights_sha256=_checksum(found)))
    refuse(folder, got="other support rows", expected="the parts of KernelStructuralSVM")


def test_a_kernel_that_is_none_is_refused(tmp_path):
    folder = tmp_path / "model"
    latentstruct.KernelStructuralSVM(Multiclass()).fit(np.eye(4), [0, 1, 0, 1]).save(folder)
    edit(folder, lambda file: file["params"].update(kernel="rbfx"))
    refuse(folder, got="rbfx", expected="the parts of KernelStructuralSVM")


def test_offsets_that_wrap_around_are_refused():
    # Each difference of these is at least 0 in 64 bits.
    offsets = np.array([0, 2**63 - 1, -(2**63), -1, 5])
    with raises("arrays['at']", expected="offsets from 0 to 5 in steps of at least 0"):
        PackedArrays({"at": offsets}).pointers("at", 5)
