"""What the text of each format is."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from pptx.util import Emu

from bot.documents.contract import DocumentError, DocumentKind, DocumentProblem, parse_pages
from bot.documents.reading import Documents
from tests.support.documents import package, pdf, replaced, saved, sheets, slides, word


@pytest.fixture
async def documents() -> AsyncIterator[Documents]:
    made = Documents()
    yield made
    await made.close()
    assert not made.pids


async def test_a_pdf_gives_its_pages_each_behind_a_mark(documents: Documents) -> None:
    text = await documents.read(pdf("one", "", "three"), DocumentKind.PDF)
    assert text.lines == ("[page 1]", "one", "[page 2: no text]", "[page 3]", "three")
    assert (text.total_parts, text.first_part, text.last_part) == (3, 1, 3)
    assert text.is_end


@pytest.mark.parametrize(
    ("pages", "shown"),
    [("2", [2]), ("1-2,4", [1, 2, 4]), ("4-", [4, 5]), ("3-99", [3, 4, 5]), ("5, 1 - 2 ,1", [1, 2, 5])],
)
async def test_pages_are_selected_in_order_and_once(documents: Documents, pages: str, shown: list[int]) -> None:
    text = await documents.read(pdf("p1", "p2", "p3", "p4", "p5"), DocumentKind.PDF, pages=pages)
    assert text.lines == tuple(line for number in shown for line in (f"[page {number}]", f"p{number}"))
    assert text.total_parts == 5


async def test_a_page_that_is_not_there_is_told_with_the_number_there_are(documents: Documents) -> None:
    with pytest.raises(DocumentError, match=r"^has 2 pages; there is no page 3$") as told:
        await documents.read(pdf("a", "b"), DocumentKind.PDF, pages="1,3-4")
    assert told.value.problem is DocumentProblem.NO_SUCH_PART


@pytest.mark.parametrize("pages", ["0", "3-1", "a", "1,,2", "-3", "1-2-3", "1;2", "²", "1," * 101 + "1"])
def test_what_is_no_selection_of_pages_is_an_error(pages: str) -> None:
    with pytest.raises(DocumentError, match=r"^pages: "):
        parse_pages(pages)


async def test_a_part_of_the_lines_tells_the_total_and_its_pages(documents: Documents) -> None:
    text = await documents.read(pdf("a", "b", "c"), DocumentKind.PDF, first_line=4, max_lines=2)
    assert (text.lines, text.first_line, text.last_line, text.total_lines) == (("b", "[page 3]"), 4, 5, 6)
    assert (text.first_part, text.last_part, text.is_end) == (2, 3, False)


async def test_a_pdf_without_text_is_told_to_be_a_scan(documents: Documents) -> None:
    with pytest.raises(DocumentError, match="no text on its 2 pages, only pictures") as told:
        await documents.read(pdf("", ""), DocumentKind.PDF)
    assert told.value.problem is DocumentProblem.NO_TEXT


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
async def test_a_pdf_with_a_password_is_told_and_one_with_an_empty_password_is_read(
    documents: Documents, algorithm: str
) -> None:
    with pytest.raises(DocumentError, match=r"^needs a password") as told:
        await documents.read(pdf("secret", password="x", algorithm=algorithm), DocumentKind.PDF)
    assert told.value.problem is DocumentProblem.PASSWORD
    text = await documents.read(pdf("open", password="", algorithm=algorithm), DocumentKind.PDF)
    assert text.lines[1] == "open"


async def test_a_word_file_gives_paragraphs_headings_lists_and_tables_in_order(documents: Documents) -> None:
    def fill(document: Any) -> None:
        document.add_heading("Title", 0)
        document.add_paragraph("first\tparagraph")
        document.add_heading("Part", 2)
        table = document.add_table(2, 2)
        for index, cell in enumerate(cell for row in table.rows for cell in row.cells):
            cell.text = f"c{index}\nx"
        table.cell(1, 0).merge(table.cell(1, 1))
        document.add_paragraph("item", style="List Bullet")
        document.add_paragraph("")
        document.add_paragraph("Grüße 第二 😀")

    text = await documents.read(word(fill), DocumentKind.DOCX)
    assert text.lines == (
        "# Title", "first\tparagraph", "## Part", "| c0 x | c1 x |", "| c2 x c3 x |", "- item", "Grüße 第二 😀",
    )  # fmt: skip
    assert text.total_parts == 0


async def test_a_word_file_gives_insertions_controls_boxes_and_notes_but_nothing_deleted(documents: Documents) -> None:
    body = f"""<w:document {nsdecls("w")} xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"><w:body>
      <w:p><w:r><w:t>kept </w:t></w:r><w:ins><w:r><w:t>inserted</w:t></w:r></w:ins>
        <w:del><w:r><w:delText>deleted</w:delText></w:r></w:del><w:r><w:footnoteReference w:id="2"/></w:r></w:p>
      <w:sdt><w:sdtContent><w:p><w:r><w:t>control</w:t></w:r></w:p></w:sdtContent></w:sdt>
      <w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent>
        </mc:Choice><mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent></w:r></w:p>
    </w:body></w:document>"""
    notes = f"""<w:footnotes {nsdecls("w")}><w:footnote w:id="0"><w:p/></w:footnote>
      <w:footnote w:id="2"><w:p><w:r><w:t>the note</w:t></w:r></w:p></w:footnote></w:footnotes>"""
    rels = (
        '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" '
        'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes" Target="footnotes.xml"/>'
        '<Relationship Id="r2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" '
        'TargetMode="External" Target="http://127.0.0.1:9/never"/></Relationships>'
    )
    parse_xml(body)
    made = package(
        [("word/document.xml", body.encode()), ("word/footnotes.xml", notes.encode()),
         ("word/_rels/document.xml.rels", rels.encode())]
    )  # fmt: skip
    text = await documents.read(made, DocumentKind.DOCX)
    assert text.lines == ("kept inserted[^2]", "control", "box", "[^2]: the note")


async def test_an_excel_file_gives_addressed_rows_of_every_sheet(documents: Documents) -> None:
    def fill(book: Any) -> None:
        sheet = book.active
        sheet.title = "Costs"
        sheet["B2"], sheet["C2"], sheet["E2"] = "rent\nand more", 1200.5, True
        sheet["A9"], sheet["B9"] = dt.date(2026, 3, 1), dt.datetime.fromisoformat("2026-03-01T12:30")
        book.create_sheet("Empty").sheet_state = "hidden"
        book.create_sheet("Zwei")["A1"] = "x\ty"

    text = await documents.read(sheets(fill), DocumentKind.XLSX)
    assert text.lines == (
        "[sheet 1: Costs]", "B2\trent and more\t1200.5\t\tTRUE", "A9\t2026-03-01\t2026-03-01 12:30:00",
        "[sheet 2: Empty, hidden]", "[sheet 3: Zwei]", "A1\tx y",
    )  # fmt: skip
    assert (text.total_parts, text.part_titles) == (3, ("Costs", "Empty", "Zwei"))


async def test_formulas_show_their_stored_value_or_themselves(documents: Documents) -> None:
    def fill(book: Any) -> None:
        book.active["A1"], book.active["A2"] = "=1+2", "=SUM(A1,4)"

    stored = replaced(
        sheets(fill),
        {"xl/worksheets/sheet1.xml": lambda xml: re.sub(rb"<f>1\+2</f><v ?(/>|></v>)", b"<f>1+2</f><v>3</v>", xml)},
    )
    text = await documents.read(stored, DocumentKind.XLSX)
    assert text.lines[1:] == ("A1\t3", "A2\t=SUM(A1,4) (not calculated)")


async def test_an_extent_that_a_sheet_only_claims_costs_nothing(documents: Documents) -> None:
    def fill(book: Any) -> None:
        book.active["A1"] = "only"

    claimed = replaced(
        sheets(fill),
        {"xl/worksheets/sheet1.xml": lambda xml: xml.replace(b'ref="A1:A1"', b'ref="A1:XFD1048576"')},
    )
    text = await documents.read(claimed, DocumentKind.XLSX)
    assert (text.lines[1:], text.is_end) == (("A1\tonly",), True)


async def test_a_powerpoint_file_gives_titles_texts_tables_groups_and_notes(documents: Documents) -> None:
    import pptx

    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "Plan"
    slide.shapes.add_table(1, 2, Emu(0), Emu(0), Emu(9), Emu(9)).table.cell(0, 1).text = "cell"
    slide.shapes.add_group_shape().shapes.add_textbox(Emu(0), Emu(0), Emu(9), Emu(9)).text_frame.text = "grouped"
    slide.notes_slide.notes_text_frame.text = "say it"
    show.slides.add_slide(show.slide_layouts[6]).element.set("show", "0")
    text = await documents.read(saved(show.save), DocumentKind.PPTX)
    assert text.lines == (
        "[slide 1]", "# Plan", "|  | cell |", "grouped", "[notes of slide 1]", "say it", "[slide 2, hidden]",
    )  # fmt: skip
    assert text.total_parts == 2


async def test_slides_are_selected_like_pages(documents: Documents) -> None:
    text = await documents.read(slides("A", "B", "C"), DocumentKind.PPTX, pages="2-")
    assert text.lines == ("[slide 2]", "# B", "Body of B", "[slide 3]", "# C", "Body of C")


async def test_the_file_itself_decides_which_office_format_it_is(documents: Documents) -> None:
    text = await documents.read(slides("A"), DocumentKind.XLSX)
    assert text.kind is DocumentKind.PPTX


async def test_an_open_file_is_read_from_its_beginning_and_stays_the_callers(
    documents: Documents, tmp_path: Any
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf("here"))
    with (tmp_path / "a.pdf").open("rb") as file:
        (tmp_path / "a.pdf").unlink()
        file.seek(100)
        for _ in range(2):
            assert (await documents.read(file, DocumentKind.PDF)).lines == ("[page 1]", "here")
        assert not file.closed
