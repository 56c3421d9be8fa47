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
      this.texts = new Map(this.rows.map((row) => [row, row.textContent.toLowerCase()]));
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

    matching() {
      return this.rows.filter((row) => this.texts.get(row).includes(this.query));
    }

    show() {
      const found = this.matching();
      const shown = this.all ? found : found.slice(0, SHOWN);
      this.body.replaceChildren(...shown);
      if (this.tools) {
        this.more.hidden = shown.length === found.length;
        this.count.textContent = `${shown.length} of ${this.original.length} rows`;
      }
      this.watchers.forEach((watcher) => watcher(found));
    }
  }

  for (const box of document.querySelectorAll("div.table")) new Sheet(box);
})();
