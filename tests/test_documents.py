"""Files into documents: which are found, how they are called, what is read from each kind, and what is refused."""

import builtins
import contextlib
import io
import json
import locale
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from rag_transformers.documents import SUFFIXES, SkippedWarning, find_files, fingerprint, load_documents
from rag_transformers.documents.decoding import DamagedTextWarning, GuessedEncodingWarning
from rag_transformers.errors import DocumentError, UsageError

CHINESE = "林溪水厂位于北岸，每日供水约三万吨。水厂由林晚主持修建，一九九八年建成。\n"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files under a folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes = "Ada left.\n") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    return write


def guessed(name: str, encoding: str) -> Any:
    """Where a file's encoding is guessed, and a warning tells how to name it."""
    said = rf"{name}: is not UTF-8 and was read as {encoding}; .*--encoding, in Python load_documents\(encoding=…\)"
    return pytest.warns(GuessedEncodingWarning, match=said)


def sources(documents: list[Document]) -> list[str]:
    return [document.metadata["source"] for document in documents]


class TestFinding:
    def test_folder_is_read_with_all_in_it_in_order_and_without_hidden_files(self, write: Write) -> None:
        names = ("chapter10.txt", "chapter2.txt", "b/notes.md", ".git/x.txt", ".hidden.txt", "~$open.docx", "a.doc")
        for name in names:
            write(f"in/{name}")
        assert sources(load_documents("in")) == ["in/b/notes.md", "in/chapter2.txt", "in/chapter10.txt"]

    def test_source_is_the_path_as_given_with_forward_slashes(self, write: Write, tmp_path: Path) -> None:
        write("in/a.txt")
        assert sources(load_documents("./in/")) == ["in/a.txt"]
        assert sources(load_documents(Path("in") / "a.txt")) == ["in/a.txt"]
        assert sources(load_documents(tmp_path / "in")) == [(tmp_path / "in" / "a.txt").as_posix()]
        assert sources(load_documents(os.path.join("in", "a.txt"))) == ["in/a.txt"]

    def test_glob_finds_files_and_folders(self, write: Write) -> None:
        for name in ("in/a1.txt", "in/a2.MD", "in/b.txt", "in/c.log", "in/deep/er/d.txt"):
            write(name)
        assert sources(load_documents("in/a*")) == ["in/a1.txt", "in/a2.MD"]
        assert sources(load_documents("in/**/*.txt")) == ["in/a1.txt", "in/b.txt", "in/deep/er/d.txt"]
        assert sources(load_documents("in/d*")) == ["in/deep/er/d.txt"]

    def test_file_whose_name_looks_like_a_glob_is_a_file(self, write: Write) -> None:
        write("in/a[1].txt")
        assert sources(load_documents("in/a[1].txt")) == ["in/a[1].txt"]

    def test_each_file_is_read_once(self, write: Write, tmp_path: Path) -> None:
        write("in/a.txt")
        assert sources(load_documents(["in/a.txt", "in", "in/*.txt", tmp_path / "in/a.txt"])) == ["in/a.txt"]

    def test_no_file_found_names_the_path_and_what_was_looked_for(self, write: Write) -> None:
        """Case cli-04."""
        write("in/readme.doc")
        for path in ("in", "in/*.doc", "in/*.nothing"):
            with pytest.raises(UsageError) as error:
                load_documents(path)
            assert "\n" not in str(error.value)
            assert all(part in str(error.value) for part in (path, *SUFFIXES))

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("absent.txt", "absent.txt: no such file or folder"),
            ("absent/folder", "absent/folder: no such file or folder"),
            ("in/readme.doc", "in/readme.doc: cannot be read; give .txt, .md"),
            ([], "paths is empty"),
            ("", "paths holds ''; give files, folders or globs"),
            ([3], "paths holds 3; give files"),
        ],
    )
    def test_path_that_cannot_be_read_is_refused(self, write: Write, given: Any, said: str) -> None:
        write("in/readme.doc")
        write("in/a.txt")
        with pytest.raises(UsageError, match=said):
            find_files(given)

    def test_one_wrong_path_among_good_ones_is_refused(self, write: Write) -> None:
        write("in/a.txt")
        with pytest.raises(UsageError, match=r"abs\.txt: no such file"):
            load_documents(["in/a.txt", "abs.txt"])


class TestEmptyFiles:
    def test_empty_files_are_left_out_and_named(self, write: Write) -> None:
        write("in/a.txt", "Ada left.")
        for name, content in (("b.txt", ""), ("c.md", " \n\n"), ("d.csv", "text\n"), ("e.jsonl", "")):
            write(f"in/{name}", content)
        with pytest.warns(SkippedWarning, match=r"no text in in/b\.txt, in/c\.md, in/d\.csv, in/e\.jsonl: left out"):
            assert sources(load_documents("in")) == ["in/a.txt"]

    def test_nothing_but_empty_files_is_refused(self, write: Write) -> None:
        write("in/a.txt", "")
        write("in/b.json", "[]")
        with pytest.raises(UsageError, match=r"no text in in/a\.txt, in/b\.json"):
            load_documents("in")


class TestEncodings:
    @pytest.mark.parametrize(
        ("encoding", "noted"),
        [
            ("utf-8", None),
            ("utf-8-sig", None),
            ("utf-16", "utf-16"),
            ("gbk", "gb18030"),
            ("gb18030", "gb18030"),
        ],
    )
    def test_chinese_is_read_in_the_encodings_of_chinese_windows(
        self, write: Write, encoding: str, noted: str | None
    ) -> None:
        write("a.txt", CHINESE.encode(encoding))
        with guessed("a.txt", noted) if noted == "gb18030" else contextlib.nullcontext():
            [document] = load_documents("a.txt")
        assert document.page_content == CHINESE
        assert document.metadata.get("encoding") == noted

    @pytest.mark.parametrize(
        ("text", "encoding"),
        [
            ("林晚住在北岸。", "gb18030"),
            ("水厂", "gb18030"),
            ("林溪水厂位于北岸，林晚主持修建。\n", "gb18030"),
            ("臺灣鐵路於一八九一年通車，連接基隆與臺北。\n", "big5"),
            ("林晚住在臺北。", "big5"),
            ("東京は日本の首都です。人口は約千四百万人です。\n", "shift_jis"),
            ("Le café est à côté de l'hôtel. Une journée très agréable.\n", "cp1252"),
            ("Ada Moss met Bob at the café.\n", "cp1252"),
            ("Ada’s mill burned down in the winter of 1998, and nobody knew why.\n", "cp1252"),
            ("The Grain Trust 粮食基金会 was founded in 1998 by Ada Moss. It moved to 北岸.\n", "gb18030"),
        ],
    )
    def test_other_encodings_are_found(self, write: Write, text: str, encoding: str) -> None:
        write("a.txt", text.encode(encoding))
        with guessed("a.txt", encoding):
            [document] = load_documents("a.txt")
        assert (document.page_content, document.metadata["encoding"]) == (text, encoding)

    def test_long_file_is_found_by_its_beginning_and_read_whole(self, write: Write) -> None:
        write("a.txt", (CHINESE * 5000).encode("gb18030"))
        with guessed("a.txt", "gb18030"):
            assert load_documents("a.txt")[0].page_content == CHINESE * 5000

    def test_each_file_whose_encoding_was_guessed_is_told_and_how_to_name_it(self, write: Write) -> None:
        for name in ("a.txt", "b.txt"):
            write(name, CHINESE.encode("gb18030"))
        with guessed("a.txt", "gb18030"), guessed("b.txt", "gb18030"):
            load_documents(["a.txt", "b.txt"])
        write("c.txt", CHINESE.encode("utf-16"))
        silent = [*load_documents("c.txt"), *load_documents(["a.txt", "b.txt"], encoding="gb18030")]
        assert [document.page_content for document in silent] == [CHINESE] * 3

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize("text", [CHINESE, "Ada left.\n"])
    def test_utf16_without_its_mark_is_refused_and_read_where_it_is_named(
        self, write: Write, text: str, encoding: str
    ) -> None:
        write("a.txt", text.encode(encoding))
        with pytest.raises(DocumentError, match=r"a\.txt: .* name its encoding: --encoding, .*\(encoding=…\)"):
            load_documents("a.txt")
        assert load_documents("a.txt", encoding=encoding)[0].page_content == text

    def test_encoding_that_is_given_is_used_and_must_fit(self, write: Write) -> None:
        write("a.txt", "水厂".encode("gbk"))
        assert load_documents("a.txt", encoding="gbk")[0].page_content == "水厂"
        with pytest.raises(DocumentError, match=r"a\.txt: is not utf-8 at byte 2"):
            load_documents("a.txt", encoding="utf-8")
        with pytest.raises(UsageError, match="encoding is 'utf-9', which is unknown"):
            load_documents("a.txt", encoding="utf-9")

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ((CHINESE * 10).encode()[:-2], (CHINESE * 10)[:-2] + "\ufffd"),
            ("林溪水厂在北岸".encode()[:-1], "林溪水厂在北\ufffd"),
            ("Ada Moss said that the mill had burned down, “again".encode().replace(b"\x9c", b""), None),
            ("The mill of Ada Moss stands on the north bank of the Esk. 😀".encode()[:-1], None),
            ("Éloïse est née à Besançon, où sa mère était".encode().replace(b"\xc3\xa0", b"\xc3"), None),
        ],
        ids=["long", "short", "half a quotation mark", "half an emoji at the end", "one of several accents"],
    )
    def test_few_damaged_bytes_do_not_turn_utf8_into_another_encoding(
        self, write: Write, data: bytes, text: str | None
    ) -> None:
        write("a.txt", data)
        with pytest.warns(DamagedTextWarning, match=r"a\.txt: is damaged UTF-8; .*: 1"):
            [document] = load_documents("a.txt")
        assert document.page_content == (text or data.decode("utf-8", "replace"))
        assert "encoding" not in document.metadata

    def test_line_ends_are_made_one(self, write: Write) -> None:
        write("a.txt", b"Ada left.\r\nBob\rstayed.\n")
        assert load_documents("a.txt")[0].page_content == "Ada left.\nBob\nstayed.\n"

    def test_systems_encoding_plays_no_part(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        """Case cli-07: a Windows whose encoding is GBK."""
        for name in ("getpreferredencoding", "getencoding"):
            monkeypatch.setattr(locale, name, lambda *_: "gbk", raising=False)
        text = "삼성 and 😀 and 水厂\n"
        write("in/水厂.txt", text)
        write("in/b.csv", f"text\n{text}")
        assert {document.page_content.strip() for document in load_documents("in")} == {text.strip()}

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"%PDF-1.7\n1 0 obj\n", "is no text file but a PDF; name it .pdf"),
            (b"PK\x03\x04rest", "Word document"),
            (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old or encrypted Office document"),
            (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "NUL bytes|neither UTF-8"),
            (b"text\x00with\x00nuls", "it holds NUL bytes"),
            ("Ada left.".encode("utf-16-le"), "it holds NUL bytes"),
        ],
        ids=["pdf", "zip", "ole", "png", "nuls", "utf-16 without mark"],
    )
    def test_binary_file_is_refused_by_its_name(self, write: Write, content: bytes, said: str) -> None:
        write("in/a.txt", content)
        with pytest.raises(DocumentError, match=rf"^in/a\.txt: .*({said})"):
            load_documents("in")

    def test_halves_of_surrogate_pairs_never_reach_a_document(self, write: Write) -> None:
        write("a.json", '["pair \\ud83d\\ude80, half \\ud83d"]')
        assert load_documents("a.json")[0].page_content == "pair 🚀, half �"


class TestTitles:
    def test_markdown_heading_is_the_title(self, write: Write) -> None:
        write("a.md", "\n# The mill #\n\nAda left.")
        [document] = load_documents("a.md")
        assert document.metadata == {"source": "a.md", "title": "The mill"}
        assert document.page_content == "\n# The mill #\n\nAda left."

    @pytest.mark.parametrize(
        ("name", "text"),
        [("a.md", "## Part\n"), ("a.md", "#\n\nAda\n"), ("a.md", "Ada\n# Late\n"), ("a.txt", "# Ada\n")],
    )
    def test_other_first_lines_are_none(self, write: Write, name: str, text: str) -> None:
        write(name, text)
        assert "title" not in load_documents(name)[0].metadata

    def test_title_of_a_row_is_its_first_line_unless_the_text_has_it_there(self, write: Write) -> None:
        write("a.csv", '标题,正文\n水厂,位于北岸。\n书院,"书院\n建于清代。"\n,无题。\n')
        documents = load_documents("a.csv")
        assert [d.page_content for d in documents] == ["水厂\n位于北岸。", "书院\n建于清代。", "无题。"]
        assert [d.metadata.get("title") for d in documents] == ["水厂", "书院", None]


class TestTables:
    def test_csv_rows_are_documents_with_their_other_columns(self, write: Write) -> None:
        write("a.csv", f'Year,Text,long\n1998,"Ada left, then\nreturned.",{"x" * 1001}\n1999,Bob stayed.,short\n')
        first, second = load_documents("a.csv")
        assert first.page_content == "Ada left, then\nreturned."
        assert first.metadata == {"source": "a.csv#1", "Year": "1998"}
        assert second.metadata == {"source": "a.csv#2", "Year": "1999", "long": "short"}

    def test_columns_can_be_named(self, write: Write) -> None:
        write("a.csv", "name,story,text\nMill,Ada left.,wrong\n")
        [document] = load_documents("a.csv", text_column="story", title_column="name")
        assert (document.page_content, document.metadata["title"]) == ("Mill\nAda left.", "Mill")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"text_column": "story"}, r"a\.csv: has no text column 'story'; its columns are name, plot"),
            ({"text_column": "plot", "title_column": "t"}, r"has no title column 't'; its columns are name, plot"),
            ({}, r"a\.csv: which column is the text\? Name one of name, plot: --text-column, .*\(text_column=…\)"),
        ],
    )
    def test_unknown_column_is_refused_and_the_columns_are_listed(
        self, write: Write, options: dict[str, Any], said: str
    ) -> None:
        write("a.csv", "name,plot\nMill,Ada left.\n")
        with pytest.raises(UsageError, match=said):
            load_documents("a.csv", **options)

    def test_only_column_is_the_text(self, write: Write) -> None:
        write("a.csv", "remark\nAda left.\n")
        assert load_documents("a.csv")[0].page_content == "Ada left."

    def test_ids_call_the_rows_if_each_has_its_own(self, write: Write) -> None:
        write("a.csv", "id,text\nm7,Ada left.\nm9,Bob stayed.\n")
        write("b.csv", "id,text\nm7,Ada left.\nm7,Bob stayed.\n")
        assert sources(load_documents("a.csv")) == ["a.csv#m7", "a.csv#m9"]
        assert sources(load_documents("b.csv")) == ["b.csv#1", "b.csv#2"]

    def test_rows_without_text_are_left_out_and_do_not_move_the_others(self, write: Write) -> None:
        write("a.csv", "text,n\nAda left.,1\n,2\nBob stayed.,3\n")
        assert sources(load_documents("a.csv")) == ["a.csv#1", "a.csv#3"]

    @pytest.mark.parametrize("delimiter", [";", "\t"])
    def test_other_delimiters_are_seen(self, write: Write, delimiter: str) -> None:
        write("a.csv", f"title{delimiter}text\nMill{delimiter}Ada left, Bob stayed.\n")
        assert load_documents("a.csv")[0].page_content == "Mill\nAda left, Bob stayed."

    def test_field_longer_than_the_csv_modules_limit_is_read(self, write: Write) -> None:
        write("a.csv", f'text\n"{"Ada left. " * 20_000}"\n')
        assert len(load_documents("a.csv")[0].page_content) == 200_000

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("text,n\nAda left, she said,1\n", r"a\.csv, row 1 \(up to line 2\): has more fields than the first row"),
            ('text\nAda left.\n"Bob stayed.\n', r"a\.csv, after row 1 \(line 2\): is no CSV: unexpected end of data"),
        ],
    )
    def test_broken_csv_names_the_row(self, write: Write, content: str, said: str) -> None:
        write("a.csv", content)
        with pytest.raises(DocumentError, match=said):
            load_documents("a.csv")

    def test_json_is_a_list_of_objects_or_texts_or_one_object(self, write: Write) -> None:
        write("a.json", json.dumps([{"content": "Ada left.", "title": "Mill", "n": 3, "tags": ["x"]}, "Bob stayed."]))
        write("b.json", json.dumps({"正文": "林晚来了。", "年": 1998}, ensure_ascii=False))
        write("c.json", '"Only a text."')
        with pytest.raises(DocumentError):
            load_documents("a.json", text_column="tags")
        (first,) = load_documents("a.json", text_column="content")
        assert first.page_content == "Mill\nAda left."
        assert first.metadata == {"source": "a.json#1", "title": "Mill", "n": 3}
        assert load_documents("b.json")[0].metadata == {"source": "b.json", "年": 1998}
        assert sources(load_documents("c.json")) == ["c.json"]

    def test_jsonl_rows_are_called_by_their_lines(self, write: Write) -> None:
        write("a.jsonl", '{"text": "Ada\u2028left."}\r\n\r\n{"text": "Bob stayed."}\r\n')
        documents = load_documents("a.jsonl")
        assert sources(documents) == ["a.jsonl#1", "a.jsonl#3"]
        assert documents[0].page_content == "Ada\u2028left."

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("a.jsonl", '{"text": "Ada"}\n{"text": \n', r"a\.jsonl, line 2: is no JSON"),
            ("a.jsonl", '{"text": "Ada"}\n[1]\n', r"a\.jsonl, line 2: is a list; an object or a text was expected"),
            ("a.json", '[{"text": "Ada"},\n oops]', r"a\.json, line 2: is no JSON"),
            ("a.json", '{"text": "Ada"}\n{"text": "Bob"}\n', r"a\.json, line 2: .*name it \.jsonl"),
            ("a.json", '[{"text": "Ada"}, {"text": {"x": 1}}]', r"a\.json, item 2: text is a dict, not a text"),
            ("a.json", "[3]", r"a\.json, item 1: is a int"),
            ("a.json", "[" * 100_000, r"a\.json, line 1: cannot be read: maximum recursion depth"),
            ("a.jsonl", f'"x"\n{"9" * 5000}', r"a\.jsonl, line 2: cannot be read: Exceeds the limit"),
        ],
    )
    def test_broken_json_names_the_line_or_item(self, write: Write, name: str, content: str, said: str) -> None:
        write(name, content)
        with pytest.raises(DocumentError, match=said):
            load_documents(name)


class TestPdf:
    pypdf = pytest.importorskip("pypdf", reason="the extra 'documents' is not installed")

    def test_pages_are_read_in_order(self, write: Write) -> None:
        write("a.pdf", pdf("Ada left the mill.", "Bob stayed on."))
        [document] = load_documents("a.pdf")
        assert document.page_content.split("\n") == ["Ada left the mill.", "Bob stayed on."]
        assert document.metadata == {"source": "a.pdf"}

    def test_pdf_with_a_password_is_refused_but_one_that_only_forbids_printing_is_read(self, write: Write) -> None:
        for name, password in (("locked.pdf", "secret"), ("open.pdf", "")):
            writer = self.pypdf.PdfWriter(clone_from=io.BytesIO(pdf("Ada left.")))
            writer.encrypt(password, "owner", algorithm="RC4-128")
            stream = io.BytesIO()
            writer.write(stream)
            write(name, stream.getvalue())
        assert load_documents("open.pdf")[0].page_content == "Ada left."
        with pytest.raises(DocumentError, match=r"locked\.pdf: needs a password"):
            load_documents("locked.pdf")

    def test_radicals_in_a_pdf_are_the_characters_that_they_are_drawn_like(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn = "王⽴在北京创⽴了⻓⻘公司。⾼⼩⻰是⽤户。"
        monkeypatch.setattr(self.pypdf.PageObject, "extract_text", lambda page: drawn)
        write("a.pdf", pdf("x"))
        assert load_documents("a.pdf")[0].page_content == "王立在北京创立了长青公司。高小龙是用户。"

    def test_pdf_of_pictures_is_left_out_as_empty(self, write: Write) -> None:
        write("scan.pdf", pdf(""))
        with pytest.raises(UsageError, match=r"no text in scan\.pdf"):
            load_documents("scan.pdf")


class TestWord:
    docx = pytest.importorskip("docx", reason="the extra 'documents' is not installed")

    def test_paragraphs_and_tables_are_read_in_order(self, write: Write) -> None:
        document = self.docx.Document()
        document.add_heading("水厂", 1)
        document.add_paragraph("林溪水厂位于北岸。")
        table = document.add_table(rows=2, cols=2)
        for cell, text in zip((*table.rows[0].cells, *table.rows[1].cells), ("年", "吨", "1998", "三万"), strict=True):
            cell.text = text
        document.add_paragraph("")
        document.add_paragraph("It grew.")
        stream = io.BytesIO()
        document.save(stream)
        write("a.docx", stream.getvalue())
        [loaded] = load_documents("a.docx")
        assert loaded.page_content == "水厂\n\n林溪水厂位于北岸。\n\n年 | 吨\n1998 | 三万\n\nIt grew."

    def test_old_or_encrypted_word_file_is_refused(self, write: Write) -> None:
        write("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500))
        with pytest.raises(DocumentError, match=r"a\.docx: is an old \.doc or needs a password"):
            load_documents("a.docx")


@pytest.mark.parametrize("name", ["a.pdf", "a.docx"])
@pytest.mark.parametrize("content", [b"no such file", b"%PDF-1.4\n%%EOF", b"PK\x03\x04" + bytes(40)])
def test_broken_office_file_is_refused_in_one_line(
    write: Write, name: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pypdf")
    pytest.importorskip("docx")
    write(name, content)
    with pytest.raises(DocumentError, match=rf"^{name}: cannot be read as a ") as error:
        load_documents(name)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("name", "package"), [("a.pdf", "pypdf"), ("a.docx", "docx")])
def test_missing_extra_is_named_with_the_command_that_installs_it(
    write: Write, monkeypatch: pytest.MonkeyPatch, name: str, package: str
) -> None:
    original = builtins.__import__

    def without(wanted: str, *args: Any, **kwargs: Any) -> Any:
        if wanted.partition(".")[0] == package:
            raise ImportError(wanted)
        return original(wanted, *args, **kwargs)

    for module in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)
    write(name, b"%PDF-1.4")
    with pytest.raises(UsageError, match=r"pip install 'rag-transformers\[documents\]'"):
        load_documents(name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_file_that_may_not_be_read_is_named(write: Write) -> None:
    write("a.txt").chmod(0)
    with pytest.raises(DocumentError, match=r"a\.txt: cannot be read: Permission denied"):
        load_documents("a.txt")


def test_metadata_is_flat_and_has_no_none(write: Write) -> None:
    """Case store-13: what search structures refuse does not come from here."""
    write("a.jsonl", '{"text": "Ada left.", "author": null, "page": 3, "src": {"file": "g.txt"}, "ok": true}\n')
    assert load_documents("a.jsonl")[0].metadata == {"source": "a.jsonl#1", "page": 3, "ok": True}


def test_fingerprint_tells_content_apart_but_not_places() -> None:
    document = Document("Ada left.", metadata={"source": "a.txt", "title": "Mill", "encoding": "big5"})
    moved = Document("Ada left.", metadata={"title": "Mill", "source": "b.txt"})
    assert fingerprint(document) == fingerprint(moved)
    others = [
        Document("Ada left!", metadata={"title": "Mill"}),
        Document("Ada left.", metadata={"title": "Mills"}),
        Document("Ada left."),
    ]
    assert len({fingerprint(other) for other in (document, *others)}) == 4
    orders = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
    assert len({fingerprint(Document("x", metadata=metadata)) for metadata in orders}) == 1


def test_documents_are_the_same_at_every_reading(write: Write) -> None:
    for number in range(12):
        write(f"in/{number}.txt", f"Ada left in {1990 + number}.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_documents("in") == load_documents("in")


def pdf(*pages: str) -> bytes:
    """A small PDF, a line of text a page."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for text in pages:
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(f"<</Length {len(stream)}>>\nstream\n{stream}\nendstream")
        kids.append(f"{len(objects) + 1} 0 R")
        resources = "/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]{resources}/Contents {len(objects)} 0 R>>")
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>"
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    trailer = f"trailer\n<</Size {size}/Root 1 0 R>>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")
