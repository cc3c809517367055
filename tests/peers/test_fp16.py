"""`--precision fp16` against torch with every intermediate rounded to half floats; programs in half
precision; the FP16 guard of `lower`."""

import json

import torch
from safetensors.torch import load_file, save_file


def half(t):
    return t.half().float()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.up, self.down = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)
        self.norm = torch.nn.LayerNorm(32)

    def forward(self, x, r=lambda t: t):
        h = r(torch.nn.functional.gelu(r(self.up(x))))
        y = r(r(self.down(h)) + x)
        s = r(torch.softmax(r(y @ y.transpose(1, 2)), dim=-1))
        return r(self.norm(r(s @ y)))


def exported(module, x, folder):
    torch.export.save(torch.export.export(module.eval(), (x,)), folder / "model.pt2")
    save_file({"x": x}, folder / "x.safetensors")
    return folder / "model.pt2"


def ran(downhaul, model, folder, *flags):
    downhaul.run("run", model, "--inputs", folder / "x.safetensors", "--outputs", folder / "y.safetensors", *flags)
    return next(iter(load_file(folder / "y.safetensors").values()))


def test_every_result_is_rounded_as_torch_rounds_it(downhaul, tmp_path):
    module, x = Block(), torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(2))
    model = exported(module, x, tmp_path)
    with torch.no_grad():
        exact = module(x)
        for p in module.parameters():
            p.copy_(half(p))
        wanted = module(half(x), half)
    for flags in ([], ["--threads", 2], ["--reference"]):
        found = ran(downhaul, model, tmp_path, "--precision", "fp16", *flags)
        assert torch.equal(found, half(found))
        # Sums in another order flip a rounding now and then: two places of numbers below 4.
        assert (found - wanted).abs().max() <= 2 ** -8
        assert (found - wanted).square().mean() < (exact - wanted).square().mean()
        assert not torch.equal(found, exact)
    f32 = ran(downhaul, model, tmp_path, "--precision", "fp32")
    assert (f32 - exact).abs().max() < 1e-5


def test_programs_in_half_precision_compute_in_f32(downhaul, tmp_path):
    module, x = Block().half(), torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(3)).half()
    model = exported(module, x, tmp_path)
    wide = Block()
    wide.load_state_dict({k: v.float() for k, v in module.state_dict().items()})
    with torch.no_grad():
        exact, torch_half = wide(x.float()), module(x)
    found = ran(downhaul, model, tmp_path)
    assert found.dtype == torch.float16
    assert torch.equal(found, exact.half()) or (found.float() - exact).abs().max() <= 2 ** -10
    assert (found.float() - exact).abs().max() <= (torch_half.float() - exact).abs().max()
    rounded = ran(downhaul, model, tmp_path, "--precision", "fp16")
    assert (rounded.float() - torch_half.float()).abs().max() <= 2 ** -7


def test_compare_and_bench_say_what_fp16_does(downhaul, models):
    model = models["distilbert_seqcls"] / "model.pt2"
    said = json.loads(downhaul.run("compare", model, model, "--precision", "fp16", "--json"))
    found = said["sets"][0]["outputs"][0]
    assert found["verdict"] == "rounding" and found["psnr_db"] > 50 and "f16" in found["why"]
    bench = json.loads(downhaul.run("bench", model, "--precision", "fp16", "--runs", 2, "--json"))
    assert bench["precision"] == "f16"
    assert abs(bench["files"][0]["outputs_to_f32"][0]["relative"] - found["relative"]) < 1e-2


class Overflows(torch.nn.Module):
    def forward(self, x):
        return torch.sqrt(x * x)


def test_lower_names_what_fp16_would_break(downhaul, tmp_path):
    model = exported(Overflows(), torch.tensor([[1.0, 300.0]]), tmp_path)
    given = ["--inputs", tmp_path / "x.safetensors"]
    out = tmp_path / "out"
    done = downhaul.refuse("lower", model, "--backend", "coreml", "--out", out, *given, "--strict")
    assert "FP16 error: mul" in done and "beyond 65504" in done
    assert not list(out.glob("*.mlpackage")) and not list(out.glob("*.json"))
    downhaul.run("lower", model, "--backend", "coreml", "--out", out, *given)
    facts = json.loads(next(out.glob("*.json")).read_text())
    assert [f["kind"] for f in facts["fp16"]["findings"] if f["error"]] == ["value_overflow"]
    assert facts["placement"]["predicted"] is True
    downhaul.run("lower", model, "--backend", "coreml", "--out", out, "--check-fp16", "--strict")
    downhaul.run("lower", model, "--backend", "portable", "--strict", code=2)
