#!/usr/bin/env node
// No types and no static imports here: an old Node must be able to read this file and say what is wrong.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major > 22 || (major === 22 && minor >= 22)) {
  // What a command has compiled, the next one need not: it starts in half the time.
  (await import("node:module")).enableCompileCache();
  const { runCli } = await import("./program.ts");
  process.exitCode = await runCli(process.argv.slice(2));
  // Whatever still holds the process does not hold it for long; when nothing does, this timer does not either.
  setTimeout(() => process.exit(), 3000).unref();
} else {
  process.stderr.write(
    `drover needs Node.js 22.22 or newer and this is ${process.versions.node}: install a newer one\n`,
  );
  process.exitCode = 1;
}
