"""Checkpoints that transformers and torchvision write, held against their eager models and against
the way through torch.export."""

import json
import shutil

import pytest
import torch
from conftest import BACKENDS, TOLERANCE
from model_zoo import builders
from model_zoo.common import Options, import_torchvision, randomise
from model_zoo.text import MASK_ID, FillMask, LastToken, MeanPooled, minilm_folder
from model_zoo.vision import SegmentationOut
from safetensors.torch import load_file, save_file
from stock_run import difference

import_torchvision()

LENGTH = 32
VOCAB = 1000
ENCODER = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
               intermediate_size=128, max_position_embeddings=66)
DISTILBERT = dict(vocab_size=VOCAB, dim=64, hidden_dim=128, n_layers=2, n_heads=4, max_position_embeddings=66)
GPT2 = dict(vocab_size=VOCAB, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=999,
            eos_token_id=999)


def make(class_name, config_class, settings, **more):
    import transformers
    torch.manual_seed(7)
    config = getattr(transformers, config_class)(**settings, **more)
    return randomise(getattr(transformers, class_name)(config).eval())


def family(model_class, config_class, settings):
    def build(head, **more):
        return make(f"{model_class}{head}", config_class, settings, **more)
    return build


FAMILIES = {"distilbert": family("DistilBert", "DistilBertConfig", DISTILBERT),
            "bert": family("Bert", "BertConfig", ENCODER),
            "roberta": family("Roberta", "RobertaConfig", ENCODER)}
# head -> (end of the class, outputs, further configuration)
HEADS = {"base": ("Model", ["last_hidden_state"], {}),
         "mlm": ("ForMaskedLM", ["logits"], {}),
         "seqcls": ("ForSequenceClassification", ["logits"], {"num_labels": 3}),
         "qa": ("ForQuestionAnswering", ["start_logits", "end_logits"], {}),
         "tokcls": ("ForTokenClassification", ["logits"], {"num_labels": 5}),
         "mc": ("ForMultipleChoice", ["logits"], {})}


def text_inputs(length, choices=None, batch=1, valid=None, low=MASK_ID + 1, pad=0):
    shape = (batch, length) if choices is None else (batch, choices, length)
    ids, mask = torch.randint(low, VOCAB, shape), torch.ones(shape, dtype=torch.int64)
    valid = length - length // 4 if valid is None else valid
    ids[..., valid:], mask[..., valid:] = pad, 0
    return {"input_ids": ids, "attention_mask": mask}


def eager(model, inputs, names):
    with torch.inference_mode():
        result = model(**inputs)
    return {n: result[n] for n in names}


class Checked:
    """Runs files with the binary or the stock runtime and compares with what eager gives."""

    def __init__(self, downhaul, stock_runtime, folder):
        self.downhaul, self.stock_runtime, self.folder, self.sets = downhaul, stock_runtime, folder, 0

    def write_set(self, inputs, expected):
        folder = self.folder / f"set_{self.sets}"
        self.sets += 1
        folder.mkdir()
        plain = {k: v.detach().clone(memory_format=torch.contiguous_format) for k, v in expected.items()}
        save_file(inputs, folder / "inputs.safetensors")
        save_file(plain, folder / "expected.safetensors")
        describe = [[{"name": k, "shape": list(v.shape), "dtype": str(v.dtype).removeprefix("torch.")}
                     for k, v in named.items()] for named in (inputs, expected)]
        (folder / "model_spec.json").write_text(json.dumps({"inputs": describe[0], "outputs": describe[1]}))
        return folder

    def own(self, file, inputs, expected, *more, tolerance=TOLERANCE):
        folder = self.write_set(inputs, expected)
        out = folder / "out.safetensors"
        self.downhaul.run("run", file, "--inputs", folder / "inputs.safetensors", "--outputs", out, *more)
        got = load_file(out)
        assert set(got) == set(expected)
        for name, want in expected.items():
            assert difference(got[name], want) <= tolerance, name

    def lowered(self, file, inputs, expected, *more):
        """Both backends; the metadata of each."""
        meta = {}
        folder = self.write_set(inputs, expected)
        for backend in BACKENDS:
            text = self.downhaul.run("lower", file, "--backend", backend, "--out", folder, "--name", "own",
                                     "--json", *more)
            meta[backend] = json.loads(text)
            results = self.stock_runtime.run(folder / f"own_{backend}.pte", folder)
            assert not [r for r in results if "error" in r or not r["max_abs_diff"] <= TOLERANCE]
            self.own(folder / f"own_{backend}.pte", inputs, expected)
        return meta


@pytest.fixture
def checked(downhaul, stock_runtime, tmp_path):
    return Checked(downhaul, stock_runtime, tmp_path)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("head", HEADS)
def test_heads(name, head, checked, tmp_path):
    end, outputs, more = HEADS[head]
    model = FAMILIES[name](end, **more)
    if head == "base" and name != "distilbert":
        outputs = [*outputs, "pooler_output"]
    model.save_pretrained(tmp_path / "hf")
    choices = 4 if head == "mc" else None
    pad = 1 if name == "roberta" else 0
    for length, valid in ((LENGTH, None), (5, 5), (64, 40), (1, 1)):
        inputs = text_inputs(length, choices, valid=valid, pad=pad)
        expected = eager(model, inputs, outputs)
        checked.own(tmp_path / "hf", inputs, expected)
    inputs = text_inputs(LENGTH, choices, batch=2, pad=pad)
    checked.own(tmp_path / "hf", inputs, eager(model, inputs, outputs))
    inputs = text_inputs(LENGTH, choices, pad=pad)
    checked.lowered(tmp_path / "hf", inputs, eager(model, inputs, outputs), "--seq-len", LENGTH)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_token_types(name, checked, tmp_path):
    model = FAMILIES[name]("ForSequenceClassification", type_vocab_size=2)
    model.save_pretrained(tmp_path / "hf")
    inputs = text_inputs(LENGTH, pad=1)
    inputs["token_type_ids"] = torch.randint(0, 2, (1, LENGTH))
    checked.own(tmp_path / "hf", inputs, eager(model, inputs, ["logits"]), "--token-types")


@pytest.mark.parametrize("name", FAMILIES)
def test_fill_mask(name, checked, tmp_path):
    model = FAMILIES[name]("ForMaskedLM")
    model.save_pretrained(tmp_path / "hf")
    wrapper = FillMask(model).eval()
    for place in (0, 7, None):
        inputs = text_inputs(LENGTH, pad=1 if name == "roberta" else 0)
        if place is not None:
            inputs["input_ids"][:, place] = MASK_ID
        with torch.inference_mode():
            expected = {"logits": wrapper(**inputs)}
        checked.own(tmp_path / "hf", inputs, expected, "--head", "fill-mask", "--mask-token-id", MASK_ID)
    checked.lowered(tmp_path / "hf", inputs, expected, "--head", "fill-mask", "--mask-token-id", MASK_ID,
                    "--seq-len", LENGTH)


@pytest.mark.parametrize("activation", ["gelu_new", "relu", "gelu", "silu"])
@pytest.mark.parametrize("scaling", [{}, {"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False},
                                     {"n_inner": 96}])
def test_gpt2(activation, scaling, checked, tmp_path):
    model = make("GPT2LMHeadModel", "GPT2Config", GPT2, activation_function=activation, **scaling)
    model.save_pretrained(tmp_path / "hf")
    wrapper = LastToken(model).eval()
    for length in (1, 9, 16, 64):
        inputs = {"input_ids": torch.randint(0, VOCAB, (1, length))}
        with torch.inference_mode():
            checked.own(tmp_path / "hf", inputs, {"logits": wrapper(**inputs)})
            checked.own(tmp_path / "hf", inputs, {"logits": model(**inputs).logits}, "--head", "lm")
    if activation == "gelu_new":
        with torch.inference_mode():
            checked.lowered(tmp_path / "hf", inputs, {"logits": wrapper(**inputs)}, "--seq-len", 64)
            inputs = {"input_ids": inputs["input_ids"][:, :11].clone()}
            checked.lowered(tmp_path / "hf", inputs, {"logits": wrapper(**inputs)}, "--seq-len", "2..64")


def bare_names(state, prefix):
    return {k.removeprefix(prefix): v for k, v in state.items()}


def old_names(state):
    swap = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
    out = {}
    for name, value in state.items():
        for new, old in swap:
            name = name.replace(new, old)
        out[name] = value
    return out


FORMS = ["safetensors", "sharded", "bin", "bin_legacy", "bin_sharded", "no_prefix", "module", "old_names",
         "nested", "protocol_4", "file"]


@pytest.mark.parametrize("name, prefix", [("distilbert", "distilbert."), ("bert", "bert."), ("gpt2", "transformer.")])
@pytest.mark.parametrize("form", FORMS)
def test_forms(name, prefix, form, checked, tmp_path):
    """One model however it is stored: the same numbers each time."""
    if name == "gpt2":
        model = make("GPT2LMHeadModel", "GPT2Config", GPT2)
        inputs = {"input_ids": torch.randint(0, VOCAB, (1, 16))}
        with torch.inference_mode():
            expected = {"logits": model(**inputs).logits[:, -1]}
    else:
        model = FAMILIES[name]("ForMaskedLM")
        inputs = text_inputs(LENGTH)
        expected = eager(model, inputs, ["logits"])
    folder = tmp_path / "hf"
    model.save_pretrained(folder, **({"max_shard_size": "150KB"} if form == "sharded" else {}))
    if form == "sharded":
        assert (folder / "model.safetensors.index.json").exists()
    elif form not in ("safetensors", "file"):
        (folder / "model.safetensors").unlink()
        state = model.state_dict()
        if form == "no_prefix":
            state = bare_names(state, prefix)
        elif form == "module":
            state = {f"module.{k}": v for k, v in state.items()}
        elif form == "old_names":
            state = old_names(state)
        if form == "bin_sharded":
            names = sorted(state)
            half = {"one.bin": names[::2], "two.bin": names[1::2]}
            for file, keys in half.items():
                torch.save({k: state[k] for k in keys}, folder / file)
            index = {"metadata": {}, "weight_map": {k: file for file, keys in half.items() for k in keys}}
            (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
        else:
            torch.save({"state_dict": state} if form == "nested" else state, folder / "pytorch_model.bin",
                       _use_new_zipfile_serialization=form != "bin_legacy",
                       pickle_protocol=4 if form == "protocol_4" else 2)
    path = folder / "model.safetensors" if form == "file" else folder
    checked.own(path, inputs, expected)
    said = json.loads(checked.downhaul.run("lower", path, "--backend", "xnnpack", "--out", tmp_path / "out", "--json",
                                           "--seq-len", inputs["input_ids"].shape[1]))
    assert said["built"]["unused_weights"] == []
    if form not in ("bin_sharded",):  # tied weights are stored once, however many names they have
        table = VOCAB * 64 * 4
        parameters = sum(p.numel() * 4 for p in {id(p): p for p in model.parameters()}.values())
        assert said["pte_size_mb"] * 1e6 < parameters + table / 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_float_types_become_f32(dtype, checked, tmp_path):
    model = FAMILIES["distilbert"]("ForSequenceClassification").to(dtype)
    model.save_pretrained(tmp_path / "hf")
    inputs = text_inputs(LENGTH)
    checked.own(tmp_path / "hf", inputs, eager(model.float(), inputs, ["logits"]))


def test_sinusoidal_positions(checked, tmp_path):
    model = FAMILIES["distilbert"]("Model", sinusoidal_pos_embds=True)
    model.save_pretrained(tmp_path / "hf")
    inputs = text_inputs(LENGTH)
    checked.own(tmp_path / "hf", inputs, eager(model, inputs, ["last_hidden_state"]))


# ------------------------------------------------------------------------- against the exported path

ZOO = {"distilbert_fillmask": ["--head", "fill-mask", "--mask-token-id", MASK_ID], "distilbert_mlm": [],
       "distilbert_base": [], "distilbert_seqcls": [], "distilbert_qa": [], "distilbert_tokcls": [],
       "distilbert_mc": [], "bert_minilm": ["--head", "embed"], "bert_seqcls": [], "roberta": [], "gpt2": [],
       "gpt2_dynamic": ["--seq-len", "2..64"],
       "lraspp": ["--model-id", "lraspp_mobilenet_v3_large"], "mobilenet_v2": ["--model-id", "mobilenet_v2"],
       "mobilenet_v3_large": ["--model-id", "mobilenet_v3_large"],
       "mobilenet_v3_small": ["--model-id", "mobilenet_v3_small"], "resnet18": ["--model-id", "resnet18"],
       "resnet50": ["--model-id", "resnet50"]}


@pytest.fixture(scope="session")
def zoo_checkpoints(models, tmp_path_factory):
    """The weights inside the exported programs, as the libraries would save them."""
    def get(model):
        folder = tmp_path_factory.mktemp(model)
        name = model.removesuffix("_dynamic")
        case = builders()[name](Options("tiny", "sdpa", False, False, None, 1))
        program = torch.export.load(models[model] / "model.pt2")
        own = case.module.state_dict()
        case.module.load_state_dict({k: v for k, v in program.state_dict.items() if k in own}, strict=False)
        if name == "bert_minilm":
            case.checkpoint.config.num_hidden_layers = 2
        if hasattr(case.checkpoint, "save_pretrained"):
            case.checkpoint.save_pretrained(folder / "hf")
            return folder / "hf"
        torch.save(case.checkpoint.state_dict(), folder / "weights.pth")
        return folder / "weights.pth"
    return get


@pytest.mark.parametrize("model", ZOO)
def test_equals_the_exported_program(model, models, zoo_checkpoints, downhaul, tmp_path):
    """Same bits, same delegation; the sizes differ by names at most."""
    path = zoo_checkpoints(model)
    spec = json.loads((models[model] / "model_spec.json").read_text())
    shape = spec["inputs"][0]["shape"]
    size = ["--image-size", f"{shape[2]}x{shape[3]}"] if len(shape) == 4 else ["--seq-len", shape[-1]]
    if "--seq-len" in ZOO[model]:
        size = []
    for backend in BACKENDS:
        meta = []
        for source, more in ((models[model] / "model.pt2", []), (path, [*ZOO[model], *size])):
            name = "exported" if source.suffix == ".pt2" else "built"
            meta.append(json.loads(downhaul.run("lower", source, "--backend", backend, "--out", tmp_path, "--name",
                                                name, "--json", *more)))
        exported, built = meta
        for m in meta:
            del m["delegation"]["outside_by_module"]  # the wrapper's name is before the others there
        assert built["delegation"] == exported["delegation"]
        assert abs(built["pte_size_mb"] - exported["pte_size_mb"]) * 1e6 < 4096
        assert built["pte_size_mb"] <= exported["pte_size_mb"] + 1e-9
        said = json.loads(downhaul.run("compare", tmp_path / f"exported_{backend}.pte", tmp_path / f"built_{backend}.pte",
                                       "--json"))
        assert said["verdict"] == "equal"


@pytest.mark.parametrize("model", ["lraspp", "distilbert_fillmask"])
def test_spec_with_weights_and_no_program(model, models, zoo_checkpoints, downhaul, stock_runtime, tmp_path):
    """The step that lowers a segmentation spec of the course also builds the model."""
    path = zoo_checkpoints(model)
    folder = tmp_path / "model"
    shutil.copytree(models[model], folder)
    (folder / "model.pt2").unlink()
    spec = json.loads((folder / "model_spec.json").read_text())
    del spec["exported_program"]
    spec["weights"] = str(path)
    (folder / "model_spec.json").write_text(json.dumps(spec))
    for backend in BACKENDS:
        pte = downhaul.lower(folder, backend, tmp_path)
        results = stock_runtime.run(pte, folder)
        assert not [r for r in results if "error" in r or not r["max_abs_diff"] <= TOLERANCE]
    downhaul.run("run", folder / "model_spec.json", "--random", 1)


# ------------------------------------------------------------------------------------ real weights

SENTENCES = ["A dog runs across the meadow.", "A hound is sprinting over a field.", "The central bank raised rates.",
             "Interest rates went up again today."]


def test_minilm_similarities(checked, tmp_path):
    """A sentence-transformers folder as it is: unit vectors, similarities like the reference's."""
    from transformers import AutoModel, AutoTokenizer
    folder = minilm_folder()
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokens = tokenizer(SENTENCES, padding="max_length", max_length=48, truncation=True, return_tensors="pt")
    inputs = {k: tokens[k].clone() for k in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        wanted = torch.nn.functional.normalize(MeanPooled(model)(**inputs))
    checked.own(folder, inputs, {"embedding": wanted})
    got = load_file(tmp_path / "set_0" / "out.safetensors")["embedding"]
    assert difference(got @ got.T, wanted @ wanted.T) <= TOLERANCE
    assert wanted[0] @ wanted[1] > 0.5 > wanted[0] @ wanted[2]  # the numbers mean something
    one = {k: v[:1].clone() for k, v in inputs.items()}
    checked.lowered(folder, one, {"embedding": wanted[:1]}, "--seq-len", 48)


@pytest.mark.parametrize("model_id, side", [("mobilenet_v2", 224), ("mobilenet_v3_small", 224),
                                            ("mobilenet_v3_large", 160), ("resnet18", 224), ("resnet50", 128),
                                            ("resnet34", 96), ("lraspp_mobilenet_v3_large", 260)])
def test_torchvision_state_dicts(model_id, side, checked, tmp_path):
    """Full width, named as torchvision names its files."""
    from torchvision import models as tv
    torch.manual_seed(3)
    if model_id.startswith("lraspp"):
        model = tv.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=21).eval()
        wrapper, output = SegmentationOut(model).eval(), "out"
    else:
        model = wrapper = getattr(tv, model_id)(weights=None).eval()
        output = "logits"
    path = tmp_path / f"{model_id}-0123abcd.pth"
    torch.save(model.state_dict(), path)
    image = torch.randn(1, 3, side, side)
    with torch.inference_mode():
        expected = {output: wrapper(image)}
    name = "image" if output == "out" else "x"
    checked.own(path, {name: image}, expected, "--image-size", side)


# ----------------------------------------------------------------------------------------- refusals


def test_faults_are_one_line(downhaul, tmp_path):
    model = FAMILIES["distilbert"]("ForMaskedLM")
    model.save_pretrained(tmp_path / "hf")

    def refusal(*more, code=1):
        import subprocess
        done = subprocess.run([downhaul.path, "lower", tmp_path / "hf", "--backend", "portable", "--out",
                               tmp_path / "none", *map(str, more)], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        lines = [line for line in done.stderr.splitlines() if line]
        if code == 2 and lines[-1].startswith("Try 'downhaul"):
            lines.pop()
        assert len(lines) == 1, done.stderr
        assert not (tmp_path / "none").exists() or not list((tmp_path / "none").iterdir())
        return lines[0]

    assert "'pre_classifier.weight'" in refusal("--head", "seqcls")
    assert "1 to 66 tokens" in refusal("--seq-len", 67, code=2)
    assert "expected" in refusal("--head", "poetry", code=2)
    config = json.loads((tmp_path / "hf" / "config.json").read_text())
    for key, value, words in (("n_heads", 5, "'n_heads': 5 does not divide dim (64)"),
                              ("n_layers", -2, "'n_layers': expected an integer from 1"),
                              ("dim", 1e308, "'dim': expected an integer"),
                              ("activation", "snake", "'activation': expected one of")):
        (tmp_path / "hf" / "config.json").write_text(json.dumps({**config, key: value}))
        assert words in refusal()
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))


class Payload:
    """What a hostile pickle would do."""

    def __reduce__(self):
        import os
        return os.system, ("touch pickle_was_run",)


@pytest.mark.parametrize("place", ["value", "beside"])
def test_a_pickle_is_never_run(place, downhaul, tmp_path):
    import subprocess
    model = FAMILIES["distilbert"]("ForMaskedLM")
    model.save_pretrained(tmp_path / "hf")
    (tmp_path / "hf" / "model.safetensors").unlink()
    state = model.state_dict()
    state["vocab_transform.bias" if place == "value" else "extra"] = Payload()
    torch.save(state, tmp_path / "hf" / "pytorch_model.bin")
    done = subprocess.run([downhaul.path, "lower", tmp_path / "hf", "--backend", "portable", "--out",
                           tmp_path / "out"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 1
    assert "posix.system" in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "pickle_was_run").exists()
