"use strict";
// Charts of one tensor, which the reader chooses: magnitudes with ranges, or scales by channel. The same numbers stand beside.
(() => {
  const HEIGHT = 280;
  const LABEL = { labelSize: 20, labelGap: 0, labelFont: "12px system-ui, sans-serif" };
  const EVEN = 10; // largest ratio of scales for which their axis is linear

  function html(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  const digits = (value) => (Math.abs(value) < 1e6 ? String(+value.toPrecision(4)) : value.toExponential(3));
  const counted = (value) => value.toLocaleString("en");
  const percent = (share) => (share === null ? "unknown" : share > 0 && share < 1e-6 ? "< 0.0001%" : `${+(100 * share).toPrecision(3)}%`);
  const short = new Intl.NumberFormat("en", { notation: "compact" });

  // Powers of ten in a range, every one or every few of them; none where the axis is linear.
  function decades([low, high]) {
    const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
    const step = Math.ceil((last - first + 1) / 7);
    return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, at) => 10 ** (first + at * step));
  }

  function table(caption, heads, rows) {
    const cells = (kind, row) => row.map((each, at) => html(at ? kind : "th", { textContent: each, className: at ? "number" : "" }));
    const line = ({ cells: row, chosen }) => html("tr", { className: chosen ? "chosen" : "" }, ...cells("td", row));
    return html("table", {}, html("caption", { textContent: caption }), html("thead", {}, html("tr", {}, ...cells("th", heads))), html("tbody", {}, ...rows.map(line)));
  }

  // What is drawn and said of an activation.
  class Magnitudes {
    constructor([name, format, [low, high, values], [range, by, reason, clipped], methods, counts]) {
      Object.assign(this, { name, format, low, high, values, range, by, reason, clipped, methods, counts });
      const [width, text, zeros, beyond] = counts ?? [0, "", 0, 0];
      const runs = text ? text.split(" ").map((run) => run.split("*").map(Number)) : [];
      this.bins = runs.flatMap(([count, times = 1]) => Array(times).fill(count));
      Object.assign(this, { width, zeros, beyond });
    }

    get drawable() {
      return this.bins.length > 0;
    }

    get title() {
      return `Histogram of the magnitudes of ${this.name}, logarithmic; its range is ${digits(this.range)}`;
    }

    facts() {
      const known = this.values !== "unknown";
      const found = [`${this.name}: ${this.format}, range ${digits(this.range)} (${this.by}${this.reason ? `: ${this.reason}` : ""}), ${percent(this.clipped)} clipped.`];
      found.push(`${known ? `${counted(this.values)} values` : "Values"} from ${digits(this.low)} to ${digits(this.high)}${this.counts ? `, ${counted(this.zeros)} of them 0` : ""}.`);
      if (this.beyond) found.push(`${counted(this.beyond)} values lie behind the last bin.`);
      if (!this.counts) found.push("The values were not counted: there is no histogram.");
      return found.join(" ");
    }

    numbers() {
      const rows = this.methods.map(([method, range, clipped]) => ({ cells: [method, digits(range), percent(clipped)], range, chosen: false }));
      rows.push({ cells: ["chosen", digits(this.range), percent(this.clipped)], range: this.range, chosen: true });
      rows.sort((a, b) => b.range - a.range);
      return table("What each calibration method chooses", ["Method", "Range", "Clipped"], rows);
    }

    text(at) {
      return `${digits(at * this.width)} to ${digits((at + 1) * this.width)}: ${counted(this.bins[at])} values`;
    }

    get bars() {
      return this.bins.map((count, at) => ({ from: at * this.width, to: (at + 1) * this.width, count, value: count || null, text: this.text(at) }));
    }

    get axes() {
      const most = Math.max(...this.bins);
      return {
        x: "magnitude",
        y: "values in a bin",
        end: Math.max(this.bins.length * this.width, this.range * 1.02),
        log: true,
        range: [0.5, most * 3],
        format: (tick) => short.format(tick),
      };
    }

    // Ranges of methods that are equal have one line.
    lines() {
      const at = new Map();
      for (const [method, range] of this.methods) at.set(range, [...(at.get(range) ?? []), method]);
      return [...at].map(([range, names]) => ({ range, label: names.join(", ") })).sort((a, b) => a.range - b.range);
    }

    behind(plot, color) {
      const { ctx, bbox } = plot;
      const from = plot.valToPos(this.range, "x", true);
      ctx.fillStyle = color("--failed-ground");
      if (from < bbox.left + bbox.width) ctx.fillRect(from, bbox.top, bbox.left + bbox.width - from, bbox.height);
    }

    paint(plot, color) {
      bars(plot, this.bars, color("--accent"), (bar) => bar.value);
      const ratio = devicePixelRatio;
      const { ctx, bbox } = plot;
      const right = bbox.left + bbox.width;
      ctx.font = `${12 * ratio}px system-ui, sans-serif`;
      ctx.textBaseline = "top";
      const stroke = (range, width, dash, shade) => {
        const x = plot.valToPos(range, "x", true);
        if (x > right + 1) return null;
        ctx.strokeStyle = shade;
        ctx.lineWidth = width * ratio;
        ctx.setLineDash(dash.map((each) => each * ratio));
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        return x;
      };
      stroke(this.range, 3, [], color("--failed"));
      const lines = this.lines().map(({ range, label }) => ({ label, x: stroke(range, 1.5, [5, 4], color("--text")) }));
      ctx.textAlign = "left";
      lines.filter(({ x }) => x !== null).forEach(({ label, x }, row) => {
        const width = ctx.measureText(label).width;
        const start = x > bbox.left + bbox.width / 2 ? x - width - 6 * ratio : x + 6 * ratio;
        const y = bbox.top + (4 + 17 * row) * ratio;
        ctx.fillStyle = color("--ground");
        ctx.fillRect(start - 3 * ratio, y - 2 * ratio, width + 6 * ratio, 16 * ratio);
        ctx.fillStyle = color("--text");
        ctx.fillText(label, start, y);
      });
      ctx.setLineDash([]);
    }
  }

  // What is drawn and said of a weight.
  class Scales {
    constructor([name, format, axis, channels, grouped, smallest, largest, dead]) {
      Object.assign(this, { name, format, axis, channels, grouped, dead });
      const low = smallest.split(" ").map(Number);
      const high = largest ? largest.split(" ").map(Number) : low;
      this.points = low.map((each, at) => ({
        from: at * grouped,
        to: Math.min((at + 1) * grouped, channels),
        dead: each === 0,
        low: each || high[at],
        value: high[at] || null,
      }));
      for (const each of this.points) each.text = this.say(each);
      this.live = this.points.filter((each) => each.value);
      this.least = this.live.length ? this.live.reduce((a, b) => (b.low < a.low ? b : a)) : null;
      this.most = this.live.length ? this.live.reduce((a, b) => (b.value > a.value ? b : a)) : null;
    }

    get drawable() {
      return this.live.length > 0;
    }

    get ratio() {
      return this.most.value / this.least.low;
    }

    get title() {
      return `Scales of ${this.name} by channel on axis ${this.axis}${this.axes.log ? ", logarithmic" : ""}`;
    }

    place({ from, to }) {
      return to - from === 1 ? `channel ${from}` : `channels ${from} to ${to - 1}`;
    }

    say(point) {
      const scales = point.value === null ? "no scale" : point.low === point.value ? digits(point.low) : `${digits(point.low)} to ${digits(point.value)}`;
      return `${this.place(point)}: ${scales}${point.dead ? ", all weights of a channel are 0" : ""}`;
    }

    facts() {
      const found = [`${this.name}: ${this.format}, ${counted(this.channels)} channels on axis ${this.axis}${this.grouped > 1 ? `, ${this.grouped} in a bar` : ""}.`];
      if (this.drawable) found.push(`The largest scale is ${digits(this.ratio)} times the smallest.`);
      found.push(this.dead ? `All weights are 0 in ${this.dead} channel${this.dead === 1 ? "" : "s"}.` : "Every channel has weights other than 0.");
      return found.join(" ");
    }

    numbers() {
      const row = (what, point, value) => ({ cells: [what, this.place(point), digits(value)], chosen: false });
      const rows = this.drawable ? [row("largest", this.most, this.most.value), row("smallest", this.least, this.least.low)] : [];
      const dead = this.points.filter((each) => each.dead);
      rows.push(...dead.slice(0, 5).map((each) => ({ cells: ["all weights 0", this.place(each), "none"], chosen: true })));
      if (dead.length > 5) rows.push({ cells: ["all weights 0", `${dead.length - 5} more bars`, "none"], chosen: true });
      return table("Scales that stand out", ["Scale", "Where", "Value"], rows);
    }

    get bars() {
      return this.points;
    }

    get axes() {
      const log = this.ratio > EVEN;
      return {
        x: `channel on axis ${this.axis}`,
        y: "scale",
        end: this.channels,
        log,
        range: log ? [this.least.low / 2, this.most.value * 2] : [0, this.most.value * 1.1],
        format: (tick) => (tick === 0 || (tick >= 0.001 && tick < 1e5) ? digits(tick) : tick.toExponential(0)),
      };
    }

    behind(plot, color) {
      plot.ctx.globalAlpha = 0.45;
      bars(plot, this.points.filter((each) => each.dead), color("--failed"), () => plot.scales.y.max);
      plot.ctx.globalAlpha = 1;
    }

    paint(plot, color) {
      const even = this.live.every((each) => each.low === each.value);
      bars(plot, this.live, color(even ? "--accent" : "--quantized-ground"), (each) => each.value);
      if (!even) bars(plot, this.live, color("--accent"), (each) => each.value, (each) => each.low);
    }
  }

  function bars(plot, found, color, top, bottom = () => plot.scales.y.min) {
    plot.ctx.fillStyle = color;
    for (const bar of found) {
      const height = top(bar);
      if (height === null) continue;
      const [left, right] = [bar.from, bar.to].map((each) => plot.valToPos(each, "x", true));
      const [high, low] = [height, bottom(bar)].map((each) => plot.valToPos(each, "y", true));
      const gap = right - left > 6 ? 1 : 0;
      plot.ctx.fillRect(left, high, Math.max(right - left - gap, 1), Math.max(low - high, 2));
    }
  }

  class Chooser {
    constructor(figure) {
      this.figure = figure;
      const kind = figure.dataset.kind === "ranges" ? Magnitudes : Scales;
      const data = JSON.parse(figure.querySelector("script").textContent);
      this.entries = data;
      this.make = (at) => new kind(data[at]);
      this.numbers = new Map();
      data.forEach(([name], at) => this.numbers.has(name) || this.numbers.set(name, at));
      this.choice = html("select", {}, ...data.map(([name], at) => html("option", { value: at, textContent: name })));
      const search = html("input", { type: "search" });
      this.note = html("span", { className: "count" });
      this.note.setAttribute("role", "status");
      const tools = html("div", { className: "tools" }, html("label", {}, "Tensor ", this.choice), html("label", {}, "Find tensor ", search), this.note);
      this.place = html("div", { className: "chart" });
      this.place.setAttribute("role", "img");
      this.facts = html("p", { className: "facts-line" });
      this.facts.setAttribute("role", "status");
      this.beside = html("div", { className: "beside" });
      this.all = html("details", {}, html("summary", { textContent: "Every bar as text" }));
      this.all.addEventListener("toggle", () => this.list());
      figure.append(tools, this.facts, html("div", { className: "pair" }, this.place, this.beside), this.all);
      this.choice.addEventListener("change", () => this.show());
      search.addEventListener("input", () => this.find(search.value.trim().toLowerCase()));
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      matchMedia("print").addEventListener("change", () => this.draw());
      new ResizeObserver(() => this.place.clientWidth !== this.width && this.draw()).observe(this.place);
      this.show();
    }

    find(query) {
      this.note.textContent = "";
      if (!query) return;
      const exact = this.entries.findIndex(([name]) => name.toLowerCase() === query);
      const at = exact >= 0 ? exact : this.entries.findIndex(([name]) => name.toLowerCase().includes(query));
      if (at >= 0) this.choose(at);
      else this.note.textContent = "No tensor has this text.";
    }

    choose(at) {
      this.choice.value = at;
      this.show();
    }

    show() {
      this.chart = this.make(Number(this.choice.value));
      this.facts.textContent = this.chart.facts();
      this.beside.replaceChildren(this.chart.numbers());
      this.all.hidden = !this.chart.drawable;
      this.list();
      this.draw();
    }

    list() {
      this.all.querySelector("ol")?.remove();
      if (this.all.open && this.chart.drawable) this.all.append(html("ol", {}, ...this.chart.bars.map(({ text }) => html("li", { textContent: text }))));
    }

    draw() {
      const { chart } = this;
      this.plot?.destroy();
      this.plot = null;
      this.place.hidden = !chart.drawable;
      this.width = this.place.clientWidth;
      if (!chart.drawable) return;
      const style = getComputedStyle(document.documentElement);
      const color = (name) => style.getPropertyValue(name).trim();
      const { x, y, end, log, range, format } = chart.axes;
      const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
      const found = chart.bars;
      this.place.setAttribute("aria-label", chart.title);
      this.plot = new uPlot(
        {
          width: this.width,
          height: HEIGHT,
          legend: { show: false },
          cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
          scales: { x: { time: false, range: [0, end] }, y: { distr: log ? 3 : 1, range } },
          axes: [
            { ...axis, grid: { show: false }, label: x, ...LABEL, size: 34 },
            { ...axis, label: y, ...LABEL, size: 58, values: (_, ticks) => ticks.map(format), ...(log ? { splits: () => decades(range), filter: (_, ticks) => ticks } : {}) },
          ],
          series: [{}, { paths: () => null, points: { show: false } }],
          hooks: {
            drawClear: [(plot) => chart.behind(plot, color)],
            draw: [(plot) => chart.paint(plot, color)],
            setCursor: [(plot) => { this.note.textContent = found[plot.cursor.idx]?.text ?? this.note.textContent; }],
          },
        },
        [found.map(({ from, to }) => (from + to) / 2), found.map(({ value }) => value)],
        this.place,
      );
    }
  }

  // The charts are far down the page: they are made when the browser has nothing else to do, or at once when needed.
  const figures = [...document.querySelectorAll("figure.charts")];
  const choosers = new Map();
  const all = () => figures.map((figure) => choosers.get(figure) ?? choosers.set(figure, new Chooser(figure)).get(figure));
  (window.requestIdleCallback ?? setTimeout)(all);
  addEventListener("beforeprint", all);
  // A link at the name of a tensor chooses it in the section that it leads to: a page of two models has two of them.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a.tensor");
    const section = link && document.getElementById(link.hash.slice(1))?.closest("section");
    const chooser = section && all().find((each) => section.contains(each.figure) && each.numbers.has(link.textContent));
    if (!chooser) return;
    event.preventDefault();
    chooser.choose(chooser.numbers.get(link.textContent));
    chooser.figure.closest("details").open = true;
    chooser.figure.scrollIntoView({ block: "start" });
    chooser.choice.focus({ preventScroll: true });
  });
})();
