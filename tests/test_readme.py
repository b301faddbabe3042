"""What the README says is run."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from latentstruct.cli import app

README = Path(__file__).parents[1] / "README.md"


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 7
    for code in examples:
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "model.json").exists()
    shown = capsys.readouterr().out
    assert "was planted" in shown
    assert "accuracy 0.9" in shown or "accuracy 1.0" in shown


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sentence = "the DT B-NP\ncat NN I-NP\nsat VBD B-VP\n\na DT B-NP\ndog NN I-NP\nran VBD B-VP\n\n"
    (tmp_path / "train.txt").write_text(sentence * 5)
    (tmp_path / "test.txt").write_text(sentence)
    (tmp_path / "untagged.txt").write_text(re.sub(r" \S+$", "", sentence, flags=re.MULTILINE))
    rng = np.random.default_rng(0)
    random_dna = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(24)]
    bound = [x[:10] + "GATTACAG" + x[10:] for x in random_dna[:12]]
    for name, sequences in (("bound", bound), ("unbound", random_dna[12:]), ("new", bound[:3])):
        (tmp_path / f"{name}.fa").write_text("".join(f">{name}{i}\n{x}\n" for i, x in enumerate(sequences)))
    document = (
        "#begin document (d); part 000\n"
        "d 0 0 Anna x (0)\nd 0 1 met x -\nd 0 2 Bob x (1)\n\nd 0 0 She x (0)\nd 0 1 saw x -\nd 0 2 him x (1)\n\n"
        "#end document\n"
    )
    for name in ("train.conll", "new.conll"):
        (tmp_path / name).write_text(document)
    queries = [
        f"{int(value > 0.5)} qid:{q} 1:{value:.3f} 2:{rng.random():.3f}\n"
        for q in range(1, 7)
        for value in rng.random(8)
    ]
    (tmp_path / "queries.txt").write_text("".join(queries))
    (tmp_path / "half.txt").write_text(sentence.replace("I-NP", "?") + sentence * 2)
    write_pictures(tmp_path, rng)
    first, second = {"features": {"size": 2}, "label": "a"}, {"features": {"size": 1}}
    nodes = [[first, {**second, "label": label}] for label in ("b", None, "b")]
    graphs = [json.dumps({"nodes": pair, "edges": [[0, 1]]}) + "\n" for pair in nodes]
    (tmp_path / "graphs.jsonl").write_text("".join(graphs))
    (tmp_path / "model.uai").write_text("MARKOV\n2\n2 3\n1\n2 0 1\n\n6\n1 2 3 4 5 6\n")
    (tmp_path / "query.txt").write_text("1 1\n")
    (tmp_path / "evidence.txt").write_text("1 0 1\n")
    (tmp_path / "data.svm").write_text("1 1:1.0 2:0.5\n2 1:-1.0\n1 1:0.8 2:0.1\n2 1:-0.7 2:0.2\n")
    write_applications(tmp_path)


def write_applications(folder):
    """Write aligned pairs, trees, queries with subtopics and items in groups."""
    (folder / "pairs.fa").write_text(">a\nHEAGAWGHEE\n>b\nPEA-AWG-EE\n>c\nAWGHEHEA\n>d\nAW-HEHEA\n")
    (folder / "unaligned.fa").write_text(">a\nHEAGAWGHEE\n>b\nPEAAWGEE\n")
    (folder / "trees.mrg").write_text(
        "(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat))))\n(S (NP (N rain)) (VP (V fell)))\n"
    )
    (folder / "sentences.txt").write_text("a cat saw rain\n")
    documents = [
        {"id": k, "text": text, "subtopics": topics}
        for k, (text, topics) in enumerate([("robot space", ["space"]), ("robot nano", ["nano"]), ("the robot", [])])
    ]
    lines = [json.dumps({"query": q, "documents": documents}) + "\n" for q in range(3)]
    (folder / "queries.jsonl").write_text("".join(lines))
    items = [f"{group},{item % 2},{item % 2},{item}\n" for group in range(3) for item in range(4)]
    (folder / "items.csv").write_text("group,cluster,size,weight\n" + "".join(items))


def write_pictures(folder, rng):
    """Write pictures, left half dark and right half light, label images with unknown pixels, and photographs."""
    for name in ("images", "labels"):
        (folder / name).mkdir()
    for i in range(3):
        labels = np.repeat([1, 2], 30)[None].repeat(40, axis=0)
        image = (60 * labels[..., None] + rng.integers(0, 30, (40, 60, 3))).astype(np.uint8)
        Image.fromarray(image).save(folder / "images" / f"{i}.png")
        Image.fromarray(np.where(rng.random((40, 60)) < 0.1, 0, labels).astype(np.uint8)).save(
            folder / "labels" / f"{i}.png"
        )
    (folder / "photos").mkdir()
    lines = ["file,label,x0,y0,x1,y1"]
    for i in range(6):
        photo, label = rng.integers(90, 160, (48, 64, 3)), ("upright", "flat")[i % 2]
        stripes = 90 * (np.arange(24) % 8 < 4)
        photo[10:34, 20:44] += stripes[None, :, None] if i % 2 else stripes[:, None, None]
        Image.fromarray(photo.astype(np.uint8)).save(folder / "photos" / f"{i}.png")
        lines.append(f"{i}.png,{label},20,10,44,34")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")


def test_the_commands_run(files):
    text = README.read_text(encoding="utf-8")
    commands = re.findall(r"^    latentstruct (.+)$", text, re.MULTILINE)
    assert len(commands) >= 5
    for command in commands:
        result = CliRunner().invoke(app, command.split())
        assert result.exit_code == 0, (command, result.output)
