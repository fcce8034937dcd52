"""What other systems made, taken over: graphrag's folders in all versions, LightRAG's and nano-graphrag's files."""

import gzip
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from rag_transformers import Extraction, GraphIndex
from rag_transformers.cli import main
from rag_transformers.errors import DocumentError, UsageError
from rag_transformers.imports import ImportedSource, import_source, read_source
from rag_transformers.imports.layout import lay_out
from rag_transformers.imports.tables import Tables, TextRow, UnitRow

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

LETTER = "Ada Moss founded Grain Trust in 1998. Grain Trust lends to mills. Bo Reed runs the Fen Mill on its loan."
UNIT_A, UNIT_B = LETTER[:66], LETTER[38:]  # they overlap
REFERENCE = "[Data: Entities (1, 9); Relationships (1, +more)]"
NOTE = "林晚在青石镇开了一家客栈，名叫听雨楼。"


def graphrag_tables(version: int) -> dict[str, list[dict[str, Any]]]:
    """A finished run, with the columns of graphrag 2, or of 1 or 0."""
    title, prefix = ("title", "") if version else ("name", "")
    entities = [
        {"id": "e0", title: "ADA MOSS", "type": "PERSON", "description": "A founder.", "text_unit_ids": ["u0"]},
        {"id": "e1", title: "GRAIN TRUST", "type": "ORG", "description": "A lender.", "text_unit_ids": ["u0", "u1"]},
        {"id": "e2", title: "FEN MILL", "type": "ORG", "description": "A mill.", "text_unit_ids": ["u1"]},
        {"id": "e3", title: "听雨楼", "type": "客栈", "description": "青石镇的客栈。", "text_unit_ids": ["u2"]},
        {"id": "e4", title: "林晚", "type": "人物", "description": "客栈的主人。", "text_unit_ids": ["u2"]},
    ]
    relationships = [
        relationship("r0", "ADA MOSS", "GRAIN TRUST", "Ada Moss founded it.", 8.0, ["u0"]),
        relationship("r1", "GRAIN TRUST", "FEN MILL", "It lent to the mill.", 3.0, ["u0", "u1"]),
        relationship("r2", "林晚", "听雨楼", "林晚开了听雨楼。", 5.0, ["u2"]),
    ]
    owners: Any = (lambda id: {"document_id": id}) if version == 2 else (lambda id: {"document_ids": [id]})
    units = [
        {"id": "u0", "text": UNIT_A, **owners("d0")},
        {"id": "u1", "text": UNIT_B, **owners("d0")},
        {"id": "u2", "text": NOTE, **owners("d1")},
    ]
    text = "text" if version else "raw_content"
    documents = [{"id": "d0", "title": "letter.txt", text: LETTER}, {"id": "d1", "title": "游记.txt", text: NOTE}]
    groups = [("0", 0, ["e0", "e1", "e2"]), ("1", 0, ["e3", "e4"]), ("2", 1, ["e0", "e1"])]
    communities = [community(version, *group) for group in groups]
    reports = [report(version, "0", 0, "Grain Trust and its mill"), report(version, "2", 1, "Ada Moss's trust")]
    for number, row in (*enumerate(entities), *enumerate(relationships)):
        row["human_readable_id"] = number if version else str(number)
    found = {
        "entities": entities,
        "relationships": relationships,
        "text_units": units,
        "documents": documents,
        "communities": communities,
        "community_reports": reports,
    }
    if version == 0:
        names = {row["id"]: row["name"] for row in entities}
        found["nodes"] = [{"title": names[id], "community": g, "level": n} for g, n, ids in groups for id in ids]
    return {f"{prefix}{name}": rows for name, rows in found.items()}


def relationship(
    id: str, source: str, target: str, description: str, weight: float, units: list[str]
) -> dict[str, Any]:
    return {
        "id": id,
        "source": source,
        "target": target,
        "description": description,
        "weight": weight,
        "text_unit_ids": units,
    }


def community(version: int, id: str, level: int, entities: list[str]) -> dict[str, Any]:
    if version == 0:
        return {"id": id, "level": level, "title": f"Community {id}", "text_unit_ids": ["u0,u1"]}
    said = {"id": f"uuid-{id}", "community": int(id), "level": level, "entity_ids": entities, "text_unit_ids": ["u0"]}
    return {**said, "parent": 0 if level else -1, "children": [2] if id == "0" else []} if version == 2 else said


def report(version: int, id: str, level: int, title: str) -> dict[str, Any]:
    why = "rating_explanation" if version == 2 else "rank_explanation"
    return {
        "community": int(id) if version else id,
        "level": level,
        "title": title,
        "summary": "A lender and a mill.",
        "rank": 7.5,
        why: "It matters.",
        "findings": [
            {"summary": "It lends", "explanation": "Grain Trust lends [Data: Entities (1, 9); Relationships (1)]."}
        ],
    }


def write_graphrag(folder: Path, version: int = 2, leave_out: tuple[str, ...] = ()) -> Path:
    pa = pytest.importorskip("pyarrow", reason="the extra import is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    place = folder if version == 2 else folder / "output"
    place.mkdir(parents=True, exist_ok=True)
    for name, rows in graphrag_tables(version).items():
        if name not in leave_out:
            stem = name if version == 2 else f"create_final_{name}"
            pq.write_table(pa.Table.from_pylist(rows), place / f"{stem}.parquet")
    return folder


def write_lightrag(folder: Path, texts: bool = True, reports: bool = False) -> Path:
    import networkx as nx

    folder.mkdir(parents=True, exist_ok=True)
    graph: Any = nx.Graph()
    graph.add_node('"ADA MOSS"', entity_type='"PERSON"', description='"A founder."<SEP>"A banker."', source_id="c0")
    graph.add_node("GRAIN TRUST", entity_type="ORG", description="A lender.", source_id="c0<SEP>c1")
    graph.add_node("FEN MILL", entity_type="ORG", description="A mill.", source_id="c1")
    said = {"description": "She founded it.<SEP>She left it.", "source_id": "c0", "weight": 8.0}
    graph.add_edge('"ADA MOSS"', "GRAIN TRUST", keywords="founding, money<SEP>money", **said)
    graph.add_edge("GRAIN TRUST", "FEN MILL", description="A loan.", source_id="c0<SEP>c1", weight=3.0)
    nx.write_graphml(graph, folder / "graph_chunk_entity_relation.graphml")
    chunks = {
        "c1": {"content": UNIT_B, "full_doc_id": "doc-1", "chunk_order_index": 1},
        "c0": {"content": UNIT_A.strip(), "full_doc_id": "doc-1", "chunk_order_index": 0},
    }
    stores: dict[str, Any] = {}
    if texts:
        stores["text_chunks"] = chunks
        stores["full_docs"] = {"doc-1": {"content": LETTER, "file_path": "letter.txt"}}
    if reports:
        made = {"title": "A trust", "summary": "It lends.", "rating": 6, "findings": [{"summary": "It lends"}]}
        nodes = ['"ADA MOSS"', "GRAIN TRUST"]
        stores["community_reports"] = {"4": {"level": 0, "nodes": nodes, "chunk_ids": ["c0"], "report_json": made}}
    for name, rows in stores.items():
        (folder / f"kv_store_{name}.json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return folder


def edges_of(source: ImportedSource) -> list[tuple[str, str, str, float]]:
    return [(edge.source, edge.name, edge.target, edge.weight) for edge in source.graph.edges()]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_versions_of_graphrag_give_the_same_graph(tmp_path: Path, version: int) -> None:
    source = read_source(write_graphrag(tmp_path, version))
    assert source.kind == "graphrag"
    assert [vertex.name for vertex in source.graph] == ["ADA MOSS", "GRAIN TRUST", "FEN MILL", "听雨楼", "林晚"]
    assert edges_of(source) == [
        ("ADA MOSS", "related to", "GRAIN TRUST", 8.0),
        ("GRAIN TRUST", "related to", "FEN MILL", 3.0),
        ("林晚", "相关", "听雨楼", 5.0),
    ]
    trust = source.graph.get_vertex("Grain Trust")
    assert trust is not None
    assert (trust.descriptions, trust.props["type"]) == (("A lender.",), "ORG")
    assert trust.chunks == tuple(str(chunk.id) for chunk in source.chunks[:2])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_communities_and_reports_come_with_it(tmp_path: Path, version: int) -> None:
    source = read_source(write_graphrag(tmp_path, version))
    whole, inn, part = source.communities
    assert whole.vertices == ("ADA MOSS", "FEN MILL", "GRAIN TRUST")
    assert (whole.children, part.parent, part.level, inn.children) == (("2",), "0", 1, ())
    first, second = source.reports
    assert (first.title, first.rating, first.rating_explanation) == ("Grain Trust and its mill", 7.5, "It matters.")
    [finding] = first.findings
    assert finding.explanation.startswith("Grain Trust lends [Data:")
    assert finding.vertices == ("GRAIN TRUST",)
    assert finding.edges == (("GRAIN TRUST", "related to", "FEN MILL"),)
    assert second.vertices == ("ADA MOSS", "GRAIN TRUST")
    assert set(first.chunks) <= {str(chunk.id) for chunk in source.chunks}
    assert first.chunks


def test_an_index_of_it_holds_the_documents_as_they_were(tmp_path: Path) -> None:
    write_graphrag(tmp_path / "run")
    done = import_source(tmp_path / "run", tmp_path / "index")
    assert (done.added, done.chunks, done.failed) == (2, 3, ())
    with GraphIndex.open(tmp_path / "index") as index:
        assert index.sources() == ["letter.txt", "游记.txt"]
        assert [document.page_content for document in index.documents(["letter.txt"])] == [LETTER]
        assert index.graph == read_source(tmp_path / "run").graph
        assert [chunk.page_content for chunk in index.chunks()] == [UNIT_A, UNIT_B, NOTE]
        assert index.query("Who founded Grain Trust?").citations[0].source == "letter.txt"


def test_the_same_source_again_changes_nothing(tmp_path: Path) -> None:
    write_graphrag(tmp_path / "run")
    import_source(tmp_path / "run", tmp_path / "index")
    again = import_source(tmp_path / "run", tmp_path / "index")
    assert (again.unchanged, again.extracted) == (2, 0)


def test_imported_chunks_are_not_asked_again_when_a_model_adds_more(tmp_path: Path) -> None:
    write_graphrag(tmp_path / "run")
    import_source(tmp_path / "run", tmp_path / "index")
    asked: list[str] = []

    def read(chunk: Document) -> Extraction:
        asked.append(chunk.page_content)
        return Extraction([("Fen Mill", "It burned.")])

    with GraphIndex.open(tmp_path / "index", extractor=RunnableLambda(read)) as index:
        index.add([Document("The Fen Mill burned.", metadata={"source": "news"})])
        assert asked == ["The Fen Mill burned."]
        mill = index.graph.get_vertex("Fen Mill")
        assert mill is not None
        assert mill.descriptions == ("A mill.", "It burned.")


def test_a_model_is_asked_for_nothing_that_the_source_holds(tmp_path: Path) -> None:
    write_graphrag(tmp_path / "run")
    prompts: list[str] = []

    def reply(prompt: Any) -> str:
        prompts.append(prompt.to_string())
        return "Entities:\n(Fen Mill#It burned)"

    llm = RunnableLambda(reply)
    import_source(tmp_path / "run", tmp_path / "index", llm=llm, reports=False)
    assert prompts == []
    with GraphIndex.open(tmp_path / "index", llm=llm, reports=False) as index:
        index.add([Document("The Fen Mill, which runs on a loan of Grain Trust, burned.", metadata={"source": "news"})])
    [prompt] = prompts
    assert "Grain Trust lends to mills." in prompt, "the imported chunks are in the history"


async def test_an_index_can_be_made_of_its_parts_too(tmp_path: Path) -> None:
    source = read_source(write_lightrag(tmp_path / "work"))
    with GraphIndex.open(tmp_path / "index", extractor=source.extractor, chunker=source.chunker) as index:
        await index.aadd(source.documents)
        assert index.graph == source.graph


def test_what_came_of_a_deleted_document_goes(tmp_path: Path) -> None:
    write_graphrag(tmp_path / "run")
    import_source(tmp_path / "run", tmp_path / "index")
    with GraphIndex.open(tmp_path / "index") as index:
        assert index.delete("letter.txt")
        assert [vertex.name for vertex in index.graph] == ["听雨楼", "林晚"]


def test_without_documents_they_are_put_together_from_their_pieces(tmp_path: Path) -> None:
    source = read_source(write_graphrag(tmp_path, leave_out=("documents",)))
    assert source.layout.rebuilt == 2
    assert [document.page_content for document in source.documents] == [LETTER, NOTE]


def test_without_texts_there_is_a_graph_and_no_index(tmp_path: Path) -> None:
    write_graphrag(tmp_path, leave_out=("documents", "text_units"))
    source = read_source(tmp_path)
    assert (len(source.graph), source.documents, len(source.reports)) == (5, (), 2)
    with pytest.raises(UsageError, match="holds no texts, which an index needs"):
        import_source(tmp_path, tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_lightrag_descriptions_are_parted_and_keywords_are_the_relation(tmp_path: Path) -> None:
    source = read_source(write_lightrag(tmp_path))
    assert source.kind == "lightrag"
    assert edges_of(source) == [
        ("ADA MOSS", "founding, money", "GRAIN TRUST", 8.0),
        ("GRAIN TRUST", "related to", "FEN MILL", 3.0),
    ]
    ada = source.graph.get_vertex("ADA MOSS")
    assert ada is not None
    assert (ada.descriptions, ada.props["type"]) == (("A founder.", "A banker."), "PERSON")


def test_lightrag_documents_are_found_though_its_chunks_lost_their_white_space(tmp_path: Path) -> None:
    source = read_source(write_lightrag(tmp_path))
    assert source.layout.rebuilt == 0
    assert [(d.metadata["source"], d.page_content) for d in source.documents] == [("letter.txt", LETTER)]
    done = import_source(tmp_path, tmp_path / "index")
    assert (done.documents, done.chunks, done.edges) == (1, 2, 2)


def test_a_graphml_file_alone_gives_the_graph(tmp_path: Path) -> None:
    write_lightrag(tmp_path, texts=False)
    source = read_source(tmp_path / "graph_chunk_entity_relation.graphml")
    assert (len(source.graph), source.graph.edge_count, source.untied) == (3, 2, 5)


def test_nano_graphrag_keeps_reports_too(tmp_path: Path) -> None:
    source = read_source(write_lightrag(tmp_path, reports=True))
    assert source.kind == "nano-graphrag"
    [community], [report] = source.communities, source.reports
    assert (community.vertices, report.title, report.rating) == (("ADA MOSS", "GRAIN TRUST"), "A trust", 6.0)
    assert report.chunks == (str(source.chunks[0].id),)


def test_names_that_a_chunk_does_not_hold_are_marked(tmp_path: Path) -> None:
    source = read_source(write_lightrag(tmp_path))
    assert source.graph.get_vertex("ADA MOSS").props.get("unheld") is None  # type: ignore[union-attr]
    extraction = source.extractor.invoke(source.chunks[0])
    assert extraction.unheld == ("FEN MILL",)


def test_the_extractor_refuses_what_is_not_of_the_source(tmp_path: Path) -> None:
    source = read_source(write_lightrag(tmp_path))
    with pytest.raises(UsageError, match="no such chunk"):
        source.extractor.invoke("Something else.")


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("  One two. \n Three. ", ["One two.", "Three."], ["  One two. \n ", "Three. "]),
        (None, ["abcd", "cdef"], ["abcd", "cdef"]),
        (None, ["ab", "xy"], ["ab\n", "xy"]),
        ("something else", ["一二三", "三四"], ["一二三", "三四"]),
        ("Ho. Ho. ", ["Ho.", "Ho."], ["Ho. ", "Ho. "]),
    ],
)
def test_chunks_are_the_pieces_and_cover_the_document(text: str | None, pieces: list[str], expected: list[str]) -> None:
    units = tuple(UnitRow(str(number), piece, "d") for number, piece in enumerate(pieces))
    layout = lay_out(Tables("test", (TextRow("d", "d", text),), units))
    [document] = layout.documents
    chunks = layout.chunker.split(document)
    assert [chunk.page_content for chunk in chunks] == expected
    assert chunks[0].metadata["start"] == 0
    assert chunks[-1].metadata["end"] == len(document.page_content)
    assert layout.texts == {str(number): chunk.page_content for number, chunk in enumerate(chunks)}


@given(st.lists(st.text("ab \n林", min_size=1, max_size=12).filter(str.strip), min_size=1, max_size=6))
def test_pieces_put_together_are_found_again(pieces: list[str]) -> None:
    units = tuple(UnitRow(str(number), piece, "d") for number, piece in enumerate(pieces))
    layout = lay_out(Tables("test", (TextRow("d", "d"),), units))
    chunks = layout.chunker.split(layout.documents[0])
    assert all(chunk.page_content.startswith(piece) for chunk, piece in zip(chunks, pieces, strict=True))
    assert not any(chunk.page_content[len(piece) :].strip() for chunk, piece in zip(chunks, pieces, strict=True))
    covered = [(chunk.metadata["start"], chunk.metadata["end"]) for chunk in chunks]
    assert all(start <= end for (_, end), (start, _) in itertools.pairwise(covered))


@given(st.text("ab 林", min_size=1, max_size=60).filter(str.strip), st.integers(2, 9), st.integers(0, 4))
def test_windows_over_a_document_are_found_in_it(text: str, size: int, overlap: int) -> None:
    step = max(1, size - overlap)
    pieces = [text[start : start + size] for start in range(0, len(text), step)]
    units = [UnitRow(str(number), piece, "d") for number, piece in enumerate(pieces) if piece.strip()]
    layout = lay_out(Tables("test", (TextRow("d", "d", text),), tuple(units)))
    chunks = layout.chunker.split(layout.documents[0])
    assert [layout.texts[unit.id] for unit in units] == [chunk.page_content for chunk in chunks]


def test_two_documents_of_one_name_stay_two(tmp_path: Path) -> None:
    rows = (TextRow("d0", "a.txt", "One."), TextRow("d1", "a.txt", "Two."))
    layout = lay_out(Tables("test", rows, (UnitRow("0", "One.", "d0"), UnitRow("1", "Two.", "d1"))))
    assert [document.metadata["source"] for document in layout.documents] == ["a.txt#d0", "a.txt#d1"]


def test_what_is_no_source_is_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, message in ((tmp_path / "gone", "does not exist"), (tmp_path, "is not known")):
        assert main(["import", str(path), "--out", str(tmp_path / "index")]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_broken_files_are_named(tmp_path: Path) -> None:
    write_lightrag(tmp_path)
    (tmp_path / "kv_store_text_chunks.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(DocumentError, match=r"kv_store_text_chunks.json is no store"):
        read_source(tmp_path)
    (tmp_path / "graph_chunk_entity_relation.graphml").write_text("<graphml", encoding="utf-8")
    with pytest.raises(DocumentError, match="cannot be read as GraphML"):
        read_source(tmp_path)


NEEDED = [
    ("entities", "id", "id; there are: title, type, description,"),
    ("entities", "title", "title or name; there are: id, type,"),
    ("relationships", "source", "source; there are: id, target,"),
    ("relationships", "target", "target; there are:"),
    ("text_units", "id", "id; there are: text, document_id"),
    ("text_units", "text", "text or chunk; there are: id, document_id"),
    ("documents", "id", "id; there are: title, text"),
    ("community_reports", "community", "community; there are: level,"),
]


def without(folder: Path, table: str, column: str) -> Path:
    """A finished run without a column; ``=`` stands for one in which it is empty."""
    write_graphrag(folder)
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    name = column.removesuffix("=")
    rows = graphrag_tables(2)[table]
    for row in rows:
        row.pop(name) if name == column else row.update({name: None})
    pq.write_table(pa.Table.from_pylist(rows), folder / f"{table}.parquet")
    return folder


@pytest.mark.parametrize(("table", "column", "what"), NEEDED)
def test_a_column_that_is_needed_is_named_with_its_file_and_what_is_there(
    tmp_path: Path, table: str, column: str, what: str
) -> None:
    with pytest.raises(UsageError, match=rf"{table}\.parquet has no column {what}"):
        read_source(without(tmp_path, table, column))


@pytest.mark.parametrize(
    ("table", "column"),
    [
        *(("entities", name) for name in ("description", "text_unit_ids", "human_readable_id")),
        *(("relationships", name) for name in ("description", "text_unit_ids", "weight")),
        ("text_units", "document_id"),
        *(("communities", name) for name in ("level", "entity_ids")),
        *(("community_reports", name) for name in ("title", "summary", "findings")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*nothing is taken over.*:UserWarning")
def test_a_column_with_which_something_is_lost_gets_a_warning(tmp_path: Path, table: str, column: str) -> None:
    with pytest.warns(UserWarning, match=rf"{table}\.parquet has no column .*{column}: what it would say is lost"):
        assert read_source(without(tmp_path, table, column)).graph.edge_count == 3


@pytest.mark.parametrize(
    ("table", "column", "what"),
    [
        ("entities", "title=", "5 entities without name, 3 communities without a known member"),
        ("relationships", "source=", "3 relationships without both ends"),
        ("text_units", "text=", "3 pieces without text or id"),
        ("text_units", "id=", "3 pieces without text or id"),
        ("communities", "entity_ids=", "3 communities without a known member"),
        ("community_reports", "community=", "2 reports on no known community"),
    ],
)
def test_rows_of_which_nothing_comes_are_counted(tmp_path: Path, table: str, column: str, what: str) -> None:
    with pytest.warns(UserWarning, match=f"nothing is taken over from {what}"):
        read_source(without(tmp_path, table, column))


def test_a_level_that_is_none_is_named(tmp_path: Path) -> None:
    write_lightrag(tmp_path, reports=True)
    rows = json.loads((tmp_path / "kv_store_text_chunks.json").read_text(encoding="utf-8"))
    rows["c0"]["chunk_order_index"] = "first"
    (tmp_path / "kv_store_text_chunks.json").write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(
        DocumentError, match=r"text_chunks.json: chunk_order_index of c0 is 'first'; it must be a whole"
    ):
        read_source(tmp_path)


def changed_store(folder: Path, store: str, field: str, value: Any = None) -> Path:
    """A working folder in which no row of a store has a field, or all have another value in it."""
    path = write_lightrag(folder, reports=True) / f"kv_store_{store}.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    rows = {
        id: {**{k: v for k, v in row.items() if k != field}, **({field: value} if value else {})}
        for id, row in rows.items()
    }
    path.write_text(json.dumps(rows), encoding="utf-8")
    return folder


def test_lightrags_fields_are_looked_for_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"text_chunks.json: no row has content; there are: full_doc_id, chunk_order"):
        read_source(changed_store(tmp_path / "a", "text_chunks", "content"))
    with pytest.warns(UserWarning, match=r"text_chunks.json: no row has full_doc_id: what it would say is lost"):
        read_source(changed_store(tmp_path / "b", "text_chunks", "full_doc_id"))
    with pytest.raises(UsageError, match=r"community_reports.json: no row has nodes; there are: level, chunk_ids"):
        read_source(changed_store(tmp_path / "c", "community_reports", "nodes"))
    with pytest.warns(UserWarning, match="nothing is taken over from 1 communities without a known member"):
        read_source(changed_store(tmp_path / "d", "community_reports", "nodes", ["NOBODY"]))
    with pytest.raises(DocumentError, match=r"community_reports.json: report_json of 4 is a list; it must hold fields"):
        read_source(changed_store(tmp_path / "e", "community_reports", "report_json", ["A trust"]))
    with pytest.raises(DocumentError, match=r"community_reports.json: level of 4 is 'x'; it must be a whole number"):
        read_source(changed_store(tmp_path / "f", "community_reports", "level", "x"))
    with pytest.warns(UserWarning, match="nothing is taken over from 2 pieces without text or id"):
        read_source(changed_store(tmp_path / "g", "text_chunks", "content", 5))


def test_a_graph_without_descriptions_and_places_gets_a_warning(tmp_path: Path) -> None:
    import networkx as nx

    bare = nx.Graph([("ADA MOSS", "FEN MILL")])
    nx.write_graphml(bare, tmp_path / "graph_chunk_entity_relation.graphml")
    with pytest.warns(UserWarning, match=r"relation.graphml: no row has description, source_id: what it would say"):
        assert len(read_source(tmp_path).graph) == 2


def test_broken_parquet_is_named(tmp_path: Path) -> None:
    write_graphrag(tmp_path)
    (tmp_path / "entities.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(DocumentError, match=r"entities.parquet cannot be read as parquet"):
        read_source(tmp_path)


def test_a_missing_pyarrow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "relationships.parquet").write_bytes(b"")
    (tmp_path / "entities.parquet").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'rag-transformers\[import\]'"):
        read_source(tmp_path)


def test_the_command_imports_and_says_what_came_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lightrag(tmp_path / "work")
    assert main(["import", str(tmp_path / "work"), "--out", str(tmp_path / "index")]) == 0
    assert "documents  1 (1 new" in capsys.readouterr().out
    assert main(["query", str(tmp_path / "index"), "Who founded Grain Trust?"]) == 0
    assert "letter.txt" in capsys.readouterr().out


def test_an_extractor_of_ones_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="extractor cannot be given to an import"):
        import_source(tmp_path, tmp_path / "index", extractor=RunnableLambda(lambda chunk: Extraction()))


def shared_run(name: str, folder: Path) -> Path:
    """A recorded run, whose tables are there as JSON lines, as the parquet files that it was."""
    if not (SHARED / name).is_dir():
        pytest.skip("../shared is not there")
    pa = pytest.importorskip("pyarrow", reason="the extra import is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    folder.mkdir()
    for path in sorted((SHARED / name).glob("*.jsonl*")):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        rows = [json.loads(line) for line in data.decode("utf-8").splitlines()]
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{path.name.partition('.')[0]}.parquet")
    return folder


@pytest.mark.parametrize("name", ["recorded_en/dulce_graphrag_index", "recorded_zh/tcm_graphrag_index"])
def test_recorded_runs_come_over_whole(tmp_path: Path, name: str) -> None:
    source = read_source(shared_run(name, tmp_path / "run"))
    graph = source.graph
    keys = {vertex.key for vertex in graph}
    assert all(name in graph for name in (row.name for row in source.tables.entities))
    assert len(keys) == len(graph)
    assert graph.skipped == 0
    ties = {(e.source, e.target) for e in graph.edges()}
    assert len(ties) >= 0.99 * len({(row.source, row.target) for row in source.tables.relations})
    assert len(source.communities) == len(source.tables.communities)
    assert len(source.reports) == len(source.tables.reports)
    pointed = [each for report in source.reports for finding in report.findings for each in finding.vertices]
    assert pointed
    assert all(name in graph for name in pointed)
    tops = [vertex for community in source.communities if community.level == 0 for vertex in community.vertices]
    assert len(tops) == len(set(tops))
    inner = [community for community in source.communities if community.parent]
    members = {community.id: set(community.vertices) for community in source.communities}
    assert all(set(each.vertices) <= members[str(each.parent)] for each in inner)


def test_a_recorded_run_becomes_an_index(tmp_path: Path) -> None:
    run = shared_run("recorded_en/dulce_graphrag_index", tmp_path / "run")
    done = import_source(run, tmp_path / "index")
    assert (done.chunks, done.failed) == (5, ())
    with GraphIndex.open(tmp_path / "index") as index:
        assert index.graph == read_source(run).graph
        assert "Alex Mercer" in index.graph
        assert index.query("What is the Paranormal Military Squad?").citations
