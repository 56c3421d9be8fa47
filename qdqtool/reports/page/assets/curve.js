"use strict";
// Curves: figures against a share of the cost, with a limit and a marked state. The table below has the same figures.
(() => {
  const HEIGHT = 260;
  const COLORS = ["--accent", "--warning"];

  function element(name, className, role) {
    const made = document.createElement(name);
    made.className = className;
    made.setAttribute("role", role);
    return made;
  }

  class Curve {
    constructor(figure) {
      this.data = JSON.parse(figure.querySelector("script").textContent);
      this.place = element("div", "chart", "img");
      this.note = element("p", "count", "status");
      this.place.setAttribute("aria-label", `${figure.querySelector("h3").textContent}, ${this.data.x.length} states`);
      figure.append(this.place, this.note);
      for (const query of ["(prefers-color-scheme: dark)", "print"]) {
        matchMedia(query).addEventListener("change", () => this.draw());
      }
      new ResizeObserver(() => {
        if (this.place.clientWidth !== this.width) this.draw();
      }).observe(this.place);
      this.draw();
    }

    color(name) {
      return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    }

    // Space around the figures and the limit, so that no mark is cut off.
    range(values) {
      const low = Math.min(...values);
      const high = Math.max(...values);
      const margin = (high - low || Math.abs(high) || 1) * 0.08;
      return [low - margin, high + margin];
    }

    draw() {
      const { titles, x, series, limit } = this.data;
      const figures = [...series.flatMap(([, values]) => values), limit].filter((each) => each !== null);
      const axis = { stroke: this.color("--soft"), grid: { stroke: this.color("--line"), width: 1 }, ticks: { stroke: this.color("--line") } };
      this.width = this.place.clientWidth;
      if (this.plot) this.plot.destroy();
      this.plot = new uPlot(
        {
          width: this.width,
          height: HEIGHT,
          legend: { show: false },
          cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
          scales: { x: { time: false, range: this.range(x) }, y: { range: this.range(figures) } },
          axes: [
            { ...axis, label: titles[0], size: 30, labelSize: 20, values: (_, ticks) => ticks.map((tick) => `${+(100 * tick).toPrecision(3)}%`) },
            { ...axis, label: titles[2] ? `${titles[1]} (${titles[2]})` : titles[1], size: 50, labelSize: 20 },
          ],
          series: [{}, ...series.map(([, , line], at) => this.style(line, this.color(COLORS[at])))],
          hooks: { draw: [(plot) => this.mark(plot)], setCursor: [(plot) => this.tell(plot.cursor.idx)] },
        },
        [x, ...series.map(([, values]) => values)],
        this.place,
      );
    }

    style(line, color) {
      const points = { show: true, size: line ? 7 : 10, width: 2, stroke: color, fill: line ? color : this.color("--ground") };
      return { stroke: color, width: line ? 2 : 0, spanGaps: true, points, paths: line ? undefined : () => null };
    }

    mark(plot) {
      const { series, x, limit, chosen } = this.data;
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.lineWidth = 2 * uPlot.pxRatio;
      if (limit !== null) {
        const y = plot.valToPos(limit, "y", true);
        ctx.strokeStyle = this.color("--failed");
        ctx.setLineDash([8 * uPlot.pxRatio, 6 * uPlot.pxRatio]);
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        ctx.setLineDash([]);
      }
      ctx.strokeStyle = this.color("--text");
      for (const [, values] of chosen === null ? [] : series) {
        if (values[chosen] === null) continue;
        ctx.beginPath();
        ctx.arc(plot.valToPos(x[chosen], "x", true), plot.valToPos(values[chosen], "y", true), 9 * uPlot.pxRatio, 0, 2 * Math.PI);
        ctx.stroke();
      }
      ctx.restore();
    }

    tell(at) {
      const { titles, x, series, chosen } = this.data;
      if (at === null || at === undefined) return;
      const known = series.filter(([, values]) => values[at] !== null);
      const figures = known.map(([name, values]) => `${+values[at].toPrecision(4)} ${titles[2]} ${name}`);
      const who = at === chosen ? "written model, " : "";
      this.note.textContent = `${who}${titles[0].toLowerCase()} ${(100 * x[at]).toFixed(2)}%: ${figures.join(", ")}`;
    }
  }

  document.querySelectorAll("figure.curve").forEach((figure) => new Curve(figure));
})();
