#!/usr/bin/env python3
"""Trains the sample segmenter on composed scenes, and writes the files of this folder.

    train.py fetch    --work DIR              the emoji font and the photos (see ../vision/scenes.py)
    train.py train    --work DIR --minutes 50 on small pictures; may be stopped, goes on
    train.py refine   --work DIR --minutes 25 goes on from there on pictures of the model's size
    train.py evaluate --work DIR              intersection over union on held-out photos, by class
    train.py export   --work DIR --out DIR    model.safetensors, labels.json, model_spec.json, photos

Needs torch, torchvision, safetensors and Pillow (tools/peers/setup), and Debian for `fetch`.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "vision"))

import numpy as np  # noqa: E402
import scenes  # noqa: E402
import torch  # noqa: E402
import training  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torchvision.models.mobilenetv3 import mobilenet_v3_large  # noqa: E402
from torchvision.models.segmentation.lraspp import _lraspp_mobilenetv3  # noqa: E402

TRAINED_SIDE = 160
SIDE = 224  # of the exported model
BATCH, REFINED_BATCH = 16, 8
SAMPLES = [("dog", 1), ("car", 2)]  # held-out scenes: largest thing and seed


class Segmenter(torch.nn.Module):
    """torchvision's LR-ASPP on MobileNetV3 with half the channels in its last stage."""

    def __init__(self):
        super().__init__()
        backbone = mobilenet_v3_large(weights=None, reduced_tail=True, dilated=True)
        self.net = _lraspp_mobilenetv3(backbone, len(scenes.LABELS))
        for module in self.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.momentum = 0.03  # 0.01 is for trainings of many more steps

    def forward(self, x):
        return self.net(x)["out"]


BACKGROUND_WEIGHT = 0.5


def loss_of(logits, masks):
    weight = torch.ones(len(scenes.LABELS))
    weight[0] = BACKGROUND_WEIGHT
    return torch.nn.functional.cross_entropy(logits, masks, weight=weight)


@torch.inference_mode()
def evaluate(work):
    model, saved = training.load(Segmenter(), work / "refined.pt")
    maker = scenes.Scenes(work, SIDE, held_out=True)
    classes = len(scenes.LABELS)
    counts = np.zeros((classes, classes), dtype=np.int64)
    for seed in range(training.HELD_OUT_SCENES):
        picture, mask = maker.scene(seed)
        logits = model(torch.from_numpy(scenes.normalised(picture))[None])
        found = logits[0].argmax(0).numpy().ravel()
        counts += np.bincount(np.asarray(mask).ravel().astype(np.int64) * classes + found,
                              minlength=classes * classes).reshape(classes, classes)
    hits = np.diag(counts)
    iou = hits / np.maximum(1, counts.sum(0) + counts.sum(1) - hits)
    for label, value in zip(scenes.LABELS, iou):
        print(f"| {label} | {value:.3f} |")
    print(f"steps {saved['steps']}, mean IoU {iou.mean():.4f}, pixels {hits.sum() / counts.sum():.4f}")


def export(work, out):
    out.mkdir(parents=True, exist_ok=True)
    model, _ = training.load(Segmenter(), work / "refined.pt")
    weights = {k: v.half() if v.is_floating_point() else v for k, v in model.net.state_dict().items()
               if not k.endswith("num_batches_tracked")}
    save_file({k: v.contiguous() for k, v in weights.items()}, out / "model.safetensors")
    (out / "labels.json").write_text(json.dumps(scenes.LABELS, indent=1) + "\n")
    spec = {
        "name": "segmentation", "model_id": "lraspp_mobilenet_v3_large", "task": "segmentation",
        "weights": "model.safetensors", "labels": "labels.json", "sample": f"{SAMPLES[0][0]}.jpg",
        "input": {"name": "image", "shape": [1, 3, SIDE, SIDE], "dtype": "float32", "layout": "nchw",
                  "preprocessing": {"resize": [SIDE, SIDE], "letterbox": True, "mean": scenes.MEAN,
                                    "std": scenes.STD}},
        "output": {"name": "out", "shape": [1, len(scenes.LABELS), SIDE, SIDE], "dtype": "float32"},
    }
    (out / "model_spec.json").write_text(json.dumps(spec, indent=1) + "\n")
    maker = scenes.Scenes(work, 480, held_out=True)
    maker.photos = maker.photos[len([n for n in scenes.HELD_OUT if n.startswith(scenes.NATURE)]):]  # free to pass on
    for label, seed in SAMPLES:
        picture, mask = maker.scene(seed, main=label)
        picture.save(out / f"{label}.jpg", quality=85)
        mask.save(out / f"{label}_mask.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["fetch", "train", "refine", "evaluate", "export"])
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.step == "fetch":
        scenes.fetch(options.work)
    elif options.step == "train":
        model = Segmenter()
        training.train(model, loss_of, work=options.work, side=TRAINED_SIDE, batch=BATCH,
                       minutes=options.minutes, peak=3e-3, checkpoint=options.work / "segmentation.pt")
    elif options.step == "refine":
        model, _ = training.load(Segmenter(), options.work / "segmentation.pt")
        training.train(model, loss_of, work=options.work, side=SIDE, batch=REFINED_BATCH, first=10**6,
                       minutes=options.minutes, peak=1.5e-3, checkpoint=options.work / "refined.pt")
    elif options.step == "evaluate":
        evaluate(options.work)
    else:
        export(options.work, options.out)


if __name__ == "__main__":
    main()
