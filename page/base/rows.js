/**
 * Rows of equal height, of which only those in sight exist: 10,000 cost as much as 50.
 *
 * const rows = windowedRows(host, {make: () => element, fill: (element, index) => …, scroller?, onRange?(first, last)})
 *   host      an empty element; becomes as high as all rows; its CSS class should be "rows"
 *   scroller  the element that scrolls; the window if absent
 * rows.setCount(n)   rows.refresh(first?, last?) fills those in sight again   rows.reveal(index) scrolls to it
 * rows.at(index) → element in sight or undefined    rows.range() → [first, last)
 * rows.height() of one row    rows.close()
 */
// @ts-check

const BEYOND = 10;  // rows on both sides of what is in sight

export function windowedRows(host, { make, fill, scroller = null, onRange = (_first, _last) => {} }) {
  const rows = new Map();
  const spare = [];
  let count = 0;
  let height = 0;
  let range = [0, 0];
  let frame = 0;

  function measure() {
    const probe = spare[0] ?? make();
    if (!spare.length) spare.push(probe);
    probe.hidden = false;
    host.append(probe);
    height = probe.getBoundingClientRect().height || 24;
    probe.remove();
    host.style.height = `${count * height}px`;
  }

  function inSight() {
    const top = host.getBoundingClientRect().top;
    const from = scroller ? scroller.getBoundingClientRect().top : 0;
    const size = scroller ? scroller.clientHeight : innerHeight;
    const first = Math.max(0, Math.floor((from - top) / height) - BEYOND);
    return [Math.min(first, count), Math.max(0, Math.min(count, Math.ceil((from - top + size) / height) + BEYOND))];
  }

  function draw() {
    frame = 0;
    if (!host.isConnected) return;
    if (!height) measure();
    const [first, last] = inSight();
    for (const [index, row] of rows) {
      if (index >= first && index < last) continue;
      rows.delete(index);
      row.remove();
      spare.push(row);
    }
    // In the order of the document, for readers of it; from the end, so that the next row is there.
    let next = null;
    for (let index = last - 1; index >= first; --index) next = rows.get(index) ?? place(index, next);
    if (first !== range[0] || last !== range[1]) onRange(first, last);
    range = [first, last];
  }

  function place(index, next) {
    const row = spare.pop() ?? make();
    row.style.transform = `translateY(${index * height}px)`;
    fill(row, index);
    rows.set(index, row);
    host.insertBefore(row, next);
    return row;
  }

  const later = () => (frame ||= requestAnimationFrame(draw));
  const resized = () => {
    const before = height;
    measure();
    if (height !== before) for (const [index, row] of rows) row.style.transform = `translateY(${index * height}px)`;
    later();
  };
  const target = scroller ?? window;
  target.addEventListener("scroll", later, { passive: true });
  addEventListener("resize", resized);

  return {
    setCount(next) {
      count = next;
      if (!height) measure();
      host.style.height = `${count * height}px`;
      draw();
    },
    refresh(first = 0, last = Infinity) {
      for (const [index, row] of rows) if (index >= first && index < last) fill(row, index);
    },
    reveal(index) {
      if (!height) measure();
      const box = host.getBoundingClientRect();
      const head = scroller ? scroller.getBoundingClientRect().top : coveredByHead(host);
      const low = (scroller ? scroller.getBoundingClientRect().bottom : innerHeight) - height;
      const at = box.top + index * height;
      if (at < head) target.scrollBy(0, at - head);
      else if (at > low) target.scrollBy(0, at - low);
      draw();
    },
    at: (index) => rows.get(index),
    range: () => range,
    height: () => height,
    close() {
      target.removeEventListener("scroll", later);
      removeEventListener("resize", resized);
      cancelAnimationFrame(frame);
    },
  };
}

// How much of the window's top the sticky head of the table covers.
const coveredByHead = (host) => host.previousElementSibling?.getBoundingClientRect().bottom ?? 0;
