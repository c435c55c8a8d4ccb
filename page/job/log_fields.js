// The fields above the log: which lines are wanted. Each begins with what the address says.
import { h } from "../base/dom.js";

const TYPING_MS = 250;

/**
 * @param {URLSearchParams} query
 * @param {object} record of the job
 * @param {() => void} changed
 */
export function logFields(query, record, changed) {
  const numbers = (record.attempts ?? []).map((attempt) => String(attempt.number ?? 0));
  const select = (name, label, options) => selectOf({ name, label, options, value: query.get(name), changed });
  const text = (name, label, placeholder) => textOf({ name, label, placeholder, value: query.get(name), changed });
  return {
    fold: h("input", { type: "checkbox", checked: true, onchange: changed }),
    grep: text("grep", "Search (regular expression, searched by the coordinator)", "search, e.g. loss|accuracy"),
    ranks: text("rank", "Ranks, e.g. 0,3-5", "ranks: all"),
    level: select("level", "Level", [["", "every level"], ["WARN", "warnings and errors"], ["ERROR", "errors"]]),
    stream: select("stream", "Stream", [["", "stdout and stderr"], ["STDOUT", "stdout"], ["STDERR", "stderr"]]),
    attempt: select("attempt", "Attempt", [["-1", "all attempts"], ...numbers.map((number) => [number, `attempt ${number}`])]),
  };
}

function selectOf({ name, label, options, value, changed }) {
  const element = h("select", { "aria-label": label, "data-field": name, onchange: changed },
    options.map(([option, text]) => h("option", { value: option }, text)));
  element.value = value ?? options[0][0];
  if (element.selectedIndex < 0) element.selectedIndex = 0;
  return element;
}

function textOf({ name, label, placeholder, value, changed }) {
  let typing = 0;
  const later = () => {
    clearTimeout(typing);
    typing = setTimeout(changed, TYPING_MS);
  };
  const element = h("input", { type: "search", "aria-label": label, "data-field": name, placeholder, autocomplete: "off", spellcheck: "false", oninput: later });
  element.value = value ?? "";
  return element;
}
