"""Scenes for the vision samples: pictures of things composed over free photos, with exact masks.

The things are the colour emoji of Debian's fonts-noto-color-emoji, several for each of the twenty
classes of Pascal VOC; the backgrounds are photos of Debian's mate-backgrounds and of scikit-image.
`fetch` gets both. A scene is a function of its seed alone.
"""

import io
import pathlib
import random
import subprocess
import zipfile

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont

# Class -> emoji. Code points, so that any editor shows this file alike.
THINGS = {
    "aeroplane": [0x2708, 0x1F6E9],
    "bicycle": [0x1F6B2],
    "bird": [0x1F426, 0x1F99C, 0x1F986, 0x1F985, 0x1F989],
    "boat": [0x26F5, 0x1F6A4, 0x1F6E5, 0x1F6A2],
    "bottle": [0x1F37E, 0x1F37C, 0x1F9F4],
    "bus": [0x1F68C, 0x1F68D, 0x1F68E],
    "car": [0x1F697, 0x1F699, 0x1F695, 0x1F698],
    "cat": [0x1F408, 0x1F431],
    "chair": [0x1FA91, 0x1F4BA],
    "cow": [0x1F404, 0x1F42E],
    "diningtable": [0x1F37D],
    "dog": [0x1F415, 0x1F436, 0x1F429, 0x1F9AE],
    "horse": [0x1F40E, 0x1F434],
    "motorbike": [0x1F3CD, 0x1F6F5],
    "person": [0x1F9CD, 0x1F6B6, 0x1F9D1, 0x1F469, 0x1F468, 0x1F3C3, 0x1F467],
    "pottedplant": [0x1FAB4],
    "sheep": [0x1F411, 0x1F40F],
    "sofa": [0x1F6CB],
    "train": [0x1F686, 0x1F682, 0x1F684, 0x1F68A],
    "tvmonitor": [0x1F4FA, 0x1F5A5],
}
LABELS = ["background", *THINGS]

NATURE = "usr/share/backgrounds/mate/nature"
TRAINING = [f"{NATURE}/{n}.jpg" for n in ("Garden", "Dune", "Wood", "Aqua", "TwoWings", "Storm", "GreenMeadow",
                                          "RainDrops", "FreshFlower")] + [
    f"skimage/data/{n}" for n in ("brick.png", "gravel.png", "coffee.png", "hubble_deep_field.jpg", "moon.png",
                                  "ihc.png")]
HELD_OUT = [f"{NATURE}/{n}.jpg" for n in ("Blinds", "YellowFlower")] + [
    f"skimage/data/{n}" for n in ("grass.png", "rocket.jpg", "retina.jpg", "clock_motion.png")]
FONT = "usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
GLYPH = 136  # pixels of the font's pictures
LONG_SIDE = 640  # of backgrounds as they are kept

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def fetch(work):
    """Downloads and unpacks the font and the photos; no root needed."""
    work.mkdir(parents=True, exist_ok=True)
    for package in ("mate-backgrounds", "fonts-noto-color-emoji"):
        subprocess.run(["apt-get", "download", "-qq", package], cwd=work, check=True)
        deb = next(work.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, work], check=True)
    subprocess.run(["python3", "-m", "pip", "download", "-q", "--no-deps", "-d", work, "scikit-image==0.26.0"],
                   check=True)
    with zipfile.ZipFile(next(work.glob("scikit_image*.whl"))) as wheel:
        wheel.extractall(work, [n for n in wheel.namelist() if n.startswith("skimage/data/")])


class Scenes:
    """Makes scenes of `side` x `side` pixels."""

    def __init__(self, work, side, held_out=False):
        self.side = side
        self.held_out = held_out
        self.photos = []
        for name in HELD_OUT if held_out else TRAINING:
            photo = Image.open(pathlib.Path(work) / name).convert("RGB")
            photo.thumbnail((LONG_SIDE, LONG_SIDE), Image.LANCZOS)
            self.photos.append(photo)
        font = ImageFont.truetype(str(pathlib.Path(work) / FONT), 109)
        self.glyphs = {label: [self._glyph(font, c) for c in codes] for label, codes in THINGS.items()}

    @staticmethod
    def _glyph(font, code):
        picture = Image.new("RGBA", (GLYPH, GLYPH + 16))
        ImageDraw.Draw(picture).text((0, 0), chr(code), font=font, embedded_color=True)
        return picture.crop(picture.getbbox())

    def background(self, rng):
        photo = rng.choice(self.photos)
        size = rng.uniform(0.45, 1.0) * min(photo.size)
        x, y = rng.uniform(0, photo.width - size), rng.uniform(0, photo.height - size)
        picture = photo.resize((self.side, self.side), Image.BILINEAR, box=(x, y, x + size, y + size))
        if rng.random() < 0.5:
            picture = picture.transpose(Image.FLIP_LEFT_RIGHT)
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            picture = enhance(picture).enhance(rng.uniform(0.6, 1.4))
        return picture

    def _place(self, rng, picture, mask, label, share):
        """Pastes one thing whose longer side is `share` of the scene."""
        glyph = rng.choice(self.glyphs[label])
        if rng.random() < 0.5:
            glyph = glyph.transpose(Image.FLIP_LEFT_RIGHT)
        scale = share * self.side / max(glyph.size)
        stretch = rng.uniform(0.85, 1.15)
        size = (max(4, round(glyph.width * scale * stretch)), max(4, round(glyph.height * scale / stretch)))
        glyph = glyph.resize(size, Image.LANCZOS).rotate(rng.gauss(0, 12), Image.BICUBIC, expand=True)
        colours, alpha = glyph.convert("RGB"), glyph.getchannel("A")
        for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
            colours = enhance(colours).enhance(rng.uniform(0.7, 1.3))
        # Mostly inside the scene.
        x = round(rng.uniform(-0.15 * glyph.width, self.side - 0.85 * glyph.width))
        y = round(rng.uniform(-0.15 * glyph.height, self.side - 0.85 * glyph.height))
        if rng.random() < 0.5:
            shadow = alpha.filter(ImageFilter.GaussianBlur(self.side / 50)).point(lambda a: a // 3)
            offset = round(self.side / 40)
            picture.paste((0, 0, 0), (x + offset, y + offset), shadow)
        picture.paste(colours, (x, y), alpha)
        mask.paste(LABELS.index(label), (x, y), alpha.point(lambda a: 255 if a >= 128 else 0))

    def scene(self, seed, main=None, most=3):
        """(RGB picture, mask of class numbers). `main`: the thing that is largest and on top."""
        rng = random.Random(f"{seed} {self.held_out}")
        picture = self.background(rng)
        mask = Image.new("L", picture.size)
        for _ in range(rng.randint(0, most - 1)):
            self._place(rng, picture, mask, rng.choice(LABELS[1:]), rng.uniform(0.2, 0.45))
        label = main or rng.choice(LABELS[1:])
        self._place(rng, picture, mask, label, rng.uniform(0.4, 0.85))
        if rng.random() < 0.4:
            picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, self.side / 160)))
        if rng.random() < 0.4:
            noise = np.random.default_rng(rng.getrandbits(32)).normal(0, rng.uniform(2, 10), (self.side, self.side, 3))
            picture = Image.fromarray(np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8))
        if rng.random() < 0.3:
            jpeg = io.BytesIO()
            picture.save(jpeg, "JPEG", quality=rng.randint(40, 90))
            picture = Image.open(jpeg).convert("RGB")
        return picture, mask


def normalised(picture):
    """float32 [3, side, side], as model_spec.json says."""
    pixels = np.asarray(picture, dtype=np.float32) / 255
    return ((pixels - np.float32(MEAN)) / np.float32(STD)).transpose(2, 0, 1).copy()
