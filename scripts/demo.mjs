// `npm run demo`: works with whatever Node (>= 18) a fresh clone is met with. Installs the packages if they are missing or
// older than the lock file, then runs the demo on the Node that comes with them.
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const windows = process.platform === "win32";

/** Packages by their place, as a lock file tells. */
function readPackages(file) {
  try {
    return JSON.parse(readFileSync(join(root, file), "utf8")).packages ?? {};
  } catch {
    return undefined;
  }
}

/** Why the packages must be installed; undefined when they are as the lock file wants them. */
function whyInstall() {
  const installed = readPackages("node_modules/.package-lock.json");
  if (!installed) return "The packages are not installed yet";
  const wanted = Object.entries(readPackages("package-lock.json") ?? {});
  const stale = wanted.some(([place, { version, optional }]) => {
    return place !== "" && !optional && installed[place]?.version !== version;
  });
  return stale ? "The installed packages are not those of the lock file" : undefined;
}

/** Resolves to the exit code, 128 and the signal's number after a signal, as a shell does. */
function run(program, args, options) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd: root, ...options });
    const forward = () => child.kill("SIGTERM");
    process.on("SIGTERM", forward);
    // Ctrl-C reaches the child by itself; this process waits for it to clean up.
    const wait = () => {};
    process.on("SIGINT", wait);
    child.once("error", (error) => {
      process.stderr.write(`${program} cannot be run: ${error.message}\n`);
      resolve(1);
    });
    child.once("close", (code, signal) => {
      process.off("SIGTERM", forward);
      process.off("SIGINT", wait);
      resolve(code ?? (signal === "SIGINT" ? 130 : 143));
    });
  });
}

async function install(why) {
  const startedAt = Date.now();
  const seconds = () => Math.round((Date.now() - startedAt) / 1000);
  process.stderr.write(`${why}: running "npm ci", once, for about a minute ...\n`);
  const ticker = setInterval(() => process.stderr.write(`  still installing (${seconds()} s)\n`), 10_000);
  const args = ["ci", "--no-audit", "--no-fund", "--loglevel=error"];
  const npm = process.env.npm_execpath;
  // Standard output belongs to the demo.
  const stdio = ["ignore", 2, 2];
  const code = npm?.endsWith("js")
    ? await run(process.execPath, [npm, ...args], { stdio })
    : await run("npm", args, { stdio, shell: windows });
  clearInterval(ticker);
  if (code === 0) process.stderr.write(`Installed in ${seconds()} s.\n`);
  else process.stderr.write(`"npm ci" ended with code ${code}: see above, and try again\n`);
  return code;
}

const why = whyInstall();
let code = why ? await install(why) : 0;
if (code === 0) {
  const ownNode = join(root, "node_modules", ".bin", windows ? "node.cmd" : "node");
  const node = existsSync(ownNode) ? ownNode : process.execPath;
  code = await run(node, [join("src", "cli", "main.ts"), "demo", ...process.argv.slice(2)], {
    stdio: "inherit",
    shell: windows,
  });
}
process.exitCode = code;
