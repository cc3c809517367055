"""Greedy tokens are those of transformers, from checkpoints and exported programs alike."""

import json

import pytest
import torch

from model_zoo.common import import_torchvision

NEW = 64
PROMPT = [5, 201, 33, 7, 911]


class LastToken(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits[:, -1]


class AllTokens(LastToken):
    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits


def make_model(attention):
    import_torchvision()  # transformers does
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=1000, n_positions=128, n_embd=64, n_layer=2, n_head=4,
                        bos_token_id=999, eos_token_id=999)
    config._attn_implementation = attention
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():  # weights large enough that tokens do not repeat
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    return model


@pytest.fixture(scope="module", params=["sdpa", "eager"])
def generated(request, tmp_path_factory):
    """Model, its files, and what transformers goes on with."""
    folder = tmp_path_factory.mktemp(f"generate_{request.param}")
    model = make_model(request.param)
    model.save_pretrained(folder / "checkpoint")
    example = (torch.zeros(1, 16, dtype=torch.int64),)
    sizes = ({1: torch.export.Dim("length", min=2, max=128)},)
    for name, wrapper in [("last", LastToken(model)), ("all", AllTokens(model))]:
        torch.export.save(torch.export.export(wrapper, example, dynamic_shapes=sizes), folder / f"{name}.pt2")
    with torch.no_grad():
        ids = model.generate(torch.tensor([PROMPT]), max_new_tokens=NEW, do_sample=False,
                             eos_token_id=None, pad_token_id=0)
    return folder, ids[0, len(PROMPT):].tolist()


@pytest.mark.parametrize("file", ["checkpoint", "last.pt2", "all.pt2"])
def test_the_tokens_of_transformers(generated, downhaul, file):
    folder, expected = generated
    assert len(set(expected)) > 10
    for threads in (1, 2):
        said = json.loads(downhaul.run("generate", folder / file, "--ids", ",".join(map(str, PROMPT)),
                                       "--max-tokens", NEW, "--threads", threads, "--json"))
        assert said["whole_sequence"] == ""
        assert said["tokens"] == expected


def test_the_same_without_cache(generated, downhaul):
    folder, expected = generated
    said = json.loads(downhaul.run("generate", folder / "last.pt2", "--ids", ",".join(map(str, PROMPT)),
                                   "--max-tokens", 8, "--whole-sequence", "--json"))
    assert said["tokens"] == expected[:8]


def test_tokens_are_streamed_and_end_where_asked(generated, downhaul):
    folder, expected = generated
    args = ["generate", folder / "checkpoint", "--ids", ",".join(map(str, PROMPT))]
    assert downhaul.run(*args, "--max-tokens", 5).split() == [str(t) for t in expected[:5]]
    end = expected.index(expected[9])
    assert downhaul.run(*args, "--stop-id", expected[9]).split() == [str(t) for t in expected[:end + 1]]


def test_sampling_follows_the_seed(generated, downhaul):
    folder, expected = generated
    args = ["generate", folder / "checkpoint", "--ids", "1,2,3", "--max-tokens", 12, "--temperature", 1.5,
            "--top-k", 50, "--top-p", 0.95]
    one = downhaul.run(*args, "--seed", 1)
    assert downhaul.run(*args, "--seed", 1) == one
    assert downhaul.run(*args, "--seed", 2) != one


def test_what_does_not_fit_is_refused(generated, downhaul, models):
    folder, _ = generated
    said = downhaul.refuse("generate", models["gpt2"] / "model.pt2", "--ids", "1,2")
    assert "its length is fixed" in said
