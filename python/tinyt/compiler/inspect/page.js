// Draws the programs in #data. Text goes in as text nodes only, never as markup.
"use strict";

(() => {
  const WIDTH = 190, HEIGHT = 50, GAP_X = 26, GAP_Y = 44;
  const KINDS = { op: "#cfe0f7", region: "#d9efd2", copy: "#f3e3c3", opaque: "#e6d5f0" };
  const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const view = { x: 0, y: 0, scale: 1 };
  let program = data.programs[0], boxes = [], lines = [], picked = -1;

  const svg = (name, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const html = (name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    return element;
  };
  const bytes = (n) => {
    let unit = 0;
    for (; n >= 1023.5 && unit + 1 < BYTES.length; ++unit) n /= 1024;
    return `${unit === 0 ? n : n.toPrecision(3)} ${BYTES[unit]}`;
  };

  const place = (node) => ({
    x: node.column * (WIDTH + GAP_X),
    y: node.row * (HEIGHT + GAP_Y),
  });

  // From pale yellow to red; the scale is that of the square root, so that small shares show.
  const heat = (part) => {
    const t = Math.sqrt(Math.max(0, Math.min(1, part)));
    return `hsl(${52 - 46 * t}, 90%, ${92 - 34 * t}%)`;
  };

  const recolour = () => {
    const colour = by("colour").value;
    const most = Math.max(...program.nodes.map((node) => node[colour] || 0), 1e-12);
    program.nodes.forEach((node, i) => {
      const fill = colour === "kind" ? KINDS[node.kind] : heat((node[colour] || 0) / most);
      boxes[i].querySelector("rect").setAttribute("fill", fill);
    });
  };

  const apply = () =>
    by("view").setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);

  const zoom = (factor, x, y) => {
    const scale = Math.max(0.02, Math.min(8, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    apply();
  };

  const fit = () => {
    const size = by("graph").getBoundingClientRect();
    const spots = program.nodes.map(place);
    if (spots.length === 0) return;
    const left = Math.min(...spots.map((p) => p.x)), top = Math.min(...spots.map((p) => p.y));
    const width = Math.max(...spots.map((p) => p.x)) - left + WIDTH;
    const height = Math.max(...spots.map((p) => p.y)) - top + HEIGHT;
    view.scale = Math.min(1.2, Math.max(0.02, Math.min(size.width / (width + 40), size.height / (height + 40))));
    view.x = (size.width - width * view.scale) / 2 - left * view.scale;
    view.y = Math.max(20, (size.height - height * view.scale) / 2) - top * view.scale;
    apply();
  };

  // The whole graph, or where that would be too small to read its first steps.
  const open = () => {
    fit();
    if (program.nodes.length === 0 || view.scale >= 0.4) return;
    const size = by("graph").getBoundingClientRect(), first = place(program.nodes[0]);
    view.scale = 0.8;
    view.x = size.width / 2 - (first.x + WIDTH / 2) * view.scale;
    view.y = 20 - first.y * view.scale;
    apply();
  };

  const pick = (number) => {
    picked = number;
    boxes.forEach((box, i) => box.classList.toggle("picked", i === number));
    lines.forEach((line, i) => {
      const [source, target] = program.edges[i];
      line.classList.toggle("near", source === number || target === number);
    });
    const list = html("dl", "");
    for (const [what, text] of program.nodes[number].details) {
      list.append(html("dt", what), html("dd", text));
    }
    by("details").replaceChildren(list);
    drawTimeline();
  };

  const drawGraph = () => {
    const spots = program.nodes.map(place);
    lines = program.edges.map(([source, target, text]) => {
      const a = spots[source], b = spots[target];
      const x0 = a.x + WIDTH / 2, y0 = a.y + HEIGHT, x1 = b.x + WIDTH / 2, y1 = b.y;
      const bend = Math.max(24, (y1 - y0) / 2);
      // Past rows in between on the outer side.
      const rows = program.nodes[target].row - program.nodes[source].row;
      const side = rows > 1 ? Math.sign(a.x + b.x || 1) * Math.min(2 * WIDTH, WIDTH / 2 + 12 * rows) : 0;
      const path = `M${x0} ${y0} C${x0 + side} ${y0 + bend} ${x1 + side} ${y1 - bend} ${x1} ${y1}`;
      const line = svg("path", { class: rows > 3 ? "edge long" : "edge", d: path });
      line.append(svg("title", {}, text));
      return line;
    });
    boxes = program.nodes.map((node, i) => {
      const box = svg("g", { class: "node", transform: `translate(${spots[i].x} ${spots[i].y})` });
      box.append(
        svg("rect", { width: WIDTH, height: HEIGHT }),
        svg("text", { x: 8, y: 17 }, `${i}: ${node.title}`),
        svg("text", { x: 8, y: 31, class: "small" }, node.result),
        svg("text", { x: 8, y: 44, class: "small" }, `${bytes(node.memory)} moved${node.timeText ? ", " + node.timeText : ""}`),
      );
      box.addEventListener("click", () => pick(i));
      return box;
    });
    by("edges").replaceChildren(...lines);
    by("nodes").replaceChildren(...boxes);
    recolour();
  };

  const drawTimeline = () => {
    const area = by("timeline"), size = area.getBoundingClientRect();
    const left = 70, right = 10, top = 8, bottom = 18;
    const steps = Math.max(program.nodes.length, 1);
    const peak = Math.max(program.peak, 1, ...program.bars.map((bar) => bar[3] + bar[4]));
    const x = (step) => left + ((size.width - left - right) * step) / steps;
    const y = (n) => size.height - bottom - ((size.height - top - bottom) * n) / peak;
    const parts = program.bars.map(([kind, first, last, offset, nbytes]) => {
      const bar = svg("rect", {
        class: `bar ${kind}`, x: x(first), y: y(offset + nbytes),
        width: Math.max(x(last + 1) - x(first), 0.5), height: Math.max(y(offset) - y(offset + nbytes), 0.5),
      });
      bar.append(svg("title", {}, `${kind}: ${bytes(nbytes)}, steps ${first} to ${last}`));
      return bar;
    });
    if (program.held.length > 0) {
      const path = program.held.map((n, i) => `${i ? "L" : "M"}${x(i)} ${y(n)} L${x(i + 1)} ${y(n)}`);
      parts.push(svg("path", { class: "held", d: path.join(" ") }));
    }
    parts.push(svg("text", { x: 4, y: y(program.peak) + 4 }, bytes(program.peak)));
    parts.push(svg("text", { x: 4, y: y(0) }, "0"));
    parts.push(svg("text", { x: left, y: size.height - 4 }, "step 0"));
    parts.push(svg("text", { x: size.width - right, y: size.height - 4, "text-anchor": "end" }, `step ${program.nodes.length - 1}`));
    if (picked >= 0) {
      const at = x(picked + 0.5);
      parts.push(svg("line", { class: "now", x1: at, x2: at, y1: top, y2: size.height - bottom }));
    }
    area.replaceChildren(...parts);
  };

  const find = () => {
    const wanted = by("find").value.trim().toLowerCase();
    program.nodes.forEach((node, i) => {
      const text = node.details.map(([, value]) => value).join(" ").toLowerCase();
      boxes[i].classList.toggle("faded", wanted !== "" && !text.includes(wanted));
    });
  };

  const show = (number) => {
    program = data.programs[number];
    picked = -1;
    const colour = by("colour");
    colour.options[0].disabled = !program.measured;
    if (!program.measured && colour.value === "time") colour.value = "memory";
    by("summary").textContent =
      `${program.nodes.length} steps, peak ${bytes(program.peak)}, arena ${bytes(program.arena)}`;
    drawGraph();
    drawTimeline();
    open();
    find();
  };

  const graph = by("graph");
  let dragged = null;
  graph.addEventListener("wheel", (event) => {
    event.preventDefault();
    const area = graph.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - area.left, event.clientY - area.top);
  }, { passive: false });
  graph.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX - view.x, y: event.clientY - view.y };
    graph.classList.add("dragged");
  });
  window.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    view.x = event.clientX - dragged.x;
    view.y = event.clientY - dragged.y;
    apply();
  });
  window.addEventListener("pointerup", () => {
    dragged = null;
    graph.classList.remove("dragged");
  });
  graph.addEventListener("keydown", (event) => {
    const size = graph.getBoundingClientRect(), x = size.width / 2, y = size.height / 2;
    if (event.key === "+") zoom(1.25, x, y);
    if (event.key === "-") zoom(0.8, x, y);
    if (event.key === "0") fit();
  });
  by("fit").addEventListener("click", fit);
  by("colour").addEventListener("change", recolour);
  by("find").addEventListener("input", find);
  by("program").addEventListener("change", () => show(by("program").selectedIndex));
  window.addEventListener("resize", drawTimeline);

  by("name").textContent = data.name;
  data.programs.forEach((p) => by("program").append(html("option", p.name)));
  show(0);
  document.documentElement.dataset.drawn = String(program.nodes.length);
})();
