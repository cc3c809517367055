"""Vision models: classifiers and segmenters of torchvision, and transformers' ViT."""

import functools

import torch

from model_zoo.common import Case, randomise, settle_batch_norms

IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


class SegmentationOut(torch.nn.Module):
    """The main logits of a torchvision segmentation model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)["out"]


class Logits(torch.nn.Module):
    """The logits of a transformers image classifier."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(pixel_values=image).logits


def pictures(batch, side):
    """Input sets beside the random sample: flat, a ramp, a checkerboard, one bright pixel."""
    ramp = torch.linspace(-2.0, 2.0, side)
    board = (torch.arange(side)[:, None] // 4 + torch.arange(side)[None, :] // 4) % 2
    spot = torch.zeros(batch, 3, side, side)
    spot[:, :, side // 3, side // 2] = 10.0
    return {
        "zeros": {"image": torch.zeros(batch, 3, side, side)},
        "ramp": {"image": (ramp[:, None] * ramp[None, :]).expand(batch, 3, side, side)},
        "checkerboard": {"image": (board * 4.0 - 2.0).expand(batch, 3, side, side)},
        "spot": {"image": spot},
        "random": {"image": torch.randn(batch, 3, side, side) * 1.5},
    }


def gallery(side):
    """One batch of all `pictures`, the random kind twice."""
    sets = [*pictures(1, side).values(), *pictures(1, side).values()]
    return torch.cat([s["image"] for s in sets[:5] + sets[9:]])


def image_case(opts, module, side, outputs, preprocessing, **extra):
    return Case(module, {"image": torch.randn(opts.batch, 3, side, side)}, outputs,
                pictures(opts.batch, side),
                notes={"image": {"layout": "nchw", "preprocessing": {**preprocessing, **IMAGENET}}},
                extra=dict(batch=opts.batch, **extra))


def classifier(model_id, side, make):
    """A builder for a classifier that `make(opts)` constructs; side = (tiny, full)."""
    def build(opts):
        pixels = side[0] if opts.tiny else side[1]
        model = make(opts).eval()
        settle_batch_norms(randomise(model), gallery(pixels))
        scale = {"resize": pixels * 8 // 7, "center_crop": pixels}
        case = image_case(opts, model, pixels, ["logits"], scale, task="classification",
                          model_id=model_id)
        case.checkpoint = model
        return case
    return build


def segmenter(model_id, side, make):
    def build(opts):
        pixels = side[0] if opts.tiny else side[1]
        model = make(opts).eval()
        settle_batch_norms(randomise(model), gallery(pixels))
        outputs = ["out"]
        if opts.unwrapped:
            outputs = list(model(torch.zeros(1, 3, pixels, pixels)))
        case = image_case(opts, model if opts.unwrapped else SegmentationOut(model), pixels, outputs,
                          {"resize": [pixels, pixels], "letterbox": True}, task="segmentation",
                          model_id=model_id)
        case.checkpoint = model
        return case
    return build


# ------------------------------------------------------------------------------ construction


def classes(opts):
    return 10 if opts.tiny else 1000


def mobilenet_v2(opts):
    from torchvision.models import mobilenet_v2 as make
    return make(weights=None, width_mult=0.35 if opts.tiny else 1.0, num_classes=classes(opts))


def mobilenet_v3(arch, opts, **kwargs):
    from torchvision.models import mobilenetv3
    settings, last = mobilenetv3._mobilenet_v3_conf(
        arch, width_mult=0.35 if opts.tiny else 1.0, **kwargs)
    return mobilenetv3.MobileNetV3(settings, last, num_classes=classes(opts))


def resnet(depth, opts):
    from torchvision.models import resnet as r
    if not opts.tiny:
        return getattr(r, f"resnet{depth}")(weights=None)

    class Narrow(r.ResNet):
        """Blocks an eighth as wide."""

        def _make_layer(self, block, planes, *args, **kwargs):
            return super()._make_layer(block, planes // 8, *args, **kwargs)

    block = r.BasicBlock if depth == 18 else r.Bottleneck
    model = Narrow(block, [1, 2, 1, 1], num_classes=10)
    model.fc = torch.nn.Linear(64 * block.expansion, 10)
    return model


def efficientnet_b0(opts):
    from torchvision.models import efficientnet as e
    if not opts.tiny:
        return e.efficientnet_b0(weights=None)
    settings, last = e._efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=0.5)
    return e.EfficientNet(settings, 0.2, num_classes=10, last_channel=last)


def convnext_tiny(opts):
    from torchvision.models import convnext as c
    if not opts.tiny:
        return c.convnext_tiny(weights=None)
    blocks = [c.CNBlockConfig(16, 32, 1), c.CNBlockConfig(32, 48, 2), c.CNBlockConfig(48, None, 1)]
    return c.ConvNeXt(blocks, stochastic_depth_prob=0.1, num_classes=10)


def swin_t(opts):
    from torchvision.models import swin_transformer as s
    if not opts.tiny:
        return s.swin_t(weights=None)
    return s.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=10)


def vit_b_16(opts):
    from torchvision.models import vision_transformer as v
    if opts.tiny:
        return v.VisionTransformer(32, 8, 2, 4, 64, 128, num_classes=10)
    return v.vit_b_16(weights=None)


def lraspp(opts):
    from torchvision.models.segmentation import lraspp as s
    backbone = mobilenet_v3("mobilenet_v3_large", opts, dilated=True)
    return s._lraspp_mobilenetv3(backbone, 21)


def deeplabv3(opts):
    from torchvision.models.segmentation import deeplabv3 as s
    backbone = mobilenet_v3("mobilenet_v3_large", opts, dilated=True)
    return s._deeplabv3_mobilenetv3(backbone, 21, True if opts.unwrapped else None)


def vit(opts):
    """transformers' ViT, as wide as ViT-S at full size."""
    from transformers import ViTConfig, ViTForImageClassification
    small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                 image_size=32, patch_size=8)
    full = dict(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536)
    config = ViTConfig(**(small if opts.tiny else full), num_labels=classes(opts))
    config._attn_implementation = opts.attention
    model = randomise(ViTForImageClassification(config).eval())
    side = config.image_size
    case = image_case(opts, Logits(model), side, ["logits"], {"resize": [side, side]},
                      task="classification", model_id="vit-small-patch16-224", attention=opts.attention)
    case.checkpoint = model
    return case


_v3 = functools.partial(functools.partial, mobilenet_v3)

BUILDERS = {
    "lraspp": segmenter("lraspp_mobilenet_v3_large", (96, 520), lraspp),
    "mobilenet_v2": classifier("mobilenet_v2", (64, 224), mobilenet_v2),
    "mobilenet_v3_large": classifier("mobilenet_v3_large", (64, 224), _v3("mobilenet_v3_large")),
    "mobilenet_v3_small": classifier("mobilenet_v3_small", (96, 224), _v3("mobilenet_v3_small")),
    "resnet18": classifier("resnet18", (64, 224), functools.partial(resnet, 18)),
    "resnet50": classifier("resnet50", (64, 224), functools.partial(resnet, 50)),
    "efficientnet_b0": classifier("efficientnet_b0", (64, 224), efficientnet_b0),
    "deeplabv3_mobilenet_v3": segmenter("deeplabv3_mobilenet_v3_large", (96, 520), deeplabv3),
    "convnext_tiny": classifier("convnext_tiny", (64, 224), convnext_tiny),
    "swin_t": classifier("swin_t", (56, 224), swin_t),
    "vit_b_16": classifier("vit_b_16", (32, 224), vit_b_16),
    "vit": vit,
}
