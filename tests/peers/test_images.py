"""Pictures: decoding, resizing and preparing beside Pillow, and the commands that look at photos."""

import io
import json

import numpy
import pytest
import torch
from PIL import Image, ImageOps
from safetensors.numpy import load_file
from torch import nn

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# One level of 255, through the smallest std.
ONE_LEVEL = 1 / 255 / min(STD) + 1e-5


class Identity(nn.Module):
    def forward(self, x):
        return x * 1.0


class ByColour(nn.Module):
    """Scores of 3 classes that one can read off a picture: dark, red, green."""

    def forward(self, x):
        return torch.stack([x.new_full(x.shape[:1] + x.shape[2:], 0.5), x[:, 0], x[:, 1]], dim=1)


class MeanColour(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def save_model(folder, module, height, width, labels=None, **preprocessing):
    folder.mkdir(parents=True, exist_ok=True)
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(1, 3, height, width),)), folder / "model.pt2")
    spec = {"name": "tiny", "exported_program": "model.pt2",
            "input": {"shape": [1, 3, height, width], "dtype": "float32", "layout": "nchw",
                      "preprocessing": preprocessing}}
    if labels:
        (folder / "labels.json").write_text(json.dumps(labels))
        spec["labels"] = "labels.json"
    (folder / "model_spec.json").write_text(json.dumps(spec))
    return folder / "model.pt2"


def prepared(downhaul, model, photo, out):
    downhaul.run("run", model, "--image", photo, "--outputs", out)
    return next(iter(load_file(out).values()))[0]


def reference(image, mean=MEAN, std=STD):
    pixels = numpy.asarray(image.convert("RGB"), dtype=numpy.float32) / 255
    return ((pixels - numpy.float32(mean)) / numpy.float32(std)).transpose(2, 0, 1)


def picture(width, height, seed=0, smooth=True):
    """Colours with edges and fine structure, like a photo's."""
    random = numpy.random.default_rng(seed)
    y, x = numpy.mgrid[0:height, 0:width]
    waves = [127 + 80 * numpy.sin(x / (3 + 4 * c) + c) * numpy.cos(y / (5 + 2 * c)) + 40 * (x > width / 2)
             for c in range(3)]
    noise = random.normal(0, 4 if smooth else 60, (height, width, 3))
    return Image.fromarray(numpy.clip(numpy.stack(waves, -1) + noise, 0, 255).astype(numpy.uint8))


SIZES = [(640, 480), (97, 301), (31, 17), (224, 224), (1000, 33)]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos", "box"])
def test_resizing_stays_within_one_level_of_pillow(downhaul, tmp_path, interpolation):
    pillow = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC,
              "lanczos": Image.Resampling.LANCZOS, "box": Image.Resampling.BOX}[interpolation]
    model = save_model(tmp_path / "m", Identity(), 65, 120, resize=[65, 120], interpolation=interpolation)
    for width, height in SIZES:
        for smooth in (True, False):
            image = picture(width, height, smooth=smooth)
            image.save(tmp_path / "photo.png")
            ours = prepared(downhaul, model, tmp_path / "photo.png", tmp_path / "y.safetensors")
            theirs = reference(image.resize((120, 65), pillow), [0, 0, 0], [1, 1, 1])
            assert numpy.abs(ours - theirs).max() <= 1 / 255 + 1e-6, (width, height)


def test_the_nearest_pixel_is_the_one_under_the_centre(downhaul, tmp_path):
    """Exactly; Pillow adds up the scale pixel by pixel, and its rounding decides ties."""
    model = save_model(tmp_path / "m", Identity(), 65, 120, resize=[65, 120], interpolation="nearest")
    for width, height in SIZES:
        image = picture(width, height)
        image.save(tmp_path / "photo.png")
        rows = (2 * numpy.arange(65) + 1) * height // (2 * 65)
        columns = (2 * numpy.arange(120) + 1) * width // (2 * 120)
        expected = Image.fromarray(numpy.asarray(image)[rows][:, columns])
        ours = prepared(downhaul, model, tmp_path / "photo.png", tmp_path / "y.safetensors")
        assert numpy.abs(ours - reference(expected, [0, 0, 0], [1, 1, 1])).max() <= 1e-6, (width, height)


def shorter_side(image, side):
    """torchvision's Resize with one number."""
    width, height = image.size
    longer = int(side * max(width, height) / min(width, height))
    return image.resize((side, longer) if width <= height else (longer, side), Image.Resampling.BILINEAR)


def middle(image, side):
    """torchvision's CenterCrop of a picture that is large enough."""
    left, top = (round((size - side) / 2) for size in image.size)
    return image.crop((left, top, left + side, top + side))


@pytest.mark.parametrize("width,height", SIZES)
def test_classifiers_see_what_torchvision_would_show_them(downhaul, tmp_path, width, height):
    model = save_model(tmp_path / "m", Identity(), 224, 224, resize=256, center_crop=224, mean=MEAN, std=STD)
    image = picture(width, height)
    image.save(tmp_path / "photo.png")
    ours = prepared(downhaul, model, tmp_path / "photo.png", tmp_path / "y.safetensors")
    theirs = reference(middle(shorter_side(image, 256), 224))
    assert numpy.abs(ours - theirs).max() <= ONE_LEVEL


def test_jpegs_decode_as_in_pillow(downhaul, tmp_path):
    """Same library, same settings: to the bit, baseline and progressive, grey, CMYK and YCCK."""
    model = save_model(tmp_path / "m", Identity(), 48, 80, resize=[48, 80])
    image = picture(80, 48)
    kinds = {"444": dict(subsampling=0), "420": dict(subsampling=2), "progressive": dict(progressive=True)}
    files = {name: (image, options) for name, options in kinds.items()}
    files["grey"] = (image.convert("L"), {})
    files["cmyk"] = (image.convert("CMYK"), {})
    for name, (source, options) in files.items():
        path = tmp_path / f"{name}.jpg"
        source.save(path, quality=90, **options)
        ours = prepared(downhaul, model, path, tmp_path / "y.safetensors")
        theirs = reference(Image.open(path), [0, 0, 0], [1, 1, 1])
        assert numpy.abs(ours - theirs).max() <= (1 / 255 + 1e-6 if name == "cmyk" else 1e-6), name


def test_pngs_of_every_kind_are_read(downhaul, tmp_path):
    model = save_model(tmp_path / "m", Identity(), 20, 30, resize=[20, 30])
    image = picture(30, 20)
    alpha = Image.fromarray(numpy.tile(numpy.arange(30, dtype=numpy.uint8) * 8, (20, 1)))
    with_alpha = image.copy()
    with_alpha.putalpha(alpha)
    deep = numpy.asarray(image.convert("L")).astype(numpy.uint16) * 257
    kinds = {"rgb": image, "grey": image.convert("L"), "palette": image.quantize(16), "bits": image.convert("1"),
             "alpha": with_alpha, "grey_alpha": image.convert("LA")}
    for name, source in kinds.items():
        path = tmp_path / f"{name}.png"
        source.save(path)
        ours = prepared(downhaul, model, path, tmp_path / "y.safetensors")
        theirs = reference(Image.open(path), [0, 0, 0], [1, 1, 1])
        assert numpy.abs(ours - theirs).max() <= 1e-6, name
    Image.fromarray(deep).save(tmp_path / "deep.png")
    ours = prepared(downhaul, model, tmp_path / "deep.png", tmp_path / "y.safetensors")
    assert numpy.abs(ours - reference(image.convert("L"), [0, 0, 0], [1, 1, 1])).max() <= 1e-6


@pytest.mark.parametrize("extension", ["jpg", "png"])
def test_photos_are_turned_upright(downhaul, tmp_path, extension):
    """Cameras store a picture as the sensor saw it and say in EXIF how it was held."""
    image = picture(90, 60)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        path = tmp_path / f"photo.{extension}"
        image.save(path, exif=exif, **({"quality": 95} if extension == "jpg" else {}))
        upright = ImageOps.exif_transpose(Image.open(path))
        width, height = upright.size
        model = save_model(tmp_path / f"m{width}", Identity(), height, width, resize=[height, width])
        ours = prepared(downhaul, model, path, tmp_path / "y.safetensors")
        assert numpy.abs(ours - reference(upright, [0, 0, 0], [1, 1, 1])).max() <= 1e-6, orientation


def scene(width, height, box):
    """A green object on a dark ground."""
    pixels = numpy.full((height, width, 3), 20, numpy.uint8)
    left, top, right, bottom = box
    pixels[top:bottom, left:right] = [30, 240, 60]
    return Image.fromarray(pixels)


@pytest.mark.parametrize("width,height", [(400, 240), (90, 200), (64, 64)])
def test_segment_cuts_out_the_object_in_the_photo_s_own_size(downhaul, tmp_path, width, height):
    model = save_model(tmp_path / "m", ByColour(), 64, 64, ["background", "fire", "leaf"], resize=[64, 64],
                       letterbox=True)
    box = (width // 4, height // 4, 3 * width // 4, height // 2)
    scene(width, height, box).save(tmp_path / "photo.jpg", quality=95)
    said = downhaul.run("segment", model, tmp_path / "photo.jpg", "--out", tmp_path / "cut")
    assert "Selected class: leaf (2)" in said
    assert "forward: " in said
    expected = numpy.zeros((height, width), bool)
    expected[box[1]:box[3], box[0]:box[2]] = True
    mask = Image.open(tmp_path / "cut" / "mask.png")
    assert mask.mode == "L" and mask.size == (width, height)
    found = numpy.asarray(mask) > 0
    union = (found | expected).sum()
    assert (found & expected).sum() / union > 0.85
    cut = Image.open(tmp_path / "cut" / "cutout.png")
    assert cut.mode == "RGBA" and cut.size == (width, height)
    assert ((numpy.asarray(cut)[..., 3] >= 128) == found).all()
    overlay = numpy.asarray(Image.open(tmp_path / "cut" / "overlay.png").convert("RGB")).astype(int)
    photo = numpy.asarray(Image.open(tmp_path / "photo.jpg")).astype(int)
    untouched = numpy.asarray(cut)[..., 3] == 0
    assert (overlay[untouched] == photo[untouched]).all()
    assert (overlay[found] != photo[found]).any(-1).mean() > 0.9


def test_segment_takes_the_class_that_is_asked_for(downhaul, tmp_path):
    model = save_model(tmp_path / "m", ByColour(), 32, 32, ["background", "fire", "leaf"], resize=[32, 32])
    pixels = numpy.full((32, 32, 3), 20, numpy.uint8)
    pixels[:8] = [30, 240, 60]
    pixels[20:24] = [250, 10, 10]
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    for wanted in ("fire", "1"):
        said = json.loads(downhaul.run("segment", model, tmp_path / "photo.png", "--class", wanted, "--out",
                                       tmp_path / "cut", "--json"))
        assert said["selected"] == {"id": 1, "label": "fire"}
        assert [c["label"] for c in said["classes"]] == ["background", "leaf", "fire"]
        assert numpy.asarray(Image.open(tmp_path / "cut" / "mask.png"))[20:24].all()
    downhaul.run("segment", model, tmp_path / "photo.png", "--class", "3", "--out", tmp_path / "cut", code=2)
    Image.new("RGB", (32, 32)).save(tmp_path / "dark.png")
    assert "only background" in downhaul.run("segment", model, tmp_path / "dark.png", "--out", tmp_path / "none")
    assert not numpy.asarray(Image.open(tmp_path / "none" / "cutout.png"))[..., 3].any()


def test_classify_names_the_likeliest(downhaul, tmp_path):
    model = save_model(tmp_path / "m", MeanColour(), 16, 16, ["fire", "leaf", "sky"], resize=[16, 16])
    Image.new("RGB", (50, 40), (255, 0, 127)).save(tmp_path / "photo.png")
    said = json.loads(downhaul.run("classify", model, tmp_path / "photo.png", "--top", 2, "--json"))["classes"]
    assert [c["label"] for c in said] == ["fire", "sky"]
    expected = torch.softmax(torch.tensor([1.0, 0.0, 127 / 255]), 0)
    assert said[0]["probability"] == pytest.approx(expected[0].item(), abs=1e-6)


def test_pictures_that_are_none_get_one_line(downhaul, tmp_path):
    import subprocess
    model = save_model(tmp_path / "m", Identity(), 16, 16, resize=[16, 16])
    good = io.BytesIO()
    picture(64, 48).save(good, "JPEG")
    png = io.BytesIO()
    picture(64, 48).save(png, "PNG")
    broken = {"empty.jpg": b"", "text.png": b"hello, world", "cut.jpg": good.getvalue()[:-100],
              "cut.png": png.getvalue()[:-100], "gif.png": b"GIF89a" + bytes(30),
              "sum.png": png.getvalue()[:40] + b"\x00" + png.getvalue()[41:]}
    huge = bytearray(png.getvalue())
    huge[16:24] = bytes([0, 1, 0, 0, 0, 1, 0, 0])
    broken["huge.png"] = bytes(huge)
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        done = subprocess.run([downhaul.path, "run", model, "--image", tmp_path / name], capture_output=True, text=True)
        assert done.returncode == 1, (name, done)
        assert done.stderr.count("\n") == 1 and name in done.stderr, (name, done.stderr)
    # Neither pictures nor texts go into this one.
    number_model = tmp_path / "n"
    number_model.mkdir()
    torch.export.save(torch.export.export(nn.Linear(4, 3), (torch.zeros(1, 4),)), number_model / "model.pt2")
    (tmp_path / "photo.jpg").write_bytes(good.getvalue())
    done = subprocess.run([downhaul.path, "classify", number_model / "model.pt2", tmp_path / "photo.jpg"],
                          capture_output=True, text=True)
    assert done.returncode in (1, 2) and "expected a model of one picture" in done.stderr
