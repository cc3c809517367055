"""Texts to tokenize: real lines from files that any Debian machine with Python has, and strings
generated over all of Unicode. The same for the same seed on the same machine."""

import gettext
import pathlib
import random
import sysconfig

ODD_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2003\u200a\u2028\u2029\u202f\u205f\u3000\u200b\ufeff\u180e"
MARKS = ("\u0300\u0301\u0302\u0303\u0308\u030a\u0323\u0327\u0328\u0334\u0344\u0345\u0f71\u0f72\u0f74\u0f73\u0f81\u093c"
         "\u094d\u0981\u0e38\u0e48\u3099\u309a\u05b0\u05bc\u064b\u0651\u20dd\u20e3\u0903\u302e\U0001d165\U0001e944\u0897")
CASES = "İIıißẞΣσςǅǆŉΐﬁﬃKÅΩſÀàÉéÑñÇçØøŁłĐđЁёЇїҐґƁɓꟋɤꟌ\U00010d50\U00010570\u1c89\u13a0\uab70"
EMOJI = ["\U0001f600", "\U0001f469\u200d\U0001f680", "\u2764\ufe0f", "\U0001f1eb\U0001f1f7", "\U0001f44d\U0001f3fd",
         "1\ufe0f\u20e3", "\U0001f3f4\U000e0067\U000e0062\U000e007f"]
WORDS = ["the", "Hello", "World", "don't", "I'LL", "we've", "'s", "'re", "it's", "naïve", "Kantō", "résumé", "über",
         "co-op", "U.S.A.", "3.14", "x=1;", "http://a.b/c?d=e&f", "unwantedX", "running", "日本語", "中文字", "한국어",
         "Привет", "שלום", "مرحبا", "हिन्दी", "ไทย", "Ǆ", "²³", "Ⅷ", "½", "٣٤", "�", "a" * 101, "é" * 100, "  "]
LOOK_ALIKES = ["[MASK]", "[mask]", "[MASK", "MASK]", "[[MASK]]", "[CLS]", "[SEP]", "[PAD]", "[UNK]", "[UNK ]", "<mask>",
               "<Mask>", "<s>", "</s>", "<pad>", "<unk>", "<|endoftext|>", "<|endoftext", "##ing", "##", "Ġ", "Ċ", "Ġthe",
               "[NORM]", "[norm]", "<left>", "<right>", "<word>", "<left> <right>", "Éclair", "éclair"]
POINTS = 0x110000


def real_lines(count, seed=0):
    """`count` different lines that are not blank: half from translated programs, where the machine
    has them, the rest from Python's own sources, documents and licences."""
    def catalogs():
        for path in sorted(pathlib.Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo")):
            try:
                with open(path, "rb") as file:
                    catalog = gettext.GNUTranslations(file)._catalog
            except (OSError, UnicodeDecodeError, ValueError, LookupError):
                continue
            for text in catalog.values():
                yield from text.splitlines()

    def files():
        folders = [pathlib.Path("/usr/share/common-licenses"),
                   pathlib.Path(sysconfig.get_path("stdlib")), pathlib.Path(sysconfig.get_path("purelib"))]
        for folder in folders:
            for path in sorted(folder.rglob("*")):
                if path.suffix in ("", ".py", ".txt", ".md", ".rst") and path.is_file() and path.stat().st_size < 1 << 20:
                    try:
                        yield from path.read_text(encoding="utf-8").splitlines()
                    except (OSError, UnicodeDecodeError):
                        continue

    def take(lines, wanted, taken):
        pool = []
        for line in lines:
            if line.strip() and len(line) < 2000 and line not in taken:
                taken.add(line)
                pool.append(line)
                if len(pool) >= 6 * wanted:
                    break
        random.Random(seed).shuffle(pool)
        return pool[:wanted]

    taken = set()
    lines = take(catalogs(), count // 2, taken)
    lines += take(files(), count - len(lines), taken)
    assert len(lines) == count, f"only {len(lines)} lines of text on this machine"
    random.Random(seed).shuffle(lines)
    return lines


def generated(count, seed=0):
    """Strings of up to about 60 characters in which everything meets everything."""
    rng = random.Random(seed)

    def point(low=0, high=POINTS):
        while True:
            c = rng.randrange(low, high)
            if not 0xD800 <= c < 0xE000:
                return chr(c)

    def part():
        kind = rng.randrange(16)
        if kind < 3:
            return rng.choice(WORDS)
        if kind == 3:
            return rng.choice(LOOK_ALIKES)
        if kind == 4:
            return rng.choice(ODD_SPACES)
        if kind == 5:
            return point(0x21, 0x7F) + "".join(rng.choice(MARKS) for _ in range(rng.randrange(4)))
        if kind == 6:
            return "".join(rng.choice(MARKS) for _ in range(rng.randrange(1, 5)))
        if kind == 7:
            return rng.choice(CASES)
        if kind == 8:
            return rng.choice(EMOJI)
        if kind == 9:
            return point(0x3400, 0xA000)
        if kind == 10:
            return point(0, 0x20)
        if kind == 11:
            return point(0x20, 0x3000)
        if kind == 12:
            return point(0xAC00, 0xD7A4)
        if kind == 13:
            return point(0x10000, 0x20000)
        if kind == 14:
            return point()
        return " "

    return ["".join(part() for _ in range(rng.randrange(13))) for _ in range(count)]


def every_character():
    """All scalar values, each between two letters, two digits and two marks."""
    points = [chr(c) for c in range(POINTS) if not 0xD800 <= c < 0xE000]
    return ["".join(f"a{c}a 1{c}1 !{c}! \u0345{c}\u0334 " for c in points[i:i + 32]) for i in range(0, len(points), 32)]
