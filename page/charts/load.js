// Loads dygraphs, which only pages with a chart need. Only page/charts/ knows dygraphs.

let loading = null;

const fileNextToUs = (name) => new URL(`../${name}`, import.meta.url).href;

// Of its plugins only those that draw: the others write markup and style attributes, which the page's policy forbids.
function withoutMarkup(Dygraph) {
  Dygraph.PLUGINS = [Dygraph.Plugins.Grid, Dygraph.Plugins.Axes];
  return Dygraph;
}

/** @returns {Promise<any>} the Dygraph class; rejects if it cannot be loaded, and the next call tries again */
export function loadDygraphs() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = fileNextToUs("dygraph.min.js");
    script.onload = () => resolve(withoutMarkup(globalThis.Dygraph));
    script.onerror = () => {
      loading = null;
      script.remove();
      reject(new Error("the charts could not be loaded"));
    };
    document.head.append(script);
  });
  return loading;
}
