"""The English text that the text samples are trained on, from packages of Debian."""

import collections
import gzip
import html
import html.parser
import re
import subprocess
import zlib

PACKAGES = ["bible-kjv", "bible-kjv-text", "wordnet-base", "debian-handbook", "debian-reference-en",
            "developers-reference", "debian-faq", "aptitude-doc-en", "installation-guide-amd64"]
HELD_OUT = 50  # one passage in so many is never trained on


class Paragraphs(html.parser.HTMLParser):
    """Collects the text of <p> and <dd> elements, without code and navigation."""

    BLOCKS = {"p", "dd"}
    SKIPPED = {"pre", "script", "style", "table", "nav", "head"}

    def __init__(self):
        super().__init__()
        self.found, self.text, self.skip = [], None, 0

    def handle_starttag(self, tag, attrs):
        if tag in self.SKIPPED:
            self.skip += 1
        elif tag in self.BLOCKS:
            self.flush()
            self.text = []

    def handle_endtag(self, tag):
        if tag in self.SKIPPED:
            self.skip = max(0, self.skip - 1)
        elif tag in self.BLOCKS:
            self.flush()

    def handle_data(self, data):
        if self.text is not None and not self.skip:
            self.text.append(data)

    def flush(self):
        if self.text:
            self.found.append("".join(self.text))
        self.text = None


def read(path):
    opened = gzip.open(path, "rb") if path.suffix in (".gz", ".dz") else open(path, "rb")
    with opened as f:
        return f.read().decode("utf-8", "replace")


def html_passages(root, pattern):
    for path in sorted(root.glob(pattern)):
        parser = Paragraphs()
        parser.feed(read(path))
        yield from parser.found


def bible(root):
    """A chapter is a passage; read with the package's own program, whose file is compressed."""
    run = subprocess.run([root / "bible-kjv/usr/bin/bible", "-p", root / "bible-kjv-text/usr/lib", "-f",
                          "ge1:1-re22:21"], capture_output=True, text=True, check=True)
    chapters = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        match = re.match(r"(\S+?):\d+\s+(.*)", line)
        if match:
            chapters[match[1]].append(match[2])
    return [" ".join(verses) for verses in chapters.values()]


def wordnet(root):
    """The example sentences of a meaning are a passage."""
    for path in sorted((root / "wordnet-base/usr/share/wordnet").glob("data.*")):
        for line in read(path).splitlines():
            examples = [e.strip(" ;") for e in re.findall(r'"([^"]+)"', line.partition(" | ")[2])]
            if examples:
                yield " ".join(e if e[-1:] in ".!?" else e + "." for e in examples)


SOURCES = {
    "bible": bible,
    "wordnet": wordnet,
    "debian": lambda root: (p for pattern in (
        "debian-handbook/usr/share/doc/debian-handbook/html/en-US/*.html",
        "debian-reference-en/usr/share/debian-reference/*.en.html",
        "developers-reference/usr/share/developers-reference/*.html",
        "debian-faq/usr/share/doc/debian/FAQ/*.en.html",
        "aptitude-doc-en/usr/share/doc/aptitude/html/en/*.html",
        "installation-guide-amd64/usr/share/doc/installation-guide-amd64/en/*.html",
    ) for p in html_passages(root, pattern)),
}


def clean(text):
    text = html.unescape(text).replace("’", "'").replace("‘", "'").replace("“", '"').replace("”", '"')
    text = re.sub(r"https?://\S+|\S*[\\{}<>|=]\S*", " ", text)
    return re.sub(r"\s+", " ", text.replace("¶", "")).strip()


def is_english(text):
    letters = sum(c.isascii() and (c.isalpha() or c == " ") for c in text)
    return len(text) >= 15 and letters >= 0.9 * len(text)


def plain(text):
    return re.sub(r"\W+", " ", text.lower())


def passages(root):
    """Yields (source, text), each text once."""
    seen = set()
    for source, find in SOURCES.items():
        for text in map(clean, find(root)):
            key = plain(text)
            if is_english(text) and key not in seen:
                seen.add(key)
                yield source, text


def sentences(text):
    return [s for s in re.split(r"(?<=[.!?;:])\s+(?=[A-Z\"'(])", text) if s]


def is_held_out(text):
    return zlib.crc32(text.encode()) % HELD_OUT == 0


def fetch(root):
    """Downloads and unpacks the packages into `root`; no root rights needed."""
    root.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=root, check=True)
    for deb in sorted(root.glob("*.deb")):
        name = deb.name.split("_")[0]
        subprocess.run(["dpkg-deb", "-x", deb, root / name], check=True)
        print(deb.name)
