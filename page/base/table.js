/**
 * A table of which only the rows in sight exist, moved through by keyboard.
 *
 * const table = liveTable({label, name, columns, open(item, event), onRange?(first, last)})
 *   columns: [{id, label, hint?, make?(cell), fill(cell, item, index)}]; a cell's class is its column's id; CSS gives
 *   .NAME .row its grid. The first <a> of a row is what the keyboard focuses.
 * table.element                      role "table"; rows have role "row", and data-current on the one the keyboard is at
 * table.setItems(items, {total})     items have an id, which the keyboard's place follows; total -1: not known
 * table.refresh()                    fills the rows in sight again
 * table.key(event) → handled         j k, arrows, Home, End, PageUp, PageDown, Enter
 * table.current() → item    table.range()    table.shift(rows) after rows came in above    table.close()
 */
// @ts-check
import { h, setAttribute } from "./dom.js";
import { windowedRows } from "./rows.js";

export function liveTable({ label, name, columns, open, onRange = (_first, _last) => {} }) {
  let items = [];
  let at = -1;
  const head = h("div", { class: "row head", role: "row" },
    columns.map((column) => h("div", { class: column.id, role: "columnheader", title: column.hint }, column.label)));
  const host = h("div", { class: "rows", role: "rowgroup" });
  const element = h("div", { class: `table ${name}`, role: "table", "aria-label": label },
    h("div", { class: "headgroup", role: "rowgroup" }, head), host);
  const rows = windowedRows(host, { make, fill, onRange });

  function make() {
    const row = h("div", { class: "row", role: "row" }, columns.map((column) => {
      const cell = h("div", { class: column.id, role: "cell" });
      column.make?.(cell);
      return cell;
    }));
    row.addEventListener("click", (event) => clicked(row, event));
    row.addEventListener("focusin", () => focused(row));
    return row;
  }

  function fill(row, index) {
    row.musterIndex = index;
    setAttribute(row, "aria-rowindex", index + 2);
    setAttribute(row, "data-current", index === at);
    columns.forEach((column, i) => column.fill(row.children[i], items[index], index));
  }

  // The whole row is a target for the pointer, but not while text in it is being selected.
  function clicked(row, event) {
    if (event.target.closest("a, button, input, label") || String(getSelection())) return;
    open(items[row.musterIndex], event);
  }

  function focused(row) {
    if (row.musterIndex !== at) mark(row.musterIndex);
  }

  function mark(index) {
    const before = rows.at(at);
    at = index;
    if (before) setAttribute(before, "data-current", false);
    const row = rows.at(at);
    if (row) setAttribute(row, "data-current", true);
    return row;
  }

  function moveTo(index) {
    if (!items.length) return;
    const next = Math.max(0, Math.min(items.length - 1, index));
    rows.reveal(next);
    mark(next)?.querySelector("a")?.focus({ preventScroll: true });
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const page = Math.max(1, Math.floor(innerHeight / (rows.height() || 30)) - 4);
    const steps = {
      j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity,
    };
    if (event.key === "Enter" && items[at] && !event.target.closest?.("a, button, input")) open(items[at], event);
    else if (Object.hasOwn(steps, event.key)) moveTo(at < 0 && Number.isFinite(steps[event.key]) ? firstInSight() : at + steps[event.key]);
    else return false;
    event.preventDefault();
    return true;
  }

  // The keyboard stays at the same item, wherever that is now; if it is gone, at the same place.
  function follow(id) {
    const next = id === undefined ? -1 : items.findIndex((item) => item.id === id);
    at = next >= 0 ? next : Math.min(at, items.length - 1);
  }

  function firstInSight() {
    const hidden = element.firstElementChild.getBoundingClientRect().bottom - host.getBoundingClientRect().top;
    return Math.max(0, Math.ceil(hidden / (rows.height() || 30) - 0.5));
  }

  return {
    element,
    setItems(next, { total = next.length } = {}) {
      const chosen = items[at]?.id;
      const hadFocus = rows.at(at)?.contains(document.activeElement);
      items = next;
      follow(chosen);
      setAttribute(element, "aria-rowcount", total < 0 ? -1 : total + 1);
      rows.setCount(items.length);
      rows.refresh();
      if (hadFocus && !rows.at(at)?.contains(document.activeElement)) rows.at(at)?.querySelector("a")?.focus({ preventScroll: true });
    },
    refresh: () => rows.refresh(),
    key,
    current: () => items[at],
    range: rows.range,
    shift(count) {
      if (host.getBoundingClientRect().top < 0) scrollBy(0, count * rows.height());
    },
    close: rows.close,
  };
}
