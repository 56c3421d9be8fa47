"use strict";
// Tables sort by buttons in their headings and filter by a text. Without this script they are complete, in one order.
(() => {
  const SHOWN = 200; // rows that are laid out at first: laying out thousands takes seconds

  function value(row, column) {
    const cell = row.cells[column];
    if (cell.dataset.key !== undefined) return cell.dataset.key;
    if (cell.dataset.sort === undefined) return cell.textContent.toLowerCase();
    return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
  }

  function sorted(rows, column, descending) {
    const keyed = rows.map((row, at) => ({ row, at, key: value(row, column) }));
    keyed.sort((a, b) => {
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null) || a.at - b.at;
      return (descending ? compare(b.key, a.key) : compare(a.key, b.key)) || a.at - b.at;
    });
    return keyed.map((each) => each.row);
  }

  function element(name, properties, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  class Sheet {
    constructor(box) {
      this.box = box;
      this.body = box.querySelector("tbody");
      this.heads = [...box.querySelectorAll("thead th")];
      this.original = [...this.body.rows];
      this.rows = this.original;
      this.texts = new Map(); // filled by the first filter: reading every row takes long
      this.all = false;
      this.query = "";
      this.watchers = [];
      this.addButtons();
      this.addTools();
      this.show();
    }

    addButtons() {
      this.heads.forEach((head, column) => {
        const button = element("button", { type: "button" }, ...head.childNodes);
        head.append(button);
        button.addEventListener("click", () => this.sort(column));
      });
    }

    addTools() {
      if (this.rows.length < 6) return;
      const filter = element("input", { type: "search" });
      const label = element("label", {}, "Filter ", filter);
      this.count = element("span", { className: "count" });
      this.count.setAttribute("role", "status");
      this.more = element("button", { type: "button" }, "Show all rows");
      this.tools = element("div", { className: "tools" }, label, this.count, this.more);
      this.box.querySelector(".scroll").before(this.tools);
      filter.addEventListener("input", () => {
        this.query = filter.value.trim().toLowerCase();
        this.show();
      });
      this.more.addEventListener("click", () => {
        this.all = true;
        this.show();
      });
    }

    sort(column) {
      const head = this.heads[column];
      const descending = head.getAttribute("aria-sort") === "ascending";
      this.heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      this.rows = sorted(this.original, column, descending);
      this.show();
    }

    // On narrow screens the cells of a row are below each other, and the headings are hidden.
    label(rows) {
      for (const row of rows) [...row.cells].forEach((cell, at) => at && (cell.dataset.title = this.heads[at].textContent));
    }

    matching() {
      return this.query ? this.rows.filter((row) => this.text(row).includes(this.query)) : this.rows;
    }

    text(row) {
      if (!this.texts.has(row)) this.texts.set(row, row.textContent.toLowerCase());
      return this.texts.get(row);
    }

    show() {
      const found = this.matching();
      const shown = this.all ? found : found.slice(0, SHOWN);
      this.box.classList.toggle("all", this.all);
      this.body.replaceChildren(...shown);
      if (this.body.parentNode.matches(".prose")) this.label(shown);
      if (this.tools) {
        this.more.hidden = shown.length === found.length;
        this.count.textContent = `${shown.length} of ${this.original.length} rows`;
      }
      this.watchers.forEach((watcher) => watcher(found));
    }
  }

  // Bars of the rows that a table shows, in their order. The table below has the same numbers for those who cannot see it.
  class Chart {
    constructor(sheet) {
      this.sheet = sheet;
      this.columns = sheet.heads.map((head, at) => ({ head, at })).filter(({ head }) => "bars" in head.dataset);
      this.columns = this.columns.filter(({ at }) => sheet.original.some((row) => Number.isFinite(value(row, at))));
      if (!this.columns.length) return;
      this.choice = element("select", {});
      for (const { head, at } of this.columns) {
        this.choice.append(element("option", { value: at, textContent: head.textContent }));
      }
      this.note = element("span", { className: "count" });
      this.note.setAttribute("role", "status");
      const tools = element("div", { className: "tools" }, element("label", {}, "Chart ", this.choice), this.note);
      this.place = element("div", { className: "chart" });
      this.place.setAttribute("role", "img");
      sheet.box.querySelector("h3").after(tools, this.place);
      this.choice.addEventListener("change", () => this.draw());
      sheet.watchers.push(() => this.draw());
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      new ResizeObserver(() => {
        if (this.plot && this.place.clientWidth !== this.width) this.draw();
      }).observe(this.place);
      this.draw();
    }

    draw() {
      const column = Number(this.choice.value);
      this.note.textContent = "";
      const rows = this.sheet.matching();
      const heights = rows.map((row) => value(row, column)).map((each) => (Number.isFinite(each) && each < 1e9 ? each : null));
      const percent = rows.some((row) => row.cells[column].textContent.endsWith("%"));
      const title = this.choice.selectedOptions[0].textContent;
      const style = getComputedStyle(document.documentElement);
      const color = (name) => style.getPropertyValue(name).trim();
      const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
      this.place.setAttribute("aria-label", `${title} of ${rows.length} row${rows.length === 1 ? "" : "s"}, in the order of the table below`);
      this.width = this.place.clientWidth;
      if (this.plot) this.plot.destroy();
      this.plot = new uPlot(
        {
          width: this.width,
          height: 220,
          legend: { show: false },
          cursor: { drag: { x: false, y: false }, y: false },
          scales: { x: { time: false, range: [0.25, rows.length + 0.75] }, y: { range: (_, low, high) => [Math.min(0, low), Math.max(high, 0) || 1] } },
          axes: [{ ...axis, grid: { show: false }, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, { ...axis, size: 60, values: (_, ticks) => ticks.map((tick) => (percent ? `${+(100 * tick).toPrecision(3)}%` : tick)) }],
          series: [{}, { fill: color("--accent"), stroke: color("--accent"), width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.8, 60] }) }],
          hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx, rows, column)] },
        },
        [rows.map((_, at) => at + 1), heights],
        this.place,
      );
      this.plot.over.addEventListener("click", () => this.find(rows[this.plot.cursor.idx]));
    }

    tell(index, rows, column) {
      const row = rows[index];
      if (row) this.note.textContent = `${row.cells[0].textContent}: ${row.cells[column].textContent}`;
    }

    find(row) {
      if (!row) return;
      if (!row.isConnected) {
        this.sheet.all = true;
        this.sheet.show();
      }
      this.sheet.box.querySelectorAll("tr.found").forEach((each) => each.classList.remove("found"));
      row.classList.add("found");
      row.scrollIntoView({ block: "center" });
    }
  }

  // A link to a section opens it; so does the address of the page, and paper opens all.
  const sections = [...document.querySelectorAll("section > details")];
  const reveal = (hash) => {
    const target = hash ? document.getElementById(hash.slice(1)) : null;
    const section = target?.closest("section > details");
    if (section) section.open = true;
    target?.scrollIntoView();
  };
  document.addEventListener("click", (event) => reveal(event.target.closest?.("a[href^='#']:not(.tensor)")?.hash));
  reveal(location.hash);
  const every = element("button", { type: "button", textContent: "Open all sections" });
  every.addEventListener("click", () => {
    const open = sections.some((each) => !each.open);
    sections.forEach((each) => { each.open = open; });
    every.textContent = open ? "Close all sections" : "Open all sections";
  });
  document.querySelector("nav").append(element("p", { className: "tools" }, every));
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = sections.filter((each) => !each.open);
    closed.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));

  for (const box of document.querySelectorAll("div.table")) {
    const sheet = new Sheet(box);
    if ("chart" in box.dataset) new Chart(sheet);
  }
})();
