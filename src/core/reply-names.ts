const legalName = /^[a-zA-Z0-9_-]{1,64}$/;
const maxLength = 64;

/** Namespaces that models put before a tool's name on their own account. */
const namespaces = ["functions", "function", "tools", "tool", "default_api", "multi_tool_use"];
const namespacePattern = new RegExp(`^(?:${namespaces.join("|")})[.:/]+`, "i");

/**
 * The names under which tools go to a server: strict ones take nothing but `[a-zA-Z0-9_-]{1,64}`. A legal name stays;
 * another loses its illegal characters and, if two then meet, gets a number. The same tools always get the same names.
 *
 * @returns legal name by real name.
 */
export function toLegalNames(names: readonly string[]): Map<string, string> {
  const taken = new Set(names.filter((name) => legalName.test(name)));
  const result = new Map<string, string>();
  for (const name of names) {
    if (result.has(name)) continue;
    let legal = toLegalName(name);
    for (let count = 2; legal !== name && taken.has(legal); count += 1) {
      legal = `${toLegalName(name).slice(0, maxLength - 4)}_${count}`;
    }
    taken.add(legal);
    result.set(name, legal);
  }
  return result;
}

/** One name in a legal form, whether or not such a tool exists. */
export function toLegalName(name: string): string {
  if (legalName.test(name)) return name;
  return name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, maxLength) || "unnamed";
}

/**
 * The tool that a model meant. The exact name wins; else it may differ in surrounding space, a known namespace, a channel
 * marker and case, if exactly one offered tool fits then. A name that merely resembles one is never taken for it.
 *
 * @returns the real name, or undefined if no offered tool is meant.
 */
export function resolveToolName(name: string, offered: readonly string[]): string | undefined {
  if (offered.includes(name)) return name;
  const legal = toLegalNames(offered);
  const bare = stripMarkers(name);
  const base = bare.replace(namespacePattern, "");
  for (const spelling of [name, name.trim(), bare, base]) {
    const real = offered.includes(spelling) ? spelling : offered.find((tool) => legal.get(tool) === spelling);
    if (real !== undefined) return real;
  }
  const wanted = base.toLowerCase();
  const fits = offered.filter((tool) => [tool, legal.get(tool)].some((form) => form?.toLowerCase() === wanted));
  return fits.length === 1 ? fits[0] : undefined;
}

/** Removes channel markers (`name<|channel|>json`, `<|channel|>commentary to=name`) and a call number (`name:0`). */
function stripMarkers(name: string): string {
  const addressed = /\bto=([^\s<]+)/.exec(name)?.[1];
  const unmarked = addressed ?? name.replace(/<\|[^|]*\|>.*$/s, "");
  return unmarked.trim().replace(/:\d+$/, "");
}
