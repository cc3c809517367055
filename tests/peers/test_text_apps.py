"""Verbs of text models: what they print, computed again from the scores that torch expects."""

import json
import math
import subprocess

import pytest
import torch
from conftest import ROOT
from safetensors.torch import load_file, save_file
from tokenizer_texts import real_lines
from tokenizer_zoo import word_pieces

SAMPLE = ROOT / "samples" / "distilbert"
QUESTION, CONTEXT = "Who wrote the program?", "The program was written by Ann Lee in Paris."


def test_fill_mask_finds_torchs_words(downhaul):
    for prompt in json.loads((SAMPLE / "prompts.json").read_text()):
        said = json.loads(downhaul.run("fill-mask", SAMPLE / "model.pt2", prompt["text"], "--json"))
        words = [w["word"] for w in said["masks"][0]["words"]]
        best = [w["token"] for w in prompt["top5"]]
        assert words == best, prompt["text"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    made = word_pieces(real_lines(5000, seed=1), 900)
    made.save(str(folder / "tokenizer.json"))
    return folder, made


def scores(downhaul, folder, encodings, tmp_path, shape):
    """The model's own outputs for encodings padded by hand."""
    length = shape[-1]
    rows = [e.ids + [0] * (length - len(e.ids)) for e in encodings]
    masks = [[1] * len(e.ids) + [0] * (length - len(e.ids)) for e in encodings]
    save_file({"input_ids": torch.tensor(rows).reshape(shape), "attention_mask": torch.tensor(masks).reshape(shape)},
              tmp_path / "given.safetensors")
    downhaul.run("run", folder / "model.pt2", "--inputs", tmp_path / "given.safetensors", "--outputs", tmp_path / "out.safetensors")
    return load_file(tmp_path / "out.safetensors")


@pytest.mark.parametrize("model", ["distilbert_seqcls"])
def test_classify(downhaul, models, tokenizer, tmp_path, model):
    path, peer = tokenizer
    want = scores(downhaul, models[model], [peer.encode(CONTEXT)], tmp_path, [1, 32])["logits"][0].softmax(-1)
    said = json.loads(downhaul.run("classify", models[model] / "model.pt2", CONTEXT, "--tokenizer", path, "--json"))
    assert [c["id"] for c in said["classes"]] == want.argsort(descending=True).tolist()
    assert [c["probability"] for c in said["classes"]] == pytest.approx(sorted(want.tolist(), reverse=True), abs=1e-6)


@pytest.mark.parametrize("model", ["distilbert_qa"])
def test_answer(downhaul, models, tokenizer, tmp_path, model):
    path, peer = tokenizer
    encoding = peer.encode(QUESTION, CONTEXT)
    if len(encoding) > 32:
        encoding.truncate(32)
    out = scores(downhaul, models[model], [encoding], tmp_path, [1, 32])
    context = [i for i, s in enumerate(encoding.sequence_ids) if s == 1]
    allowed = [0, *context]
    begins, ends = ({i: p for i, p in zip(allowed, out[n][0][allowed].double().softmax(-1).tolist())}
                    for n in ("start_logits", "end_logits"))
    best = max((begins[i] * ends[j], i, j) for i in context for j in context if i <= j < i + 15)
    said = json.loads(downhaul.run("answer", models[model] / "model.pt2", QUESTION, CONTEXT, "--tokenizer", path,
                                   "--json", "--truncate"))
    answer = said["answers"][0]
    assert math.isclose(answer["probability"], best[0], rel_tol=1e-4)
    assert (answer["start"], answer["end"]) == (encoding.offsets[best[1]][0], encoding.offsets[best[2]][1])
    assert answer["text"] == CONTEXT[answer["start"]:answer["end"]]


@pytest.mark.parametrize("model", ["distilbert_tokcls"])
def test_tag(downhaul, models, tokenizer, tmp_path, model):
    path, peer = tokenizer
    encoding = peer.encode(CONTEXT)
    best = scores(downhaul, models[model], [encoding], tmp_path, [1, 32])["logits"][0].argmax(-1).tolist()
    runs = []
    for i in range(1, len(encoding) - 1):
        if i > 1 and best[i] == best[i - 1]:
            runs[-1][2] = encoding.offsets[i][1]
        else:
            runs.append([f"class {best[i]}", *encoding.offsets[i]])
    said = json.loads(downhaul.run("tag", models[model] / "model.pt2", CONTEXT, "--tokenizer", path, "--json"))
    assert [[p["label"], p["start"], p["end"]] for p in said["parts"]] == runs


@pytest.mark.parametrize("model", ["distilbert_mc"])
def test_choose(downhaul, models, tokenizer, tmp_path, model):
    path, peer = tokenizer
    choices = ["It works.", "[not at all]", "Nobody knows", "In Paris"]
    encodings = [peer.encode(QUESTION, c) for c in choices]
    want = scores(downhaul, models[model], encodings, tmp_path, [1, 4, 32])["logits"][0].softmax(-1)
    said = json.loads(downhaul.run("choose", models[model] / "model.pt2", QUESTION, *choices, "--tokenizer", path, "--json"))
    assert [c["index"] for c in said["choices"]] == want.argsort(descending=True).tolist()
    assert [c["text"] for c in said["choices"]] == [choices[i] for i in want.argsort(descending=True)]


@pytest.mark.parametrize("model", ["distilbert_base"])
def test_embed_and_similarity(downhaul, models, tokenizer, tmp_path, model):
    path, peer = tokenizer
    vectors = []
    for text in (QUESTION, CONTEXT):
        encoding = peer.encode(text)
        hidden = scores(downhaul, models[model], [encoding], tmp_path, [1, 32])["last_hidden_state"][0]
        vectors.append(torch.nn.functional.normalize(hidden[:len(encoding)].mean(0), dim=0))
    file = models[model] / "model.pt2"
    said = json.loads(downhaul.run("embed", file, QUESTION, CONTEXT, "--tokenizer", path, "--json"))
    for got, want in zip(said["embeddings"], vectors):
        assert got["vector"] == pytest.approx(want.tolist(), abs=1e-6)
    said = json.loads(downhaul.run("similarity", file, QUESTION, CONTEXT, "--tokenizer", path, "--json"))
    assert said["similarities"][0][1] == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)


def test_texts_that_do_not_fit_are_refused(downhaul):
    for arguments, word in ((["the " * 100 + "[MASK]"], "--truncate"), (["no mask"], "no [MASK]"),
                            (["[MASK] and [MASK]"], "fills in one")):
        done = subprocess.run([downhaul.path, "fill-mask", SAMPLE / "model.pt2", *arguments], capture_output=True, text=True)
        assert done.returncode != 0 and word in done.stderr and done.stderr.strip().count("\n") <= 1, done.stderr


def test_answer_reads_long_texts_through_windows(downhaul, models, tokenizer, tmp_path):
    path, peer = tokenizer
    context = " ".join(f"{CONTEXT} It was read {n} times before." for n in range(12))
    room, overlap, most = 32, 5, 6
    question = peer.encode(QUESTION).ids[:-1]
    whole = peer.encode(context, add_special_tokens=False)
    length = room - len(question) - 2
    end = peer.encode(QUESTION).ids[-1]
    found, none = {}, 1.0
    first = 0
    while True:
        ids = whole.ids[first:first + length]
        row = [*question, end, *ids, end]
        save_file({"input_ids": torch.tensor([row + [0] * (room - len(row))]),
                   "attention_mask": torch.tensor([[1] * len(row) + [0] * (room - len(row))])}, tmp_path / "window.safetensors")
        downhaul.run("run", models["distilbert_qa"] / "model.pt2", "--inputs", tmp_path / "window.safetensors",
                     "--outputs", tmp_path / "out.safetensors")
        out = load_file(tmp_path / "out.safetensors")
        places = [0, *range(len(question) + 1, len(question) + 1 + len(ids))]
        begins, ends = (out[n][0][places].double().softmax(-1).tolist() for n in ("start_logits", "end_logits"))
        none = min(none, begins[0] * ends[0])
        for i in range(len(ids)):
            for j in range(i, min(len(ids), i + most)):
                span = (whole.offsets[first + i][0], whole.offsets[first + j][1])
                found[span] = max(found.get(span, 0), begins[1 + i] * ends[1 + j])
        if first + length >= len(whole.ids):
            break
        first += length - overlap
    best = sorted(found.items(), key=lambda item: -item[1])[:3]
    said = json.loads(downhaul.run("answer", models["distilbert_qa"] / "model.pt2", QUESTION, context, "--tokenizer", path,
                                   "--overlap", overlap, "--max-tokens", most, "--json"))
    assert said["windows"] > 5
    assert [a["probability"] for a in said["answers"]] == pytest.approx([p for _, p in best], rel=1e-4)
    assert (said["answers"][0]["start"], said["answers"][0]["end"]) == best[0][0]
    assert said["answers"][0]["text"] == context[best[0][0][0]:best[0][0][1]]
    assert said["no_answer_probability"] == pytest.approx(none, rel=1e-4)
    long = "why " * 40
    done = subprocess.run([downhaul.path, "answer", models["distilbert_qa"] / "model.pt2", long, context, "--tokenizer", path],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "the question has" in done.stderr
