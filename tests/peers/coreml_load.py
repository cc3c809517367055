"""Lets coremltools rebuild packages: its type inference runs on every operation and is held against the
declared types. Reads paths from standard input, a line each; answers a line of JSON each."""

import json
import logging
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import coremltools  # noqa: E402, F401
from coremltools.converters.mil.frontend.milproto.load import load  # noqa: E402
from coremltools.proto import Model_pb2  # noqa: E402


def check(package):
    data = package / "Data" / "com.apple.CoreML"
    manifest = json.loads((package / "Manifest.json").read_text())
    root = manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]
    assert (package / "Data" / root["path"]) == data / "model.mlmodel"
    spec = Model_pb2.Model()
    spec.ParseFromString((data / "model.mlmodel").read_bytes())
    program = load(spec, specification_version=spec.specificationVersion, file_weights_dir=str(data / "weights"))
    function = program.functions["main"]
    return {"version": spec.specificationVersion, "inputs": [f.name for f in spec.description.input],
            "outputs": [[f.name, list(f.type.multiArrayType.shape)] for f in spec.description.output],
            "operations": sum(1 for op in function.operations if op.op_type != "const")}


for line in sys.stdin:
    try:
        said = check(pathlib.Path(line.strip()))
    except Exception as error:  # whatever coremltools raises is its verdict
        said = {"error": f"{type(error).__name__}: {error}"[:2000]}
    sys.__stdout__.write(json.dumps(said) + "\n")
    sys.__stdout__.flush()
