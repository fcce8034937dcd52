"use strict";
// Reads the data of the page, draws them with sigma, and fills the panel. Text gets into the page by textContent alone.
(() => {
  const WORDS = {
    en: {
      search: "Find a name ( / )", colours: "Colours", none: "none", comma: ", ",
      level: "level {0}: {1} community|level {0}: {1} communities", cut: "Drawn are the {0} most connected of {1} vertices, and {2} of {3} edges.",
      communities: "Communities", connected: "Most connected", members: "Vertices", descriptions: "Descriptions",
      edges: "Edges", sources: "Documents", chunks: "{0} chunk|{0} chunks", vertices: "{0} vertex|{0} vertices",
      degree: "{0} edge|{0} edges", back: "Back", more: "Show all {0}", nothing: "Nothing found", findings: "Findings",
      unheld: "None of its chunks holds this name.", hidden: "{0} more edge leads to a vertex that is not drawn.|{0} more edges lead to vertices that are not drawn.",
      close: "Closer", far: "Farther", whole: "The whole", picture: "A picture of the graph. The search finds its vertices.",
      webgl: "This browser gives no WebGL, so there is no picture. The search and the panel work without.",
    },
    zh: {
      search: "查找名称（/）", colours: "着色", none: "无", comma: "，", level: "第 {0} 层：{1} 个社区",
      cut: "图中为 {1} 个顶点中连接最多的 {0} 个，以及 {3} 条边中的 {2} 条。",
      communities: "社区", connected: "连接最多", members: "顶点", descriptions: "描述",
      edges: "边", sources: "文档", chunks: "{0} 个文本块", vertices: "{0} 个顶点",
      degree: "{0} 条边", back: "返回", more: "显示全部 {0} 项", nothing: "没有找到", findings: "要点",
      unheld: "其文本块中没有出现这个名称。", hidden: "另有 {0} 条边通向未画出的顶点。",
      close: "放大", far: "缩小", whole: "全图", picture: "图的画面。可用搜索查找顶点。",
      webgl: "此浏览器不支持 WebGL，无法显示图形；搜索和侧栏仍可使用。",
    },
  };
  const language = /^zh/i.test(navigator.language) ? "zh" : "en";
  // Of two forms the first is for one; the last number decides.
  const say = (word, ...values) => {
    const forms = WORDS[language][word].split("|");
    return (values.at(-1) === 1 ? forms[0] : forms.at(-1)).replace(/\{(\d)\}/g, (_, n) => values[n].toLocaleString(language));
  };
  const count = (vertices, edges) => say("vertices", vertices) + say("comma") + say("degree", edges);

  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const { vertices, edges, communities, sources } = data;
  const stage = byId("stage"), panel = byId("panel"), search = byId("search"), found = byId("found");
  const FEW = 30, MANY = 200, HITS = 50;
  const isLarge = vertices.length > 1000;

  // The edges of each vertex, and the vertices of each community, most connected first.
  vertices.forEach((vertex, number) => Object.assign(vertex, { number, edges: [] }));
  edges.forEach(([source, target], number) => {
    vertices[source].edges.push(number);
    if (target !== source) vertices[target].edges.push(number);
  });
  const byDegree = [...vertices].sort((a, b) => b.degree - a.degree || a.number - b.number);
  communities.forEach((community, number) => Object.assign(community, { number, members: [] }));
  for (const vertex of byDegree) for (const number of vertex.communities) communities[number].members.push(vertex);
  for (const community of communities) {
    community.title ||= community.members.slice(0, 3).map((vertex) => vertex.name).join(" · ");
  }

  // Levels. A community that is not split stands for itself on all levels below.
  const levels = communities.length ? Math.max(...communities.map((community) => community.level)) + 1 : 0;
  let level = levels ? 0 : -1;
  const communityOf = (vertex) => {
    for (let i = vertex.communities.length - 1; i >= 0; i--) {
      if (communities[vertex.communities[i]].level <= level) return communities[vertex.communities[i]];
    }
    return null;
  };
  const shownCommunities = () => {
    const shown = new Set(vertices.map(communityOf).filter((community) => community && community.colour));
    return [...shown].sort((a, b) => b.size - a.size || a.number - b.number);
  };

  // What is chosen: a vertex, a community, or nothing.
  let chosen = null;
  let near = null; // the numbers of the vertices that stand out; null: all do
  const before = [];

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => dark.matches
    ? { ink: "#e4e8ee", plain: "#8a94a1", line: isLarge ? "#2b323a" : "#3f4852", faint: "#262b32", strong: "#aab4c2", raised: "#1d2228" }
    : { ink: "#1c2127", plain: "#8a94a1", line: isLarge ? "#e2e6eb" : "#c3cbd5", faint: "#eceff3", strong: "#5f6b7a", raised: "#ffffff" };
  let look = theme();
  const colourOf = (vertex) => communityOf(vertex)?.colour ?? look.plain;
  const short = (name, most) => [...name].length > most ? [...name].slice(0, most - 1).join("") + "…" : name;

  const graph = new graphology({ type: "undirected" });
  let renderer = null;

  function draw() {
    const most = Math.max(1, byDegree[0]?.degree ?? 1);
    const largest = Math.max(8, 13 - vertices.length / 500), least = isLarge ? 1.8 : 2.8;
    for (const vertex of vertices) {
      const size = least + (largest - least) * Math.sqrt(vertex.degree / most);
      graph.addNode(vertex.number, { x: vertex.x, y: vertex.y, size, label: short(vertex.name, 40) });
    }
    for (const [source, target] of edges) {
      if (source !== target && !graph.hasEdge(source, target)) graph.addEdge(source, target);
    }
    try {
      renderer = new Sigma(graph, stage, {
        labelFont: getComputedStyle(document.documentElement).fontFamily,
        labelSize: 13,
        labelColor: { color: look.ink },
        labelDensity: 0.7,
        labelGridCellSize: isLarge ? 150 : 110,
        labelRenderedSizeThreshold: isLarge ? 3.8 : 4,
        defaultEdgeColor: look.line,
        // Points and lines of one pixel: without a graphics card several times as fast as the discs and bars.
        nodeProgramClasses: isLarge ? { circle: Sigma.rendering.NodePointProgram } : {},
        edgeProgramClasses: { line: isLarge ? Sigma.rendering.EdgeLineProgram : Sigma.rendering.EdgeRectangleProgram },
        hideEdgesOnMove: graph.size > 30000,
        defaultDrawNodeHover: drawHover,
        minCameraRatio: 0.02,
        maxCameraRatio: 4,
        stagePadding: 40,
        zIndex: true,
        nodeReducer: reduceVertex,
        edgeReducer: reduceEdge,
      });
    } catch (error) {
      console.error(error);
      byId("failed").textContent = say("webgl");
      byId("failed").hidden = false;
      byId("buttons").hidden = true;
      return;
    }
    renderer.on("clickNode", ({ node }) => choose(vertices[node]));
    renderer.on("clickStage", () => choose(null));
    renderer.on("enterNode", () => stage.classList.add("over"));
    renderer.on("leaveNode", () => stage.classList.remove("over"));
    const camera = renderer.getCamera();
    byId("closer").addEventListener("click", () => camera.animatedZoom({ duration: 200 }));
    byId("farther").addEventListener("click", () => camera.animatedUnzoom({ duration: 200 }));
    byId("whole").addEventListener("click", () => camera.animatedReset({ duration: 200 }));
  }

  function reduceVertex(number, shown) {
    const vertex = vertices[number];
    if (near && !near.has(vertex.number)) return { ...shown, color: look.faint, label: "", zIndex: 0 };
    const isChosen = chosen === vertex, named = isChosen || (near && near.size <= FEW);
    return {
      ...shown, color: colourOf(vertex), zIndex: near ? 1 : 0, highlighted: isChosen,
      label: isChosen ? short(vertex.name, 120) : shown.label, forceLabel: named,
    };
  }

  function reduceEdge(edge, shown) {
    if (!near) return { ...shown, color: look.line, size: 1 };
    const [source, target] = graph.extremities(edge).map(Number);
    const stands = chosen?.edges ? source === chosen.number || target === chosen.number : near.has(source) && near.has(target);
    return stands ? { ...shown, color: look.strong, size: 1.5, zIndex: 1 } : { ...shown, hidden: true };
  }

  function drawHover(context, shown, settings) {
    const whole = short(vertices[shown.key].name, 120), size = settings.labelSize;
    context.font = `600 ${size}px ${settings.labelFont}`;
    const left = shown.x + shown.size + 2, width = context.measureText(whole).width + 12;
    context.fillStyle = look.raised;
    context.shadowColor = "rgba(0, 0, 0, .5)";
    context.shadowBlur = 8;
    context.beginPath();
    context.arc(shown.x, shown.y, shown.size + 2, 0, Math.PI * 2);
    context.roundRect(left, shown.y - size, width, size * 2, 5);
    context.fill();
    context.shadowBlur = 0;
    context.fillStyle = look.ink;
    context.fillText(whole, left + 6, shown.y + size / 3);
  }

  function repaint() {
    if (!renderer) return;
    look = theme();
    renderer.setSetting("labelColor", { color: look.ink });
    renderer.setSetting("defaultEdgeColor", look.line);
    renderer.refresh({ skipIndexation: true });
  }

  // Choosing

  function choose(thing, { back = false, centre = false } = {}) {
    if (thing === chosen) return;
    if (!back) before.push(chosen);
    if (!thing) before.length = 0;
    chosen = thing;
    near = null;
    if (thing?.members) near = new Set(thing.members.map((vertex) => vertex.number));
    else if (thing) near = new Set([thing.number, ...thing.edges.map((number) => otherEnd(thing, number))]);
    fill();
    if (!renderer) return;
    renderer.refresh({ skipIndexation: true });
    if (thing && centre) {
      const place = renderer.getNodeDisplayData(thing.number ?? thing.members[0].number), camera = renderer.getCamera();
      camera.animate({ x: place.x, y: place.y, ratio: Math.min(camera.ratio, 0.5) }, { duration: 300 });
    }
  }

  function otherEnd(vertex, number) {
    const [source, target] = edges[number];
    return source === vertex.number ? target : source;
  }

  // The panel

  function make(tag, text, kind, ...children) {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    if (kind) element.className = kind;
    element.append(...children);
    return element;
  }

  function link(text, act) {
    const button = make("button", text, "link text");
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  }

  const dot = (colour) => {
    const element = make("span", "", "dot");
    element.style.background = colour;
    return element;
  };
  const vertexLink = (vertex) => link(vertex.name, () => choose(vertex, { centre: true }));
  const row = (...parts) => make("li", null, "row", ...parts);
  const vertexItem = (vertex) => row(dot(colourOf(vertex)), vertexLink(vertex), make("small", say("degree", vertex.degree)));

  /** A heading and a list, the rest of which is shown when it is asked for. */
  function list(title, items, item, most = MANY) {
    if (!items.length) return [];
    const rows = make("ul");
    rows.append(...items.slice(0, most).map(item));
    const parts = [make("h3", title), rows];
    if (items.length > most) {
      const more = link(say("more", items.length), () => {
        rows.append(...items.slice(most).map(item));
        more.remove();
      });
      parts.push(more);
    }
    return parts;
  }

  function fill() {
    const back = before.length ? [link(say("back"), () => choose(before.pop(), { back: true }))] : [];
    back.forEach((button) => button.classList.add("back"));
    panel.replaceChildren(...back, ...(!chosen ? ofAll() : chosen.members ? ofCommunity(chosen) : ofVertex(chosen)));
    panel.scrollTop = 0;
  }

  function ofAll() {
    const { all } = data, parts = [make("h2", count(all.vertices, all.edges))];
    if (all.vertices > vertices.length) {
      parts.push(make("p", say("cut", vertices.length, all.vertices, edges.length, all.edges), "note"));
    }
    const item = (community) => row(
      dot(community.colour), link(community.title, () => choose(community)), make("small", say("vertices", community.size)),
    );
    if (level >= 0) parts.push(...list(say("communities"), shownCommunities(), item, FEW));
    return [...parts, ...list(say("connected"), byDegree, vertexItem, FEW)];
  }

  function ofCommunity(community) {
    return [
      make("h2", null, "text", dot(community.colour ?? look.plain), make("span", community.title)),
      make("p", say("vertices", community.size), "quiet"),
      ...report(community),
      ...list(say("members"), community.members, vertexItem),
    ];
  }

  function report(community) {
    const parts = [];
    if (community.summary) parts.push(make("p", community.summary, "text"));
    const findings = community.findings ?? [];
    if (findings.length) parts.push(make("h3", say("findings")));
    for (const [summary, explanation] of findings) {
      parts.push(make("h4", summary, "text"));
      if (explanation && explanation !== summary) parts.push(make("p", explanation, "text"));
    }
    return parts;
  }

  function ofVertex(vertex) {
    const about = [vertex.type, say("degree", vertex.degree)].filter(Boolean).join(" · ");
    const parts = [make("h2", vertex.name, "text"), make("p", about, "quiet text")];
    if (vertex.unheld) parts.push(make("p", say("unheld"), "note"));
    const said = (vertex.description ?? "").split("\n").filter((line) => line.trim());
    parts.push(...list(say("descriptions"), said, (line) => make("li", line, "text")));
    const order = [...vertex.edges].sort((a, b) => vertices[otherEnd(vertex, b)].degree - vertices[otherEnd(vertex, a)].degree || a - b);
    parts.push(...list(say("edges"), order, (number) => edgeItem(vertex, edges[number]), 100));
    if (vertex.degree > vertex.edges.length) parts.push(make("p", say("hidden", vertex.degree - vertex.edges.length), "quiet"));
    const chain = vertex.communities.map((number) => communities[number]).filter((community) => community.colour).reverse();
    parts.push(...list(say("communities"), chain, (community) => communityItem(community)));
    return [...parts, ...list(say("sources"), vertex.sources ?? [], ([number, count]) => row(
      make("span", sources[number], "text"), make("small", say("chunks", count)),
    ))];
  }

  function edgeItem(vertex, [source, target, relation, description, cited]) {
    const other = source === vertex.number ? target : source, leaves = source === vertex.number;
    const item = make("li");
    item.append(dot(colourOf(vertices[other])), make("span", leaves ? "→ " : "← ", "quiet"), make("span", relation, "text"), " ", vertexLink(vertices[other]));
    if (description) item.append(make("p", description, "text quiet"));
    if (cited) item.title = cited.map(([number]) => sources[number]).join("\n");
    return item;
  }

  function communityItem(community) {
    const details = make("details");
    details.append(
      make("summary", null, "text", dot(community.colour), make("span", community.title)),
      ...report(community), link(say("vertices", community.size), () => choose(community)),
    );
    return make("li", null, null, details);
  }

  // The search. A name is found in any case, width and spacing, as in the graph, and without its accents.

  const HAN = "\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}\\u3000-\\u303f";
  const SPACING = new RegExp(`(?<=[${HAN}])\\s+|\\s+(?=[${HAN}])`, "gu");
  const keyOf = (text) => text.normalize("NFKC").toLowerCase().replace(/[‐‑‒–—―-]/g, " ").replace(/[.,"“”„«»《》〈〉「」『』]/g, "")
    .replace(/[‘’`´]/g, "'").replace(/[•・‧∙⋅]/g, "·").trim().replace(/\s+/g, " ").replace(SPACING, "");
  const bare = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").normalize("NFC");
  // Of each vertex: its key, its name, both without accents.
  const keys = vertices.map((vertex) => [...new Set([vertex.key, keyOf(vertex.name)].flatMap((key) => [key, bare(key)]))]);

  function hits(text) {
    const key = keyOf(text);
    if (!key) return [];
    const forms = [...new Set([key, bare(key), key.replace(/^the /, "")])].filter(Boolean), words = bare(key).split(" ");
    const ranked = [[], [], [], []];
    for (const vertex of byDegree) {
      const mine = keys[vertex.number], any = (test) => mine.some((own) => forms.some((form) => test(own, form)));
      const rank = any((own, form) => own === form) ? 0 : any((own, form) => own.startsWith(form)) ? 1
        : any((own, form) => own.includes(form)) ? 2 : words.length > 1 && words.every((word) => mine.some((own) => own.includes(word))) ? 3 : -1;
      if (rank >= 0) ranked[rank].push(vertex);
    }
    return ranked.flat().slice(0, HITS);
  }

  let listed = [], marked = -1;

  function showFound() {
    listed = hits(search.value);
    found.replaceChildren(...listed.map((vertex, place) => {
      const item = row(dot(colourOf(vertex)), make("span", vertex.name, "text"), make("small", say("degree", vertex.degree)));
      item.id = `hit${place}`;
      item.setAttribute("role", "option");
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(place); });
      return item;
    }));
    if (!listed.length) found.append(make("li", say("nothing"), "quiet"));
    open(search.value.trim() !== "");
    mark(listed.length ? 0 : -1);
  }

  function open(isOpen) {
    found.hidden = !isOpen;
    search.setAttribute("aria-expanded", String(isOpen));
  }

  function mark(place) {
    marked = place;
    [...found.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === place)));
    if (place >= 0) {
      search.setAttribute("aria-activedescendant", `hit${place}`);
      found.children[place].scrollIntoView({ block: "nearest" });
    } else search.removeAttribute("aria-activedescendant");
  }

  function take(place) {
    open(false);
    choose(listed[place], { centre: true });
  }

  search.addEventListener("input", showFound);
  search.addEventListener("focus", () => search.value.trim() && showFound());
  search.addEventListener("blur", () => open(false));
  search.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // Enter ends a Chinese word being typed, not the search
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && listed.length) {
      event.preventDefault();
      if (found.hidden) open(true);
      mark((marked + step + listed.length) % listed.length);
    } else if (event.key === "Enter" && !found.hidden && marked >= 0) take(marked);
    else if (event.key === "Escape" && !found.hidden) {
      event.stopPropagation();
      open(false);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape") choose(null);
  });

  // The level

  const select = byId("level");
  const option = (value, text) => select.append(Object.assign(make("option", text), { value }));
  for (let each = 0; each < levels; each++) {
    level = each;
    option(each, say("level", each, shownCommunities().length));
  }
  option(-1, say("none"));
  level = levels ? 0 : -1;
  select.value = String(level);
  select.addEventListener("change", () => {
    level = Number(select.value);
    fill();
    repaint();
  });
  dark.addEventListener("change", () => { repaint(); fill(); });

  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  document.title = count(data.all.vertices, data.all.edges);
  document.querySelectorAll("[data-word]").forEach((element) => { element.textContent = say(element.dataset.word); });
  search.placeholder = say("search");
  search.setAttribute("aria-label", say("search"));
  stage.setAttribute("aria-label", say("picture"));
  for (const [id, word] of [["closer", "close"], ["farther", "far"], ["whole", "whole"]]) {
    byId(id).title = say(word);
    byId(id).setAttribute("aria-label", say(word));
  }
  byId("count").textContent = data.all.vertices > vertices.length
    ? say("cut", vertices.length, data.all.vertices, edges.length, data.all.edges)
    : count(vertices.length, edges.length);
  draw();
  fill();
  // For the console: what is drawn, and what draws it.
  window.view = { data, graph, renderer, choose: (name) => choose(vertices.find((vertex) => vertex.name === name) ?? null, { centre: true }) };
})();
