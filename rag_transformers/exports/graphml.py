"""GraphML, as networkx, igraph, Gephi and yEd read it.

The id of a node is the vertex's name, that of an edge its number, so that parallel edges stay apart. ``label`` and
``weight`` are what Gephi shows and counts, ``name`` is how igraph finds a vertex; every attribute is declared with one
type. Gephi adds up the weights of parallel edges and keeps the label of one; to see them all, choose not to merge edges
in its import report. What XML does not allow is escaped, see :mod:`rag_transformers.exports.escapes`; a list is JSON
text. (igraph's reader shows an ``&`` in an id as ``&#38;``, but not in a name.)

networkx and igraph have writers too. They build the file in memory and write characters that no reader takes, and in
networkx's a prop with values of two types becomes two attributes of one name.
"""

from collections.abc import Mapping
from itertools import count
from typing import Any, TextIO
from xml.sax.saxutils import escape as escape_markup
from xml.sax.saxutils import quoteattr

from rag_transformers.exports.escapes import cell_text, escape
from rag_transformers.exports.rows import GraphRows, Row

__all__ = ["write_graphml"]

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
"""


def write_graphml(rows: GraphRows, out: TextIO) -> None:
    """Write a graph as GraphML."""
    nodes = _keys("v", rows.vertex_columns())
    ends = ("source", "target")
    edges = _keys("e", {name: kind for name, kind in rows.edge_columns().items() if name not in ends})
    out.write(_HEAD)
    for scope, keys in (("node", nodes), ("edge", edges)):
        for name, (key, kind) in keys.items():
            out.write(f'<key id="{key}" for="{scope}" attr.name={_attribute(name)} attr.type="{kind}"/>\n')
    out.write('<graph edgedefault="directed">\n')
    for row in rows.vertex_rows():
        out.write(f"<node id={_attribute(row['name'])}>{_data(row, nodes)}</node>\n")
    for number, row in zip(count(), rows.edge_rows()):
        source, target = (_attribute(row.pop(end)) for end in ends)
        out.write(f'<edge id="{number}" source={source} target={target}>{_data(row, edges)}</edge>\n')
    out.write("</graph>\n</graphml>\n")


def _keys(letter: str, kinds: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The id and type of each attribute by its name."""
    return {name: (f"{letter}{n}", kind) for n, (name, kind) in enumerate({"label": "string", **kinds}.items())}


def _data(row: Row, keys: Mapping[str, tuple[str, str]]) -> str:
    found = [f'<data key="{keys["label"][0]}">{_content(row["name"])}</data>']
    found += [f'<data key="{keys[name][0]}">{_content(value)}</data>' for name, value in row.items()]
    return "".join(found)


def _content(value: Any) -> str:
    # A reader would make a line end of a carriage return.
    return escape_markup(cell_text(value)).replace("\r", "&#13;")


def _attribute(text: str) -> str:
    return quoteattr(escape(text))
