"""Handing a lowered model over to an Android app."""

import json
import subprocess

import pytest
from test_images import ByColour, save_model, scene


@pytest.fixture
def lowered(downhaul, tmp_path):
    folder = tmp_path / "model"
    save_model(folder, ByColour(), 32, 32, ["background", "fire", "leaf"], resize=[32, 32], letterbox=True)
    spec = json.loads((folder / "model_spec.json").read_text()) | {"app_hint": {"colour": "#fff"}}
    (folder / "model_spec.json").write_text(json.dumps(spec))
    downhaul.run("lower", "--spec", folder / "model_spec.json", "--backend", "xnnpack")
    return folder / "tiny_xnnpack.pte"


@pytest.mark.parametrize("sources,assets", [("app/src/main", "app/src/main/assets"), ("src/main", "src/main/assets"),
                                            (None, "")])
def test_an_app_gets_what_it_needs(downhaul, lowered, tmp_path, sources, assets):
    app = tmp_path / "app_project"
    if sources:
        (app / sources).mkdir(parents=True)
    said = json.loads(downhaul.run("bundle", lowered, "--android", app, "--name", "cut.pte", "--json"))
    folder = app / assets
    assert {f["name"] for f in said["files"]} == {"cut.pte", "labels.json", "model_spec.json"}
    assert (folder / "cut.pte").read_bytes() == lowered.read_bytes()
    spec = json.loads((folder / "model_spec.json").read_text())
    before = json.loads((lowered.parent / "model_spec.json").read_text())
    assert spec["pte"] == "cut.pte" and spec["labels"] == "labels.json" and "exported_program" not in spec
    assert spec["input"] == before["input"] and spec["app_hint"] == before["app_hint"]
    assert subprocess.run(["sha256sum", "-c", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True).returncode == 0
    # What was bundled works by itself.
    scene(64, 64, (10, 10, 40, 40)).save(tmp_path / "photo.png")
    assert "leaf" in downhaul.run("segment", folder / "cut.pte", tmp_path / "photo.png", "--out", tmp_path / "cut")
    downhaul.run("bundle", lowered, "--android", app, "--name", "cut.pte")  # again, over the old one


def test_what_does_not_fit_is_refused_before_anything_is_written(downhaul, lowered, tmp_path):
    def refused(*arguments, code=1):
        done = subprocess.run([downhaul.path, "bundle", *map(str, arguments), "--android", str(tmp_path / "app")],
                              capture_output=True, text=True)
        assert done.returncode == code and done.stderr.count("\n") == 1, done
        assert not (tmp_path / "app").exists()
        return done.stderr
    folder = lowered.parent
    assert "lower the model first" in refused(folder / "model.pt2")
    refused(lowered, "--name", "../up.pte", code=2)
    (folder / "labels.json").write_text('["one", "two"]')
    assert "2 labels" in refused(lowered)
    spec = json.loads((folder / "model_spec.json").read_text())
    spec["input"]["shape"] = [1, 3, 33, 32]
    (folder / "other.json").write_text(json.dumps(spec))
    assert "[1,3,33,32]" in refused(lowered, "--spec", folder / "other.json")
    (folder / "model_spec.json").unlink()
    assert "--spec" in refused(lowered)
