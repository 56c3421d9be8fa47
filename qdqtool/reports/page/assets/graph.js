"use strict";
// The picture of the graph: dagre lays it out, here it is drawn, moved and searched. The tables have the same nodes.
(() => {
  const MOST = 300; // nodes of a graph that is laid out as a whole
  const NEAR = 150; // nodes that are laid out of a larger one: dagre takes 0.4 s for them, and 1.8 s for 300 with long edges
  const WIDEST = 26; // characters of a name in its box
  const READABLE = 900; // width of a view in which names can be read
  const SVG = "http://www.w3.org/2000/svg";

  function html(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function svg(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function shortened(text) {
    const points = [...text];
    return points.length > WIDEST ? `\u2026${points.slice(1 - WIDEST).join("")}` : text;
  }

  class Picture {
    constructor(figure) {
      const data = JSON.parse(figure.querySelector("script").textContent);
      this.nodes = data.nodes.map(([name, operator, state, detail, inputs]) => ({ name, operator, state, detail, inputs }));
      this.readers = this.nodes.map(() => []);
      this.nodes.forEach((node, at) => node.inputs.forEach(([from]) => from >= 0 && this.readers[from].push(at)));
      this.canvas = svg("svg", { role: "img", tabindex: "0" });
      this.note = html("p", { className: "note" });
      this.note.setAttribute("role", "status");
      figure.append(this.tools(), this.canvas, this.note);
      this.listen();
      this.draw(data.start);
    }

    tools() {
      const button = (text, action) => {
        const made = html("button", { type: "button", textContent: text });
        made.addEventListener("click", action);
        return made;
      };
      const search = html("input", { type: "search" });
      search.addEventListener("input", () => this.find(search.value.trim().toLowerCase()));
      return html(
        "div",
        { className: "tools" },
        html("label", {}, "Find node ", search),
        button("Zoom in", () => this.zoom(0.7)),
        button("Zoom out", () => this.zoom(1 / 0.7)),
        button("Show all", () => this.look(this.whole)),
      );
    }

    // The nodes to lay out: all of them, or those that are nearest to one.
    around(center) {
      if (this.nodes.length <= MOST) return new Set(this.nodes.keys());
      const found = new Set([center]);
      for (const at of found) {
        for (const next of [...this.nodes[at].inputs.map(([from]) => from), ...this.readers[at]]) {
          if (next >= 0 && found.size < NEAR) found.add(next);
        }
      }
      return found;
    }

    draw(center) {
      this.shown = this.around(center);
      const graph = new dagre.graphlib.Graph({ multigraph: true });
      graph.setGraph({ ranksep: 28, nodesep: 16, marginx: 8, marginy: 8 });
      graph.setDefaultEdgeLabel(() => ({}));
      for (const at of this.shown) graph.setNode(String(at), { width: 150, height: 34 });
      for (const at of this.shown) {
        this.nodes[at].inputs.forEach(([from, kind], index) => {
          if (this.shown.has(from)) graph.setEdge(String(from), String(at), { kind }, String(index));
        });
      }
      dagre.layout(graph);
      this.places = new Map([...this.shown].map((at) => [at, graph.node(String(at))]));
      this.boxes = new Map();
      const edges = graph.edges().map((edge) => this.line(graph.edge(edge)));
      this.canvas.replaceChildren(...edges, ...[...this.shown].map((at) => this.box(at)));
      const { width, height } = graph.graph();
      this.whole = { x: 0, y: 0, width: Math.max(width, 1), height: Math.max(height, 1) };
      const part = this.shown.size < this.nodes.length ? `, ${this.shown.size} of them around ${this.nodes[center].name}` : "";
      this.canvas.setAttribute("aria-label", `Graph of ${this.nodes.length} nodes${part}`);
      this.note.textContent = part ? `Shown are ${this.shown.size} of ${this.nodes.length} nodes. A search shows others.` : "";
      this.center(center);
    }

    line({ points, kind }) {
      const path = points.map(({ x, y }, at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      const made = svg("path", { d: path, class: kind ? "pair" : "plain" });
      if (kind) made.append(svg("title", {}, `Q/DQ pair: ${kind}`));
      return made;
    }

    box(at) {
      const node = this.nodes[at];
      const { x, y, width, height } = this.places.get(at);
      const frame = svg("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 4, class: node.state });
      frame.append(svg("title", {}, node.detail));
      this.boxes.set(at, frame);
      const made = svg("g", {});
      made.append(frame, svg("text", { x, y: y - 3 }, shortened(node.operator)), svg("text", { x, y: y + 11, class: "name" }, shortened(node.name)));
      made.addEventListener("click", () => {
        if (this.view.width > 2 * READABLE) this.center(at);
        this.mark(at);
      });
      return made;
    }

    mark(at) {
      this.canvas.querySelectorAll("rect.found").forEach((each) => each.classList.remove("found"));
      this.boxes.get(at).classList.add("found");
      this.note.textContent = this.nodes[at].detail;
    }

    find(query) {
      if (!query) return;
      const has = (node) => node.name.toLowerCase() === query;
      const holds = (node) => node.detail.toLowerCase().includes(query);
      const exact = this.nodes.findIndex(has);
      const at = exact >= 0 ? exact : this.nodes.findIndex(holds);
      if (at < 0) {
        this.note.textContent = "No node has this text.";
        return;
      }
      if (!this.shown.has(at)) this.draw(at);
      this.center(at);
      this.mark(at);
    }

    // Names can be read in this view. A graph that fits is shown as a whole; of others no part of the view is empty.
    center(at) {
      const { x, y } = this.places.get(at);
      const width = Math.min(READABLE, this.canvas.clientWidth || READABLE);
      const height = (width * (this.canvas.clientHeight || 500)) / (this.canvas.clientWidth || READABLE);
      const start = (middle, view, whole) => (view > whole ? (whole - view) / 2 : Math.min(Math.max(middle - view / 2, 0), whole - view));
      this.look({ x: start(x, width, this.whole.width), y: start(y, height, this.whole.height), width, height });
    }

    look(view) {
      this.view = view;
      this.canvas.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
    }

    zoom(factor) {
      const { x, y, width, height } = this.view;
      const [w, h] = [width * factor, height * factor];
      this.look({ x: x + (width - w) / 2, y: y + (height - h) / 2, width: w, height: h });
    }

    move(right, down) {
      this.look({ ...this.view, x: this.view.x + right, y: this.view.y + down });
    }

    listen() {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      this.canvas.addEventListener("keydown", (event) => {
        if (event.key === "+" || event.key === "-") this.zoom(event.key === "+" ? 0.7 : 1 / 0.7);
        else if (event.key in step) this.move(...step[event.key].map((each) => (each * this.view.width) / 8));
        else return;
        event.preventDefault();
      });
      // The wheel alone scrolls the page.
      this.canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 0.8 : 1.25);
      }, { passive: false });
      this.canvas.addEventListener("pointermove", (event) => {
        if (!(event.buttons & 1)) return;
        const scale = Math.max(this.view.width / this.canvas.clientWidth, this.view.height / this.canvas.clientHeight);
        this.move(-event.movementX * scale, -event.movementY * scale);
      });
    }
  }

  // A graph is laid out when its section is opened, which paper does with all of them.
  document.querySelectorAll("figure.graph").forEach((figure) => {
    figure.closest("details").addEventListener("toggle", () => figure.querySelector("svg") ?? new Picture(figure));
    addEventListener("beforeprint", () => figure.querySelector("svg") ?? new Picture(figure));
  });
})();
