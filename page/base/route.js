/**
 * Addresses. A view gets {parts, query}: "/jobs/a%20b?tab=logs" → parts ["jobs", "a b"], query URLSearchParams.
 *
 * navigate("/queue")                      opens a view, with a place in the history
 * setQuery({tab: "logs", x: ""})          changes the query of the current view in place; "" removes. No new view.
 * jobPath("train-7")                      "/jobs/train-7"
 * MOST_COMPARED                           jobs in an address of Compare
 */
// @ts-check

/** The current address. */
export function address() {
  const parts = location.pathname.split("/").filter((part) => part !== "").map(decoded);
  return { parts, query: new URLSearchParams(location.search) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Opens another view. */
export function navigate(path) {
  if (path === location.pathname + location.search) return;
  history.pushState(null, "", path);
  dispatchEvent(new Event("muster-address"));
}

/** Notes in the address what a view shows, so that a reload or a copy of the address shows it again. */
export function setQuery(changes, { push = false } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.size ? `?${query.toString().replaceAll("%2C", ",")}` : "";
  if (text === location.search) return;
  history[push ? "pushState" : "replaceState"](null, "", location.pathname + text);
}

/** Jobs that one address of Compare may name. */
export const MOST_COMPARED = 5;

/** Where a job's page is. */
export const jobPath = (name) => `/jobs/${encodeURIComponent(name)}`;
