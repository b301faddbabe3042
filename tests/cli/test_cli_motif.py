import gzip
import json
import os
import re
import shutil

import numpy as np
import pytest

from command import fail, run, run_interrupted, watch, weights_file
from latentstruct import load
from latentstruct.io import read_fasta, read_meme
from latentstruct.tasks.motif.sites import reverse_complement

MOTIF = "GATTACAC"
PNG = b"\x89PNG"


def random_sequences(n, length, rng):
    return ["".join(rng.choice(list("ACGT"), length)) for _ in range(n)]


def write_fasta(path, sequences, prefix="s"):
    text = "".join(f">{prefix}{k} some text\n{sequence}\n" for k, sequence in enumerate(sequences))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def plant(sequences, rng):
    """Put the motif at a random place of each sequence; return the sequences and the places."""
    places = [int(rng.integers(0, len(sequence) - len(MOTIF) + 1)) for sequence in sequences]
    planted = [s[:k] + MOTIF + s[k + len(MOTIF) :] for s, k in zip(sequences, places, strict=True)]
    return planted, places


class Files:
    """Positive, negative and background sequences, and where the motif lies in the positive ones."""

    def __init__(self, folder, seed=0):
        rng = np.random.default_rng(seed)
        planted, self.places = plant(random_sequences(30, 40, rng), rng)
        self.positive = write_fasta(folder / f"positive{seed}.fa", planted)
        self.negative = write_fasta(folder / f"negative{seed}.fa", random_sequences(30, 40, rng))
        self.background = write_fasta(folder / f"background{seed}.fa.gz", random_sequences(100, 40, rng))
        self.sites = folder / f"sites{seed}.tsv"
        rows = [f"s{k}\t{place}\t{place + len(MOTIF)}\n" for k, place in enumerate(self.places)]
        self.sites.write_text("sequence\tstart\tend\n" + "".join(rows))


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def train(files, out, *options, **keywords):
    data = ("--positive", files.positive, "--negative", files.negative, "--strands", 1, "--held-out", 0)
    return run("train", "motif", *data, "--width", 8, "--order", 1, "-C", 1, "-o", out, *options, **keywords)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model of files like those of each test, trained once."""
    folder = tmp_path_factory.mktemp("trained")
    train(Files(folder), folder / "model", "--quiet")
    return folder / "model"


@pytest.fixture
def model(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "model")


def test_from_training_to_evaluation(files, tmp_path):
    out = tmp_path / "model"
    result = json.loads(train(files, out, "--background", files.background, "--restarts", 2, "--json").stdout)
    assert (result["kind"], result["latent"]) == ("motif", True)
    assert (result["n_positive"], result["n_negative"], result["n_background"]) == (30, 30, 100)
    assert result["n_weights"] == 4 * 8 + 4**2
    assert len(result["restart_objectives"]) == 2
    assert result["objective"] == min(result["restart_objectives"])
    assert result["consensus"] == MOTIF
    assert set(result["training"]) == {"positive", "negative", "background"}
    assert result["training"]["positive"] == result["training"]["negative"] == 0.0
    test = Files(tmp_path, seed=1)
    args = ("evaluate", out, "--positive", test.positive, "--negative", test.negative, "--sites", test.sites)
    scores = json.loads(run(*args, "--json").stdout)
    assert scores["error"] <= 0.1
    assert scores["auc"] >= 0.95
    assert scores["sites_hit"] >= 0.95
    assert scores["n_known_sites"] == scores["true_positives"] + scores["false_negatives"] == 30
    text = run(*args).stdout
    assert "AUC" in text
    assert "sites hit" in text
    known = json.loads(run("info", out, "--json").stdout)
    assert (known["consensus"], known["width"], known["strands"]) == (MOTIF, 8, 1)
    assert known["labels"] == [-1, 1]
    assert np.array(known["weight_matrix"]).argmax(axis=1).tolist() == ["ACGT".index(letter) for letter in MOTIF]
    shown = run("info", out).stdout
    assert MOTIF in shown
    assert "2 starts" in shown


def test_files_beside_the_model(model, files):
    (motif,) = read_meme(model / "motif.meme")
    assert motif.matrix.shape == (8, 4)
    assert "strands: +" in (model / "motif.meme").read_text().splitlines()
    assert (motif.matrix.argmax(axis=1) == ["ACGT".index(letter) for letter in MOTIF]).all()
    assert (model / "logo.png").read_bytes().startswith(PNG)
    header, *rows = [line.split("\t") for line in (model / "sites.bed").read_text().splitlines()]
    assert header == ["#sequence", "start", "end", "motif", "score", "strand", "site"]
    assert [(row[0], int(row[1])) for row in rows] == [(f"s{k}", place) for k, place in enumerate(files.places)]
    assert {row[3] for row in rows} == {motif.name} == {"positive0"}
    assert {row[6] for row in rows} == {MOTIF}
    assert load(model).task_.width == 8


def test_another_model_in_the_same_folder_leaves_no_old_files(model, tmp_path):
    (model / "notes.txt").write_text("mine")
    data = tmp_path / "train.svm"
    data.write_text("1 1:1\n2 2:1\n")
    run("train", "classes", data, "-o", model, "--quiet")
    assert sorted(path.name for path in model.iterdir()) == ["model.json", "notes.txt", weights_file(model).name]


def test_scores_of_long_sequences_are_comparable(model, tmp_path):
    rng = np.random.default_rng(5)
    shares, warned = {}, {}
    for length in (40, 4000):
        data = write_fasta(tmp_path / "data.fa", random_sequences(40, length, rng))
        done = run("predict", model, data, "-o", tmp_path / "out.tsv")
        rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()[1:]]
        shares[length], warned[length] = np.mean([row[7] == "+1" for row in rows]), done.stderr
        assert 0.2 < np.mean([float(row[8]) for row in rows]) < 0.8
    assert shares[40] <= 0.2
    assert shares[4000] <= 0.3
    assert "longer" not in warned[40]
    assert "40 of 40 sequences are longer than those trained on (at most 40 letters)" in " ".join(warned[4000].split())


def test_few_positive_sequences_are_shuffled_several_times(tmp_path):
    rng = np.random.default_rng(2)
    data = write_fasta(tmp_path / "few.fa", plant(random_sequences(20, 40, rng), rng)[0])
    options = ("--width", 8, "--order", 1, "--restarts", 1, "-o", tmp_path / "few", "--json", "-q")
    result = json.loads(run("train", "motif", "--positive", data, *options).stdout)
    assert (result["n_positive"], result["n_negative"], result["n_background"]) == (20, 0, 60)
    assert result["background_weight"] == pytest.approx(1 / 3)
    assert result["consensus"] in (MOTIF, reverse_complement(MOTIF))


def test_c_is_chosen_by_errors(files, tmp_path):
    result = json.loads(train(files, tmp_path / "model", "-C", "auto", "--restarts", 1, "--folds", 3, "--json").stdout)
    # Small values of C order all sequences correctly too, but predict that all are positive.
    assert result["training"]["negative"] <= 0.1
    assert result["training"]["positive"] <= 0.1


def test_words_beside_the_motif(files, tmp_path):
    weighted = ("--kmers", 3, "--gaps", 1, "--kmer-weight", 1)
    result = json.loads(train(files, tmp_path / "m", *weighted, "--json").stdout)
    assert result["n_weights"] == 4 * 8 + 4**2 + 3 * 4**3
    assert result["consensus"] == MOTIF
    known = json.loads(run("info", tmp_path / "m", "--json", "--top", 5).stdout)
    assert len(known["words"]) == 5
    assert known["words"][0][0] in run("info", tmp_path / "m").stdout
    page = tmp_path / "m.html"
    run("report", tmp_path / "m", "--positive", files.positive, "--negative", files.negative, "-o", page)
    assert "Words beside the motif" in page.read_text()
    # The motif itself is the one without words.
    train(files, tmp_path / "alone", "--quiet")
    beside, alone = (read_meme(tmp_path / name / "motif.meme")[0] for name in ("m", "alone"))
    np.testing.assert_allclose(beside.matrix, alone.matrix)
    data = ("train", "motif", "--positive", files.positive, "-o", tmp_path / "x")
    assert "kmers" in fail(*data, "--gaps", 1)
    assert "--kmer-weight must be left out without" in fail(*data, "--kmer-weight", 1)
    assert "several motifs" in fail(*data, "--kmers", 3, "--motifs", "auto")


def test_the_weight_of_words_is_chosen(files, tmp_path):
    options = ("--kmers", 3, "--restarts", 1, "--json")
    done = train(files, tmp_path / "model", *options)
    # The motif distinguishes all sequences, so that words are not needed.
    assert json.loads(done.stdout)["chosen_kmer_weight"]["value"] == 0.0
    assert "kmer_weight 0 chosen by the cross-validated AUC (0: " in done.stderr
    rng = np.random.default_rng(0)
    for path, p in ((files.positive, [0.4, 0.1, 0.1, 0.4]), (files.negative, [0.1, 0.4, 0.4, 0.1])):
        write_fasta(path, ["".join(rng.choice(list("ACGT"), 40, p=p)) for _ in range(30)])
    result = json.loads(train(files, tmp_path / "model", *options, "-C", "auto", "--folds", 3).stdout)
    assert result["chosen_C"]["value"] > 0
    chosen = result["chosen_kmer_weight"]
    assert set(chosen["values"]) == {0.0, 0.25, 1.0, 4.0}
    # The motif alone is as good as any only if words do not separate the classes better by more than 0.003.
    assert (
        chosen["value"]
        == chosen["values"][np.flatnonzero(np.array(chosen["means"]) >= max(chosen["means"]) - 0.003)[0]]
    )
    prepared = tmp_path / "prepared"
    run("prepare", "motif", "--positive", files.positive, "--negative", files.negative, "-o", prepared)
    stored = ("train", "motif", prepared, "--width", 8, "--kmers", 3, "-o", tmp_path / "stored")
    assert "--kmer-weight must be a number" in fail(*stored)
    run(*stored, "--kmer-weight", 1)
    assert json.loads(run("info", tmp_path / "stored", "--json").stdout)["words"]


def test_predicted_sites(model, files, tmp_path):
    run("predict", model, files.negative, "-o", tmp_path / "out.tsv")
    rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert rows[0] == ["#sequence", "start", "end", "motif", "score", "strand", "site", "label", "p_value"]
    sequences = read_fasta(files.negative).sequences
    scores = load(model).decision_function(sequences)
    for row, sequence, score in zip(rows[1:], sequences, scores, strict=True):
        assert row[7] == ("+1" if score > 0 else "-1")
        assert float(row[4]) == pytest.approx(score, rel=1e-4)
        assert sequence[int(row[1]) : int(row[2])] == row[6]
        assert 0 <= float(row[8]) <= 1
    piped = run("predict", model, "-", stdin=">a\nccgattacacgg\n").stdout.splitlines()
    cells = piped[1].split("\t")
    assert (cells[1:4], cells[5:8]) == (["2", "10", "positive0"], ["+", MOTIF, "+1"])


def test_both_strands(tmp_path):
    files = Files(tmp_path)
    sequences = read_fasta(files.positive).sequences
    turned = [s.translate(str.maketrans("ACGT", "TGCA"))[::-1] if k % 2 else s for k, s in enumerate(sequences)]
    write_fasta(files.positive, turned)
    train(files, tmp_path / "model", "--strands", 2, "--quiet")
    rows = [line.split("\t") for line in (tmp_path / "model" / "sites.bed").read_text().splitlines()[1:]]
    assert len({row[6] for row in rows}) == 1
    assert {row[5] for row in rows} == {"+", "-"}
    assert "strands: + -" in (tmp_path / "model" / "motif.meme").read_text().splitlines()


def test_random_starts_are_seeded(files, tmp_path):
    options = ("--start", "random", "--restarts", 2, "--json", "--quiet", "--seed")
    found = [json.loads(train(files, tmp_path / "model", *options, seed).stdout) for seed in (1, 1, 2)]
    assert found[0]["restart_objectives"] == found[1]["restart_objectives"] != found[2]["restart_objectives"]


def test_progress_names_starts(files, tmp_path):
    lines = train(files, tmp_path / "model", "--restarts", 2).stderr.splitlines()
    assert lines[0] == f"read 30 sequences from {files.positive}"
    assert any(line.startswith("start 1/2  iter 1  objective ") for line in lines)
    assert any(line.startswith("start 2/2  iter 1  objective ") for line in lines)


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_live_table_has_starts(files, tmp_path):
    data = ("--positive", files.positive, "--negative", files.negative)
    options = ("--width", 8, "--restarts", 2, "--held-out", 0, "-o", tmp_path / "model", "--json")
    out, text = watch("train", "motif", *data, *options)
    assert len(json.loads(out)["restart_objectives"]) == 2
    last = text[text.rindex("oracle calls") :]
    assert "2/2" in last
    assert "~" not in last


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "{data}: expected lines"),
        ("ACGT\n", "{data}, line 1: "),
        (">a\nACGTACGTAC\n>b\nACGX\n", "{data}, line 4: "),
        (">a\nACGTACGTAC\n>b\n", "{data}, line 3: expected letters"),
        (">a\nACGTACGTAC\n>b\nACGTACG\n", "{data}, sequence 'b': expected at least 8 consecutive letters"),
        (
            ">a\nACGTACGTAC\n>b\nacgtEKLV\n",
            "{data}, line 4: expected the letters of DNA or RNA",
        ),
        (">a\nMKLV\n", ", line 2: expected the letters of DNA or RNA"),
        (">a\nACG-\n", ", line 2: expected the letters of DNA or RNA"),
        (">a\nACGTNNACGTACGNACGTACG\n", "{data}, sequence 'a': expected at least 8 consecutive letters"),
    ],
)
def test_bad_sequences(text, message, model, files, tmp_path):
    data = tmp_path / "bad.fa"
    data.write_text(text)
    message = message.format(data=data)
    out = tmp_path / "new"
    good = ("--width", 8, "-o", out)
    assert message in fail("train", "motif", "--positive", data, "--negative", files.negative, *good)
    assert message in fail("train", "motif", "--positive", files.positive, "--background", data, *good)
    assert message in fail("predict", model, data)
    assert message in fail("evaluate", model, "--positive", files.positive, "--negative", data)
    assert not out.exists()


def test_no_negatives(files, tmp_path):
    data = ("--positive", "missing.fa", "--background", "missing.fa", "-o", tmp_path / "new")
    assert "--background-weight must be finite, and above 0" in fail("train", "motif", *data, "--background-weight", 0)
    assert "--background-weight must be finite, and above 0" in fail(
        "train", "motif", *data, "--background-weight", "inf"
    )
    assert ": expected a readable file" in fail(
        "train", "motif", *data, "--background-weight", 0, "--negative", "missing.fa"
    )
    assert ": expected a readable file" in fail(
        "train", "motif", "--positive", "missing.fa", "--negative", "missing.fa"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header with the columns"),
        ("sequence\tstart\tend\n", "expected sites, one per line below"),
        ("sequence\tstart\n", "expected a header with the columns"),
        ("sequence\tstart\tend\ns1\tone\t9\n", "{sites}, line 2: expected a sequence"),
        ("sequence\tstart\tend\ns1\t1\n", "{sites}, line 2: expected 3 cells as in the header, got 2 cells"),
        ("sequence\tstart\tend\ns1\t9\t9\n", "{sites}, line 2: expected 0 ≤ start < end ≤ 40"),
        ("sequence\tstart\tend\ns1\t32\t40\ns1\t33\t41\n", "{sites}, line 3: expected 0 ≤ start < end ≤ 40"),
        ("s1\t1\t9\n", "{sites}, line 1: expected a header"),
        (
            "sequence\tstart\tend\nother\t1\t9\n",
            "{sites}, line 2: expected the name of a positive sequence, got 'other'",
        ),
    ],
)
def test_bad_sites(text, message, model, files, tmp_path):
    sites = tmp_path / "bad.tsv"
    sites.write_text(text)
    found = fail("evaluate", model, "--positive", files.positive, "--negative", files.negative, "--sites", sites)
    assert message.format(sites=sites) in found


def test_options_that_do_not_fit_the_kind(model, files):
    assert ", line 1: expected label=1 or label=-1 once" in fail("evaluate", model, files.positive)
    assert "LABELS must be left out for a" in fail("evaluate", model, files.positive, "x")
    assert "--negative must be given" in fail("evaluate", model, "--positive", files.positive)
    args = ("--positive", files.positive, "--negative", files.negative, "--allow-unknown")
    assert "--allow-unknown must be left out for a" in fail("evaluate", model, *args)


def test_a_sequence_counts_once_for_its_sites(model, files, tmp_path):
    sites = tmp_path / "two.tsv"
    place = files.places[0]
    far = 0 if place > 16 else 32
    sites.write_text(f"sequence\tstart\tend\ns0\t{far}\t{far + 8}\ns0\t{place + 4}\t{place + 12}\n")
    args = ("evaluate", model, "--positive", files.positive, "--negative", files.negative, "--sites", sites, "--json")
    assert json.loads(run(*args).stdout)["sites_hit"] == 1.0
    sites.write_text(f"sequence\tstart\tend\ns0\t{far}\t{far + 8}\ns0\t{place + 5}\t{place + 13}\n")
    assert json.loads(run(*args).stdout)["sites_hit"] == 0.0


def test_help_tells_what_a_hit_is():
    shown = " ".join(run("evaluate", "--help").stdout.replace("│", " ").split())
    assert "A site is hit if the predicted one overlaps it by at least half of the shorter of both." in shown
    assert "header names the columns sequence, start (from 0) and end (exclusive)" in shown


def test_one_sided_models_are_told(files, tmp_path):
    options = ("--width", 8, "--strands", 1, "--held-out", 0, "-o", tmp_path / "model")
    data = ("--positive", files.positive, "--background", files.background, *options)
    light = run("train", "motif", *data, "--background-weight", 1e-6, "--quiet", "--json")
    assert json.loads(light.stdout)["training"]["background"] > 0.95
    (reported,) = [line for line in light.stderr.splitlines() if "predicted positive" in line]
    assert reported.startswith("warning: ")
    assert all(cure in reported for cure in ("--negative", "--background-weight", "larger -C"))
    heavy = run("train", "motif", *data, "--background-weight", 100, "-C", 1e-6, "--quiet", "--json")
    assert json.loads(heavy.stdout)["training"]["positive"] > 0.95
    assert "warning: 100.00 % of the positive sequences are predicted negative" in heavy.stderr
    assert "predicted positive" not in heavy.stderr
    fair = train(files, tmp_path / "model", "--background", files.background, "--quiet")
    assert "are called" not in fair.stderr


def test_the_background_weighs_as_much_as_the_positives_unless_told(files, tmp_path):
    data = ("--positive", files.positive, "--background", files.background, "--width", 8, "-o", tmp_path / "model")
    done = run("train", "motif", *data, "--quiet", "--json")
    result = json.loads(done.stdout)
    assert result["background_weight"] == pytest.approx(30 / 100)
    assert result["training"]["background"] < 0.5
    assert json.loads(run("info", tmp_path / "model", "--json").stdout)["background_weight"] == pytest.approx(0.3)
    few = write_fasta(tmp_path / "few.fa", read_fasta(files.background).sequences[:10])
    shown = run("train", "motif", *data[:3], few, *data[4:], "--quiet").stdout
    assert "% of the training data (weight 1)" in shown


def test_sequences_of_both_kinds_are_told(files, tmp_path):
    out = tmp_path / "model"
    same = fail("train", "motif", "--positive", files.positive, "--negative", files.positive, "-o", out)
    assert "--negative must be other sequences than the" in same
    assert not out.exists()
    positive, negative = (read_fasta(name).sequences for name in (files.positive, files.negative))
    files.negative = write_fasta(tmp_path / "mixed.fa", [*negative, positive[4].lower()])
    reported = train(files, out, "--quiet").stderr
    assert reported.startswith("warning: 1 of 30 positive sequences are also negative, the first is 's4'")


def test_files_of_one_kind_are_given_by_name(files, model):
    assert "label=1" in fail("train", "motif", files.positive)
    assert "--positive FASTA --negative FASTA" in fail("train", "motif", files.positive, files.negative)
    assert f"--data {files.positive}" in fail("report", model, files.positive)
    assert "the folder of a latentstruct model" in fail("predict", files.positive, model)


def test_output_must_not_be_an_input(model, files, tmp_path):
    given = files.negative.read_text()
    for name in (files.negative, tmp_path / "." / "negative0.fa"):
        assert "--output must be another file than the" in fail("predict", model, files.negative, "-o", name)
    assert files.negative.read_text() == given
    for name in ("model.json", weights_file(model).name):
        assert f"{model / name} would be overwritten" in fail("predict", model, files.negative, "-o", model / name)
    run("predict", model, files.negative, "-o", tmp_path / "out.tsv")
    run("predict", model, files.negative, "-o", tmp_path / "out.tsv")


@pytest.mark.parametrize(("field", "value"), [("consensus", "ACGT"), ("consensus", 3), ("kind", "rank")])
def test_damaged_record(field, value, model, files):
    settings = model / "model.json"
    content = json.loads(settings.read_text())
    content["extra"][field] = value
    settings.write_text(json.dumps(content))
    assert "expected a complete model" in fail("predict", model, files.positive)
    assert "expected a complete model" in fail("info", model)


def test_interrupted_training_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    positive = write_fasta(tmp_path / "positive.fa", random_sequences(20, 30, rng))
    negative = write_fasta(tmp_path / "negative.fa", random_sequences(20, 30, rng))
    out = tmp_path / "model"
    data = ("--positive", positive, "--negative", negative)
    options = ("--restarts", 50, "--tol", 1e-9, "--start", "random", "-o", out, "--json")
    result = run_interrupted("train", "motif", *data, *options, at=lambda line: line.start == 1)
    assert f"interrupted: saving the best weights so far to {out}" in result.stderr
    assert json.loads(result.stdout)["stop_reason"] == load(out).stop_reason_ == "interrupted"
    assert (out / "motif.meme").exists()
    assert (out / "logo.png").exists()


# ---- significance, shuffling and several motifs -----------------------------------------------------------


def planted(folder, motifs, share, n=90, length=60, seed=0):
    """Positive sequences, each motif in a share of them, on either strand."""
    rng = np.random.default_rng(seed)
    sequences = random_sequences(n, length, rng)
    owners = rng.permutation(n)
    for k, motif in enumerate(motifs):
        for i in owners[round(k * share * n) : round((k + 1) * share * n)]:
            site = motif if rng.random() < 0.5 else reverse_complement(motif)
            at = int(rng.integers(0, length - len(motif) + 1))
            sequences[i] = sequences[i][:at] + site + sequences[i][at + len(motif) :]
    return write_fasta(folder / "planted.fa", sequences)


def test_positive_sequences_suffice(tmp_path):
    data = planted(tmp_path, ["GATTACACG"], 0.7)
    out = tmp_path / "model"
    done = run("train", "motif", "--positive", data, "--width", 9, "--motif-name", "gata", "-o", out, "--json")
    assert "shuffled the positive sequences as negative ones; words of length 2 are kept" in done.stderr
    (found,) = json.loads(done.stdout)["motifs"]
    assert found["consensus"] in ("GATTACACG", reverse_complement("GATTACACG"))
    assert found["e_value"] == found["p_value"] < 1e-4
    (motif,) = read_meme(out / "motif.meme")
    assert (motif.name, motif.n_sites) == ("gata", found["n_sites"])
    assert motif.e_value == pytest.approx(found["e_value"], rel=0.1)
    assert len((out / "sites.bed").read_text().splitlines()) == 1 + motif.n_sites
    assert "E-value" in run("train", "motif", "--positive", data, "--width", 9, "-o", out, "-q").stdout
    known = json.loads(run("info", out, "--json").stdout)
    assert known["e_value"] == pytest.approx(found["e_value"])
    record = json.loads((out / "model.json").read_text())["extra"]
    assert record["enrichment"]["n_positive"] == 30


def test_folds_have_all_sequences_also_those_without_a_site(tmp_path):
    data = planted(tmp_path, ["GATTACACG"], 0.6)
    lines = tmp_path / "folds.jsonl"
    options = ("--width", 9, "-C", "auto", "--folds", 3, "--fold-predictions", lines, "--restarts", 1, "--json", "-q")
    result = json.loads(run("train", "motif", "--positive", data, *options, "-o", tmp_path / "model").stdout)
    assert result["motifs"][0]["e_value"] < 0.001
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [one["true"] for one in found] == [1] * 90 + [-1] * 90
    wrong = np.mean([one["true"] != one["predicted"] for one in found])
    assert result["out_of_fold"]["error"]["mean"] == pytest.approx(wrong, abs=0.02)
    # 36 of 180 sequences are positive without a site, which no model knows.
    assert 0.1 < wrong < 0.35


def test_copies_of_one_sequence_are_not_tested(tmp_path):
    rng = np.random.default_rng(0)
    data = write_fasta(tmp_path / "same.fa", random_sequences(1, 60, rng) * 40)
    options = ("--width", 8, "--restarts", 1, "-o", tmp_path / "model", "-q")
    assert "not tested" in run("train", "motif", "--positive", data, *options).stdout
    assert "got 1 different positive sequences" in fail("train", "motif", "--positive", data, *options, "--motifs", 2)
    mixed = write_fasta(tmp_path / "mixed.fa", random_sequences(1, 60, rng) * 30 + random_sequences(30, 60, rng))
    done = run("train", "motif", "--positive", mixed, *options, "--json")
    record = json.loads((tmp_path / "model" / "model.json").read_text())["extra"]
    assert record["enrichment"]["n_positive"] <= 20
    assert json.loads(done.stdout)["motifs"][0]["p_value"] > 0.001


def test_random_sequences_have_no_significant_motif(tmp_path):
    rng = np.random.default_rng(3)
    names = [write_fasta(tmp_path / f"{k}.fa", random_sequences(60, 35, rng)) for k in range(2)]
    data = ("--positive", names[0], "--negative", names[1])
    done = run("train", "motif", *data, "--motifs", "auto", "-o", tmp_path / "model", "-q")
    assert "no significant motif: p-value" in done.stdout
    assert read_meme(tmp_path / "model" / "motif.meme")[0].e_value > 0.05
    few = run("train", "motif", *data, "--held-out", 0, "-o", tmp_path / "model", "-q", "--json")
    assert json.loads(few.stdout)["motifs"][0]["e_value"] is None
    assert read_meme(tmp_path / "model" / "motif.meme")[0].e_value is None
    assert "--motifs must be 1" in fail("train", "motif", *data, "--held-out", 0, "--motifs", 2)


def test_two_motifs_are_found_one_after_the_other(tmp_path):
    motifs = ["GATTACACG", "CCTGTTCAG"]
    # Aligned, half of their letters agree, so that a mixture of both would separate the classes as well.
    data = planted(tmp_path, motifs, 0.4, n=240)
    out = tmp_path / "model"
    options = ("--width", 9, "--motifs", "auto", "--restarts", 1, "-o", out)
    result = json.loads(run("train", "motif", "--positive", data, *options, "--json", "-q").stdout)
    found = [one["consensus"] for one in result["motifs"]]
    assert len(found) == 2
    for motif in motifs:
        assert motif in found or reverse_complement(motif) in found
    assert [one.name for one in read_meme(out / "motif.meme")] == ["planted-1", "planted-2"]
    rows = [line.split("\t")[3] for line in (out / "sites.bed").read_text().splitlines()[1:]]
    assert set(rows) == {"planted-1", "planted-2"}
    run("report", out, "-o", tmp_path / "report.html")
    assert "planted-2" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_very_wide_motif_has_finite_scores_and_readable_p_values(tmp_path):
    data = tmp_path / "motif.fa"
    data.write_text(run("example", "motif").stdout)
    trained = run("train", "motif", data, "--width", 80, "-o", tmp_path / "model")
    assert "divide by zero" not in trained.stderr
    assert not re.search(r"e[+-]0\d\d", trained.stdout + trained.stderr)


def test_only_models_of_motifs_are_scanned_with(tmp_path):
    (tmp_path / "model").mkdir()
    assert "motif model" in fail("scan", tmp_path / "model", tmp_path / "genome.fa")


def test_the_width_is_chosen(tmp_path):
    data = planted(tmp_path, ["GATTACACG"], 0.9, n=90)
    options = ("--restarts", 1, "-o", tmp_path / "model", "--json")
    done = run("train", "motif", "--positive", data, "--width", "5-13", *options)
    width = len(json.loads(done.stdout)["consensus"])
    pattern = r"width (\d+) chosen by the cross-validated AUC \(([^)]*); words of 4 letters without a motif: 0"
    chosen, shown = re.search(pattern, done.stderr).groups()
    areas = {int(one): float(area) for one, area in re.findall(r"(\d+): ([.0-9]+)", shown)}
    assert (width, sorted(areas)) == (int(chosen), [5, 7, 9, 11, 13])
    # The narrowest of the widths that are as good as the best one; areas are shown with three digits.
    best = max(areas.values())
    assert areas[width] >= best - 0.0041
    assert all(area <= best - 0.0019 for one, area in areas.items() if one < width)
    found = json.loads(done.stdout)["chosen_width"]
    assert found["value"] == width
    # A planted motif of nine letters is more than its parts of four.
    assert found["gain"][0] > 0.0
    for wrong in ("0", "9-7", "x"):
        assert "--width must be a number of at least 1, a range" in fail("train", "motif", data, "--width", wrong)


def test_negatives_are_matched_and_differences_reported(tmp_path):
    rng = np.random.default_rng(0)
    rich = ["".join(rng.choice(list("ACGT"), 60, p=[0.15, 0.35, 0.35, 0.15])) for _ in range(30)]
    mixed = ["".join(rng.choice(list("ACGT"), 200, p=p)) for p in rng.dirichlet(5 * np.ones(4), 300)]
    positive, background = write_fasta(tmp_path / "p.fa", rich), write_fasta(tmp_path / "b.fa", mixed)
    data = ("--positive", positive, "--background", background, "--restarts", 1, "-o", tmp_path / "model")
    done = run("train", "motif", *data)
    assert "differ in GC content (70 % against 5" in done.stderr
    assert "length (median 60 against 200)" in done.stderr
    matched = run("train", "motif", *data, "--match", "--json")
    assert "differ in" not in matched.stderr
    assert json.loads(matched.stdout)["n_negative"] == 30
    assert "--background must be given with --match" in fail("train", "motif", "--positive", positive, "--match")
    assert "--shuffle must be left out with --background" in fail("train", "motif", *data, "--shuffle", 2)


def test_bad_sequences_can_be_left_out(files, model, tmp_path):
    data = tmp_path / "bad.fa"
    data.write_text(f"{files.positive.read_text()}>short\nACG\n>protein\nACELPQ\n>s3\nACGURYACGTACGTNNN\n")
    negative = ("--negative", files.negative, "--width", 8, "-o", tmp_path / "new", "-q")
    done = run("train", "motif", "--positive", data, *negative, "--skip-bad", "--json")
    assert json.loads(done.stdout)["n_positive"] == 31
    assert "1 records left out" in done.stderr
    assert "1 of 32 sequences left out" in done.stderr
    assert "1 names occur again" in done.stderr
    assert "2 ambiguous letters" in done.stderr
    assert len(run("predict", model, data, "--skip-bad").stdout.splitlines()) == 32
    args = ("--positive", data, "--negative", files.negative, "--skip-bad", "--json")
    assert json.loads(run("evaluate", model, *args).stdout)["n_examples"] == 61


def test_held_out_files_of_each_class(files, tmp_path):
    test = Files(tmp_path, seed=1)
    given = ("--valid-positive", test.positive, "--valid-negative", test.negative)
    result = json.loads(train(files, tmp_path / "model", *given, "--json", "-q").stdout)
    assert result["valid"]["n_examples"] == 60
    assert result["valid"]["p_value"] < 1e-6
    assert "--valid-negative must be given" in fail("train", "motif", files.positive, *given[:2])


def write_proteins(path, rng, n, site=""):
    """Random proteins with a lower-case letter, an ambiguous one and a stop; a site in all but every fifth."""
    lines = []
    for k in range(n):
        letters = "".join(rng.choice(list("ACDEFGHIKLMNPQRSTVWY"), 60))
        at = int(rng.integers(0, 50))
        if k % 5:
            letters = letters[:at] + site + letters[at + len(site) :]
        lines += [f">protein{k}", f"m{letters}B*"]
    path.write_text("\n".join([*lines, ""]))
    return path


def test_proteins(tmp_path):
    rng = np.random.default_rng(0)
    positive, negative = (
        write_proteins(tmp_path / "p.fa", rng, 60, "WCHKNC"),
        write_proteins(tmp_path / "n.fa", rng, 60),
    )
    files = ("--positive", positive, "--negative", negative)
    model = tmp_path / "model"
    done = run("train", "motif", *files, "--alphabet", "protein", "--width", 6, "-o", model, "--json")
    result = json.loads(done.stdout)
    assert result["consensus"] == "WCHKNC"
    assert result["motifs"][0]["e_value"] < 0.001
    assert "120 ambiguous letters such as B are read as X" in done.stderr
    (motif,) = read_meme(model / "motif.meme")
    assert motif.alphabet.name == "protein"
    assert "\t.\tWCHKNC\n" in (model / "sites.bed").read_text()
    predicted = [line.split("\t") for line in run("predict", model, positive).stdout.splitlines()[1:]]
    assert {row[5] for row in predicted} == {"."}
    assert "alphabet" in run("info", model, "--json").stdout
    assert json.loads(run("evaluate", model, *files, "--json").stdout)["auc"] > 0.8
    run("report", model, *files, "-o", tmp_path / "report.html")
    assert "on the given strand" not in (tmp_path / "report.html").read_text()
    found = run("scan", model, positive, "-o", "-", "--p-value", 1e-6).stdout
    assert {line.split("\t")[5] for line in found.splitlines()} == {"."}
    # 48 planted ones.
    assert len(found.splitlines()) >= 40
    prepared = tmp_path / "prepared"
    run("prepare", "motif", *files, "--alphabet", "protein", "-o", prepared)
    assert json.loads(run("evaluate", model, prepared, "--json").stdout)["auc"] > 0.8
    assert "--alphabet must be protein, with which" in fail("train", "motif", prepared, "--width", 6)
    assert "It is a letter of the --alphabet protein." in fail("train", "motif", *files)
    assert "--strands must be at most 1" in fail("train", "motif", *files, "--alphabet", "protein", "--strands", 2)
    alone = run("train", "motif", "--positive", positive, "--alphabet", "protein", "--width", 6, "-o", tmp_path / "m")
    assert "words of length 1 are kept" in alone.stderr
