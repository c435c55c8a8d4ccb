/**
 * Building and changing elements. Text is always text: nothing here parses markup.
 *
 * h("a", {class: "job", href: "/jobs/x", onclick: go, "aria-label": "x"}, "text", node, [nodes], null)
 * s("path", {d: "…"})            the same for SVG
 * setText(node, text)            writes only what changed
 * setAttribute(node, name, value) likewise; null or false removes
 * replace(node, ...children)     replaces all children
 * onKeys(handler)                key presses for the view, until the returned function is called
 * isTyping(event)                the keys are text for a field
 * scrollBox(table)               scrolls sideways what is too wide
 * keyed(parent, items, keyOf, make, update)  keeps one child per key, in order, and touches no others
 */
// @ts-check

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `on…` functions become listeners; null, undefined and false are left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.append(child instanceof Node ? child : String(child));
  }
}

/** A box for a table that may be wider than the page; the keyboard can scroll it. */
export const scrollBox = (...children) => h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "table" }, children);

/** Replaces all children; strings become text. */
export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** Sets the text, unless it is there already: an unchanged cell costs no layout. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Sets or removes an attribute, unless it has that value already. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/**
 * Makes `parent` have one child per item, in their order. A child whose key is still there is kept (with its focus,
 * selection and scroll position) and only updated.
 * @param {Element} parent
 * @param {Array<any>} items
 * @param {(item: any, index: number) => string} keyOf
 * @param {(item: any) => Element} make
 * @param {(element: any, item: any) => void} [update] called for new children, too
 */
export function keyed(parent, items, keyOf, make, update = () => {}) {
  const old = new Map();
  for (const child of [...parent.children]) old.set(/** @type {any} */ (child).musterKey, child);
  let place = parent.firstElementChild;
  items.forEach((item, index) => {
    const key = keyOf(item, index);
    let child = old.get(key);
    if (child) old.delete(key);
    else {
      child = make(item);
      child.musterKey = key;
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  });
  for (const child of old.values()) child.remove();
}

/** True while the keys that a person presses are text for a field. */
export function isTyping(event) {
  const target = event.target;
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/**
 * Key presses that are meant for the view: not for a field, a dialog or the browser. Returns what stops it.
 * @param {(event: KeyboardEvent) => void} handler
 */
export function onKeys(handler) {
  const listener = (event) => {
    const isBox = event.target instanceof HTMLInputElement && event.target.type === "checkbox";
    if ((isTyping(event) && !isBox) || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!document.querySelector("dialog[open]")) handler(event);
  };
  document.addEventListener("keydown", listener);
  return () => document.removeEventListener("keydown", listener);
}
