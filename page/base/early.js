// Asks for the first rows while the modules are still being loaded: the list is then there with them.
// A classic script, because it must not wait for a module. jobs/jobs.js takes the answer, or is there first and asks itself.
if (location.pathname === "/" && !location.search && !("musterEarly" in window)) {
  window.musterEarly = fetch("/api/v1/ListJobs", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: '{"all":true,"limit":60}',
  });
  window.musterEarly.catch(() => {});  // the module that awaits it sees the failure
}
