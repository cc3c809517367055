"""Native tokenizers against the library `tokenizers`: a smaller run of compare_tokenizers.py, and
what it leaves out: pairs, truncation, padding, decoding, the older files, refusals."""

import json
import random

import pytest
from compare_tokenizers import IDS_ONLY, differences, own
from tokenizer_texts import every_character, generated, real_lines
from tokenizer_zoo import make_zoo

LINES = 5000
STRINGS = 20000
NAMES = ["word_pieces", "word_pieces_cased", "byte_pairs", "byte_pairs_roberta", "byte_pairs_normalized",
         "byte_pairs_unknown_single", "byte_pairs_unknown_fused", "byte_pairs_dropping", "sample", "minilm"]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return make_zoo(tmp_path_factory.mktemp("tokenizers"), real_lines(20000, seed=1), 8000)


@pytest.fixture(scope="module")
def texts():
    return {"lines": real_lines(LINES, seed=2), "strings": generated(STRINGS, seed=3),
            "characters": every_character()[::7]}


def check(peer, texts, found, ids_only=False):
    wrong, _ = differences(peer, texts, found, ids_only)
    assert not wrong, f"{len(wrong)} of {len(texts)} differ; first: {wrong[0][0]!r}: {wrong[0][1]}"


@pytest.mark.parametrize("name", NAMES)
def test_ids_and_offsets(downhaul, zoo, texts, name):
    path, peer = zoo[name]
    for given in texts.values():
        check(peer, given, own(downhaul.path, path, given), name in IDS_ONLY)


@pytest.mark.parametrize("name", ["word_pieces", "byte_pairs", "byte_pairs_roberta"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_pairs_cut_and_padded(downhaul, zoo, texts, tmp_path, name, side):
    _, peer = zoo[name]
    rng = random.Random(4)
    pool = texts["strings"][:2000] + texts["lines"][:1000]
    pairs = [[rng.choice(pool), rng.choice(pool)] for _ in range(400)] + pool[:400]
    for strategy in ["longest_first", "only_first", "only_second"]:
        for length in [4, 7, 16]:
            peer.enable_truncation(length, strategy=strategy, direction=side)
            peer.enable_padding(direction=side, length=10, pad_to_multiple_of=4)
            # What the library refuses or leaves as it is has a length of its own: see the unit tests.
            fitting = []
            for pair in pairs:
                try:
                    peer.encode(*pair) if isinstance(pair, list) else peer.encode(pair)
                    fitting.append(pair)
                except Exception:
                    assert strategy != "longest_first"
            path = tmp_path / f"{strategy}{length}.json"
            peer.save(str(path))
            check(peer, fitting, own(downhaul.path, path, fitting))
    peer.no_truncation()
    peer.no_padding()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("skip", [True, False])
def test_decode(downhaul, zoo, texts, tmp_path, name, skip):
    path, peer = zoo[name]
    peer.no_padding()
    peer.no_truncation()
    rng = random.Random(5)
    ids = [e.ids for e in peer.encode_batch(texts["strings"][:2000] + texts["lines"][:1000])]
    ids += [[rng.randrange(peer.get_vocab_size()) for _ in range(rng.randrange(12))] for _ in range(1000)]
    file = tmp_path / "ids.txt"
    file.write_text("".join(" ".join(map(str, i)) + "\n" for i in ids))
    more = [] if skip else ["--keep-special"]
    said = downhaul.run("tokenize", "--tokenizer", path, "--decode", "--file", file, "--json", *more)
    found = [json.loads(line)["text"] for line in said.split("\n")[:-1]]
    wanted = peer.decode_batch(ids, skip_special_tokens=skip)
    wrong = [(i, f, w) for i, f, w in zip(ids, found, wanted, strict=True) if f != w]
    assert not wrong, f"{len(wrong)} differ; first: {wrong[0]}"


def test_older_files_mean_the_same(downhaul, zoo, texts, tmp_path):
    from transformers import BertTokenizer, GPT2Tokenizer, RobertaTokenizer
    given = texts["strings"][:3000] + texts["lines"][:1000]

    def vocabulary(peer):
        return dict(sorted(peer.get_vocab().items(), key=lambda item: item[1]))

    for case, config in {"uncased": {}, "cased": {"do_lower_case": False},
                         "accents": {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False},
                         "lower": {"do_lower_case": True, "strip_accents": False}}.items():
        folder = tmp_path / case
        folder.mkdir()
        vocab = vocabulary(zoo["word_pieces"][1])
        (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocab))
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        reference = BertTokenizer(vocab=vocab, **config)
        check(reference.backend_tokenizer, given, own(downhaul.path, folder, given))
    model = json.loads(zoo["byte_pairs_roberta"][1].to_str())["model"]
    for cls, special in ((GPT2Tokenizer, []), (RobertaTokenizer, ["<s>", "<pad>", "</s>", "<unk>", "<mask>"])):
        for space in (False, True):
            folder = tmp_path / f"{cls.__name__}{space}"
            folder.mkdir()
            vocab = model["vocab"] | {t: len(model["vocab"]) + i for i, t in enumerate(special)}
            (folder / "vocab.json").write_text(json.dumps(vocab))
            merges = [tuple(m) for m in model["merges"]]
            (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
            (folder / "tokenizer_config.json").write_text(
                json.dumps({"tokenizer_class": cls.__name__, "add_prefix_space": space}))
            reference = cls(vocab=vocab, merges=merges, add_prefix_space=space)
            check(reference.backend_tokenizer, given, own(downhaul.path, folder, given))


def test_bytes_that_are_no_text_are_read_as_python_reads_them(downhaul, zoo, tmp_path):
    path, peer = zoo["byte_pairs"]
    rng = random.Random(6)
    alphabet = [b"a", b" ", b"\xc3", b"\xa9", b"\xe4", b"\xb8", b"\xad", b"\xf0", b"\x9f", b"\x98", b"\x80", b"\xed",
                b"\xa0", b"\xff", b"\xc0", b"\xf4", b"\x90"]
    lines = [b"".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 12))) for _ in range(2000)]
    file = tmp_path / "lines.txt"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    said = downhaul.run("tokenize", "--tokenizer", path, "--file", file, "--json")
    found = [json.loads(line) for line in said.split("\n")[:-1]]
    check(peer, [line.decode(errors="replace") for line in lines], found)


def test_components_beyond_are_refused_by_name(downhaul, tmp_path):
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    word_piece = models.WordPiece({"[UNK]": 0}, unk_token="[UNK]")
    cases = {
        "Unigram": Tokenizer(models.Unigram([("a", 0.0)])),
        "WordLevel": Tokenizer(models.WordLevel({"a": 0}, unk_token="a")),
        "NFKC": Tokenizer(word_piece), "Metaspace": Tokenizer(word_piece), "CTC": Tokenizer(word_piece),
        "byte_fallback": Tokenizer(models.BPE({"a": 0}, [], byte_fallback=True)),
        "end_of_word_suffix": Tokenizer(models.BPE({"a": 0}, [], end_of_word_suffix="</w>")),
    }
    cases["NFKC"].normalizer = normalizers.Sequence([normalizers.BertNormalizer(), normalizers.NFKC()])
    cases["Metaspace"].pre_tokenizer = pre_tokenizers.Metaspace()
    cases["CTC"].decoder = decoders.CTC()
    import subprocess
    for name, tokenizer in cases.items():
        path = tmp_path / f"{name}.json"
        tokenizer.save(str(path))
        done = subprocess.run([downhaul.path, "tokenize", "--tokenizer", path, "text"], capture_output=True, text=True)
        assert done.returncode == 1
        assert name in done.stderr and done.stderr.count("\n") == 1, done.stderr
