import csv
import gzip
import io
import json
from xml.sax.saxutils import escape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from error_fields import raises
from latentstruct.exceptions import FormatError
from latentstruct.io import boxes, voc
from latentstruct.io.boxes import (
    ImageAnnotation,
    fit_boxes,
    image_name,
    read_annotations,
    read_coco,
    read_label_table,
    read_voc,
    write_coco,
)

TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), exclude_characters="/\\"), min_size=1, max_size=8
)
# Quarters of pixels, whose sums and differences are exact.
COORDINATE = st.integers(0, 4000).map(lambda quarters: quarters / 4)
SIZE = st.one_of(st.none(), st.tuples(st.integers(1, 2000), st.integers(1, 2000)))
NO_BOXES = np.empty((0, 4))


@st.composite
def annotations(draw):
    """Draw images with objects: each has a label and a box."""
    names = draw(st.lists(TEXT, min_size=1, max_size=5, unique=True))
    found = []
    for name in names:
        labels = tuple(draw(st.lists(TEXT, max_size=4)))
        corners = draw(st.lists(st.tuples(*[COORDINATE] * 4), min_size=len(labels), max_size=len(labels)))
        values = np.array(corners).reshape(-1, 4)
        found.append(
            ImageAnnotation(f"{name}.png", tuple(dict.fromkeys(labels)), values, labels, draw(SIZE), "anywhere")
        )
    return found


def same(read, written, sizes=True):
    assert [one.file for one in read] == [one.file for one in written]
    for found, one in zip(read, written, strict=True):
        assert (found.labels, found.box_labels) == (one.labels, one.box_labels)
        assert found.boxes.dtype == np.float64
        np.testing.assert_array_equal(found.boxes, one.boxes)
        assert found.size == (one.size if sizes else None)


def in_file(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def voc_text(one, head=""):
    """Return an annotation as VOC XML, with what else tools write there."""
    objects = "".join(
        f"<object><name> {escape(label)}</name><pose>Left</pose><bndbox><xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin>"
        f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox><part><name>head</name><bndbox><xmin>1</xmin></bndbox></part>"
        "</object>"
        for label, (x0, y0, x1, y1) in zip(one.box_labels, one.boxes.tolist(), strict=True)
    )
    width, height = one.size or (0, 0)
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"{head}<annotation><filename>{escape(one.file)}</filename>{size}<segmented/>{objects}</annotation>"


# What is written is read back


@given(annotations())
def test_coco_is_read_back(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("coco") / "boxes.json"
    write_coco(path, written)
    same(read_annotations(path), written)


@given(annotations(), st.data())
def test_scores_stand_beside_boxes(tmp_path_factory, written, data):
    path = tmp_path_factory.mktemp("coco") / "boxes.json"
    n = sum(len(one.boxes) for one in written)
    scores = data.draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n))
    write_coco(path, written, scores)
    content = json.loads(path.read_text())
    assert [one["score"] for one in content["annotations"]] == scores
    assert [one["area"] for one in content["annotations"]] == [
        one["bbox"][2] * one["bbox"][3] for one in content["annotations"]
    ]
    same(read_coco(path), written)


def test_labels_without_boxes_stay(tmp_path):
    written = [ImageAnnotation("a.png", ("cat", "dog"), NO_BOXES, ())]
    write_coco(tmp_path / "a.json", written)
    same(read_coco(tmp_path / "a.json"), written)


@given(annotations(), st.sampled_from([",", "\t"]), st.booleans(), st.booleans())
def test_tables_are_read_back(tmp_path_factory, written, delimiter, mark, packed):
    labeled = [one for one in written if one.labels]
    text = io.StringIO()
    table = csv.writer(text, delimiter=delimiter)
    table.writerow([" File", "x0", "y0", "label", "x1", "y1"])
    expected = []
    for one in labeled:
        rows = list(dict.fromkeys(zip(one.box_labels, map(tuple, one.boxes.tolist()), strict=True)))
        for label, (x0, y0, x1, y1) in rows:
            table.writerow([one.file, x0, y0, f" {label} ", x1, y1])
        values = np.array([box for _, box in rows])
        expected.append(ImageAnnotation(one.file, one.labels, values, tuple(label for label, _ in rows)))
    raw = (b"\xef\xbb\xbf" if mark else b"") + text.getvalue().encode()
    name = ("labels.csv" if delimiter == "," else "labels.tsv") + (".gz" if packed else "")
    path = in_file(tmp_path_factory.mktemp("table"), name, gzip.compress(raw) if packed else raw)
    if expected:
        same(read_annotations(path), expected, sizes=False)
    else:
        with raises(expected="the header file", line=1, error=FormatError):
            read_annotations(path)


@given(annotations())
def test_voc_is_read_back(tmp_path_factory, written):
    folder = tmp_path_factory.mktemp("voc")
    for k, one in enumerate(written):
        in_file(folder, f"{k:03d}.xml", voc_text(one, '<?xml version="1.0"?>\n'))
    in_file(folder, "notes.txt", "not looked at")
    same(read_annotations(folder), written)
    same(read_annotations(folder / "000.xml"), written[:1])


def test_the_first_sign_tells_the_format(tmp_path):
    one = ImageAnnotation("a.png", ("cat",), np.array([[1.0, 2.0, 3.0, 4.0]]), ("cat",))
    write_coco(tmp_path / "a.json", [one])
    coco = in_file(tmp_path, "first", b"\xef\xbb\xbf\n " + (tmp_path / "a.json").read_bytes())
    xml = in_file(tmp_path, "second", voc_text(one))
    table = in_file(tmp_path, "third", "file,label,x0,y0,x1,y1\na.png,cat,1,2,3,4\n")
    for path in (coco, xml, table):
        same(read_annotations(path), [one])


def test_images_without_objects_and_crowds(tmp_path):
    content = {
        "images": [{"id": 1, "file_name": "a.png"}, {"id": "two", "file_name": "b.png", "width": 5, "height": 6}],
        "categories": [{"id": 7, "name": "cat", "supercategory": "animal"}],
        "annotations": [
            {"image_id": 1, "category_id": 7, "bbox": [1, 2, 3, 4], "iscrowd": 1, "segmentation": {"counts": "abc"}},
            {"image_id": "two", "category_id": 7, "bbox": [1, 2, 3, 4.5], "segmentation": [[1, 2, 3]]},
        ],
    }
    first, second = read_coco(in_file(tmp_path, "a.json", json.dumps(content)))
    assert (first.labels, len(first.boxes), first.size) == ((), 0, None)
    assert (second.labels, second.boxes.tolist(), second.size) == (("cat",), [[1.0, 2.0, 4.0, 6.5]], (5, 6))
    with raises(got="none", expected="one label of a.png", error=FormatError):
        _ = first.label
    assert second.label == "cat"
    assert read_voc(in_file(tmp_path, "x.v1.xml", "<annotation></annotation>"))[0].file == "x.v1"


def test_one_label_is_asked_for():
    one = ImageAnnotation("a.png", ("cat", "dog"), NO_BOXES, (), place="b.csv:3")
    with raises("b.csv:3", got="cat, dog", expected="one label of a.png", error=FormatError):
        _ = one.label


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a.png", "a"),
        ("x/y/a.b.JPEG", "a.b"),
        (r"C:\x\a.jpg", "a"),
        ("a", "a"),
        ("a.v1", "a.v1"),
        (".png", ""),
        ("a.TIF", "a"),
        ("x/a.heic", "a"),
    ],
)
def test_names_of_images(file, name):
    assert image_name(file) == name


# Boxes and their images


@given(st.tuples(*[st.floats(-3, 60)] * 4), st.integers(1, 50), st.integers(1, 50))
def test_boxes_are_cut_off_or_refused(box, width, height):
    one = ImageAnnotation("a.png", ("cat",), np.array([box]), ("cat",), (width, height), "b.csv:2")
    x0, y0, x1, y1 = box
    outside = min(box) < -1 or max(x0, x1) > width + 1 or max(y0, y1) > height + 1
    clipped = [min(max(value, 0.0), end) for value, end in zip(box, (width, height) * 2, strict=True)]
    shares = min(box) >= 0 and max(x1, y1) <= 1 and min(width, height) > 1
    if outside or shares or not (clipped[0] < clipped[2] and clipped[1] < clipped[3]):
        with raises("b.csv:2", expected="a box ", error=FormatError):
            fit_boxes(one, width, height)
    else:
        assert fit_boxes(one, width, height).tolist() == [clipped]


@pytest.mark.parametrize("bbox", [[9, 2, -5, 4], [2, 9, 4, -5], [2, 2, -5, -5]])
def test_boxes_of_negative_size(bbox, tmp_path):
    (one,) = read_coco(in_file(tmp_path, "a.json", coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": bbox}])))
    with raises(expected="a box x0, y0, x1, y1 of the image a.png of 20 × 10 pixels with x0 <", error=FormatError):
        fit_boxes(one, 20, 10)


def test_boxes_in_shares_of_the_image_are_refused():
    one = ImageAnnotation("a.png", ("cat",), np.array([[0.25, 0.0, 0.75, 1.0]]), ("cat",), None, "b.csv:2")
    with raises("b.csv:2", expected="a box in pixels of the image a.png of 20 × 10 pixels", error=FormatError):
        fit_boxes(one, 20, 10)


def test_boxes_of_an_image_of_another_size():
    one = ImageAnnotation("a.png", ("cat",), np.array([[0.0, 0.0, 4.0, 4.0]]), ("cat",), (10, 20), "b.json")
    with raises("b.json", got="(10, 20)", expected="the size of the image a.png of 20 × 10", error=FormatError):
        fit_boxes(one, 20, 10)


# Mistakes


@pytest.mark.parametrize(
    ("content", "line", "got", "expected"),
    [
        ("", 1, "", "the header file,label and a"),
        ("file,label\n\n , \n", 3, "", "the header file,label and a"),
        ("file;label\na.png;cat\n", 1, "", "commas between the cells"),
        ("file\tlabel\na.png\tcat\n", 1, "", "commas between the cells"),
        ("x/A b.PNG,cat\n", 1, "'x/A b.PNG'", "a header with the columns"),
        ("filename,class\n", 1, "", "the columns file and label"),
        ("file,label,xmin\n", 1, "", "the columns file and label"),
        ("file,class\n", 1, "", "the columns file and label"),
        ("file,file,label\n", 1, "'file'", "distinct column names"),
        ("file\na.png\n", 1, "", "the columns file and label"),
        ("file,label,x0,y0\n", 1, "", "the columns file and label"),
        ("file,label\na.png,cat,dog\n", 2, "", "2 cells as in the header"),
        ("file,label\na.png\n", 2, "", "2 cells as in the header"),
        ("file,label\na.png, \n", 2, "", "a label"),
        ("file,label\n,cat\n", 2, "", "a file"),
        ("file,label\na.png,cat\na.png,cat\n", 3, "", "distinct rows"),
        ("file,label\na.png,cat\nx/a.jpg,cat\n", 3, "", "one annotation per image name"),
        ("file,label,x0,y0,x1,y1\na.png,cat,1,2,3,\n", 2, "''", "a finite number as y1, or"),
        ("file,label,x0,y0,x1,y1\na.png,cat,1,2,3,nan\n", 2, "'nan'", "a finite number as y1, or"),
        ("file,label,x0,y0,x1,y1\na.png,cat,1,2,1e999,3\n", 2, "'1e999'", "a finite number as x1, or"),
        ('file,label\na.png,"cat\n', 2, "", "cells separated by commas"),
        ('file,label\n"a"b.png,cat\n', 2, "", "cells separated by commas"),
        ('file,label\n\na.png,cat\n"b.png,cat\nc.png,cat\n', 4, "", "cells separated by commas"),
        ('file,label\na.png,cat\n"b.png,cat\nc.png",cat,dog\nd.png,cat\n', 3, "", "2 cells as in the header"),
        (bytes(range(256)), 1, "", "a table in UTF-8"),
        ("file,label\na.png,cat\n".encode("utf-16"), 1, "", "a table in UTF-8"),
        (b"file,label\na.png,c\xe4t\n", 2, "", "UTF-8 text"),
        ("file,label\na.png," + "c" * 200_000 + "\n", 2, "", "cells separated by commas"),
    ],
)
def test_tables_with_mistakes(tmp_path, content, line, got, expected):
    with raises(file="a.csv", line=line, got=got, expected=expected):
        read_label_table(in_file(tmp_path, "a.csv", content))


def coco(images=None, categories=None, annotations=None):
    return json.dumps(
        {
            "images": [{"id": 1, "file_name": "a.png"}] if images is None else images,
            "categories": [{"id": 1, "name": "cat"}] if categories is None else categories,
            "annotations": [] if annotations is None else annotations,
        }
    )


DEEP = 100_000


@pytest.mark.parametrize(
    ("content", "got", "expected"),
    [
        ("", "", "COCO JSON, an object with the"),
        ("[]", "", "COCO JSON, an object with the"),
        ("{}", "'Object missing required field images'", ""),
        (
            '{"images": 3}',
            "'Expected array, got int - at $.images'",
            "COCO JSON, an object with the lists images, categories",
        ),
        (b'{"images": "\xff"}', "", "COCO JSON, an object with the"),
        ("[" * DEEP, "", "COCO JSON, an object with the"),
        ('{"info": ' + "[" * DEEP + "]" * DEEP + "}", "", "COCO JSON, an object with the"),
        ('{"info": ' + '{"a":' * DEEP, "", "COCO JSON, an object with the"),
        (coco(images=[]), "", "at least one image in the"),
        (coco(images=[{"id": 1, "file_name": "a.png"}] * 2), "", "distinct ids of images"),
        (coco(categories=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), "", "distinct ids of categories"),
        (
            coco(images=[{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "a.jpg"}]),
            "",
            "one annotation per image name",
        ),
        (coco(annotations=[{"image_id": 2, "category_id": 1}]), "2", "an id in the file as image_id"),
        (coco(annotations=[{"image_id": 1, "category_id": 5}]), "5", "an id in the file as"),
        (
            coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3]}]),
            "Expected array of length 4",
            "COCO JSON, an object with the lists images, categories",
        ),
        (
            coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, None]}]),
            "Expected float, got null",
            "COCO JSON, an object with the lists images, categories",
        ),
        (coco().replace('"id": 1', '"id": 1e999', 1), "", "COCO JSON, an object with the"),
        (
            coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, float("nan")]}]),
            "",
            "COCO JSON, an object with the",
        ),
        (
            coco(categories=[{"id": 1, "name": " "}], annotations=[{"image_id": 1, "category_id": 1}]),
            "an empty name at image 1",
            "names of images and categories",
        ),
        (coco(images=[{"id": 1, "file_name": ""}]), "an empty name at image 1", "names of images and categories"),
    ],
)
def test_coco_with_mistakes(tmp_path, content, got, expected):
    with raises(file="a.json", got=got, expected=expected) as caught:
        read_annotations(in_file(tmp_path, "a.json", content))
    assert len(str(caught.value)) < 600


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9)
)


@pytest.mark.parametrize(
    ("content", "line", "got", "expected"),
    [
        ("", 1, "", "a Pascal VOC annotation"),
        ("<annotation><filename>a", 1, "", "a Pascal VOC annotation"),
        ("<html/>", 1, "", "<annotation> as in Pascal VOC"),
        (BOMB + "]><annotation>&i;</annotation>", 1, "", "XML without a document type"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotation/>', 1, "", "XML without a document type"),
        ("<annotation>&b;</annotation>", 1, "undefined entity: line 1, column 12", "a Pascal VOC annotation"),
        ("<annotation>" + "<a>" * 100_000, 1, "", "elements nested at most 40"),
        ('<?xml version="1.0" encoding="no-such"?><annotation/>', 1, "", "a Pascal VOC annotation"),
        (b'<?xml version="1.0"?><annotation>\xff</annotation>', 1, "", "a Pascal VOC annotation"),
        ("<annotation>\n<object></object></annotation>", 2, "", "a <name> with the class of"),
        ("<annotation><object><name>a</name></object></annotation>", 1, "", "a <bndbox> with xmin, ymin"),
        (
            "<annotation>\n\n<object><name>a</name><bndbox><xmin>x</xmin><ymin>1</ymin><xmax>1</xmax><ymax>1</ymax>"
            "</bndbox></object></annotation>",
            3,
            "'x'",
            "a finite number as xmin",
        ),
        ("<annotation><size><width>-x</width></size></annotation>", 1, "'-x'", "a finite number as width"),
    ],
)
def test_voc_with_mistakes(tmp_path, content, line, got, expected):
    with raises(file="a.xml", line=line, got=got, expected=expected):
        read_annotations(in_file(tmp_path, "a.xml", content))


def test_places_that_hold_no_labels(tmp_path):
    with raises(got="no XML files", expected="Pascal VOC annotations, or a .csv or .json file", error=FormatError):
        read_annotations(tmp_path)
    for name in ("a.xml", "a.json", "a.csv", "a"):
        with raises(str(tmp_path / name), expected="a readable file", error=FormatError):
            read_annotations(tmp_path / name)
    with raises("path", expected="a folder of VOC XML, COCO JSON or a table"):
        read_annotations(tmp_path / "a.zip")
    with raises(expected="a complete gzip file", error=FormatError):
        read_annotations(in_file(tmp_path, "a.json.gz", b"no gzip"))
    same_image = ImageAnnotation("a.png", (), NO_BOXES, ())
    for name in ("1.xml", "2.xml"):
        in_file(tmp_path, name, voc_text(same_image))
    with raises(expected="one annotation per image name", error=FormatError):
        read_annotations(tmp_path)


def test_files_that_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(boxes, "MAX_JSON_BYTES", 100)
    monkeypatch.setattr(voc, "MAX_XML_BYTES", 100)
    for name, content in (("a.json", coco() + " " * 100), ("a.xml", "<annotation/>" + " " * 100)):
        with raises(got="a larger one", expected="a file of at most 100 bytes", error=FormatError):
            read_annotations(in_file(tmp_path, name, content))
        packed = in_file(tmp_path, f"{name}.gz", gzip.compress(content.encode()))
        with raises(got="a larger one", expected="a file of at most 100 bytes", error=FormatError):
            read_annotations(packed)


@settings(deadline=None, max_examples=200)
@given(
    name=st.sampled_from(["a.csv", "a.json", "a.xml", "a"]),
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=5),
    cut=st.one_of(st.none(), st.integers(0, 300)),
)
def test_hostile_files(tmp_path_factory, name, changes, cut):
    one = ImageAnnotation("a.png", ("cat",), np.array([[1.0, 2.0, 3.0, 4.0]]), ("cat",), (9, 9))
    folder = tmp_path_factory.mktemp("hostile")
    if name == "a.xml":
        raw = voc_text(one).encode()
    elif name == "a.json":
        write_coco(folder / "b.json", [one])
        raw = (folder / "b.json").read_bytes()
    else:
        raw = b"file,label,x0,y0,x1,y1\na.png,cat,1,2,3,4\n"
    damaged = bytearray(raw)
    for position, change in changes:
        damaged[position % len(damaged)] ^= change
    path = in_file(folder, name, bytes(damaged[:cut]))
    try:
        found = read_annotations(path)
    except FormatError as error:
        assert str(error).startswith(str(path))  # noqa: PT017
    else:
        assert all(len(image.boxes) == len(image.box_labels) for image in found)
