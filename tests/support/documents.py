"""Documents for tests: whole ones made by the libraries of their formats, and hostile ones made by hand."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import docx
import openpyxl
import pptx
from pypdf import PdfWriter
from pypdf.generic import DictionaryObject, NameObject, StreamObject

_DOCX_MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"


def pdf(*pages: str, password: str | None = None, algorithm: str = "AES-256") -> bytes:
    """Return a PDF with a line of text on each page; '' is a page without text. An empty password encrypts, too."""
    writer = PdfWriter()
    font = DictionaryObject(
        {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1"),
         NameObject("/BaseFont"): NameObject("/Helvetica")}
    )  # fmt: skip
    for text in pages:
        page = writer.add_blank_page(300, 300)
        content = StreamObject()
        content.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"0 0 50 50 re f")
        page[NameObject("/Contents")] = writer._add_object(content)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    if password is not None:
        writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
    return saved(writer.write)


def saved(save: Callable[[io.BytesIO], Any]) -> bytes:
    """Return what a library writes."""
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def word(fill: Callable[[Any], Any]) -> bytes:
    """Return a Word file that `fill` wrote into."""
    document = docx.Document()
    fill(document)
    return saved(document.save)


def sheets(fill: Callable[[Any], Any]) -> bytes:
    """Return an Excel file that `fill` wrote into."""
    book = openpyxl.Workbook()
    fill(book)
    return saved(book.save)


def slides(*titles: str, notes: str = "") -> bytes:
    """Return a PowerPoint file with a slide per title."""
    show = pptx.Presentation()
    for title in titles:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"Body of {title}"
        if notes:
            slide.notes_slide.notes_text_frame.text = notes
    return saved(show.save)


def package(entries: Sequence[tuple[str, bytes]], *, main_type: str = _DOCX_MAIN) -> bytes:
    """Return a Word file whose parts are given, with the content types that name its main part."""
    types = (
        '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{main_type}"/></Types>'
    )
    rels = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
        'Target="word/document.xml"/></Relationships>'
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("_rels/.rels", rels)
        for name, data in entries:
            archive.writestr(name, data)
    return file.getvalue()


def replaced(archive: bytes, changes: dict[str, Callable[[bytes], bytes]]) -> bytes:
    """Return a zip with some of its entries changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        assert changes.keys() <= set(old.namelist())
        for name in old.namelist():
            new.writestr(name, changes.get(name, bytes)(old.read(name)))
    return out.getvalue()


def zip_bomb(unpacked_bytes: int) -> bytes:
    """Return a Word file with one entry of zeros that unpacks to so much."""
    file = io.BytesIO(package([("word/document.xml", b"<a/>")]))
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive, archive.open("word/media/a.bin", "w") as entry:
        for _ in range(unpacked_bytes >> 20):
            entry.write(bytes(1 << 20))
    return file.getvalue()


def patched_sizes(archive: bytes, name: str, size: int) -> bytes:
    """Return a zip that declares another unpacked size for one entry, in both of its headers."""
    data = bytearray(archive)
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.rfind(name.encode()) if signature == b"PK\x01\x02" else data.find(name.encode())
        start = data.rfind(signature, 0, at)
        data[start + offset : start + offset + 4] = struct.pack("<I", size)
    return bytes(data)


def slow_pdf(megabytes: int = 60) -> bytes:
    """Return a small PDF whose one page takes minutes to read: its content is millions of drawing commands."""
    stream = zlib.compress(b"BT /F1 1 Tf " + b"(a)Tj 1 1 Td " * (megabytes * 80_000), 9)
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    return raw_pdf(parts)


def page_tree_bomb(levels: int = 12, width: int = 10) -> bytes:
    """Return a tiny PDF with `width ** levels` pages: each node of its tree has the next one as every child."""
    nodes = [
        b"<</Type/Pages/Count %d/Kids[%s]>>" % (width**levels, b" ".join([b"%d 0 R" % (level + 3)] * width))
        for level in range(levels)
    ]
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", *nodes, b"<</Type/Page/MediaBox[0 0 9 9]>>"])


def page_tree_loop() -> bytes:
    """Return a PDF whose page tree contains itself."""
    return raw_pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 9/Kids[2 0 R 2 0 R]/Parent 2 0 R>>"])


def raw_pdf(objects: Sequence[bytes]) -> bytes:
    """Return a PDF of these objects, numbered from 1; the first is its catalog."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, text in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)
