import csv
import gzip
import io
import json
from xml.sax.saxutils import escape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latentstruct.exceptions import FormatError, InputError
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
    labelled = [one for one in written if one.labels]
    text = io.StringIO()
    table = csv.writer(text, delimiter=delimiter)
    table.writerow([" File", "x0", "y0", "label", "x1", "y1"])
    expected = []
    for one in labelled:
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
        with pytest.raises(FormatError, match="found no label; expected the header file"):
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
    with pytest.raises(FormatError, match=r"a.json: a.png has no label; expected one"):
        _ = first.label
    assert second.label == "cat"
    assert read_voc(in_file(tmp_path, "x.v1.xml", "<annotation></annotation>"))[0].file == "x.v1"


def test_one_label_is_asked_for():
    one = ImageAnnotation("a.png", ("cat", "dog"), NO_BOXES, (), place="b.csv:3")
    with pytest.raises(FormatError, match=r"b.csv:3: a.png has 2 labels \('cat, dog'\); expected one: label it"):
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
        with pytest.raises(FormatError, match=r"b.csv:2: a.png has the box .* expected"):
            fit_boxes(one, width, height)
    else:
        assert fit_boxes(one, width, height).tolist() == [clipped]


@pytest.mark.parametrize("bbox", [[9, 2, -5, 4], [2, 9, 4, -5], [2, 2, -5, -5]])
def test_boxes_of_negative_size(bbox, tmp_path):
    (one,) = read_coco(in_file(tmp_path, "a.json", coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": bbox}])))
    with pytest.raises(FormatError, match=r"whose width or height is below 0; expected x0 < x1 and y0 < y1: exchange"):
        fit_boxes(one, 20, 10)


def test_boxes_in_shares_of_the_image_are_refused():
    one = ImageAnnotation("a.png", ("cat",), np.array([[0.25, 0.0, 0.75, 1.0]]), ("cat",), None, "b.csv:2")
    with pytest.raises(FormatError, match=r"within the first pixel; .* of 20 × 10: multiply shares by its width"):
        fit_boxes(one, 20, 10)


def test_boxes_of_an_image_of_another_size():
    one = ImageAnnotation("a.png", ("cat",), np.array([[0.0, 0.0, 4.0, 4.0]]), ("cat",), (10, 20), "b.json")
    with pytest.raises(FormatError, match=r"b.json: a.png is said to have 10 × 20 pixels; expected 20 × 10"):
        fit_boxes(one, 20, 10)


# Mistakes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.csv:1: found no label; expected the header file,label"),
        ("file,label\n\n , \n", "a.csv:3: found no label"),
        ("file;label\na.png;cat\n", "a.csv:1: the header has semicolons; expected commas .*: save it with commas"),
        ("file\tlabel\na.png\tcat\n", "a.csv:1: the header has tabs; expected commas"),
        ("x/A b.PNG,cat\n", "a.csv:1: found 'x/A b.PNG' where the header should be; .*: add a header line"),
        ("filename,class\n", r"a.csv:1: found 2 other columns \('filename', 'class'\); .*: rename or remove them"),
        ("file,label,xmin\n", "found the column 'xmin'; expected file and label, and x0, y0, x1, y1 .*: rename"),
        ("file,class\n", "found the column 'class'"),
        ("file,file,label\n", "column name 'file' is repeated; expected distinct names"),
        ("file\na.png\n", "the column 'label' is missing"),
        ("file,label,x0,y0\n", "the column 'x1' is missing"),
        ("file,label\na.png,cat,dog\n", "a.csv:2: found 3 cells; expected 2"),
        ("file,label\na.png\n", "a.csv:2: found 1 cells; expected 2"),
        ("file,label\na.png, \n", "a.csv:2: the label is empty"),
        ("file,label\n,cat\n", "a.csv:2: the file is empty"),
        ("file,label\na.png,cat\na.png,cat\n", "a.csv:3: a.png has the same label and box as on line 2"),
        ("file,label\na.png,cat\nx/a.jpg,cat\n", "a.csv:3: x/a.jpg is named a second time, after a.png at .*a.csv:2"),
        ("file,label,x0,y0,x1,y1\na.png,cat,1,2,3,\n", "a.csv:2: y1 is ''; expected a finite number, or four empty"),
        ("file,label,x0,y0,x1,y1\na.png,cat,1,2,3,nan\n", "a.csv:2: y1 is 'nan'"),
        ("file,label,x0,y0,x1,y1\na.png,cat,1,2,1e999,3\n", "a.csv:2: x1 is '1e999'"),
        ('file,label\na.png,"cat\n', "a.csv:2: the row cannot be read .*; expected cells separated by ','"),
        ('file,label\n"a"b.png,cat\n', "a.csv:2: the row cannot be read .*; expected cells separated by ','"),
        (
            'file,label\n\na.png,cat\n"b.png,cat\nc.png,cat\n',
            "a.csv:4: the row cannot be read .*; expected cells separated by ','",
        ),
        ('file,label\na.png,cat\n"b.png,cat\nc.png",cat,dog\nd.png,cat\n', "a.csv:3: found 3 cells; expected 2"),
        (
            bytes(range(256)),
            "a.csv:1: found a null character, .*; expected a table: save it as CSV in UTF-8, or choose",
        ),
        ("file,label\na.png,cat\n".encode("utf-16"), "a.csv:1: found a null character"),
        (b"file,label\na.png,c\xe4t\n", "a.csv:2: found the byte 0xe4, which is not UTF-8"),
        (
            "file,label\na.png," + "c" * 200_000 + "\n",
            "a.csv:2: the row cannot be read .*; expected cells separated by ','",
        ),
    ],
)
def test_tables_with_mistakes(tmp_path, content, message):
    with pytest.raises(FormatError, match=message):
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
    ("content", "message"),
    [
        ("", "cannot be read .*; expected COCO JSON, an object with the lists images, categories and annotations"),
        ("[]", r"cannot be read \('Expected object, got array'\)"),
        ("{}", "missing required field images"),
        ('{"images": 3}', "Expected array, got int"),
        (b'{"images": "\xff"}', "cannot be read"),
        ("[" * DEEP, "cannot be read"),
        ('{"info": ' + "[" * DEEP + "]" * DEEP + "}", "cannot be read"),
        ('{"info": ' + '{"a":' * DEEP, "cannot be read"),
        (coco(images=[]), "has no images; expected at least one"),
        (coco(images=[{"id": 1, "file_name": "a.png"}] * 2), "the id 1 stands twice in images"),
        (coco(categories=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), "the id 1 stands twice in categories"),
        (
            coco(images=[{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "a.jpg"}]),
            "a.jpg is named a second time, after a.png",
        ),
        (coco(annotations=[{"image_id": 2, "category_id": 1}]), r"annotations\[0\] has the image 2; expected the id"),
        (coco(annotations=[{"image_id": 1, "category_id": 5}]), r"annotations\[0\] has the category 5"),
        (coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3]}]), "Expected array of length 4"),
        (coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, None]}]), "Expected float, got null"),
        (coco().replace('"id": 1', '"id": 1e999', 1), "cannot be read"),
        (coco(annotations=[{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3, float("nan")]}]), "cannot be read"),
        (coco(categories=[{"id": 1, "name": " "}], annotations=[{"image_id": 1, "category_id": 1}]), "an empty name"),
        (coco(images=[{"id": 1, "file_name": ""}]), "an empty name"),
    ],
)
def test_coco_with_mistakes(tmp_path, content, message):
    with pytest.raises(FormatError, match=message) as caught:
        read_annotations(in_file(tmp_path, "a.json", content))
    assert len(str(caught.value)) < 600


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + k)} "{f"&{chr(97 + k)};" * 10}">' for k in range(9)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.xml:1: the XML cannot be read"),
        ("<annotation><filename>a", "a.xml:1: the XML cannot be read"),
        ("<html/>", "a.xml:1: the file begins with <html>; expected <annotation>"),
        (BOMB + "]><annotation>&i;</annotation>", "found a document type; expected none"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotation/>', "found a document type"),
        ("<annotation>&b;</annotation>", "undefined entity"),
        ("<annotation>" + "<a>" * 100_000, "elements are nested more than 40 deep"),
        ('<?xml version="1.0" encoding="no-such"?><annotation/>', "the XML cannot be read"),
        (b'<?xml version="1.0"?><annotation>\xff</annotation>', "the XML cannot be read"),
        ("<annotation>\n<object></object></annotation>", "a.xml:2: an object has no name"),
        ("<annotation><object><name>a</name></object></annotation>", "a.xml:1: the object has no xmin"),
        (
            "<annotation>\n\n<object><name>a</name><bndbox><xmin>x</xmin><ymin>1</ymin><xmax>1</xmax><ymax>1</ymax>"
            "</bndbox></object></annotation>",
            "a.xml:3: xmin is 'x'; expected a finite number",
        ),
        ("<annotation><size><width>-x</width></size></annotation>", "width is '-x'"),
    ],
)
def test_voc_with_mistakes(tmp_path, content, message):
    with pytest.raises(FormatError, match=message):
        read_annotations(in_file(tmp_path, "a.xml", content))


def test_places_that_hold_no_labels(tmp_path):
    with pytest.raises(FormatError, match="has no XML files; expected a folder of Pascal VOC"):
        read_annotations(tmp_path)
    for name in ("a.xml", "a.json", "a.csv", "a"):
        with pytest.raises(InputError, match=f"{name} does not exist"):
            read_annotations(tmp_path / name)
    with pytest.raises(InputError, match=r"a.zip is an archive; expected .*: unpack it first"):
        read_annotations(tmp_path / "a.zip")
    with pytest.raises(FormatError, match="the gzip data cannot be read"):
        read_annotations(in_file(tmp_path, "a.json.gz", b"no gzip"))
    same_image = ImageAnnotation("a.png", (), NO_BOXES, ())
    for name in ("1.xml", "2.xml"):
        in_file(tmp_path, name, voc_text(same_image))
    with pytest.raises(FormatError, match=r"2.xml: a.png is named a second time, after a.png at .*1.xml"):
        read_annotations(tmp_path)


def test_files_that_are_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(boxes, "MAX_JSON_BYTES", 100)
    monkeypatch.setattr(voc, "MAX_XML_BYTES", 100)
    for name, content in (("a.json", coco() + " " * 100), ("a.xml", "<annotation/>" + " " * 100)):
        with pytest.raises(FormatError, match="has more than 100 bytes; expected at most that many: split it"):
            read_annotations(in_file(tmp_path, name, content))
        packed = in_file(tmp_path, f"{name}.gz", gzip.compress(content.encode()))
        with pytest.raises(FormatError, match="has more than 100 bytes"):
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
