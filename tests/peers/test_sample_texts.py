"""The trained text models of samples/: the engine against transformers in eager mode, tokens against
the library, texts that are generated and labelled."""

import json

import pytest
import torch
from compare_tokenizers import own
from conftest import ROOT, TOLERANCE
from model_zoo.common import import_torchvision
from safetensors.torch import load_file, save_file
from stock_run import difference

import_torchvision()  # transformers does

SAMPLES = ROOT / "samples"
CLASSES = {"distilbert": "DistilBertForMaskedLM", "distilbert_classifier": "DistilBertForSequenceClassification",
           "gpt2": "GPT2LMHeadModel"}
LINES = ["And the LORD spake unto Moses, saying, Speak unto the children of Israel.",
         "she struck her head on the low ceiling", "To install a package, run apt-get as root.",
         "In the beginning God created the heaven and the earth.", "It's 3.14; naïve co-op users don't care!  ", "a"]
NEW = 64


def eager(name):
    import transformers
    return getattr(transformers, CLASSES[name]).from_pretrained(SAMPLES / name, dtype=torch.float32).eval()


def library(name):
    from transformers import AutoTokenizer
    return AutoTokenizer.from_pretrained(SAMPLES / name)


@pytest.mark.parametrize("length", [24, 61])
@pytest.mark.parametrize("name", CLASSES)
def test_logits_are_those_of_transformers(downhaul, tmp_path, name, length):
    tokenizer = library(name)
    texts = [" ".join(LINES[:4]), LINES[0]]
    rows = [tokenizer(t, truncation=True, max_length=length)["input_ids"] for t in texts]
    ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
    inputs = {"input_ids": ids}
    if name != "gpt2":  # which has no mask in its checkpoint's form: what follows changes nothing before
        inputs["attention_mask"] = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        assert inputs["attention_mask"].min() == 0
    with torch.inference_mode():
        want = eager(name)(**inputs).logits
    save_file(inputs, tmp_path / "in.safetensors")
    downhaul.run("run", SAMPLES / name, "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors",
                 *(["--head", "lm"] if name == "gpt2" else []))
    got = load_file(tmp_path / "out.safetensors")
    assert got.keys() == {"logits"} and difference(got["logits"], want) <= TOLERANCE


@pytest.mark.parametrize("name", CLASSES)
def test_tokens_are_those_of_the_library(downhaul, name):
    tokenizer = library(name)
    lines = LINES + [p["text"] for p in json.loads((SAMPLES / "distilbert/prompts.json").read_text())]
    assert [e["ids"] for e in own(downhaul.path, SAMPLES / name, lines)] == [tokenizer(t)["input_ids"] for t in lines]


def test_the_checkpoint_of_fill_mask_computes_what_its_program_does(downhaul):
    folder = SAMPLES / "distilbert"
    said = downhaul.run("compare", folder / "model.pt2", folder, "--head", "fill-mask", "--seq-len", 64,
                        "--mask-token-id", 4, "--inputs", folder / "inputs.safetensors")
    assert "the same, bit for bit" in said
    for prompt in json.loads((folder / "prompts.json").read_text()):
        said = json.loads(downhaul.run("fill-mask", folder, prompt["text"], "--json"))
        assert [w["word"] for w in said["masks"][0]["words"]] == [w["token"] for w in prompt["top5"]]


def test_sources_of_sentences(downhaul):
    name = "distilbert_classifier"
    tokenizer, model = library(name), eager(name)
    best = []
    for line in LINES[:4]:
        with torch.inference_mode():
            want = model(**tokenizer(line, return_tensors="pt")).logits[0].softmax(-1)
        classes = json.loads(downhaul.run("classify", SAMPLES / name, line, "--json"))["classes"]
        assert [c["label"] for c in classes] == [model.config.id2label[i] for i in want.argsort(descending=True).tolist()]
        assert [c["probability"] for c in classes] == pytest.approx(sorted(want.tolist(), reverse=True), abs=1e-5)
        best.append(classes[0]["label"])
    assert best == ["King James Version", "WordNet example", "Debian manual", "King James Version"]


@pytest.mark.parametrize("prompt", ["In the beginning", "The package", "he said that"])
def test_greedy_text_is_that_of_transformers(downhaul, prompt):
    tokenizer = library("gpt2")
    ids = tokenizer(prompt)["input_ids"]
    with torch.inference_mode():
        want = eager("gpt2").generate(torch.tensor([ids]), max_new_tokens=NEW, do_sample=False, eos_token_id=None,
                                      pad_token_id=0)[0, len(ids):].tolist()
    folder = SAMPLES / "gpt2"
    said = json.loads(downhaul.run("generate", folder, "--ids", ",".join(map(str, ids)), "--max-tokens", NEW, "--json"))
    assert len(want) == NEW and said["tokens"] == want
    ended = want[:want.index(0)] if 0 in want else want
    said = json.loads(downhaul.run("generate", folder, prompt, "--max-tokens", NEW, "--json"))
    assert said["text"] == tokenizer.decode(ended)
