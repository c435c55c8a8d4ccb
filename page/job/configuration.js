// What a job was configured with, as a list of fields, and how two jobs differ: the fields and values of `jobctl diff`. Pure.
import { bytes, commandLine, shellQuote } from "../base/format.js";

const GROUPS = ["command", "arguments", "shape", "policy", "labels", "run", "environment"];
const HIDDEN = "(hidden)";
const EMPTY = "(empty)";
// What a shell sets for itself; the directory has its own field.
const SHELLS_OWN = new Set(["_", "OLDPWD", "PWD", "SHLVL"]);
const SECRET_WORDS = ["TOKEN", "KEY", "PASSWORD", "PASSWD", "SECRET", "CREDENTIAL"];
const SIZE_UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["KB", 1e3]];

export const looksSecret = (name) => SECRET_WORDS.some((word) => name.toUpperCase().includes(word));

const looksLikeOption = (word) => word.length > 1 && word[0] === "-" && !/[0-9.]/.test(word[1]);

/** At most three decimals, without trailing zeros. */
const thousandths = (value) => String(Number((Number(value) / 1000).toFixed(3)));

/** Of the units that need at most three decimals, the one with the shortest text: "4 GB", not "3906250 KiB". */
function exactBytes(count) {
  let shortest = `${count} B`;
  for (const [name, size] of SIZE_UNITS) {
    if (Number(count) < size || (BigInt(count) * 1000n) % BigInt(size) !== 0n) continue;
    const text = `${thousandths(Number((BigInt(count) * 1000n) / BigInt(size)))} ${name}`;
    if (text.length < shortest.length) shortest = text;
  }
  return shortest;
}

class Fields {
  constructor() {
    this.byGroup = GROUPS.map(() => new Map());
  }

  add(group, name, value) {
    if (value) this.byGroup[GROUPS.indexOf(group)].set(name, String(value));
  }

  // An option may be repeated.
  append(group, name, value) {
    const fields = this.byGroup[GROUPS.indexOf(group)];
    fields.set(name, fields.get(name) ? `${fields.get(name)} ${value}` : value);
  }

  addNumber(group, name, value) {
    if (Number(value ?? 0) > 0) this.add(group, name, String(value));
  }
}

// A field for each option, so that another order or another value of one does not hide in a long line.
function addCommand(spec, fields) {
  const words = spec.command ?? [];
  let i = 0;
  for (; i < words.length && !looksLikeOption(words[i]); i += 1) fields.append("command", "command", shellQuote(words[i]));
  for (; i < words.length; i += 1) {
    const word = words[i];
    const equals = word.indexOf("=");
    if (!looksLikeOption(word)) {
      fields.append("arguments", "arguments", shellQuote(word));
    } else if (equals >= 0) {
      fields.append("arguments", `argument ${word.slice(0, equals)}`, word.slice(equals + 1));
    } else if (i + 1 < words.length && !looksLikeOption(words[i + 1])) {
      fields.append("arguments", `argument ${word}`, words[(i += 1)]);
    } else {
      fields.append("arguments", `argument ${word}`, "given");
    }
  }
  fields.add("command", "directory", spec.workdir);
}

function addShape(spec, fields) {
  const shape = spec.shape ?? {};
  const device = shape.device ?? {};
  const limits = shape.limits ?? {};
  fields.addNumber("shape", "processes", shape.processes);
  fields.addNumber("shape", "ranks per node", shape.perNode);
  fields.addNumber("shape", "nodes at least", shape.minNodes);
  fields.addNumber("shape", "nodes at most", shape.maxNodes);
  fields.add("shape", "device kind asked for", device.kind);
  fields.add("shape", "device model asked for", device.model);
  fields.addNumber("shape", "devices per rank", device.countPerRank);
  if (Number(device.minMemoryBytes ?? 0) > 0) fields.add("shape", "device memory at least", bytes(device.minMemoryBytes));
  if (limits.cpuMillis > 0) fields.add("shape", "cpus per rank at most", thousandths(limits.cpuMillis));
  if (Number(limits.memoryBytes ?? 0) > 0) fields.add("shape", "memory per rank at most", exactBytes(limits.memoryBytes));
  if (spec.virtualLocalRank) fields.add("shape", "virtual local rank", "yes");
  fields.add("shape", "role", spec.role);
}

function addPolicies(spec, fields) {
  if (spec.priority) fields.add("policy", "priority", spec.priority);
  fields.addNumber("policy", "restarts", spec.restarts);
  fields.addNumber("policy", "restarts after lost nodes", spec.nodeLossRestarts);
  fields.addNumber("policy", "grace in ms", spec.graceMs);
  fields.addNumber("policy", "most duration in ms", spec.maxDurationMs);
  fields.addNumber("policy", "estimate in ms", spec.estimateMs);
  if (spec.preemptible !== undefined) fields.add("policy", "preemptible", spec.preemptible ? "yes" : "no");
  fields.addNumber("policy", "notice signal", spec.noticeSignal);
  fields.addNumber("policy", "checkpoints kept", spec.checkpoint?.keep);
  if (spec.checkpoint?.writers === "CHECKPOINT_WRITERS_ALL") fields.add("policy", "checkpoint writers", "all");
  if (spec.logs === "LOG_POLICY_BLOCK") fields.add("policy", "logs", "block");
  if (spec.onNodeLoss === "ON_NODE_LOSS_WAIT") fields.add("policy", "on node loss", "wait");
  fields.addNumber("policy", "started from step", spec.resumeStep);
  for (const [name, value] of Object.entries(spec.labels ?? {})) fields.add("labels", `label ${name}`, value || EMPTY);
}

const joined = (words) => [...new Set(words)].sort(byBytes).join(", ");

// What the newest attempt got.
function addAttempt(record, nodes, fields) {
  const attempt = (record.attempts ?? []).at(-1);
  if (!attempt) return;
  const parts = attempt.parts ?? [];
  const facts = new Map((nodes.nodes ?? []).map(({ record: node }) => [node?.facts?.name ?? "", node?.facts ?? {}]));
  const known = parts.filter((part) => facts.has(part.node));
  fields.addNumber("run", "world size", attempt.worldSize);
  fields.addNumber("run", "attempts", (attempt.number ?? 0) + 1);
  fields.add("run", "ranks on each node", parts.map((part) => part.localWorldSize ?? 0).join(" + "));
  fields.add("run", "nodes", joined(parts.map((part) => part.node)));
  fields.add("run", "device kind", record.resolvedDeviceKind);
  fields.add("run", "device models", joined(known.flatMap((part) => modelsOf(part, facts.get(part.node)))));
  fields.add("run", "workers' version", joined(known.map((part) => facts.get(part.node).version ?? "")));
}

function modelsOf(part, { devices = [] }) {
  const used = devices.filter((device) => (device.kind ?? "") === (part.deviceKind ?? "") && (part.deviceIndexes ?? []).includes(device.index ?? 0));
  return used.map((device) => device.model ?? "").filter(Boolean);
}

// As the command sorts them: by bytes, not by a language's rules.
const byBytes = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/**
 * @param {object} record of a job
 * @param {object} nodes ListNodes' answer: the models of the devices and the workers' versions, of nodes still known
 * @returns {Map<string, string>} the fields in the order in which they are shown
 */
export function configurationOf(record, nodes) {
  const fields = new Fields();
  const spec = record.spec ?? {};
  addCommand(spec, fields);
  addShape(spec, fields);
  addPolicies(spec, fields);
  addAttempt(record, nodes, fields);
  for (const [name, value] of Object.entries(spec.env ?? {})) {
    if (!SHELLS_OWN.has(name)) fields.add("environment", `env ${name}`, value || EMPTY);
  }
  const sorted = fields.byGroup.map((group) => [...group].sort((a, b) => byBytes(a[0], b[0])));
  return Object.assign(new Map(sorted.flat()), { groups: new Map(sorted.flatMap((group, n) => group.map(([name]) => [name, n]))) });
}

function shownValue(field, value) {
  if (value === undefined) return undefined;
  return field.startsWith("env ") && looksSecret(field) && value !== EMPTY ? HIDDEN : value;
}

/** What is shown of all fields: [name, value]. */
export const shownFields = (configuration) => [...configuration].map(([name, value]) => [name, shownValue(name, value)]);

/**
 * What is not equal, in order of the fields. Secret values are compared, and shown as "(hidden)".
 * @returns {{field: string, a?: string, b?: string}[]} absent: there is none
 */
export function differencesOf(a, b) {
  const names = [...new Set([...a.keys(), ...b.keys()])];
  const groupOf = (name) => a.groups.get(name) ?? b.groups.get(name);
  names.sort((x, y) => groupOf(x) - groupOf(y) || byBytes(x, y));
  return names.filter((name) => a.get(name) !== b.get(name))
    .map((field) => ({ field, a: shownValue(field, a.get(field)), b: shownValue(field, b.get(field)) }));
}

/** The command line that runs the same again, as `jobctl show` prints it. */
export function reproduceLine(spec) {
  const shape = spec.shape ?? {};
  const device = shape.device ?? {};
  const ranks = shape.processes || (shape.perNode ?? 0) * Math.max(1, shape.minNodes ?? 0);
  let line = `jobctl run -n ${ranks}`;
  if (shape.minNodes > 0 && shape.minNodes === shape.maxNodes) line += ` --nodes ${shape.minNodes}`;
  if (device.kind) line += ` --devices ${device.model || device.kind}${device.countPerRank > 1 ? `:${ranks * device.countPerRank}` : ""}`;
  if (spec.restarts > 0) line += ` --restarts ${spec.restarts}`;
  for (const key of Object.keys(spec.labels ?? {}).sort(byBytes)) line += ` -l ${shellQuote(`${key}=${spec.labels[key]}`)}`;
  if (spec.workdir) line += ` --workdir ${shellQuote(spec.workdir)}`;
  return `${line} -- ${commandLine(spec.command)}`;
}
