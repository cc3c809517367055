"""One model along every path: our evaluation of the exported program, of our portable and of our
XNNPACK file, and both files in the stock runtime, each compared with the same expected values."""

import json

import torch
from conftest import BACKENDS
from safetensors.torch import load_file, save_file
from stock_run import difference


def as_list(result):
    return torch.utils._pytree.tree_flatten(result)[0]


def save_tensors(named, path):
    save_file({k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in named.items()}, path)


def describe(named):
    return [{"name": k, "shape": list(v.shape), "dtype": str(v.dtype).removeprefix("torch.")}
            for k, v in named.items()]


def write_set(folder, inputs, expected):
    folder.mkdir(parents=True, exist_ok=True)
    save_tensors(inputs, folder / "inputs.safetensors")
    save_tensors(expected, folder / "expected.safetensors")


class Paths:
    """Exports `module` (argument names are the keys of `inputs`) into `folder`, lowers it to both
    backends there and holds results against expected ones.

        paths = Paths(downhaul, stock_runtime, tmp_path, module, {"x": x})
        paths.check({"x": x}, [wanted])          the exported sizes, or any others that are allowed
    """

    def __init__(self, downhaul, stock_runtime, folder, module, inputs, dynamic=None, decomposed=False,
                 name="model", backends=BACKENDS):
        self.downhaul, self.stock_runtime, self.folder, self.backends = downhaul, stock_runtime, folder, backends
        module = module.eval()
        with torch.no_grad():
            program = torch.export.export(module, tuple(v.clone() for v in inputs.values()), dynamic_shapes=dynamic)
            if decomposed:
                program = program.run_decompositions()
            torch.export.save(program, folder / "model.pt2")
        spec = {"name": name, "exported_program": "model.pt2", "inputs": describe(inputs)}
        (folder / "model_spec.json").write_text(json.dumps(spec))
        self.pte = {b: downhaul.lower(folder, b, folder) for b in backends}
        self.sets = 0

    def own(self, file, inputs):
        """What `downhaul run` computes from a file, in the order of the outputs."""
        given, out = self.folder / "given.safetensors", self.folder / "own.safetensors"
        save_tensors(inputs, given)
        said = json.loads(self.downhaul.run("run", file, "--inputs", given, "--outputs", out, "--json"))
        found = load_file(out)
        return [found[o["name"]] for o in said["outputs"]]

    def check(self, inputs, expected, tolerance=1e-5):
        """Differences up to `tolerance`, absolute and relative to the largest expected value."""
        failures = []
        finite = [v.double().abs()[v.double().isfinite()].max().item() for v in expected if v.numel()
                  and v.double().isfinite().any()]
        limit = tolerance * max([1.0, *finite])

        def compare(path, results):
            if len(results) != len(expected):
                failures.append(f"{path}: {len(results)} outputs, expected {len(expected)}")
                return
            for index, (got, want) in enumerate(zip(results, expected)):
                try:
                    worst = difference(got, want)
                    if not worst <= limit:
                        failures.append(f"{path}: output {index}: difference {worst}, limit {limit}")
                except ValueError as e:
                    failures.append(f"{path}: output {index}: {e}")

        compare("own evaluation of the .pt2", self.own(self.folder / "model.pt2", inputs))
        folder = self.folder / f"set_{self.sets}"
        self.sets += 1
        write_set(folder, inputs, {f"{i:03d}": v for i, v in enumerate(expected)})
        (folder / "model_spec.json").write_text(json.dumps(
            {"inputs": describe(inputs), "outputs": [{"name": f"{i:03d}"} for i in range(len(expected))]}))
        for backend in self.backends:
            compare(f"own evaluation of the {backend} file", self.own(self.pte[backend], inputs))
            for result in self.stock_runtime.run(self.pte[backend], folder):
                where = f"stock runtime, {backend}, {result['verification']}"
                if "error" in result:
                    failures.append(f"{where}: {result['error']}")
                elif not result["max_abs_diff"] <= limit:
                    failures.append(f"{where}: differences {result['outputs']}, limit {limit}")
        assert not failures, "\n".join(failures)
