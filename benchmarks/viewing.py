"""The page of a graph: how large it is, how long it takes to make, and how fluid it is in a browser.

Usage: python benchmarks/viewing.py [--vertices 300 5000 20000] [--keep FOLDER]

The graph is made up: communities of very different sizes, hubs, pairs that stand alone, names in Chinese and English, a
description of about 80 characters for each vertex and edge. Where there is a Chromium (on the PATH, or named by
CHROMIUM), it is run headless, which draws WebGL on the processor: a screen with a graphics card is faster.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chromium import Chromium, find_chromium

from rag_transformers.communities import CommunityDetector
from rag_transformers.graph import Edge, Vertex
from rag_transformers.stores import MemoryGraph
from rag_transformers.view import write_view

# Milliseconds from the start of the page to its first frame, of a whole redraw, and of each frame of a move.
MEASURE = """new Promise((resolve) => {
  const { renderer } = window.view, redraws = [], frames = [];
  const next = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  (async () => {
    for (let i = 0; i < 10; i++) {
      const start = performance.now();
      renderer.refresh();
      await next();
      redraws.push(performance.now() - start);
    }
    const camera = renderer.getCamera();
    for (let i = 0; i < 60; i++) {
      const start = performance.now();
      camera.setState({ x: 0.5 + 0.2 * Math.sin(i / 5), ratio: 1 - 0.01 * i });
      renderer.render();
      await next();
      frames.push(performance.now() - start);
    }
    const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
    const drawn = performance.getEntriesByName("first-contentful-paint")[0];
    const { loadEventEnd, navigationStart } = performance.timing;
    resolve({ paint: drawn ? drawn.startTime : null, ready: loadEventEnd - navigationStart, redraw: middle(redraws),
              frame: middle(frames), worst: Math.max(...frames),
              vertices: window.view.graph.order, lines: window.view.graph.size });
  })();
})"""


def made_up(count: int, seed: int = 0) -> MemoryGraph:
    """A graph of about ``count`` vertices and 2.5 times as many edges."""
    chance = random.Random(seed)
    kinds = [int(chance.paretovariate(0.8)) % max(3, count // 35) for _ in range(count)]
    members: dict[int, list[int]] = {}
    for vertex, kind in enumerate(kinds):
        members.setdefault(kind, []).append(vertex)
    english = ("Harbour", "Mill", "Quarry", "Depot")
    names = [f"第{v}号{'港仓桥厂'[v // 2 % 4]}" if v % 2 else f"{english[v // 2 % 4]} {v}" for v in range(count)]
    graph = MemoryGraph()
    for vertex, name in enumerate(names):
        graph.upsert_vertex(
            Vertex(name, description=f"{name} stands on the bank of river {kinds[vertex]}, 建于河岸。" * 2)
        )
    for source in range(count):
        for _ in range(0 if chance.random() < 0.06 else 1 + int(chance.paretovariate(1.5)) % 12):
            pool = members[kinds[source]] if chance.random() < 0.85 else range(count)
            target = pool[int(len(pool) * chance.random() ** 2.5)]
            said = f"{names[source]} sends its goods to {names[target]} every autumn."
            graph.upsert_edge(Edge(names[source], names[target], "supplies", description=said))
    return graph


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--vertices", type=int, nargs="+", default=[300, 5000, 20000])
    options.add_argument("--keep", metavar="FOLDER", help="where the pages and screenshots go")
    given = options.parse_args()
    program = find_chromium()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(given.keep or scratch)
        for count in given.vertices:
            graph = made_up(count)
            communities = CommunityDetector().detect(graph)
            target = folder / f"{count}.html"
            start = time.perf_counter()
            done = write_view(graph, target, communities=communities)
            seconds = time.perf_counter() - start
            size = target.stat().st_size / 1e6
            print(f"{done}: {seconds:.1f} s, {size:.2f} MB, {len(communities)} communities")
            if program:
                with Chromium(program) as browser:
                    print(f"  {_measured(browser, target, folder)}")


def _measured(browser: Chromium, page: Path, folder: Path) -> dict[str, Any]:
    start = time.perf_counter()
    browser.open(page.resolve().as_uri())
    seconds = time.perf_counter() - start
    figures = browser.run(MEASURE)
    browser.screenshot(folder / f"{page.stem}.png")
    return {
        "open": round(seconds * 1000),
        **{name: round(value) for name, value in figures.items() if value is not None},
    }


if __name__ == "__main__":
    main()
