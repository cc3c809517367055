"""Text models on the web service: each task answers as its verb does, and the page shows it."""

import json
import os
import pathlib

import pytest
from browser import Browser
from conftest import ROOT
from test_generate import generated  # noqa: F401
from test_serve import Server
from test_text_apps import CONTEXT, QUESTION, tokenizer  # noqa: F401

SAMPLE = ROOT / "samples" / "distilbert" / "model_spec.json"
PROMPT = "And Noah builded an [MASK] unto the LORD;"
CHOICES = ["It works.", "[not at all]", "Nobody knows", "In Paris"]
HEADS = ["seqcls", "qa", "tokcls", "mc", "base"]


@pytest.fixture(scope="module")
def server(downhaul, models, tokenizer, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("texts")
    paths = []
    for head in HEADS:
        path = folder / head / "model.pt2"
        path.parent.mkdir()
        path.symlink_to(models[f"distilbert_{head}"] / "model.pt2")
        (path.parent / "tokenizer.json").symlink_to(tokenizer[0] / "tokenizer.json")
        spec = {"name": head, "exported_program": "model.pt2", "task": {
            "seqcls": "classification", "qa": "question-answering", "tokcls": "token-classification",
            "mc": "multiple-choice", "base": "embedding"}[head]}
        (path.parent / "model_spec.json").write_text(json.dumps(spec))
        paths.append(path)
    server = Server(downhaul, SAMPLE, *paths)
    server.folder = folder
    yield server
    assert server.stop() == 0


def ask(server, model, expected=200, **fields):
    status, body = server.request("POST", f"/api/run/{model}", json.dumps(fields), {"Content-Type": "application/json"})
    assert status == expected, body
    return json.loads(body)


def verb(downhaul, server, name, head, *arguments):
    return json.loads(downhaul.run(name, server.folder / head / "model.pt2", *arguments, "--json"))


def test_each_task_answers_as_its_verb(server, downhaul):
    listed = json.loads(server.request("GET", "/api/models")[1])["models"]
    assert [m["task"] for m in listed] == ["fill-mask", "classify", "answer", "tag", "choose", "similarity"]

    words = json.loads(downhaul.run("fill-mask", SAMPLE, PROMPT, "--json"))["masks"][0]["words"]
    said = ask(server, "distilbert", text=PROMPT)
    assert [i["label"] for i in said["items"]] == [w["word"] for w in words]
    assert said["text"] == words[0]["sentence"]

    classes = verb(downhaul, server, "classify", "seqcls", CONTEXT)["classes"]
    assert [i["probability"] for i in ask(server, "seqcls", text=CONTEXT)["items"]] == [c["probability"] for c in classes]

    found = verb(downhaul, server, "answer", "qa", QUESTION, CONTEXT)
    said = ask(server, "qa", question=QUESTION, context=CONTEXT)
    assert [i["label"] for i in said["items"]] == [a["text"] for a in found["answers"]] + ["(no answer)"]
    assert said["items"][-1]["probability"] == found["no_answer_probability"]

    parts = verb(downhaul, server, "tag", "tokcls", CONTEXT)["parts"]
    assert [i["label"] for i in ask(server, "tokcls", text=CONTEXT)["items"]] == [f"{p['text']} · {p['label']}" for p in parts]

    ranked = verb(downhaul, server, "choose", "mc", QUESTION, *CHOICES)["choices"]
    said = ask(server, "mc", text=QUESTION, choices="\n".join(CHOICES))
    assert [i["label"] for i in said["items"]] == [c["text"] for c in ranked]

    cosines = verb(downhaul, server, "similarity", "base", QUESTION, CONTEXT)["similarities"]
    said = ask(server, "base", texts=f"{QUESTION}\n\n{CONTEXT}")
    assert said["items"][0]["cosine"] == pytest.approx(cosines[0][1], abs=1e-6)


def test_faults_of_the_client_are_named(server):
    for model, fields, word in [
            ("distilbert", {"text": "no mask"}, "[MASK]"), ("distilbert", {}, "text: expected a text"),
            ("distilbert", {"text": PROMPT, "top": 0}, "from 1 to 100"), ("seqcls", {"text": "x" * 70000}, "at most 65536"),
            ("qa", {"question": "what " * 40, "context": CONTEXT}, "question"), ("mc", {"text": "a", "choices": "b"}, "4 choices"),
            ("base", {"texts": "one"}, "expected 2 to 64"), ("seqcls", {"text": ["a"]}, "expected a string or a number")]:
        assert word in ask(server, model, 400, **fields)["error"], (model, fields)


def test_generation_goes_on_as_the_verb_does(downhaul, generated, tmp_path):  # noqa: F811
    from tokenizer_texts import real_lines
    from tokenizers import ByteLevelBPETokenizer
    folder, _ = generated
    made = ByteLevelBPETokenizer()
    made.train_from_iterator(real_lines(500, seed=1), vocab_size=300, show_progress=False)
    made.save(str(tmp_path / "tokenizer.json"))
    how = ["--tokenizer", tmp_path / "tokenizer.json"]
    want = json.loads(downhaul.run("generate", folder / "checkpoint", "Go on", *how, "--max-tokens", 9, "--json"))
    server = Server(downhaul, folder / "checkpoint", *how)
    try:
        said = ask(server, "checkpoint", text="Go on", max_tokens=9)
        assert said["text"] == "Go on" + want["text"] and said["note"].startswith("9 tokens added")
        warm = {"text": "Go on", "temperature": 1.5, "seed": 3, "max_tokens": 9}
        assert ask(server, "checkpoint", **warm)["text"] == ask(server, "checkpoint", **warm)["text"] != said["text"]
        assert "top_p" in ask(server, "checkpoint", 400, text="a", top_p=2)["error"]
    finally:
        assert server.stop() == 0


def test_the_page_works_in_a_browser(server, tmp_path):
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(server.url)
        browser.wait_for("document.querySelectorAll('nav button').length === 6")
        browser.type("input[type=text]", PROMPT)
        browser.click(".go")
        browser.wait_for("document.querySelectorAll('.bar').length === 5")
        said = ask(server, "distilbert", text=PROMPT)
        assert browser.run("return document.querySelector('.said').textContent") == said["text"]
        assert "ms in the model" in browser.run("return document.querySelector('.time').textContent")
        kept = os.environ.get("DOWNHAUL_SCREENSHOTS")
        if kept:
            pathlib.Path(kept).mkdir(parents=True, exist_ok=True)
            browser.screenshot(pathlib.Path(kept) / "fill_mask.png")
        browser.click("nav button:nth-child(3)")
        browser.type("input[type=text]", QUESTION)
        browser.type("textarea", CONTEXT)
        browser.click(".go")
        browser.wait_for("document.querySelectorAll('.bar').length === 4")
        assert browser.run("return [...document.querySelectorAll('.bar span')].pop().textContent") == "(no answer)"
        if kept:
            browser.screenshot(pathlib.Path(kept) / "answer.png")
    finally:
        browser.close()
