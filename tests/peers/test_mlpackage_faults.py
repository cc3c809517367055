"""Broken Core ML packages: one line that names the fault, exit code 1, by every verb that reads them."""

import json
import shutil

import pytest
from test_coreml import lower


@pytest.fixture(scope="module")
def package(downhaul, models, tmp_path_factory):
    return lower(downhaul, models, "distilbert_seqcls", "ane", tmp_path_factory.mktemp("whole"))


def manifest(path, change):
    file = path / "Manifest.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def items(content):
    root = content["rootModelIdentifier"]
    other = next(i for i in content["itemInfoEntries"] if i != root)
    return content["itemInfoEntries"][root], content["itemInfoEntries"][other]


def overwrite(path, at, data):
    with open(path, "r+b") as f:
        f.seek(at)
        f.write(data)


MODEL, WEIGHTS = "Data/com.apple.CoreML/model.mlmodel", "Data/com.apple.CoreML/weights/weight.bin"


def link(p, tmp):
    (tmp / "outside").write_bytes((p / MODEL).read_bytes())
    (p / MODEL).unlink()
    (p / MODEL).symlink_to(tmp / "outside")


def a_folder_instead(p, tmp):
    (p / MODEL).unlink()
    (p / MODEL).mkdir()


FAULTS = {
    "no manifest": (lambda p, tmp: (p / "Manifest.json").unlink(), ""),
    "manifest is no JSON": (lambda p, tmp: (p / "Manifest.json").write_text("{"), "Manifest"),
    "path leaves": (lambda p, tmp: manifest(p, lambda c: items(c)[0].update(path="../../etc/passwd")), "leaves the package"),
    "absolute path": (lambda p, tmp: manifest(p, lambda c: items(c)[0].update(path="/etc/passwd")), "leaves the package"),
    "link leaves": (link, "link"),
    "root without item": (lambda p, tmp: manifest(p, lambda c: c.update(rootModelIdentifier="x")), "root model"),
    "folder instead of a file": (a_folder_instead, "folder"),
    "model missing": (lambda p, tmp: (p / MODEL).unlink(), "does not exist"),
    "model empty": (lambda p, tmp: (p / MODEL).write_bytes(b""), "program"),
    "model is noise": (lambda p, tmp: (p / MODEL).write_bytes(b"\xff" * 5000), "model"),
    "model cut": (lambda p, tmp: (p / MODEL).write_bytes((p / MODEL).read_bytes()[:2000]), ""),
    "varint of eleven bytes": (lambda p, tmp: (p / MODEL).write_bytes(b"\x08" + b"\x80" * 10 + b"\x01"), "model"),
    "nested groups": (lambda p, tmp: (p / MODEL).write_bytes(b"\x0b" * 10000), "model"),
    "weights missing": (lambda p, tmp: (p / WEIGHTS).unlink(), "does not exist"),
    "weights empty": (lambda p, tmp: (p / WEIGHTS).write_bytes(b""), "header"),
    "weights cut": (lambda p, tmp: (p / WEIGHTS).write_bytes((p / WEIGHTS).read_bytes()[:20000]), "outside"),
    "mark broken": (lambda p, tmp: overwrite(p / WEIGHTS, 64, b"\0"), "0xDEADBEEF"),
    "another element type": (lambda p, tmp: overwrite(p / WEIGHTS, 68, b"\2"), "declared"),
    "size unlike the type": (lambda p, tmp: overwrite(p / WEIGHTS, 72, b"\2"), "bytes"),
    "unknown operation": (lambda p, tmp: (p / MODEL).write_bytes((p / MODEL).read_bytes().replace(b"softmax", b"hardmax")),
                          "unknown operations: hardmax (8)"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_broken_packages_are_refused(downhaul, package, tmp_path, fault):
    broken = tmp_path / "m.mlpackage"
    shutil.copytree(package, broken)
    change, word = FAULTS[fault]
    change(broken, tmp_path)
    for verb in (["inspect", broken], ["run", broken, "--random", 1], ["lower", broken, "--backend", "xnnpack", "--out", tmp_path]):
        said = downhaul.refuse(*verb)
        assert said.count("\n") == 1 and word in said, said
    assert not list(tmp_path.glob("*.pte"))
