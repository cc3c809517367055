"""Fixtures of the peer tier. It needs tools/peers/setup and a built binary:

    DOWNHAUL_BINARY=build/release/downhaul .venv-peers/bin/python -m pytest tests/peers

Test models are exported once and kept in .cache/peer-models (or $DOWNHAUL_PEERS_MODELS). Nothing is
skipped: a peer or a binary that is missing fails the tests.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
TOLERANCE = 1e-4

TEXT = ["distilbert_fillmask", "distilbert_base", "distilbert_mlm", "distilbert_seqcls", "distilbert_qa",
        "distilbert_tokcls", "distilbert_mc", "gpt2", "bert_minilm", "bert_seqcls", "roberta"]
VISION = ["lraspp", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "resnet18", "resnet50",
          "efficientnet_b0", "deeplabv3_mobilenet_v3", "convnext_tiny", "swin_t", "vit_b_16", "vit"]
CORNERS = ["add_alpha", "gelu_forms", "conv_relu_reuse", "channels_last_input", "contiguous_input",
           "channels_last_conv", "permuted_constant", "permuted_two_users", "conv_same_even",
           "masked_attention", "embedding_50257", "bilinear_rules", "tied_1000x64", "passthrough",
           "inplace_alias"]
EAGER = [f"{name}_eager" for name in TEXT] + ["vit_eager"]
DYNAMIC = ["gpt2_dynamic", "gpt2_eager_dynamic", "distilbert_fillmask_dynamic", "distilbert_mc_dynamic",
           "bert_minilm_dynamic", "roberta_dynamic"]
DECOMPOSED = [f"{name}_decomposed" for name in TEXT + VISION + ["gpt2_dynamic", "inplace_alias"]]
UNWRAPPED = ["lraspp_unwrapped", "deeplabv3_mobilenet_v3_unwrapped"]
MODELS = TEXT + VISION + CORNERS + EAGER + DYNAMIC + DECOMPOSED + UNWRAPPED
BACKENDS = ["portable", "xnnpack"]


def sources_hash():
    import torch
    digest = hashlib.sha256(torch.__version__.encode())
    for path in sorted([HERE / "export_models.py", HERE / "stock_lower.py", *(HERE / "model_zoo").glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


class Models:
    """The exported test models. Exports what is asked for and not there yet, all at once."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def ensure(self, names):
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            missing = [n for n in names if not (self.folder / n / "model_spec.json").exists()]
            if missing:
                done = subprocess.run([sys.executable, HERE / "export_models.py", "--out", self.folder, *missing],
                                      capture_output=True, text=True)
                assert done.returncode == 0, f"export failed:\n{done.stdout}\n{done.stderr[-4000:]}"

    def __getitem__(self, name):
        self.ensure([name])
        return self.folder / name

    def stock(self, name, backend):
        """Stock ExecuTorch's file of a model."""
        folder = self[name]
        pte = folder / f"stock_{backend}.pte"
        with open(self.folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not pte.exists():
                done = subprocess.run([sys.executable, HERE / "stock_lower.py", folder, "--backend", backend],
                                      capture_output=True, text=True)
                assert pte.exists(), f"stock lowering failed:\n{done.stdout}\n{done.stderr[-2000:]}"
        return pte


@pytest.fixture(scope="session")
def models(request):
    base = os.environ.get("DOWNHAUL_PEERS_MODELS") or ROOT / ".cache" / "peer-models"
    found = Models(pathlib.Path(base) / sources_hash())
    wanted = {item.callspec.params.get("model") for item in request.session.items if hasattr(item, "callspec")}
    found.ensure([n for n in MODELS if n in wanted])
    return found


class Downhaul:
    """The binary under test."""

    def __init__(self, path):
        self.path = path

    def run(self, *args, code=0):
        done = subprocess.run([self.path, *map(str, args)], capture_output=True, text=True, timeout=300)
        assert done.returncode == code, (
            f"downhaul {' '.join(map(str, args))}\nexit code {done.returncode}, expected {code}\n"
            f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def lower(self, folder, backend, out, *more):
        """Lowers a model's spec; returns the path that the program says it wrote."""
        said = self.run("lower", "--spec", folder / "model_spec.json", "--backend", backend, "--out", out, *more)
        wrote = [line.split("wrote ", 1)[1].strip() for line in said.splitlines() if "wrote " in line]
        pte = out / f"{json.loads((folder / 'model_spec.json').read_text())['name']}_{backend}.pte"
        assert any(pathlib.Path(w) == pte for w in wrote), f"no line 'wrote {pte}' in:\n{said}"
        return pte

    def refuse(self, *args):
        """What it says on stderr when it ends with exit code 1."""
        done = subprocess.run([self.path, *map(str, args)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 1, f"exit code {done.returncode}, expected 1\n{done.stdout}\n{done.stderr}"
        return done.stderr

    def lower_file(self, file, backend, out, *more):
        """Lowers a .pt2 or .pte without a spec."""
        self.run("lower", file, "--backend", backend, "--out", out, *more)
        return out / f"{file.stem}_{backend}.pte"


@pytest.fixture(scope="session")
def downhaul():
    path = os.environ.get("DOWNHAUL_BINARY")
    assert path, "DOWNHAUL_BINARY does not name the binary to test"
    found = shutil.which(path)
    assert found, f"DOWNHAUL_BINARY={path} is no executable"
    return Downhaul(os.path.abspath(found))


class StockRuntime:
    """The stock runtime, in a process of its own: a file that crashes it fails one test only."""

    def __init__(self):
        self.process = None

    def run(self, pte, folder, layout=None):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([sys.executable, HERE / "stock_run.py", "--serve"], text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL)
        self.process.stdin.write(json.dumps({"pte": str(pte), "folder": str(folder), "layout": layout}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                return json.loads(line.removeprefix("RESULT "))
        code = self.process.wait()
        pytest.fail(f"the stock runtime died on {pte} (exit code {code})")

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()


@pytest.fixture(scope="session")
def stock_runtime():
    runtime = StockRuntime()
    yield runtime
    runtime.close()


@pytest.fixture(scope="session")
def lowered(models, downhaul, tmp_path_factory):
    """(model, backend) -> our .pte, written once per session."""
    done = {}

    def lower(model, backend):
        if (model, backend) not in done:
            done[model, backend] = downhaul.lower(models[model], backend, tmp_path_factory.mktemp(model))
        return done[model, backend]
    return lower
