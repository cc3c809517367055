"""What training the segmenter and the classifier has in common."""

import logging
import math
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402

# torchvision's compiled operators do not load beside every build of torch; these models need none,
# but importing torchvision registers shape functions for them.
_library = torch.library.Library("torchvision", "DEF")
try:
    import torchvision  # noqa: F401
except RuntimeError:
    for name in [n for n in sys.modules if n.startswith("torchvision")]:
        del sys.modules[name]
    _library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401

import scenes  # noqa: E402

SEED = 7
HELD_OUT_SCENES = 400


class Stream(torch.utils.data.IterableDataset):
    """Training scenes, on and on: every index is another one."""

    def __init__(self, work, side, first):
        self.work, self.side, self.first = work, side, first

    def __iter__(self):
        maker = scenes.Scenes(self.work, self.side)
        index = self.first
        while True:
            picture, mask = maker.scene(index)
            largest = torch.from_numpy(scenes.np.asarray(mask).copy()).long()
            yield torch.from_numpy(scenes.normalised(picture)), largest
            index += 1


def train(model, loss_of, *, work, side, batch, minutes, peak, checkpoint, first=0):
    """AdamW, one cycle over the time that is given; goes on from `checkpoint` when it is there."""
    torch.manual_seed(SEED)
    parameters = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.02},
                  {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(parameters, lr=peak, betas=(0.9, 0.99))
    steps, used = 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        steps, used = saved["steps"], saved["seconds"]
    model.train().to(memory_format=torch.channels_last)
    loader = torch.utils.data.DataLoader(Stream(work, side, first + steps * batch), batch, num_workers=1, prefetch_factor=4)
    budget = minutes * 60
    last, average = time.monotonic(), None
    for pictures, masks in loader:
        progress = min(1.0, used / budget)
        rate = peak * (progress / 0.1 if progress < 0.1 else 0.5 * (1 + math.cos(math.pi * (progress - 0.1) / 0.9)))
        for group in optimizer.param_groups:
            group["lr"] = max(rate, peak * 1e-3)
        loss = loss_of(model(pictures.contiguous(memory_format=torch.channels_last)), masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        steps += 1
        now = time.monotonic()
        used += now - last
        last = now
        average = loss.item() if average is None else 0.98 * average + 0.02 * loss.item()
        done = used >= budget
        if steps % 50 == 0 or done:
            print(f"step {steps}  {used / 60:.1f} min  loss {average:.4f}", flush=True)
        if steps % 200 == 0 or done:
            temporary = checkpoint.with_suffix(".new")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "steps": steps,
                        "seconds": used}, temporary)
            os.replace(temporary, checkpoint)
        if done:
            return steps


def load(model, checkpoint):
    saved = torch.load(checkpoint, weights_only=True)
    model.load_state_dict(saved["model"])
    return model.eval(), saved
